"""Asks a server with Prometheus' interface one question at a time, within bounds."""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
from contextlib import aclosing
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import httpx

from gpumon.model.text import plain
from gpumon.sources.http.exchange import FetchError, client, error_of, pieces
from gpumon.sources.http.failures import (
    AWAY,
    REFUSED,
    RETRIED,
    SHOWN,
    Peer,
    failure,
    late,
    redirected,
    web_page,
)
from gpumon.sources.http.secret_file import SecretError, read_secret
from gpumon.sources.prometheus.response import Answer, opened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.sources.prometheus.cut import Orders
    from gpumon.sources.prometheus_address import EngineAddress

TIMEOUT_S: Final = 30.0
"""For a whole answer: one metric of 80,000 GPUs takes a small server a second or two (measured);
Prometheus itself gives up after 2 min (its `--query.timeout`)."""

LARGEST_ANSWER_BYTES: Final = 64 * 2**20
"""As text, however it was packed: 80,000 GPUs with all their labels take half of it (measured)."""

MOST_AT_ONCE: Final = 2
"""Questions at once: a server has others to serve, too (our choice)."""

LARGEST_SECRET_BYTES: Final = 16 * 1024
"""Longest file with a token or a login that is read."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9_.~+/=-]{1,16384}")
"""What may follow `Bearer` in a header (RFC 6750), so that none can add a header of its own."""

_LOGIN: Final = re.compile(r"[^:\x00-\x1f\x7f]{1,256}:[^\x00-\x1f\x7f]{1,1024}")

_MARKUP: Final = re.compile(rb"\s*<")
"""With this no JSON begins, but every web page."""

_TYPES: Final = ("", "application/json", "application/stream+json")
"""Kinds of content that are answers: VictoriaMetrics 1.79 calls samples over time by the last."""


_PEER: Final = Peer(
    name="Prometheus",
    answer="complete answer",
    unreached=f"check that the server runs there and listens; {RETRIED}",
    unheard=f"check whether its machine is up and its port open; {RETRIED}",
    overloaded=f"check whether the server is overloaded; {RETRIED}",
    speaks_no_tls="it does not speak TLS there: use prometheus+http://",
    speaks_no_http="check that the port is the server's, and whether it wants prometheus+https://",
    elsewhere="check host, port and prefix",
    certificate="the server's certificate has to be renewed",
)


class Client:
    """Asks one server."""

    def __init__(self, address: EngineAddress, timeout_s: float) -> None:
        """Ask it, giving each answer so many seconds; within a loop that runs."""
        self._address = address
        self._timeout_s = timeout_s
        self._places = asyncio.Semaphore(MOST_AT_ONCE)
        self._client: httpx.AsyncClient | None = None
        self._headers: Mapping[str, str] = {}
        self._secrets: tuple[str, ...] = ()

    def renew(self) -> None:
        """Read again what lets us in: a token may have been renewed meanwhile.

        Raises:
            FetchError: It cannot or must not be used.
        """
        self._headers, self._secrets = _let_in(self._address)
        if self._client is None:
            self._client = client(
                _context(self._address),
                {"Accept": "application/json", "Accept-Encoding": _packing(self._address)},
                self._timeout_s,
                MOST_AT_ONCE,
                MOST_AT_ONCE,
            )

    async def ask(
        self, path: str, params: Mapping[str, str], orders: Orders | None = None
    ) -> Answer:
        """What the server answers.

        Args:
            path: What follows `/api/v1/`.
            params: The question.
            orders: What remembers series of earlier answers.

        Raises:
            FetchError: There is no answer.
        """
        try:
            async with self._places:
                return await self._asked(path, params, orders)
        except FetchError as error:
            message = error.message
            for secret in self._secrets:
                # A server may repeat what it was sent.
                message = message.replace(secret, "(the secret)")
            raise FetchError(
                plain(message),
                error.hint,
                is_refused=error.is_refused,
                is_busy=error.is_busy,
                is_of_question=error.is_of_question,
            ) from None

    async def close(self) -> None:
        """End every connection."""
        if self._client is not None:
            await self._client.aclose()

    async def _asked(self, path: str, params: Mapping[str, str], orders: Orders | None) -> Answer:
        try:
            async with asyncio.timeout(self._timeout_s):
                try:
                    return await self._exchange(path, params, orders)
                except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                    # A connection that stayed open may have been ended just now.
                    return await self._exchange(path, params, orders)
        except TimeoutError:
            raise error_of(late(self._timeout_s, _PEER)) from None
        except (httpx.HTTPError, ssl.SSLError) as error:
            # What TLS 1.3 reports after the handshake is not wrapped by httpx.
            raise error_of(failure(error, self._timeout_s, _PEER)) from None

    async def _exchange(
        self, path: str, params: Mapping[str, str], orders: Orders | None
    ) -> Answer:
        assert self._client is not None
        # So the server stops working when nothing waits for it.
        given = {**params, "timeout": f"{self._timeout_s:g}s"}
        url = f"{self._address.base_url}/api/v1/{path}"
        async with self._client.stream(
            "GET", url, params=given, headers=dict(self._headers)
        ) as response:
            status = response.status_code
            if 300 <= status < 400:
                raise error_of(redirected(response.headers.get("location", "")))
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if status in REFUSED:
                raise self._refused(status)
            if kind == "text/html":
                raise error_of(web_page(_PEER, status))
            if status != HTTPStatus.OK and kind != "application/json":
                raise _status(status, is_bare=url.startswith("http:"))
            if status == HTTPStatus.TOO_MANY_REQUESTS:
                raise _busy()
            if kind not in _TYPES:
                message = f"answers with {plain(kind, SHOWN)}, which is not an answer of Prometheus"
                raise FetchError(message, _PEER.elsewhere)
            body = bytearray()
            async with aclosing(pieces(response, "answer")) as body_pieces:
                async for piece in body_pieces:
                    body += piece
                    if len(body) > LARGEST_ANSWER_BYTES:
                        raise _too_large()
        if _MARKUP.match(body):
            raise error_of(web_page(_PEER, status))
        try:
            return opened(bytes(body), status, orders)
        except FetchError as error:
            error.is_refused = status in AWAY
            raise

    def _refused(self, status: int) -> FetchError:
        address = self._address
        named = next(
            (name for name in ("token_file", "login_file") if getattr(address, name)), None
        )
        if named is None:
            hint = "name a file with what lets you in: ?token_file=/path or ?login_file=/path"
            if not address.tenant:
                hint += "; for Mimir, name the tenant too: ?tenant=NAME"
        else:
            hint = f"renew the contents of the ?{named}= file; it is read again for each sample"
        return FetchError(f"does not let gpumon in (HTTP {status})", hint)


def _packing(address: EngineAddress) -> str:
    """How answers may be packed: on this machine not at all, which would cost both sides more."""
    host = urlsplit(address.base_url).hostname or ""
    is_here = host in ("localhost", "::1") or host.startswith("127.")
    return "identity" if is_here else "gzip"


def _let_in(address: EngineAddress) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Headers that let us in, and the secrets in them."""
    headers: dict[str, str] = {}
    secrets: list[str] = []
    if address.tenant:
        headers["X-Scope-OrgID"] = address.tenant
    try:
        if address.token_file:
            token = read_secret(address.token_file, "token file", LARGEST_SECRET_BYTES).strip()
            if not _TOKEN.fullmatch(token):
                raise SecretError("the token file holds no token", "it must hold only the token")
            headers["Authorization"] = f"Bearer {token}"
            secrets.append(token)
        if address.login_file:
            login = read_secret(address.login_file, "login file", LARGEST_SECRET_BYTES).strip()
            if not _LOGIN.fullmatch(login):
                raise SecretError(
                    "the login file holds no login", "it must hold only user:password"
                )
            packed = base64.b64encode(login.encode()).decode()
            headers["Authorization"] = f"Basic {packed}"
            secrets += [packed, login.partition(":")[2]]
    except SecretError as error:
        raise FetchError(error.message, error.hint) from None
    return headers, tuple(secrets)


