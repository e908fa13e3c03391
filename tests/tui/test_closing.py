"""`q` closes what lies on top, and ends the program only where nothing lies below."""

from __future__ import annotations

import pytest

from tests.tui.board import board
from tests.worlds.tick import fleet

SEVENTY_MIN_S = 70 * 60.0


@pytest.mark.parametrize(
    ("way", "left"),
    [
        (("question_mark",), "jobs"),
        (("f",), "jobs"),
        (("f", "f"), "findings"),
        (("c",), "jobs"),
        (("x",), "jobs"),
        (("j", "enter"), "jobs"),
        (("2", "enter"), "gpus"),
        (("j", "enter", "tab"), "job"),
        (("5", "question_mark"), "ended"),
        (("6", "G", "k", "enter"), "users"),
    ],
)
async def test_q_closes_the_layer_on_top(way, left):
    async with board(*way) as b:
        depth = len(b.seen().views)
        await b.press("q")
        seen = b.seen()
    assert seen.exit_code is None
    assert (seen.views[-1], len(seen.views)) == (left, depth - 1)


async def test_q_closes_a_layer_that_is_filtered(stage):
    async with stage(fleet()) as s:
        await s.press("question_mark", "slash", *"sort", "enter", "q")
        assert s.app.return_value is None
        assert "jobs › help" not in s.text
        assert "5 jobs" in s.text


@pytest.mark.parametrize("way", [(), ("3",), ("9",), ("slash", *"ada", "enter")])
async def test_q_quits_on_a_view_of_the_fleet(stage, way):
    async with stage(fleet()) as s:
        await s.press(*way, "q")
    assert s.app.return_value == 0


async def test_hours_that_nothing_keeps_want_a_second_q(stage):
    async with stage(fleet(), size=(120, 24)) as s:
        s.now[0] += SEVENTY_MIN_S
        await s.press("q")
        assert s.app.return_value is None
        assert "70m were watched and are not recorded: press q again to quit" in s.lines[-2]
        s.now[0] += 30.0
        await s.press("q")
        assert s.app.return_value is None, "the question was half a minute ago"
        await s.press("q")
    assert s.app.return_value == 0


@pytest.mark.parametrize("key", ["ctrl+c", "ctrl+q"])
@pytest.mark.parametrize("way", [(), ("question_mark",), ("slash",)])
async def test_control_keys_quit_at_once_from_anywhere(stage, way, key):
    async with stage(fleet()) as s:
        s.now[0] += SEVENTY_MIN_S
        await s.press(*way, key)
    assert s.app.return_value == 0


async def test_the_footer_says_what_q_does(stage):
    async with stage(fleet()) as s:
        assert s.lines[-1].startswith(" q quit")
        await s.press("enter")
        assert s.lines[-1].startswith(" q close")
        await s.press("escape", "6", "enter")
        assert s.lines[-1].startswith(" q close")
