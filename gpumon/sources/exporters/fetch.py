"""Gets one page over HTTP within bounds of time and size, and says in one line why it could not.

Everything that an exchange takes counts together: a server that says a byte of its header every few
seconds would put off any limit of a single wait for ever.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import zlib
from typing import TYPE_CHECKING, Final

import httpx

from gpumon.model.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TIMEOUT_S: Final = 10.0
"""For a whole page: Prometheus gives it as long (its `scrape_timeout`)."""

CONNECT_TIMEOUT_S: Final = 5.0

LARGEST_PAGE_BYTES: Final = 8 * 2**20
"""As text, however it was packed: a node of 8 GPUs has a hundredth of it with labels of Kubernetes,
and one that is cut into 112 instances with 200 metrics two thirds."""

SMALL_PAGE_BYTES: Final = 256 * 2**10
"""As much is read of any number of pages at once; for more, pages wait for one another."""

MOST_LARGE: Final = 8
"""Large pages that are read at once: all together take as much memory as eight of the largest."""

LONGEST_LINE_BYTES: Final = 2**20
"""Text without any end of a line is no page, and need not be read to its end."""

_SHOWN: Final = 120
_OK: Final = 200
_REFUSED: Final = (401, 403)
_NOT_FOUND: Final = 404
_TYPES: Final = ("", "text/plain", "application/openmetrics-text")
"""Kinds of content that are pages of metrics; some exporters name none."""

_ACCEPTED: Final = (
    "text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0;q=0.8, */*;q=0.1"
)
_GZIP: Final = 31
"""zlib's word for the format of gzip."""

_PIECE_BYTES: Final = 65536
"""As much is unpacked before its size is looked at."""

_RETRIED: Final = "gpumon asks again by itself"


class FetchError(Exception):
    """There is no page; holds the message and the way out."""

    def __init__(self, message: str, hint: str, *, is_refused: bool = False) -> None:
        """One line, and the way out; `is_refused`: nobody listens there, which costs nobody."""
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.is_refused = is_refused


class Rooms:
    """What all fetches of one target share."""

    def __init__(self) -> None:
        """For fetches within one loop."""
        self.large = asyncio.Semaphore(MOST_LARGE)
        self._context: ssl.SSLContext | None = None
        self.unused = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        """A client wants one without TLS, too."""

    @property
    def context(self) -> ssl.SSLContext:
        """Certificates that are believed: reading them takes 20 ms, once."""
        if self._context is None:
            # It reads SSL_CERT_FILE and SSL_CERT_DIR, and checks names.
            self._context = ssl.create_default_context()
        return self._context


