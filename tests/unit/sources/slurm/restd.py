"""A pretended slurmrestd on a real socket, and tokens that it takes."""

from __future__ import annotations

import base64
import json
import re
import socketserver
import threading
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from pathlib import Path

EXPIRES_AT = 1_800_003_600
"""When the tokens of `jwt` expire: an hour after the pretended now."""

UNKNOWN_PATH = "Unable find requested URL. Please view /openapi/v3 for API reference."
REFUSAL = "Authentication failure"


class Asked(NamedTuple):
    """One request as it came."""

    path: str
    headers: dict[str, str]


class Reply(NamedTuple):
    """One answer."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json"),)


def jwt(user: str = "alice", expires_at: int = EXPIRES_AT) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    claims = {"exp": expires_at, "iat": expires_at - 3600, "sun": user}
    return f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part(claims)}.c2lnbmF0dXJl"


def reply(status: int = 200, **members: Any) -> Reply:
    return Reply(status, json.dumps(members).encode())


class Restd:
    """Answers what `answer` says, and remembers what it was asked."""

    def __init__(self, *, path: Path | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[Asked] = []
        self.versions: tuple[str, ...] = ("v0.0.38",)
        self.accepts: Callable[[dict[str, str]], bool] = lambda _: True
        self.answers: dict[str, Reply] = {"jobs": reply(jobs=[]), "nodes": reply(nodes=[])}
        self.answer_of: Callable[[str], Reply | None] = lambda _: None
        self.raw: bytes | None = None
        self.is_mute = False
        self.drips: bytes | None = None
        self.may_go_on = threading.Event()
        restd = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 60

            def do_GET(self) -> None:
                headers = {key.lower(): value for key, value in self.headers.items()}
                restd.asked.append(Asked(self.path, headers))
                if restd.is_mute:
                    restd.may_go_on.wait(60)
                    return
                if restd.drips is not None or restd.raw is not None:
                    restd._say_raw(self.wfile)
                    return
                said = restd._answer(self.path, headers)
                self.send_response(said.status)
                for key, value in said.headers:
                    self.send_header(key, value)
                if said.status != 304:
                    self.send_header("Content-Length", str(len(said.body)))
                self.end_headers()
                self.wfile.write(said.body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Nothing: the test says what matters."""

        class OverTcp(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """Nothing: a client that refuses a certificate is one of the tests."""

        class OverUnix(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

        if path is not None:
            # A UNIX peer has no address, but the handler wants to name one.
            Handler.address_string = lambda self: "socket"  # type: ignore[method-assign]
            self._server: socketserver.BaseServer = OverUnix(str(path), Handler)
            self.port = 0
        else:
            tcp = OverTcp(("127.0.0.1", 0), Handler)
            if tls is not None:
                tcp.socket = tls.wrap_socket(
                    tcp.socket, server_side=True, do_handshake_on_connect=False
                )
            self._server, self.port = tcp, tcp.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def stop(self) -> None:
        self.may_go_on.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _say_raw(self, to: BinaryIO) -> None:
        """Say what is no answer, or a byte of one every 10 ms until the other end has gone."""
        if self.raw is not None:
            to.write(self.raw)
        for byte in self.drips or b"":
            try:
                to.write(bytes((byte,)))
            except OSError:
                return
            if self.may_go_on.wait(0.01):
                return

    def _answer(self, path: str, headers: dict[str, str]) -> Reply:
        if not self.accepts(headers):
            return Reply(401, REFUSAL.encode(), (("Content-Type", "text/plain"),))
        match = re.fullmatch(r"/slurm(?:db)?/(v0\.0\.\d+)/(\w+)", path.partition("?")[0])
        if match is None or match[1] not in self.versions or match[2] not in self.answers:
            return Reply(404, UNKNOWN_PATH.encode(), (("Content-Type", "text/plain"),))
        return self.answer_of(path) or self.answers[match[2]]