def _context(address: EngineAddress) -> ssl.SSLContext | None:
    """Certificates that are believed, and our own; None: no TLS."""
    if not address.base_url.startswith("https:"):
        return None
    # It reads SSL_CERT_FILE and SSL_CERT_DIR, and checks names.
    context = ssl.create_default_context()
    if address.client_cert:
        try:
            # A key with a password would ask for it here.
            context.load_cert_chain(address.client_cert, password=lambda: "")
        except (OSError, ValueError) as error:
            reason = plain(
                str(error.strerror or error) if isinstance(error, OSError) else str(error)
            )
            message = f"the file of ?client_cert= cannot be used: {reason}"
            hint = "it holds the certificate and its key, in PEM and without a password"
            raise FetchError(message, hint) from None
    return context


def _status(status: int, *, is_bare: bool) -> FetchError:
    """Any other answer without data; without TLS that may be what is missing."""
    if status == HTTPStatus.NOT_FOUND:
        message = "has no such interface (HTTP 404)"
        return FetchError(message, "check the prefix: what comes before /api/v1/")
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return _busy()
    hint = f"look at the log of the server, or of the proxy in front of it; {RETRIED}"
    if is_bare and status == HTTPStatus.BAD_REQUEST:
        hint = _PEER.speaks_no_http
    return FetchError(f"answers with an error (HTTP {status})", hint, is_refused=status in AWAY)


def _busy() -> FetchError:
    hint = f"the server limits how often it is asked; {RETRIED}, less and less often"
    return FetchError("gets too many requests (HTTP 429)", hint, is_busy=True)


def _too_large() -> FetchError:
    size = f"{LARGEST_ANSWER_BYTES // 2**20} MiB"
    return FetchError(
        f"its answer is larger than {size} and was cut off", "check what listens there"
    )