class Fetcher:
    """Gets the page of one address, over a connection that is kept.

    Each address has a client of its own: one client that keeps connections to many hosts takes time
    by the square of their number (encode/httpcore#1035).
    """

    def __init__(self, url: str, rooms: Rooms, *, keeps: bool, timeout_s: float) -> None:
        """`keeps`: whether the connection stays open until the next page."""
        self._url = url
        self._rooms = rooms
        self._timeout_s = timeout_s
        is_tls = url.startswith("https:")
        verify = rooms.context if is_tls else rooms.unused
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=int(keeps))
        self._client = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(verify=verify, limits=limits, trust_env=False),
            timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S)),
            follow_redirects=False,
            # What a proxy of the environment says is not what the node says.
            trust_env=False,
            headers={"Accept": _ACCEPTED, "Accept-Encoding": "gzip", "User-Agent": "gpumon"},
        )

    async def page(self) -> bytes:
        """The page.

        Raises:
            FetchError: There is none.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                try:
                    return await self._exchange()
                except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                    # A connection that was kept may have been ended just now.
                    return await self._exchange()
        except TimeoutError:
            raise _late(self._timeout_s) from None
        except httpx.HTTPError as error:
            raise failure(error, self._timeout_s) from None

    async def close(self) -> None:
        """End the connection."""
        await self._client.aclose()

    async def _exchange(self) -> bytes:
        async with self._client.stream("GET", self._url) as response:
            if response.status_code != _OK:
                raise _status(response.status_code, response.headers)
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind == "text/html":
                raise _web_page()
            if kind not in _TYPES:
                message = f"answers with {plain(kind, _SHOWN)}, which is no page of metrics"
                raise FetchError(message, "check host, port and path")
            packing = response.headers.get("content-encoding", "identity").strip().lower()
            if packing not in ("identity", "gzip"):
                message = f"packs its page as {plain(packing, _SHOWN)}, which nobody asked for"
                raise FetchError(message, "look at the proxy in front of it")
            return await self._body(response, is_packed=packing == "gzip")

    async def _body(self, response: httpx.Response, *, is_packed: bool) -> bytes:
        """The text of a page, not longer than it may be."""
        body = bytearray()
        packing = _Gzip() if is_packed else _Plain()
        has_room = False
        try:
            async for chunk in response.aiter_raw():
                for piece in packing.pieces(chunk):
                    body += piece
                    if len(body) > LARGEST_PAGE_BYTES:
                        raise _too_large()
                    if len(body) - (body.rfind(b"\n") + 1) > LONGEST_LINE_BYTES:
                        raise _endless()
                    if len(body) > SMALL_PAGE_BYTES and not has_room:
                        await self._rooms.large.acquire()
                        has_room = True
            packing.end()
        finally:
            if has_room:
                self._rooms.large.release()
        if body.lstrip()[:1] == b"<":
            raise _web_page()
        if _has_end(response.headers) and not body.endswith(b"\n"):
            # It came whole, so that its last line is no half one.
            body += b"\n"
        return bytes(body)


def _has_end(headers: Mapping[str, str]) -> bool:
    """Whether an answer tells where it ends; another one may have broken off there."""
    return "content-length" in headers or "chunked" in headers.get("transfer-encoding", "")


def failure(error: httpx.HTTPError, timeout_s: float) -> FetchError:
    """Why an exchange within a time brought no page."""
    said = plain(" ".join(_words(error).split()), _SHOWN) or type(error).__name__
    if isinstance(error, httpx.ConnectTimeout):
        said, hint = "no answer", f"look whether the node is up and its port open; {_RETRIED}"
    elif isinstance(error, httpx.TimeoutException):
        return _late(timeout_s)
    elif "expired" in said:
        hint = "whoever runs the exporter has to renew its certificate"
    elif "CERTIFICATE" in said:
        hint = "point SSL_CERT_FILE to the bundle of the authority that signed its certificate"
    elif "SSL" in said:
        hint = "it speaks no TLS there: dcgm+http:// reads it without"
    elif isinstance(error, httpx.NetworkError):
        hint = f"check that the exporter runs there and listens; {_RETRIED}"
    else:
        hint = "check that the port is the exporter's, and whether it wants dcgm+https://"
        return FetchError(f"the answer broke off or is no HTTP: {said}", hint)
    is_refused = said == os.strerror(errno.ECONNREFUSED)
    return FetchError(f"cannot be reached: {said}", hint, is_refused=is_refused)


def _words(error: BaseException) -> str:
    """What the system said first, of which those above it tell only that something failed."""
    told = str(error)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        if isinstance(cause, socket.gaierror | ssl.SSLError):
            told = str(cause.strerror or cause)
        elif isinstance(cause, OSError) and cause.errno:
            # What asyncio says in its place tells no reason.
            told = os.strerror(cause.errno)
        cause = cause.__cause__ or cause.__context__
    return told


class _Plain:
    """A page that is not packed."""

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """What a piece of the answer holds."""
        yield chunk

    def end(self) -> None:
        """Every page may end where it does."""


class _Gzip(_Plain):
    """Unpacks a page a piece at a time: a few bytes can hold any number of them."""

    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(_GZIP)

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        while chunk:
            try:
                yield self._inflater.decompress(chunk, _PIECE_BYTES)
            except zlib.error:
                raise _not_gzip() from None
            chunk = self._inflater.unconsumed_tail

    def end(self) -> None:
        if not self._inflater.eof:
            raise _not_gzip()


def _not_gzip() -> FetchError:
    message = "says that its page is packed as gzip, and it is not, or not whole"
    return FetchError(message, "look at the proxy in front of it")


def _status(status: int, headers: Mapping[str, str]) -> FetchError:
    """Any answer but 200."""
    if 300 <= status < 400:
        to = plain(headers.get("location", ""), _SHOWN) or "nowhere"
        return FetchError(f"redirects to {to}, which is not followed", "name that address yourself")
    if status in _REFUSED:
        hint = "gpumon sends neither name nor password to exporters: open the page to this host"
        return FetchError(f"does not let gpumon in (HTTP {status})", hint)
    if status == _NOT_FOUND:
        return FetchError("has no such page (HTTP 404)", "check the path: it is mostly /metrics")
    hint = f"look at the log of the exporter; {_RETRIED}"
    return FetchError(f"answers with an error (HTTP {status})", hint)


def _late(timeout_s: float) -> FetchError:
    hint = f"look whether the node is overloaded or its driver hangs; {_RETRIED}"
    return FetchError(f"gave no whole page within {timeout_s:g} s", hint)


def _too_large() -> FetchError:
    size = f"{LARGEST_PAGE_BYTES // 2**20} MiB"
    return FetchError(f"its page is larger than {size} and was cut off", "check what listens there")


def _endless() -> FetchError:
    message = "tells a line without an end, which no page of metrics has"
    return FetchError(message, "check what listens there")


def _web_page() -> FetchError:
    message = "answers with a web page: a proxy or portal, not an exporter"
    return FetchError(message, "check host, port and path")
