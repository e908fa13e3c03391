"""One exchange over HTTP/1.1: what was asked, within bounds of time and size, and the answer."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from gpumon.base.errors import DeclinedError
from gpumon.model.units import period

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_HEAD_BYTES: Final = 16 * 2**10
"""A request's line and header: as much as Apache and nginx take (their defaults are 8 and 32)."""

TEXT: Final = "text/plain; charset=utf-8"
_PIECE_BYTES: Final = 64 * 2**10
"""Pieces that an answer is written in: no client makes the server hold a second copy of it."""

_ONCE: Final = frozenset({"authorization", "host", "content-length", "transfer-encoding"})
"""Fields that two readers could understand differently if they were there twice."""


class Answer(NamedTuple):
    """What is answered."""

    status: int
    body: bytes
    kind: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()
    more: tuple[bytes, ...] = ()
    """What follows the body, in pieces that other answers hold as well: no client has a copy."""

    @property
    def size(self) -> int:
        """Bytes of all of it."""
        return len(self.body) + sum(map(len, self.more))


class RefusedError(DeclinedError):
    """What was asked cannot be answered; holds the answer that says why."""

    def __init__(self, status: int, message: str, *headers: tuple[str, str]) -> None:
        """One line, and fields that belong to the status."""
        super().__init__(message)
        self.answer = Answer(status, f"{message}\n".encode(), headers=headers)


class Asked(NamedTuple):
    """What a client asks for."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By name in lower case; of a name that is there twice the values, joined by commas."""
    is_persistent: bool
    """Whether the client wants the connection for another question."""


async def read(reader: asyncio.StreamReader, begin_s: float, whole_s: float) -> Asked | None:
    """The next question; None: the client has left, or begins none.

    Args:
        reader: What the client sends.
        begin_s: For the question to begin.
        whole_s: For the rest of it.

    Raises:
        RefusedError: It is no question that is answered.
    """
    try:
        async with asyncio.timeout(begin_s):
            first = await reader.read(1)
    except TimeoutError:
        return None
    try:
        async with asyncio.timeout(whole_s):
            raw = first + await reader.readuntil(b"\r\n\r\n")
    except TimeoutError:
        message = f"the request was not complete within {period(whole_s)}"
        raise RefusedError(HTTPStatus.REQUEST_TIMEOUT, message) from None
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError:
        message = f"the header is longer than {MOST_HEAD_BYTES >> 10} KiB"
        raise RefusedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, message) from None
    return understood(raw)


def understood(raw: bytes) -> Asked:
    """What a request line and its header ask for.

    Raises:
        RefusedError: It is no question that is answered.
    """
    first, *lines = raw.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[0].isalpha() or not words[2].startswith("HTTP/"):
        raise RefusedError(HTTPStatus.BAD_REQUEST, "this is not an HTTP request")
    method, target, version = words
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        raise RefusedError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "this server speaks HTTP/1.1")
    headers = _headers(lines)
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "a request must not have a body")
    try:
        split = urlsplit(target)
    except ValueError:
        raise RefusedError(HTTPStatus.BAD_REQUEST, "this is not a path") from None
    wishes = headers.get("connection", "").lower()
    is_persistent = "close" not in wishes and (version == "HTTP/1.1" or "keep-alive" in wishes)
    return Asked(
        method=method,
        path=split.path,
        query=dict(parse_qsl(split.query)[:16]),
        headers=headers,
        is_persistent=is_persistent,
    )


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        key = name.lower()
        if not colon or not name or name != name.strip() or (key in headers and key in _ONCE):
            raise RefusedError(HTTPStatus.BAD_REQUEST, "this is not an HTTP header")
        value = value.strip()
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return headers


async def write(
    writer: asyncio.StreamWriter, answer: Answer, *, has_body: bool, is_persistent: bool
) -> None:
    """Send an answer, no faster than the client takes it."""
    writer.write(_head(answer, is_persistent))
    if has_body:
        for part in (answer.body, *answer.more):
            body = memoryview(part)
            while body:
                writer.write(body[:_PIECE_BYTES])
                body = body[_PIECE_BYTES:]
                await writer.drain()
    await writer.drain()


def at_once(answer: Answer) -> bytes:
    """A short answer in one piece, after which the connection ends."""
    return _head(answer, is_persistent=False) + answer.body


def _head(answer: Answer, is_persistent: bool) -> bytes:
    fields = (
        ("Content-Type", answer.kind),
        ("Content-Length", str(answer.size)),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        ("Connection", "keep-alive" if is_persistent else "close"),
        *answer.headers,
    )
    header = "".join(f"{name}: {value}\r\n" for name, value in fields)
    return f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n{header}\r\n".encode()


def preferred(accept: str, offered: tuple[str, ...]) -> str | None:
    """The media type, or the coding, that a client likes best; None: it takes none.

    Args:
        accept: `Accept` or `Accept-Encoding`; empty: anything.
        offered: The first is taken where the client likes several as much.
    """
    if not accept.strip():
        return offered[0]
    liked: dict[str, float] = {}
    for part in accept.split(","):
        name, weight = _liked(part)
        # Of a type in several versions the one that it likes best counts.
        liked[name] = max(weight, liked.get(name, 0.0))
    best = max(offered, key=lambda one: _weight(one, liked))
    return best if _weight(best, liked) > 0 else None


def _liked(text: str) -> tuple[str, float]:
    name, *parameters = (part.strip().lower() for part in text.split(";"))
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                return name, min(1.0, max(0.0, float(value)))
            except ValueError:
                return name, 0.0
    return name, 1.0


def _weight(offered: str, liked: Mapping[str, float]) -> float:
    for name in (offered, f"{offered.partition('/')[0]}/*", "*/*", "*"):
        if name in liked:
            return liked[name]
    return 0.0
