"""What a command that changes a job says is read to its end, and of bounded length."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gpumon.tui import job_changes


class Talker:
    """A command that has written something to standard error and ended."""

    def __init__(self, complaint: bytes) -> None:
        self.stderr = asyncio.StreamReader()
        self.stderr.feed_data(complaint)
        self.stderr.feed_eof()
        self.is_awaited = False

    async def wait(self) -> int:
        self.is_awaited = True
        return 1


@pytest.mark.parametrize("count", [0, 3, 40_000])
async def test_of_long_complaints_the_first_are_kept(count: int) -> None:
    complaint = b"scancel: error: no\n" * count
    talker: Any = Talker(complaint)
    shown = await job_changes._complaints(talker)
    assert shown == complaint[: job_changes.MOST_COMPLAINT_BYTES]
    assert talker.is_awaited
    assert await talker.stderr.read() == b""
