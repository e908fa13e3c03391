"""Asks slurmrestd: over TCP, TLS or a UNIX socket, whichever version and header it takes."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import httpx

from gpumon.model.text import plain
from gpumon.sources.slurm.commands import failures, token
from gpumon.sources.slurm.commands.answer_cache import SharedAnswers
from gpumon.sources.slurm.commands.failures import CommandFailedError
from gpumon.sources.slurm.json.values import NotAnObjectError, parse_object, records, whole
from gpumon.sources.slurm.rest import failures as rest_failures
from gpumon.sources.source import SystemClock

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpumon.model.fault import SourceError
    from gpumon.sources.rest_address import RestAddress
    from gpumon.sources.slurm.commands.token import Token
    from gpumon.sources.source import Clock

VERSIONS: Final = tuple(f"v0.0.{number}" for number in range(46, 35, -1))
"""Versions of the interface, newest first; a server has the newest two to four of its time."""

GUESS_LIFE_S: Final = 86400.0
"""How long a version that another gpumon found is tried first; then the newest is looked for."""

TIMEOUT_S: Final = 30.0
"""For a whole question: a controller that is down makes slurmrestd give up after about 10 s.

It holds for everything that one question takes, together: connections, header and body, and each
version and header of the token that is tried. Each wait by itself could be put off for ever by a
server that sends a byte of its header every few seconds.
"""

CONNECT_TIMEOUT_S: Final = 5.0
"""For a connection, seconds: a lost SYN is sent again after one and three (RFC 6298)."""

MAX_BYTES: Final = 256 * 1024 * 1024
"""About 20,000 jobs of 24.11, whose records list every core."""

_CONNECTED: Final = frozenset(
    {
        "connection.connect_tcp.complete",
        "connection.connect_unix_socket.complete",
        "connection.start_tls.complete",
    }
)
"""Events of httpcore's trace extension that bring a new stream."""

_NEWER: Final = frozenset({"partitions", "reservations"})
"""Paths that some version lacks (v0.0.36 has no reservations): then there are none to report."""

_GUESS: Final = "version"

_WRAPS_TIME: Final = 40
"""From v0.0.40 on a time in a question is text, in which `uts` comes before a Unix time."""

_UNAUTHORIZED: Final = (401, 403)
_NOT_MODIFIED: Final = 304
"""slurmrestd's answer to `update_time` where nothing has changed since."""


class Listed(NamedTuple):
    """An answer with records."""

    answer: dict[str, Any]
    text: str
    """The JSON that it was read from."""


class _Reply(NamedTuple):
    """One HTTP answer, read to its end."""

    status: int
    body: bytes
    location: str

    @property
    def is_web_page(self) -> bool:
        """Whether it looks like HTML, which slurmrestd never sends."""
        return self.body.lstrip()[:1] == b"<"


