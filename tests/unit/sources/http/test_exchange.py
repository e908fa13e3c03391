"""A client for one host: made at once, and at no cost for what it does not use."""

from __future__ import annotations

import asyncio
import importlib
import sys

import httpcore
import pytest

from gpumon.sources.http import exchange


def test_what_httpcore_may_use_and_is_not_there_is_looked_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[str] = []
    monkeypatch.setattr(exchange, "find_spec", searched.append)
    monkeypatch.delitem(sys.modules, "sniffio", raising=False)
    exchange._skip_unused_library.cache_clear()
    for _ in range(3):
        exchange.client(None, {}, 1.0)
    assert searched == ["sniffio"]
    with pytest.raises(ImportError):
        importlib.import_module("sniffio")
    monkeypatch.delitem(sys.modules, "sniffio")
    exchange._skip_unused_library.cache_clear()


class _Stream(httpcore.AsyncMockStream):
    """A connection that notes how much of an answer is taken at a time."""

    def __init__(self, answer: list[bytes]) -> None:
        super().__init__(answer)
        self.asked_bytes: list[int] = []

    async def read(
        self,
        max_bytes: int,
        timeout: float | None = None,  # noqa: ASYNC109 - its name in httpcore
    ) -> bytes:
        self.asked_bytes.append(max_bytes)
        return await super().read(max_bytes, timeout)


def test_httpcore_takes_as_much_of_an_answer_at_once_as_asyncio_reads() -> None:
    stream = _Stream([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", b"ok"])

    async def asked() -> None:
        await exchange.client(None, {}, 1.0).aclose()
        origin = httpcore.Origin(b"http", b"x", 80)
        async with httpcore.AsyncHTTP11Connection(origin, stream) as connection:
            await connection.request("GET", "http://x/", headers={"Host": "x"})

    asyncio.run(asked())
    assert set(stream.asked_bytes) == {2**18}
