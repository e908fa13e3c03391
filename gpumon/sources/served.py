"""The source of a target that is another gpumon's `serve`: its frames, as it got them.

One thread asks for what came since the last answer, and the server answers when there is more. No
probe is started and no queue asked: that the other one does.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from gpumon.base.errors import UnavailableError
from gpumon.model.fault import SourceError, shortage
from gpumon.model.records.frame import Frame, merged_queues
from gpumon.model.staleness import stale_after_s
from gpumon.model.text import plain
from gpumon.model.units import period
from gpumon.sources.address import rank_of
from gpumon.sources.http.failures import SHOWN
from gpumon.sources.http.loop import CLOSE_LIMIT_S
from gpumon.sources.http.outage import Outage
from gpumon.sources.http.secret_file import SecretError, read_secret
from gpumon.sources.recording.decode import (
    Decoder,
    Header,
    LineError,
    QueueState,
    RecordingError,
    TickFrames,
)
from gpumon.sources.recording.read import MAX_LINE_BYTES
from gpumon.sources.served_address import NDJSON

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumon.model.records.frame import QueueRecords
    from gpumon.sources.address import Sampling
    from gpumon.sources.served_address import ServedAddress
    from gpumon.sources.source import Clock, Wish

TIMEOUT_S: Final = 15.0
"""For an answer beyond what it was asked to wait: 10,000 GPUs take some seconds to be encoded."""

LARGEST_ANSWER_BYTES: Final = 256 * 2**20
"""Of one answer: 10,000 nodes of 8 GPUs have less (20 KB each, measured)."""


_SKEW_S: Final = 2.0
"""Clocks that differ by less are taken for one: as much an answer may be on its way."""

_LEAST_REST_S: Final = 0.05
"""Between two questions, seconds, where the server does not wait itself (our choice)."""

_LEAST_RETRY_S: Final = 1.0
"""Between two tries after a failure, however short the period (our choice)."""

_MOST_TOKEN_BYTES: Final = 4096
"""Longest token file: a token that is longer is none of ours (HTTP servers refuse headers of 8
KiB)."""

_MOST_WAITING_FRAMES: Final = 100_000
"""Frames that wait to be polled: ten ticks of 10,000 nodes; the oldest are dropped."""


class _FailedError(UnavailableError):
    """There is no answer."""


class _Unix(http.client.HTTPConnection):
    """A connection over a UNIX socket."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class _Road(NamedTuple):
    """By which of the server's targets a node is shown."""

    origin: str
    at: float


