"""A job with more ranks than there are lines: the cursor on a line that ranks share."""

from __future__ import annotations

from gpumon.tui.screens.pages.ranks import RanksScreen
from gpumon.tui.widgets.map import rank_chart
from tests.worlds.tick import AT, Past, finding, job_with_gpus, tick

FAULTY = 77


def many():
    """128 ranks, one of which a finding names."""
    view, gpus = job_with_gpus("1", {f"n{number:02}": 8 for number in range(16)})
    found = finding(f"job:1/rank:{FAULTY}", finding_class="straggler_rank", last_seen=AT)
    return tick((view,), gpus)._replace(history=Past(gpus), findings=(found,))


async def test_the_cursor_begins_on_the_line_of_the_rank_at_fault(stage):
    async with stage(many(), (100, 24)) as s:
        await s.press("enter", "tab")
        chart = s.app.screen.chart
        assert "a line is the worst of" in s.text
        assert chart.rank == FAULTY
        assert FAULTY in chart.drawing.lines[chart._spot()[0]].members
        await s.press("z")
        assert chart.current.rank.rank == FAULTY


async def test_a_click_on_the_line_of_the_cursor_opens_what_it_shows(stage):
    async with stage(many(), (100, 24)) as s:
        await s.press("enter", "tab")
        chart = s.app.screen.chart
        line, column = chart._spot()
        await s.pilot.click(chart, offset=(column, line - chart.scroll_offset.y))
        await s.press()
        assert s.app.screen.view == "gpu"


async def test_the_cursor_is_looked_for_once_and_not_for_every_line(stage, monkeypatch):
    sought = []
    place = rank_chart._place
    monkeypatch.setattr(rank_chart, "_place", lambda *given: sought.append(given) or place(*given))
    async with stage(many(), (100, 24)) as s:
        await s.press("enter", "tab", "z")
        sought.clear()
        await s.press("G")
        assert 0 < len(sought) <= 3


async def test_a_drawing_of_ranks_is_made_once_when_it_opens(stage, monkeypatch):
    made = []
    draw_up = RanksScreen._drawing
    monkeypatch.setattr(
        RanksScreen, "_drawing", lambda self, size: made.append(self.mode) or draw_up(self, size)
    )
    async with stage(many(), (100, 24)) as s:
        await s.press("enter", "tab")
        assert made == ["strips"]
        assert "128 ranks" in s.lines[0]
        assert s.app.screen.axis.display
        made.clear()
        await s.press("tab")
        assert made == ["map"]
        assert "of ranks" in s.lines[0]
        assert "‼" in s.text or "!" in s.text


async def test_a_drawing_of_ranks_fills_the_room_that_another_size_gives_it(stage):
    async with stage(many(), (100, 24)) as s:
        await s.press("enter", "tab")
        await s.resize(140, 50)
        assert len(s.app.screen.chart.drawing.slots.columns) > 100
        assert "a line is the worst of" in s.text
        await s.resize(30, 6)
        await s.press("tab")
        assert s.app.screen.mode == "map"
        await s.resize(100, 24)
        assert "of ranks" in s.lines[0]
        assert s.app.screen.chart.drawing.shape.height >= 1
