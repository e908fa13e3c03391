"""Gets one page over HTTP within bounds of time and size, and words in one line why it could not.

Everything that an exchange takes counts together: a server that sends a byte of its header every
few seconds would put off any limit of a single wait for ever.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from contextlib import aclosing
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import httpx

from gpumon.model.text import plain
from gpumon.sources.exposition.parse import parse
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

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_S: Final = 10.0
"""For a whole page: Prometheus gives it as long (its `scrape_timeout`)."""

LARGEST_PAGE_BYTES: Final = 8 * 2**20
"""As text, however it was packed: a node of 8 GPUs has a hundredth of it with labels of Kubernetes,
and one that is cut into 112 instances with 200 metrics two thirds."""

SMALL_PAGE_BYTES: Final = 256 * 2**10
"""As much is read of any number of pages at once; for more, pages wait for one another."""

MOST_LARGE: Final = 8
"""Large pages that are read at once: all together take as much memory as eight of the largest."""

LONGEST_LINE_BYTES: Final = 2**20
"""Text without any end of a line is no page, and need not be read to its end."""

_TYPES: Final = ("", "text/plain", "application/openmetrics-text")
"""Kinds of content that are pages of metrics; some exporters name none. What is called otherwise is
one if it begins as one: Prometheus before 3.0 reads any kind, later ones what a site allows."""

_FIRST_LINE: Final = re.compile(rb"^[ \t]*+[^#\s][^\r\n]*+", re.MULTILINE)
"""That is neither empty nor a comment."""

_BINARY: Final = ("application/vnd.google.protobuf", "application/x-protobuf")
"""Metrics as protobuf, in which alone most programs report native histograms."""

_AS_TEXT: Final = "have the exporter answer with text, which is what gpumon asks for"

_ACCEPTED: Final = (
    "text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0;q=0.8, */*;q=0.1"
)

PEER: Final = Peer(
    name="an exporter",
    answer="complete page",
    unreached=f"check that the exporter runs there and listens; {RETRIED}",
    unheard=f"check whether the node is up and its port open; {RETRIED}",
    overloaded=f"check whether the node is overloaded or its driver hangs; {RETRIED}",
    speaks_no_tls="it does not speak TLS there: use dcgm+http://",
    speaks_no_http="check that the port is the exporter's, and whether it wants dcgm+https://",
    elsewhere="check host, port and path",
    certificate="the exporter's certificate has to be renewed",
)
"""An exporter, in the words of its failures."""


class Rooms:
    """What all fetches of one target share."""

    def __init__(self) -> None:
        """For fetches within one loop."""
        self.large = asyncio.Semaphore(MOST_LARGE)
        self._context: ssl.SSLContext | None = None

    @property
    def context(self) -> ssl.SSLContext:
        """Certificates that are believed: reading them takes 20 ms, once."""
        if self._context is None:
            # It reads SSL_CERT_FILE and SSL_CERT_DIR, and checks names.
            self._context = ssl.create_default_context()
        return self._context


class Fetcher:
    """Gets the page of one address, over a connection that stays open.

    Each address has a client of its own: one client with connections to many hosts takes time
    by the square of their number (encode/httpcore#1035).
    """

    def __init__(self, url: str, rooms: Rooms, *, stays_open: bool, timeout_s: float) -> None:
        """`stays_open`: whether the connection stays open until the next page."""
        self._url = url
        self._rooms = rooms
        self._timeout_s = timeout_s
        context = rooms.context if url.startswith("https:") else None
        self._client = client(context, {"Accept": _ACCEPTED}, timeout_s, keepalive=int(stays_open))

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
                    # A connection that stayed open may have been ended just now.
                    return await self._exchange()
        except TimeoutError:
            raise error_of(late(self._timeout_s, PEER)) from None
        except (httpx.HTTPError, ssl.SSLError) as error:
            # What TLS 1.3 reports after the handshake is not wrapped by httpx.
            raise error_of(failure(error, self._timeout_s, PEER)) from None

    async def close(self) -> None:
        """End the connection."""
        await self._client.aclose()

    async def _exchange(self) -> bytes:
        async with self._client.stream("GET", self._url) as response:
            if response.status_code != HTTPStatus.OK:
                is_bare = self._url.startswith("http:")
                raise _status(response.status_code, response.headers, is_bare=is_bare)
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind == "text/html":
                raise error_of(web_page(PEER))
            if kind in _TYPES:
                return await self._body(response)
            message = f"answers with {plain(kind, SHOWN)}, which is not a page of metrics"
            if kind in _BINARY:
                raise FetchError(message, _AS_TEXT)
            return await self._body_of_another_kind(response, message)

    async def _body_of_another_kind(self, response: httpx.Response, message: str) -> bytes:
        """The text of a page that is called otherwise, as servers of files do; else the message."""
        try:
            body = await self._body(response)
        except FetchError:
            raise FetchError(message, PEER.elsewhere) from None
        first = _FIRST_LINE.search(body)
        if first is None or not parse(first[0] + b"\n").samples:
            raise FetchError(message, PEER.elsewhere)
        return body

    async def _body(self, response: httpx.Response) -> bytes:
        """The text of a page, not longer than it may be."""
        body = bytearray()
        has_room = False
        try:
            async with aclosing(pieces(response, "page")) as body_pieces:
                async for piece in body_pieces:
                    body += piece
                    if len(body) > LARGEST_PAGE_BYTES:
                        raise _too_large()
                    if len(body) - (body.rfind(b"\n") + 1) > LONGEST_LINE_BYTES:
                        raise _endless()
                    if len(body) > SMALL_PAGE_BYTES and not has_room:
                        await self._rooms.large.acquire()
                        has_room = True
        finally:
            if has_room:
                self._rooms.large.release()
        if body.lstrip()[:1] == b"<":
            raise error_of(web_page(PEER))
        if _has_end(response.headers) and not body.endswith(b"\n"):
            # It came whole, so that its last line is no half one.
            body += b"\n"
        return bytes(body)


def _has_end(headers: Mapping[str, str]) -> bool:
    """Whether an answer has its end marked; another one may have broken off there."""
    return "content-length" in headers or "chunked" in headers.get("transfer-encoding", "")


def _status(status: int, headers: Mapping[str, str], *, is_bare: bool) -> FetchError:
    """Any answer but 200; without TLS that may be what is missing."""
    if 300 <= status < 400:
        return error_of(redirected(headers.get("location", "")))
    if status in REFUSED:
        hint = "gpumon sends neither name nor password to exporters: open the page to this host"
        return FetchError(f"does not let gpumon in (HTTP {status})", hint)
    if status == HTTPStatus.NOT_FOUND:
        return FetchError("has no such page (HTTP 404)", "check the path: it is usually /metrics")
    hint = f"look at the log of the exporter; {RETRIED}"
    if is_bare and status == HTTPStatus.BAD_REQUEST:
        hint = PEER.speaks_no_http
    message = f"answers with an error (HTTP {status})"
    return FetchError(message, hint, is_refused=status in AWAY)


def _too_large() -> FetchError:
    size = f"{LARGEST_PAGE_BYTES // 2**20} MiB"
    return FetchError(f"its page is larger than {size} and was cut off", "check what listens there")


def _endless() -> FetchError:
    message = "has a line without an end, so it is not a page of metrics"
    return FetchError(message, "check what listens there")
