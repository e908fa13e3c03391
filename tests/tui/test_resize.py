"""Storms of resizes, and the smallest terminal that is promised: every view draws into any room."""

from __future__ import annotations

import random

import pytest

from gpumon.report.text.cells import text_width
from tests.worlds.tick import fleet

pytestmark = pytest.mark.slow

VIEWS = {
    **{str(number): (str(number),) for number in range(1, 10)},
    "job": ("enter",),
    "gpu": ("enter", "enter"),
    "node": ("2", "o"),
    "curves": ("enter", "v"),
    "roofline": ("enter", "v", "tab"),
    "help": ("question_mark",),
    "findings": ("f",),
    "errors": ("e",),
    "columns": ("c",),
    "commands": ("x",),
    "filter": ("slash", "x"),
    "command": ("colon", "j"),
}
"""Keys that lead to each view."""


def drawn_into(stage, width, height):
    """Whether what is drawn has as many lines and cells as the terminal."""
    strips = stage.app.screen._compositor.render_strips()
    lines = ["".join(segment.text for segment in strip) for strip in strips]
    return len(lines) == height and all(text_width(line) <= width for line in lines)


@pytest.mark.parametrize("view", VIEWS)
async def test_a_storm_of_resizes_ends_in_a_whole_screen(stage, view):
    storm = random.Random(view)
    async with stage(fleet()) as s:
        await s.press(*VIEWS[view])
        here = s.app.screen
        for _ in range(50):
            width, height = storm.randint(1, 250), storm.randint(1, 70)
            await s.resize(width, height)
            assert drawn_into(s, width, height), (width, height)
        await s.resize(80, 24)
        assert s.app.screen is here
        assert drawn_into(s, 80, 24)
        assert s.lines[0].strip()


@pytest.mark.parametrize("view", VIEWS)
async def test_on_the_smallest_terminal_the_frame_is_whole(stage, view):
    async with stage(fleet(), size=(80, 24)) as s:
        await s.press(*VIEWS[view])
        assert drawn_into(s, 80, 24)
        assert "gpumon" in s.lines[0]
        assert s.lines[-1].startswith((" q quit", " q close"))
