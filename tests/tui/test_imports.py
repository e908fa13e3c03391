"""What the terminal imports before its first picture: no screen that it does not show."""

from __future__ import annotations

import subprocess
import sys

PAINT = """
import asyncio, sys
from gpumon.tui.terminal import GpumonApp

class Feed:
    failure = None
    def start(self, on_tick):
        print(*sorted(name for name in sys.modules if name.startswith("gpumon.")))
    def wish(self, wish): ...
    def close(self): ...

async def paint():
    async with GpumonApp(Feed()).run_test(size=(80, 24)) as pilot:
        await pilot.pause()

asyncio.run(paint())
"""
FIRST = {
    "base", "base.column_filter", "base.files", "base.fleet_view", "base.pane_view",
    "base.root_view",
    "base.table_view", "base.take_along", "base.time_screen", "base.view", "lists",
    "lists.jobs", "open",
}  # fmt: skip
"""Modules of screens without which the list of jobs cannot be painted."""

LATER = {"gpumon.report.lists.own_rows", "gpumon.report.tables.process"}
"""What the list of jobs needs only after a key."""


def test_the_first_picture_waits_for_no_screen_that_it_does_not_show() -> None:
    command = [sys.executable, "-c", PAINT]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    names = set(done.stdout.split())
    screens = "gpumon.tui.screens."
    assert {name.removeprefix(screens) for name in names if name.startswith(screens)} == FIRST
    assert names.isdisjoint(LATER)