class ServedFrames:
    """Follows one server."""

    def __init__(self, url: str, address: ServedAddress, sampling: Sampling, clock: Clock) -> None:
        """Nothing runs before `start`.

        Args:
            url: Target, the origin of every frame.
            address: Where it is.
            sampling: How it is sampled: once, or until `close`.
            clock: Time of arrival.
        """
        self.url = url
        self._address = address
        self._sampling = sampling
        self._clock = clock
        self._period_s = sampling.period_s
        self._frames: deque[Frame] = deque(maxlen=_MOST_WAITING_FRAMES)
        self._wake: Callable[[], None] = lambda: None
        self._is_settled = False
        self._is_closing = threading.Event()
        self._roused = threading.Event()
        self._connection: http.client.HTTPConnection | None = None
        self._deadline: float | None = None
        self._outage = Outage()
        self._server_period_s = sampling.period_s
        """The server's own."""
        self._decoder = Decoder()
        self._since = ""
        self._is_invented = False
        self._roads: dict[str, _Road] = {}
        self._queues: dict[str, QueueRecords] = {}
        self._thread = threading.Thread(target=self._run, name=f"served {url}", daemon=True)

    def start(self, wake: Callable[[], None]) -> None:
        """Begin to follow without waiting for it."""
        self._wake = wake
        self._thread.start()

    def poll(self) -> list[Frame]:
        """Frames that arrived since the last poll."""
        # A server that drips its answer stays within the time of each single read.
        deadline = self._deadline
        if deadline is not None and self._clock.monotonic() > deadline:
            self._cut()
        frames = []
        while self._frames:
            frames.append(self._frames.popleft())
        return frames

    def pending(self) -> bool:
        """Whether the server has neither answered nor failed yet."""
        return not self._is_settled

    def wish(self, wish: Wish) -> None:
        """Try again now where it was asked for; the period is the server's own."""
        if wish.period_s is not None and wish.period_s > 0:
            self._period_s = wish.period_s
        if wish.is_by_hand:
            self._roused.set()

    def close(self) -> None:
        """End the exchange; a server that does not let go is abandoned."""
        self._is_closing.set()
        self._roused.set()
        self._cut()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_LIMIT_S)

    def _cut(self) -> None:
        """Have whatever the thread waits for on the connection fail."""
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        try:
            while not self._is_closing.is_set():
                rest_s = self._poll_once()
                if self._sampling.is_single:
                    return
                self._roused.wait(rest_s)
                self._roused.clear()
        finally:
            self._forget_connection()

    def _poll_once(self) -> float:
        """Ask once and hand over the answer; returns how long to rest."""
        began = time.monotonic()
        try:
            frames = self._asked()
            rest_s = _LEAST_REST_S
        except _FailedError as error:
            frames = [self._failure(error.message, error.hint)]
            rest_s = max(_LEAST_RETRY_S, self._period_s)
        except Exception as error:  # noqa: BLE001 - an answer that stumbles must not end the source
            words, way_out = shortage(error) or (repr(error), "please report this line")
            frames = [self._failure(f"gpumon could not handle an answer: {words}", way_out)]
            rest_s = max(_LEAST_RETRY_S, self._period_s)
        if self._is_closing.is_set():
            return 0.0
        self._frames.extend(frames)
        self._is_settled = True
        self._wake()
        return max(_LEAST_REST_S, rest_s - (time.monotonic() - began))

    def _failure(self, message: str, hint: str) -> Frame:
        # Its last answer may have been cut off: the next one begins again.
        self._since = ""
        self._forget_connection()
        error = SourceError(self.url, plain(message), hint)
        period_s = max(self._period_s, self._server_period_s, _LEAST_RETRY_S)
        now = self._clock.now()
        over_at = self._outage.failed(now, self._clock.monotonic(), period_s)
        return Frame(origin=self.url, node="", taken_at=now, errors=(error,), over_at=over_at)

    def _forget_connection(self) -> None:
        connection, self._connection = self._connection, None
        self._deadline = None
        if connection is not None:
            connection.close()

    def _asked(self) -> list[Frame]:
        """Frames of one answer."""
        wait_s = 0.0 if self._sampling.is_single else min(20.0, 2 * self._period_s)
        self._deadline = self._clock.monotonic() + wait_s + 2 * TIMEOUT_S
        try:
            return list(self._read(self._response(wait_s)))
        except ssl.SSLError as error:
            reason = plain(str(error.reason or error), SHOWN)
            hint = "point SSL_CERT_FILE to the bundle of the authority that signed its certificate"
            if "WRONG_VERSION" in reason or "UNKNOWN_PROTOCOL" in reason:
                hint = "it does not speak TLS there: use gpumon+http://"
            raise _FailedError(f"no TLS with it: {reason}", hint) from None
        except TimeoutError:
            message = f"gave no complete answer within {period(TIMEOUT_S)}"
            raise _FailedError(message, "look at the machine that it runs on") from None
        except (OSError, http.client.HTTPException) as error:
            reason = plain(getattr(error, "strerror", None) or str(error) or repr(error), SHOWN)
            hint = "check whether gpumon serve runs there; gpumon asks again by itself"
            raise _FailedError(f"cannot be read: {reason}", hint) from None
        except RecordingError as error:
            raise _FailedError(f"its data {error}", "update the older gpumon") from None
        finally:
            self._deadline = None

    def _response(self, wait_s: float) -> http.client.HTTPResponse:
        headers = {"Accept": NDJSON, "User-Agent": "gpumon", **self._authorization()}
        path = f"/v1/frames?wait={wait_s:g}" + (f"&since={self._since}" if self._since else "")
        if self._connection is None:
            self._connection = self._connected()
        self._connection.request("GET", path, headers=headers)
        # Behind the connection's own time comes the one that it was asked to wait.
        self._connection.sock.settimeout(wait_s + TIMEOUT_S)
        response = self._connection.getresponse()
        if response.status != http.client.OK:
            raise _status(response)
        kind = response.headers.get_content_type()
        if kind != NDJSON:
            message = f"answers with {plain(kind, SHOWN)}, which is not gpumon serve"
            raise _FailedError(message, "check host and port; there may be a proxy in front of it")
        return response

    def _connected(self) -> http.client.HTTPConnection:
        address = self._address
        if address.path:
            return _Unix(address.path, TIMEOUT_S)
        if address.is_encrypted:
            # It reads SSL_CERT_FILE and SSL_CERT_DIR, and checks names.
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(
                address.host, address.port, timeout=TIMEOUT_S, context=context
            )
        return http.client.HTTPConnection(address.host, address.port, timeout=TIMEOUT_S)

    def _authorization(self) -> dict[str, str]:
        path = self._address.token_file
        if not path:
            return {}
        shown = plain(path)
        try:
            words = read_secret(path, "token file", _MOST_TOKEN_BYTES).split()
        except SecretError as error:
            raise _FailedError(error.message, error.hint) from None
        # The line of the server's own file, NAME TOKEN, is taken as well.
        if not 1 <= len(words) <= 2 or not words[-1].isascii() or not words[-1].isprintable():
            raise _FailedError(
                f"the token file {shown} holds no token", "it must hold only the token"
            )
        return {"Authorization": f"Bearer {words[-1]}"}

    def _read(self, response: http.client.HTTPResponse) -> Iterator[Frame]:
        reported: list[Frame] = []
        size, mark = 0, None
        while raw := response.readline(MAX_LINE_BYTES):
            size += len(raw)
            if size > LARGEST_ANSWER_BYTES or not raw.endswith(b"\n"):
                message = f"its answer is cut off, or larger than {LARGEST_ANSWER_BYTES >> 20} MiB"
                raise _FailedError(message, "check what listens there")
            if raw.startswith(b'{"kind":"mark",'):
                mark = _Mark.of(raw)
                continue
            try:
                content = self._decoder.read(raw)
            except LineError as error:
                message = f"sent something that gpumon does not send ({error})"
                raise _FailedError(message, "check what listens there") from None
            if isinstance(content, Header):
                self._begun(content)
            elif isinstance(content, Frame):
                reported.append(content)
            elif isinstance(content, QueueState):
                reported.append(content.frame)
            elif isinstance(content, TickFrames):
                self._server_period_s = content.period_s
        # Only by this the connection knows that the answer is read.
        response.read()
        if mark is None:
            raise _FailedError("its answer is cut off", "gpumon asks again by itself")
        self._since = mark.since
        self._outage.read(self._clock.monotonic())
        now = self._clock.now()
        behind_s = now - mark.at
        shift_s = behind_s if abs(behind_s) > _SKEW_S else 0.0
        for frame in reported:
            if self._is_shown(frame, now):
                yield from self._own(frame, shift_s)

    def _begun(self, header: Header) -> None:
        """The server reports all that holds: it was restarted, or this one was away too long."""
        self._roads.clear()
        self._queues.clear()
        self._is_invented = all(url.partition(":")[0] == "demo" for url in header.targets)

    def _is_shown(self, frame: Frame, now: float) -> bool:
        """Whether it speaks for its node: of several probes of one the first that is not silent.

        What exporters and servers report of it besides completes that, as an origin of its own.
        """
        if not frame.node or rank_of(frame.origin) < rank_of("local"):
            return True
        held = self._roads.get(frame.node)
        if (
            held is not None
            and held.origin != frame.origin
            and now - held.at <= stale_after_s(self._period_s)
        ):
            return False
        if frame.blocks:
            self._roads[frame.node] = _Road(frame.origin, now)
        return True

    def _own(self, frame: Frame, shift_s: float) -> Iterator[Frame]:
        """A frame as of this target, by this machine's clock."""
        queue = None
        if frame.queue is not None:
            self._queues[frame.origin] = self._wanted(frame.queue, shift_s)
            queue = merged_queues(list(self._queues.values()))
        over_at = None if frame.over_at is None else frame.over_at + shift_s
        taken_at = frame.taken_at + shift_s
        origin = self.url
        if rank_of(frame.origin) < rank_of("local"):
            mark = crc32(frame.origin.encode("utf-8", "replace"))
            own = f"{self.url}#{frame.origin.partition(':')[0]}:{mark:08x}"
            if frame.node:
                origin = own
            elif over_at is not None:
                # The reports of one of several targets are over, not those of all.
                yield Frame(origin=own, node="", taken_at=taken_at, over_at=over_at)
        over_at = over_at if frame.node else None
        yield frame._replace(origin=origin, taken_at=taken_at, queue=queue, over_at=over_at)

    def _wanted(self, queue: QueueRecords, shift_s: float) -> QueueRecords:
        """The jobs that are wanted: all of them where all are invented."""
        is_wanted = self._sampling.is_wanted
        jobs = tuple(job for job in queue.jobs if self._is_invented or is_wanted(job))
        return queue._replace(
            jobs=jobs,
            is_filtered=queue.is_filtered or len(jobs) < len(queue.jobs),
            jobs_at=queue.jobs_at + shift_s,
            nodes_at=queue.nodes_at + shift_s,
        )


