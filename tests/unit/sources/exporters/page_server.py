"""A pretended exporter on a real socket, and pages as dcgm-exporter writes them."""

from __future__ import annotations

import socketserver
import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ssl

KIND = "text/plain; version=0.0.4; charset=utf-8"


class Answer(NamedTuple):
    """One answer, as it is written to the socket."""

    body: bytes = b""
    status: str = "200 OK"
    headers: tuple[tuple[str, str], ...] = (("Content-Type", KIND),)
    raw: bytes | None = None
    """In place of all of that."""
    is_short: bool = False
    """Whether half of the body is all that comes."""

    @property
    def whole(self) -> bytes:
        """Everything that is written."""
        if self.raw is not None:
            return self.raw
        lines = [f"HTTP/1.1 {self.status}"]
        lines += [f"{key}: {value}" for key, value in self.headers]
        lines.append(f"Content-Length: {len(self.body)}")
        body = self.body[: len(self.body) // 2] if self.is_short else self.body
        return "\r\n".join([*lines, "", ""]).encode() + body


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    pages: PageServer

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: a client that breaks off is one of the tests."""


class _Handler(socketserver.StreamRequestHandler):
    server: _Server
    timeout = 60

    def handle(self) -> None:
        pages = self.server.pages
        pages.connections += 1
        if pages.is_hasty:
            self.send(pages.answer)
            return
        while head := self.head():
            pages.requests.append(head)
            if pages.is_mute:
                pages.may_go_on.wait(60)
                return
            if not self.send(pages.answer_to(head)):
                return

    def head(self) -> bytes:
        """A request as it came; empty: nobody asks any more."""
        found = b""
        while line := self.rfile.readline():
            found += line
            if line == b"\r\n":
                break
        return found

    def send(self, answer: Answer) -> bool:
        """Whether the connection stays."""
        body = answer.whole
        pages = self.server.pages
        step = 1 if pages.drips else 65536
        try:
            for at in range(0, len(body), step):
                self.wfile.write(body[at : at + step])
                if pages.drips and pages.may_go_on.wait(0.005):
                    return False
        except OSError:
            return False
        return answer.raw is None and not answer.is_short


class PageServer:
    """Answers every request alike, on connections that stay open."""

    def __init__(
        self, answer: Answer | None = None, tls: ssl.SSLContext | None = None, port: int = 0
    ) -> None:
        self.answer = answer or Answer(page())
        self.is_mute = False
        self.drips = False
        self.is_hasty = False
        """Whether it answers before it was asked."""
        self.requests: list[bytes] = []
        self.connections = 0
        self.may_go_on = threading.Event()
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.pages = self
        if tls is not None:
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def answer_to(self, head: bytes) -> Answer:
        """The answer to a request."""
        return self.answer

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/metrics"

    def stop(self) -> None:
        self.may_go_on.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def labels(gpu: int = 0, **others: str) -> str:
    """Labels of one GPU as dcgm-exporter 4.5 writes them; an empty one is left out."""
    texts = {
        "gpu": str(gpu),
        "UUID": f"GPU-{gpu}",
        "pci_bus_id": f"00000000:{0x1B + gpu:02X}:00.0",
        "device": f"nvidia{gpu}",
        "modelName": "NVIDIA H100 80GB HBM3",
        "Hostname": "gpu01",
        "DCGM_FI_DRIVER_VERSION": "550.54.15",
        **others,
    }
    return ",".join(f'{key}="{value}"' for key, value in texts.items() if value)


def page(gpus: int = 2, host: str = "gpu01", **values: float | str) -> bytes:
    """A page with the given values of each GPU, by the names behind `DCGM_FI_`."""
    metrics = values or {"DEV_GPU_UTIL": 97, "DEV_FB_USED": 1000, "DEV_FB_FREE": 79000}
    lines = []
    for name, value in metrics.items():
        lines += [f"# HELP DCGM_FI_{name} What it is.", f"# TYPE DCGM_FI_{name} gauge"]
        lines += [f"DCGM_FI_{name}{{{labels(gpu, Hostname=host)}}} {value}" for gpu in range(gpus)]
    return "\n".join([*lines, ""]).encode()
