"""Exchanges over HTTP that no server can make long or large: a client, and its answer in pieces."""

from __future__ import annotations

import ssl
import sys
import zlib
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import httpcore
import httpx

from gpumon.base.errors import UnavailableError
from gpumon.model.text import plain
from gpumon.sources.http.failures import SHOWN, Trouble

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping

CONNECT_TIMEOUT_S: Final = 5.0
"""For a connection, seconds: a lost SYN is sent again after one and three (RFC 6298)."""

_GZIP: Final = 31
"""zlib's word for the format of gzip."""

_GZIP_NAMES: Final = ("gzip", "x-gzip")
"""What HTTP calls it (RFC 9110)."""

_UNUSED_LIBRARY: Final = "sniffio"
"""httpcore tries to import it five times an exchange, and manages without: where it is not there
each try looks through all folders again, a seventh of the time that an exchange takes."""

_READ_BYTES: Final = 2**18
"""As much as asyncio reads at once. httpcore takes a quarter of it at a time otherwise, and copies
the rest each time: a third of what receiving a large answer takes (measured)."""

_PIECE_BYTES: Final = 65536
"""As much is unpacked before its size is checked."""

_MOST_PARTS: Final = 64
"""Packed parts of one answer: each takes time, however little is in it (our choice)."""


class FetchError(UnavailableError):
    """There is no answer."""

    def __init__(
        self,
        message: str,
        hint: str,
        *,
        is_refused: bool = False,
        is_busy: bool = False,
        is_of_question: bool = False,
    ) -> None:
        """One line, and the way out.

        Args:
            message: What is wrong.
            hint: The way out.
            is_refused: Whether the port takes no connection, so that asking again is cheap.
            is_busy: Whether it was asked too often, so that more and smaller questions do not help.
            is_of_question: Whether this question alone has none, so that others may have one.
        """
        super().__init__(message, hint)
        self.is_refused = is_refused
        self.is_busy = is_busy
        self.is_of_question = is_of_question


def error_of(trouble: Trouble) -> FetchError:
    """The failure, to be raised."""
    return FetchError(trouble.message, trouble.hint, is_refused=trouble.is_refused)


def client(
    context: ssl.SSLContext | None,
    headers: Mapping[str, str],
    timeout_s: float,
    connections: int = 1,
    keepalive: int = 1,
) -> httpx.AsyncClient:
    """A client for one host; the caller holds all that an exchange takes to its time.

    Args:
        context: Certificates that are believed; None: no TLS.
        headers: Of every question.
        timeout_s: Of a single wait.
        connections: At most open at once.
        keepalive: At most open from question to question.
    """
    _skip_unused_library()
    httpcore.AsyncHTTP11Connection.READ_NUM_BYTES = _READ_BYTES
    verify = context or _unused()
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=keepalive)
    return httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(verify=verify, limits=limits, trust_env=False),
        timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S)),
        follow_redirects=False,
        # A proxy or a .netrc of the environment is not what was asked for.
        trust_env=False,
        headers={"Accept-Encoding": "gzip", "User-Agent": "gpumon", **headers},
    )


@cache
def _skip_unused_library() -> None:
    """Search for a library that is not there once only."""
    if _UNUSED_LIBRARY not in sys.modules and find_spec(_UNUSED_LIBRARY) is None:
        # None is a module that cannot be imported (sys.modules' own meaning of it).
        sys.modules[_UNUSED_LIBRARY] = None  # type: ignore[assignment]


@cache
def _unused() -> ssl.SSLContext:
    """For clients without TLS: httpx makes one for each that is given none, which takes longest."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


async def pieces(response: httpx.Response, what: str) -> AsyncGenerator[bytes, None]:
    """The answer without its packing, a piece at a time: a few bytes can hold any number of them.

    Args:
        response: Whose body has not been read.
        what: How it is called in errors: `page`.

    Raises:
        FetchError: It is packed otherwise than asked for, or wrongly.
    """
    packing = response.headers.get("content-encoding", "").strip().lower()
    if packing not in ("", "identity", *_GZIP_NAMES):
        message = f"compresses its {what} as {plain(packing, SHOWN)}, which gpumon did not ask for"
        raise FetchError(message, "look at the proxy in front of it")
    unpacked = _Gzip(what) if packing in _GZIP_NAMES else _Plain()
    async for chunk in response.aiter_raw():
        for piece in unpacked.pieces(chunk):
            yield piece
    unpacked.end()


class _Plain:
    """An answer that is not packed."""

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """What a piece of the answer holds."""
        yield chunk

    def end(self) -> None:
        """Every answer may end where it does."""


class _Gzip(_Plain):
    """Unpacks an answer."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._inflater = zlib.decompressobj(_GZIP)
        self._parts = 1

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        while chunk:
            if self._inflater.eof:
                # Several packed parts may follow one another (RFC 1952).
                self._inflater = zlib.decompressobj(_GZIP)
                self._parts += 1
                if self._parts > _MOST_PARTS:
                    raise self._wrong()
            try:
                yield self._inflater.decompress(chunk, _PIECE_BYTES)
            except zlib.error:
                raise self._wrong() from None
            chunk = self._inflater.unconsumed_tail or self._inflater.unused_data

    def end(self) -> None:
        if not self._inflater.eof:
            raise self._wrong()

    def _wrong(self) -> FetchError:
        message = (
            f"says that its {self._what} is compressed with gzip, but it is not, or it is cut off"
        )
        return FetchError(message, "look at the proxy in front of it")
