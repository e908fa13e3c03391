"""A coroutine on a thread of its own: whatever ends it, what is left is freed, and once."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import TYPE_CHECKING

from gpumon.sources.http.loop import LoopThread
from tests.worlds.probe import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest


def test_what_waits_is_broken_off_and_then_freed_by_one_that_nobody_breaks_off() -> None:
    began, events = threading.Event(), []
    thread: list[LoopThread] = []

    async def main() -> None:
        began.set()
        await asyncio.sleep(3600)

    async def end() -> None:
        # Somebody closes a second time meanwhile.
        thread[0].call(thread[0]._stop)
        await asyncio.sleep(0.01)
        events.append("freed")

    thread.append(LoopThread("one", main, end))
    thread[0].start()
    assert began.wait(20)
    thread[0].close(20.0)
    assert events == ["freed"]
    thread[0].call(lambda: events.append("too late"))
    assert events == ["freed"]


def test_one_that_is_closed_before_it_starts_runs_nothing() -> None:
    events = []

    async def main() -> None:
        events.append("ran")

    thread = LoopThread("one", main)
    thread.close()
    thread.start()
    thread.close(20.0)
    assert events == []


def test_others_have_it_do_something() -> None:
    roused, events = asyncio.Event(), []

    async def main() -> None:
        events.append("waits")
        await roused.wait()
        events.append("roused")

    thread = LoopThread("one", main)
    thread.start()
    eventually(lambda: events, "it waits")
    thread.call(roused.set)
    eventually(lambda: len(events) == 2, "it goes on")
    thread.close(20.0)


def test_what_is_left_when_it_ends_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def pieces() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            await asyncio.sleep(3600)

    async def main() -> None:
        async for _ in pieces():
            break
        # It is let go, and a task of the loop's is to close it.
        gc.collect()
        await asyncio.sleep(0)

    thread = LoopThread("one", main)
    thread.start()
    thread._thread.join(20.0)
    gc.collect()
    assert [record.getMessage() for record in caplog.records] == []
