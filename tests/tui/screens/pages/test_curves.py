"""Curves are drawn once a period, however often the job they are of is looked at."""

from __future__ import annotations

import pytest

from tests.tui.fleet_scene import whole
from tests.worlds.tick import AT, fleet


async def test_ticks_between_two_periods_are_not_drawn(stage, monkeypatch):
    async with stage(fleet(), size=(120, 30)) as s:
        await s.press("enter", "v")
        drawn = []
        screen = s.app.screen
        draw = screen.draw
        monkeypatch.setattr(screen, "draw", lambda: (drawn.append(screen.digest.tick.at), draw()))
        for number, after in enumerate((0.4, 0.8, 1.2, 1.6, 2.0, 2.4), 1):
            await s.give(fleet()._replace(at=AT + after, number=number, zoom_period_s=0.4))
        assert drawn == [AT + 1.2, AT + 2.4]
        await s.press("w")
        assert len(drawn) == 3, "a key is answered at once"
        await s.press("comma")
        assert len(drawn) == 4, "so is a step"


async def test_a_search_in_curves_is_drawn_at_once(stage):
    async with stage(fleet(), size=(120, 30)) as s:
        await s.press("enter", "v", "slash", *"nosuch")
        assert "Nothing contains this text" in s.text


@pytest.mark.parametrize("keys", [("v",), ("tab",)], ids=["curves", "ranks"])
async def test_what_is_drawn_of_a_job_that_waits_says_why_it_waits(stage, keys):
    """It has not ended, and no node is silent: it has no GPU yet."""
    async with stage(whole()) as s:
        await s.press("colon", *"job", "space", *"4730", "enter")
        why = next(line.strip() for line in s.lines if "The job waits" in line)
        await s.press(*keys)
        assert why in s.text
        assert "has ended" not in s.text
