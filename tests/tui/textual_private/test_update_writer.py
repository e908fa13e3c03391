"""What goes to the terminal is less than textual sends, and shows the same."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual import _compositor
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from gpumon.tui.textual_private.update_writer import LeanUpdate, lean
from gpumon.tui.themed_app import DressedApp
from tests.bench.screen import Screen

ON_BLUE = Style(color="#ff0000", bgcolor="#000080")
BOLD_ON_BLUE = Style(color="#ff0000", bgcolor="#000080", bold=True)
GREEN_ON_BLUE = Style(color="#00ff00", bgcolor="#000080")
GREEN = Style(color="#00ff00")
STYLES = (
    None,
    GREEN,
    BOLD_ON_BLUE,
    Style(bold=True, dim=True, reverse=True),
    Style(dim=True, bgcolor="#000080"),
    Style(italic=True, underline=True),
    Style(strike=True, overline=True),
)

LINE = Strip(
    [
        Segment("red ", ON_BLUE),
        Segment("green ", GREEN_ON_BLUE),
        Segment("bold ", BOLD_ON_BLUE),
        Segment("漢字 ", GREEN),
        Segment("bare", None),
    ]
)
WIDTH = LINE.cell_length


def console() -> Console:
    return Console(file=io.StringIO(), color_system="truecolor", force_terminal=True)


def shown(update: CompositorUpdate) -> Screen:
    screen = Screen(40, 4)
    # Not what falls back to textual's own writing, which would hide that ours fails.
    write = update.lean_segments if isinstance(update, LeanUpdate) else update.render_segments
    screen.feed(write(console()).encode())
    return screen


def layout() -> LayoutUpdate:
    return LayoutUpdate([[LINE, Strip([Segment("end", GREEN)])], [LINE]], Region(2, 1, WIDTH, 2))


def chops(*spans: tuple[int, int, int]) -> ChopsUpdate:
    side = Strip([Segment("|", GREEN)])
    line = {0: LINE, WIDTH: side}
    return ChopsUpdate([line] * 4, list(spans), [[WIDTH, WIDTH + 1]] * 4)


def test_a_whole_screen_looks_as_textual_draws_it() -> None:
    assert shown(LeanUpdate(layout())).cells() == shown(layout()).cells()


def test_it_takes_fewer_bytes() -> None:
    own, other = (update.render_segments(console()) for update in (LeanUpdate(layout()), layout()))
    assert len(own) < 0.8 * len(other)


@pytest.mark.parametrize("first", range(0, WIDTH, 3))
def test_a_stretch_looks_as_it_does_as_part_of_its_line(first: int) -> None:
    whole = shown(LeanUpdate(chops((1, 0, WIDTH + 1)))).cells()[1]
    part = shown(LeanUpdate(chops((1, first, first + 3)))).cells()[1]
    last = min(first + 3, WIDTH + 1)
    wide = {x for x, cell in enumerate(whole) if cell.char == "" or whole[x - 1].char == ""}
    single = [x for x in range(first, last) if x not in wide and x + 1 not in wide]
    assert [part[x] for x in single] == [whole[x] for x in single]


def test_nothing_beside_a_stretch_is_sent() -> None:
    text = LeanUpdate(chops((0, 4, 9), (0, WIDTH, WIDTH + 1))).render_segments(console())
    assert "red" not in text
    assert "green" in text
    assert "bold" not in text
    assert "bare" not in text
    assert text.count("|") == 1


def test_what_stays_of_a_style_is_not_said_again() -> None:
    text = LeanUpdate(chops((0, 0, 10))).render_segments(console())
    assert text.count("48;2;0;0;128") == 1
    assert "38;2;0;255;0" in text


def test_every_update_ends_in_the_terminals_own_style() -> None:
    screen = shown(LeanUpdate(chops((0, 0, 10))))
    screen.feed(b"\x1b[4;1Hplain")
    assert screen.cells()[3][0].style == ()


def test_other_things_stay_as_they_are() -> None:
    assert lean("text") == "text"
    assert lean(None) is None
    assert isinstance(lean(layout()), LeanUpdate)


@pytest.mark.parametrize("missing", ["strips", "region"])
def test_an_update_of_another_form_is_written_by_textual(missing: str) -> None:
    class Other(LayoutUpdate):
        def render_segments(self, console: Console) -> str:
            return "by textual"

    update = Other([[LINE]], Region(2, 1, WIDTH, 1))
    assert LeanUpdate(update).render_segments(console()) != "by textual"
    delattr(update, missing)
    assert LeanUpdate(update).render_segments(console()) == "by textual"


def test_spans_of_another_form_are_written_by_textual() -> None:
    class Other(ChopsUpdate):
        def render_segments(self, console: Console) -> str:
            return "by textual"

    update = Other([{0: LINE}], [(0, 0, 4)], [[WIDTH]])
    assert LeanUpdate(update).render_segments(console()) != "by textual"
    update.spans = [(0, 0, 4, 0)]  # type: ignore[list-item]
    assert LeanUpdate(update).render_segments(console()) == "by textual"


@pytest.mark.parametrize("missing", ["ChopsUpdate", "LayoutUpdate", "CompositorUpdate"])
def test_a_textual_without_these_classes_writes_itself(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = layout()
    assert isinstance(DressedApp()._lean(update), LeanUpdate)
    monkeypatch.delattr(_compositor, missing)
    monkeypatch.delitem(sys.modules, "gpumon.tui.textual_private.update_writer")
    assert DressedApp()._lean(update) is update


@pytest.mark.parametrize("before", STYLES)
@pytest.mark.parametrize("after", STYLES)
def test_any_style_may_follow_any_other(before: Style | None, after: Style | None) -> None:
    line = Strip([Segment("a", before), Segment("b", after)])
    update = LayoutUpdate([[line]], Region(0, 0, 2, 1))
    assert shown(LeanUpdate(update)).cells() == shown(update).cells()