class RestClient:
    """Asks one question at a time; `close` from another thread breaks a running one off.

    It connects again for each: at one question in 30 s that costs little, and no connection that
    the server or a proxy dropped meanwhile can make one fail.
    """

    def __init__(
        self,
        address: RestAddress,
        *,
        clock: Clock | None = None,
        environ: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
        max_bytes: int = MAX_BYTES,
        service: str = "slurm",
        folder: Path | None = None,
    ) -> None:
        """Ask one of slurmrestd's services: `slurm`, the controller's, or `slurmdb`.

        `folder`: where this user's gpumons share the version; None: nowhere.
        """
        self._address = address
        self._service = service
        self._folder = folder
        self._params: Mapping[str, str] = {}
        self._clock = clock or SystemClock()
        self._environ = os.environ if environ is None else environ
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._version = ""
        self._style = ""
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._is_late = threading.Event()
        self._is_closed = False
        self._http: httpx.Client | None = None

    @property
    def version(self) -> str:
        """Version that the server was found to speak; empty before its first good answer."""
        return self._version

    def identity(self) -> str:
        """What distinguishes this server, and whom it answers; holds no secret.

        Empty where that is unknown: without a token over TCP, with one that can't be used, is
        over, or does not say whom it speaks for.
        """
        try:
            own = token.read_token(self._address.token_file, self._environ)
        except CommandFailedError:
            return ""
        if own is None:
            user = "" if self._address.socket_path else None
        else:
            is_over = own.expires_at is not None and own.expires_at <= self._clock.now()
            user = own.user if own.names_user and not is_over else None
        if user is None:
            return ""
        here = (socket.gethostname(), self._address.base_url, self._address.socket_path)
        return "\0".join(("slurmrestd", self._service, *here, user))

    def get(
        self, what: str, newer_than: int | None = None, params: Mapping[str, str] | None = None
    ) -> dict[str, Any] | None:
        """As `fetch`, without the text."""
        listed = self.fetch(what, newer_than, params)
        return None if listed is None else listed.answer

    def fetch(
        self, what: str, newer_than: int | None = None, params: Mapping[str, str] | None = None
    ) -> Listed | None:
        """The answer that lists `jobs`, say; None: nothing changed since `newer_than`.

        Args:
            what: last part of the path, and the member that holds the records.
            newer_than: the server's time of the answer that is at hand.
            params: what narrows the question.

        Raises:
            CommandFailedError: there are no records; the error in it names the way out.
        """
        own = token.read_token(self._address.token_file, self._environ)
        if own is None and not self._address.socket_path:
            raise CommandFailedError(token.missing())
        self._params = params or {}
        is_late = threading.Event()
        with self._lock:
            self._is_late = is_late
        limit = threading.Timer(self._timeout_s, self._give_up, (is_late,))
        limit.daemon = True
        limit.start()
        try:
            listed = self._find(what, newer_than, own)
            return None if newer_than is not None and _is_unchanged(what, listed) else listed
        except CommandFailedError as failed:
            if self._is_closed:
                raise CommandFailedError(failures.stopped(rest_failures.where(what))) from None
            raise CommandFailedError(_without(own, failed.error)) from None
        finally:
            limit.cancel()

    def _give_up(self, is_late: threading.Event) -> None:
        """Break off the question whose time is over, unless another one is asked by now."""
        with self._lock:
            is_late.set()
            for one in self._sockets if self._is_late is is_late else ():
                _shut(one)

    def close(self) -> None:
        """Break off what runs, and refuse more."""
        with self._lock:
            self._is_closed = True
            for one in self._sockets:
                _shut(one)

    def _find(self, what: str, newer_than: int | None, own: Token | None) -> Listed | None:
        """The answer of the newest version that the server has."""
        known = (self._version,) if self._version else ()
        if known and what in _NEWER:
            reply = self._authenticated(what, known[0], newer_than, own)
            is_unknown = reply.status == HTTPStatus.NOT_FOUND and not reply.is_web_page
            nothing = Listed({what: []}, f'{{"{what}": []}}')
            return nothing if is_unknown else self._judged(what, reply, own, newer_than)
        guess = "" if known else self._shared().note(_GUESS, GUESS_LIFE_S, self._clock)
        likely = known or tuple(version for version in VERSIONS if version == guess)
        for version in (*likely, *(other for other in VERSIONS if other not in likely)):
            reply = self._authenticated(what, version, newer_than, own)
            if reply.status == HTTPStatus.NOT_FOUND and not reply.is_web_page:
                continue
            listed = self._judged(what, reply, own, newer_than)
            if version not in likely:
                self._shared().leave_note(_GUESS, version, self._clock)
            self._version = version
            return listed
        raise CommandFailedError(rest_failures.no_version(what, VERSIONS[0], VERSIONS[-1]))

    def _shared(self) -> SharedAnswers:
        """Where the version is noted for other gpumons that ask the same server."""
        whose = self.identity()
        return SharedAnswers(self._folder if whose else None, whose)

    def _authenticated(
        self, what: str, version: str, newer_than: int | None, own: Token | None
    ) -> _Reply:
        """The first reply that is no refusal, whichever header the token has to be in."""
        is_socket = bool(self._address.socket_path)
        styles = _header_styles(own, is_socket=is_socket)
        for style in sorted(styles, key=lambda name: name != self._style):
            reply = self._send(what, version, newer_than, styles[style])
            if reply.status not in _UNAUTHORIZED:
                self._style = style
                return reply
        raise CommandFailedError(
            rest_failures.not_accepted(what, own, self._clock.now(), is_socket=is_socket)
        )

    def _send(
        self, what: str, version: str, newer_than: int | None, headers: dict[str, str]
    ) -> _Reply:
        """One request and its whole answer."""
        place = plain(self._address.socket_path) or self._address.base_url
        try:
            self._hold_to_limit(what)
            with self._client().stream(
                "GET",
                f"{self._address.base_url}/{self._service}/{version}/{what}",
                headers=headers,
                params={**self._params, **_newer(what, newer_than, version)},
                extensions={"trace": self._trace},
            ) as response:
                body = bytearray()
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > self._max_bytes:
                        raise CommandFailedError(rest_failures.too_long(what, self._max_bytes))
                # A server that sends no length ends the answer with the connection, as we did.
                self._hold_to_limit(what)
                location = response.headers.get("location", "")
                return _Reply(response.status_code, bytes(body), location)
        except (httpx.HTTPError, httpx.StreamError) as error:
            # What broke off because its time was over is no fault of the network.
            self._hold_to_limit(what)
            failed = rest_failures.failed(what, place, error, self._timeout_s)
            raise CommandFailedError(failed) from None
        finally:
            with self._lock:
                self._sockets.clear()

    def _hold_to_limit(self, what: str) -> None:
        """Go no further with a question whose time is over."""
        if self._is_late.is_set():
            raise CommandFailedError(rest_failures.timed_out(what, self._timeout_s))

    def _client(self) -> httpx.Client:
        """The client, made when it is first needed: certificates take 20 ms to load."""
        if self._http is None:
            path = self._address.socket_path or None
            verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            if self._address.base_url.startswith("https:"):
                # The default context reads SSL_CERT_FILE and SSL_CERT_DIR, and checks names.
                verify = ssl.create_default_context()
            limits = httpx.Limits(max_connections=1, max_keepalive_connections=0)
            self._http = httpx.Client(
                transport=httpx.HTTPTransport(verify=verify, uds=path, limits=limits),
                timeout=httpx.Timeout(self._timeout_s, connect=CONNECT_TIMEOUT_S),
                follow_redirects=False,
                # A proxy or a .netrc of the environment must not see or replace the token.
                trust_env=False,
                headers={"Accept": "application/json", "User-Agent": "gpumon"},
            )
        return self._http

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Remember the socket of a connection, the only way to break off a wait for its answer."""
        if event not in _CONNECTED:
            return
        found = info["return_value"].get_extra_info("socket")
        with self._lock:
            self._sockets.append(found)
            if self._is_closed or self._is_late.is_set():
                _shut(found)

    def _judged(
        self, what: str, reply: _Reply, own: Token | None, newer_than: int | None
    ) -> Listed | None:
        """What a reply means that is neither a refusal nor an unknown path."""
        if reply.status == _NOT_MODIFIED and newer_than is not None:
            return None
        if 300 <= reply.status < 400:
            raise CommandFailedError(rest_failures.redirected(what, reply.location))
        if reply.is_web_page:
            raise CommandFailedError(rest_failures.web_page(what, reply.status))
        try:
            answer = parse_object(reply.body)
        except NotAnObjectError:
            raise CommandFailedError(
                rest_failures.garbage(what, reply.status, reply.body)
            ) from None
        found = records(answer, what)
        if reply.status == HTTPStatus.OK and (
            found or (found == [] and not records(answer, "errors"))
        ):
            return Listed(answer, reply.body.decode("utf-8", "replace"))
        if found and rest_failures.is_of_accounting_only(answer):
            return Listed(answer, reply.body.decode("utf-8", "replace"))
        if reply.status == HTTPStatus.OK and not records(answer, "errors"):
            raise CommandFailedError(rest_failures.garbage(what, reply.status, reply.body))
        now = self._clock.now()
        error = rest_failures.reported_errors(what, reply.status, answer, own, now)
        raise CommandFailedError(error)


def _newer(what: str, than: int | None, version: str) -> dict[str, str]:
    """The parameter that asks for what changed since the server's time of an answer.

    24.11's v0.0.40 and v0.0.41 refuse a bare number, and all its versions answer for nodes with
    HTTP 500 where a node changed but no partition did, so nodes are asked for in full.
    """
    if than is None:
        return {}
    if int(version.rsplit(".", 1)[1]) < _WRAPS_TIME:
        return {"update_time": str(than)}
    return {} if what == "nodes" else {"update_time": f"uts{than}"}


def _is_unchanged(what: str, listed: Listed | None) -> bool:
    """Whether a question for what is newer got 24.11's other word for 304: no record, no time."""
    answer = {} if listed is None else listed.answer
    return answer.get(what) == [] and whole(answer.get("last_update")) == 0


def _header_styles(own: Token | None, *, is_socket: bool) -> dict[str, dict[str, str]]:
    """Headers to try, in order: a socket may go by who connects, and then wants no token."""
    styles: dict[str, dict[str, str]] = {}
    if is_socket or own is None:
        styles["none"] = {}
    if own is not None:
        styles["slurm"] = {"X-SLURM-USER-NAME": own.user, "X-SLURM-USER-TOKEN": own.secret}
        styles["bearer"] = {"Authorization": f"Bearer {own.secret}"}
    return styles


def _without(own: Token | None, error: SourceError) -> SourceError:
    """The error, not too long, and a token that the server repeated in its words struck out."""
    message = error.message if own is None else error.message.replace(own.secret, "(the token)")
    return error._replace(message=plain(message))


def _shut(one: socket.socket) -> None:
    """End a connection, so that a thread that waits for its other end wakes up."""
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        # It has ended already, which is what we want.
        return