class _Mark(NamedTuple):
    """Where an answer ends."""

    since: str
    at: float

    @classmethod
    def of(cls, raw: bytes) -> _Mark:
        try:
            given = json.loads(raw)
            run, number, at = given["run"], given["sequence"], given["at"]
            if not (isinstance(run, str) and run.isalnum() and isinstance(number, int)):
                raise ValueError
            return cls(f"{run[:64]}-{number}", float(at))
        except (ValueError, LookupError, TypeError, OverflowError):
            message = "sent something that gpumon does not send (its mark)"
            raise _FailedError(message, "check what listens there") from None


def _status(response: http.client.HTTPResponse) -> _FailedError:
    """Any answer but 200."""
    status = response.status
    if status == http.client.UNAUTHORIZED:
        return _FailedError("wants a token (HTTP 401)", "name its file: ?token_file=/path")
    if status == http.client.FORBIDDEN:
        return _FailedError(
            "does not show its frames to this token (HTTP 403)", 'ask for one that shows "*"'
        )
    if 300 <= status < 400:
        to = plain(response.headers.get("location", ""), SHOWN) or "nowhere"
        return _FailedError(
            f"redirects to {to}, which is not followed", "use that address as the target"
        )
    if status == http.client.NOT_FOUND:
        return _FailedError("has no frames (HTTP 404)", "check that gpumon serve listens there")
    return _FailedError(f"answers with an error (HTTP {status})", "gpumon asks again by itself")
