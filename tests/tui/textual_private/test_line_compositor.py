"""Only changed lines are asked for, and the screen is as textual draws it."""

from __future__ import annotations

import io
import random
import sys

import pytest
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual import _compositor
from textual._compositor import ChopsUpdate, Compositor
from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from gpumon.tui.screens.lists.jobs import JobsView
from gpumon.tui.textual_private.line_compositor import ThriftyCompositor, _parted, _runs, thrifty
from gpumon.tui.textual_private.update_writer import LeanUpdate
from tests.bench.screen import Screen as Shown
from tests.worlds.tick import fleet

SIZE = (40, 16)


class Letters(Widget):
    """Lines that say whose they are; it counts which are asked for."""

    sign = "漢"

    def __init__(self, letter: str, **given: str) -> None:
        super().__init__(**given)
        self.letter = letter
        self.asked: list[int] = []

    def render_line(self, y: int) -> Strip:
        self.asked.append(y)
        style = Style(color="red" if y % 2 else "green")
        text = f"{self.letter}{y:02}{self.sign}" * 20
        return Strip([Segment(text, style)]).adjust_cell_length(self.size.width, style)


class Overlapping(Screen[None]):
    """Widgets beside, over and in one another, one of them scrolled."""

    def __init__(self) -> None:
        super().__init__()
        self._compositor = thrifty(self._compositor)

    def compose(self) -> ComposeResult:
        yield Letters("s", id="side")
        yield Letters("h", id="head")
        with VerticalScroll():
            yield Letters("l", id="long")
        yield Letters("o", id="over")


class Overlaps(App[None]):
    CSS = """
    Overlapping { layers: below above; }
    #over { layer: above; offset: 7 3; width: 13; height: 5; }
    #side { dock: right; width: 9; }
    #head { height: 3; }
    VerticalScroll { height: 8; }
    #long { height: 30; border: round blue; }
    """

    def get_default_screen(self) -> Screen[None]:
        return Overlapping()


def cells(update: ChopsUpdate | None):
    assert update is not None
    shown = Shown(*SIZE)
    console = Console(file=io.StringIO(), color_system="truecolor", force_terminal=True)
    shown.feed(LeanUpdate(update).lean_segments(console).encode())
    return shown.cells()


def dirty(source: random.Random) -> set[Region]:
    regions = set()
    for _ in range(source.randint(1, 5)):
        x, y = source.randrange(SIZE[0]), source.randrange(SIZE[1])
        width, height = source.randint(1, SIZE[0] - x), source.randint(1, SIZE[1] - y)
        regions.add(Region(x, y, width, min(height, 3)))
    return regions


@pytest.mark.parametrize("scrolled", [0, 5])
async def test_what_changed_looks_as_textual_draws_it(scrolled: int) -> None:
    async with Overlaps().run_test(size=SIZE) as pilot:
        screen = pilot.app.screen
        screen.query_one(VerticalScroll).scroll_to(y=scrolled, animate=False)
        await pilot.pause()
        own = screen._compositor
        assert isinstance(own, ThriftyCompositor)
        for seed in range(60):
            regions = dirty(random.Random(seed))
            own._dirty_regions = set(regions)
            ours = own.changed_lines()
            own._dirty_regions = set(regions)
            theirs = Compositor.render_partial_update(own)
            assert cells(ours) == cells(theirs), regions


async def test_an_update_that_is_cut_late_is_the_same_where_textual_itself_writes_it() -> None:
    console = Console(file=io.StringIO(), color_system="truecolor", force_terminal=True)
    async with Overlaps().run_test(size=SIZE) as pilot:
        own = pilot.app.screen._compositor
        for seed in range(20):
            own._dirty_regions = dirty(random.Random(seed))
            update = own.changed_lines()
            shown = Shown(*SIZE)
            shown.feed(update.render_segments(console).encode())
            assert shown.cells() == cells(update)


async def test_what_is_written_leanly_is_cut_into_no_strips(monkeypatch) -> None:
    async with Overlaps().run_test(size=SIZE) as pilot:
        own = pilot.app.screen._compositor
        # A text with signs of two cells is cut by textual's own strip.
        monkeypatch.setattr(Letters, "sign", "·")
        pilot.app.screen.query_one("#head", Letters)._styles_cache.clear()
        own._dirty_regions = {Region(0, 1, 3, 1)}
        made = []
        init = Strip.__init__
        update = own.changed_lines()
        monkeypatch.setattr(Strip, "__init__", lambda *given: made.append(1) or init(*given))
        console = Console(file=io.StringIO(), color_system="truecolor", force_terminal=True)
        assert "h01" in LeanUpdate(update).lean_segments(console)
        assert made == []


async def test_lines_that_did_not_change_are_not_asked_for() -> None:
    async with Overlaps().run_test(size=SIZE) as pilot:
        screen = pilot.app.screen
        long, head = screen.query_one("#long", Letters), screen.query_one("#head", Letters)
        for widget in (long, head):
            widget._styles_cache.clear()
            widget.asked.clear()
        screen._compositor._dirty_regions = {Region(0, 1, 5, 1), Region(0, 10, 5, 1)}
        assert screen._compositor.render_partial_update() is not None
        assert head.asked == [1]
        # Below three lines of the head and its own border.
        assert long.asked == [6]
        assert screen._compositor.render_partial_update() is None


async def test_where_it_fails_textual_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Overlaps().run_test(size=SIZE) as pilot:
        compositor = pilot.app.screen._compositor
        regions = {Region(0, 1, 5, 1), Region(0, 10, 5, 1)}
        compositor._dirty_regions = set(regions)
        theirs = Compositor.render_partial_update(compositor)
        monkeypatch.setattr(compositor, "_regions_to_spans", None, raising=False)
        compositor._dirty_regions = set(regions)
        with pytest.raises(TypeError):
            compositor.changed_lines()
        monkeypatch.delattr(compositor, "_regions_to_spans")
        monkeypatch.setattr(compositor, "changed_lines", lambda: 1 + "")
        assert cells(compositor.render_partial_update()) == cells(theirs)


async def test_every_view_of_gpumon_is_drawn_so(stage) -> None:
    async with stage(fleet()) as s:
        for key in ("question_mark", "escape", "enter"):
            assert type(s.app.screen._compositor) is ThriftyCompositor
            await s.press(key)
        assert type(s.app.screen._compositor) is ThriftyCompositor


def test_a_textual_without_this_compositor_draws_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(_compositor, "ChopsUpdate")
    monkeypatch.delitem(sys.modules, "gpumon.tui.textual_private.line_compositor")
    assert type(JobsView()._compositor) is Compositor


def test_stretches_are_parted_at_both_ends() -> None:
    assert _parted([(0, 10), (12, 20)], 4, 15) == ([(4, 10), (12, 15)], [(0, 4), (15, 20)])
    assert _parted([(0, 10)], 2, 5) == ([(2, 5)], [(0, 2), (5, 10)])
    assert _parted([(0, 10)], 10, 12) == ([], [(0, 10)])


def test_lines_make_runs() -> None:
    assert list(_runs([3, 1, 2, 7])) == [[1, 2, 3], [7]]
    assert list(_runs([])) == []
