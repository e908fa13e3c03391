"""Which cells of a line go to the terminal: those that changed, in every widget of text."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from textual.strip import Strip

from gpumon.report.tables.sections import Entry, Section
from gpumon.report.text.cells import Cell, Tone, safe
from gpumon.tui.textual_private.cropping import is_of_narrow
from gpumon.tui.themed_app import DressedApp
from gpumon.tui.widgets.table.split import Pane
from gpumon.tui.widgets.text.lines import Lines
from gpumon.tui.widgets.text.sections import Sections
from gpumon.tui.widgets.text.strips import PLAIN, changed_cells, line_strip


def line(*parts):
    return tuple(Cell(*part) if isinstance(part, tuple) else Cell(part) for part in parts)


@pytest.mark.parametrize(
    ("before", "now", "stretch"),
    [
        (line("power 408 W"), line("power 408 W"), (0, 0)),
        (line("power 408 W"), line("power 411 W"), (7, 9)),
        (line("ab", "cd"), line("abc", "d"), (0, 0)),
        (line("⣉⣉⣉", "  "), line("⣉⣉⣉", "⡇ "), (3, 4)),
        (line("abc", ("def", Tone.BAD)), line("abc", ("def", Tone.GOOD)), (3, 6)),
        (line("short"), line("short and more"), (5, 14)),
        (line("longer than"), line("longer"), (6, 11)),
        (line("a語b"), line("a語c"), (3, 4)),
        (line("語b"), line("xyb"), (0, 3)),
        ((), line("new"), (0, 3)),
    ],
)
def test_the_stretch_of_a_line_that_changed(before, now, stretch):
    first, end = changed_cells(before, now)
    assert ((first, end) if end > first else (0, 0)) == stretch


LINES = st.lists(
    st.builds(Cell, st.text("ab1 語⣉", max_size=3), st.sampled_from([Tone.PLAIN, Tone.BAD])),
    max_size=5,
).map(tuple)


@given(LINES, LINES)
def test_the_stretch_is_the_same_however_a_line_is_cut_into_pieces(before, now):
    def pieces(text):
        return tuple(Cell(sign, cell.tone) for cell in text for sign in cell.text)

    found = [changed_cells(*pair) for pair in ((before, now), (pieces(before), pieces(now)))]
    assert len({(first, end) if end > first else (0, 0) for first, end in found}) == 1


@given(LINES, LINES)
def test_what_is_outside_of_the_stretch_is_as_it_was(before, now):
    def drawn(text):
        signs = [(sign, cell.tone) for cell in text for sign in cell.text]
        return [one for one in signs for _ in range(2 if one[0] == "語" else 1)]

    old, new = drawn(before), drawn(now)
    first, end = changed_cells(before, now)
    assert old[:first] == new[:first]
    assert old[max(first, end) :] == new[max(first, end) :]


@given(LINES, st.integers(0, 12))
def test_a_line_is_drawn_as_its_pieces_one_by_one(text, width):
    look = DressedApp().look
    pieces = [Segment(cell.text, look.over_ground(cell.tone)) for cell in text]
    apart = Strip(pieces).adjust_cell_length(width, look.base)
    drawn = line_strip(text, width, look)
    assert drawn.cell_length == sum(segment.cell_length for segment in drawn)

    def signs(strip):
        return [(sign, segment.style) for segment in strip for sign in segment.text]

    assert signs(drawn) == signs(apart)


def test_a_line_of_single_cells_is_measured_by_nobody_and_made_once(monkeypatch):
    look, made = DressedApp().look, []
    init = Strip.__init__
    monkeypatch.setattr(Strip, "__init__", lambda *given: made.append(1) or init(*given))
    monkeypatch.setattr(Segment, "cell_length", property(lambda _segment: made.append(1)))
    drawn = line_strip(line("power ", ("408", Tone.BAD), " W ⣉"), 20, look)
    assert (drawn.cell_length, made) == (20, [1])


def test_pieces_of_one_tone_are_one_segment():
    look = DressedApp().look
    drawn = line_strip(line("a ", "°C", (" 4", Tone.BAD), ("5", Tone.BAD), "…"), 8, look)
    assert [segment.text for segment in drawn] == ["a °C", " 45", "…"]


def test_what_counts_as_plain_is_safe_and_takes_a_cell_each():
    plain = [sign for sign in map(chr, range(0x10000)) if PLAIN.fullmatch(sign)]
    assert len(plain) > 600
    assert all(safe(sign) == sign and is_of_narrow(sign) for sign in plain)
    # Nor does any of them make one sign with its neighbour.
    assert unicodedata.normalize("NFC", "".join(plain)) == "".join(plain)
    assert not any(unicodedata.combining(sign) for sign in plain)


class Held(DressedApp):
    """One widget."""

    def __init__(self, widget):
        super().__init__()
        self.widget = widget

    def compose(self):
        yield self.widget


async def drawn_again(monkeypatch, widget, show):
    """What a widget draws again of a line whose number changed."""
    drawn = []
    async with Held(widget).run_test(size=(40, 6)) as pilot:
        widget.display = True
        show(line("power ", ("408", Tone.BAD), " W of 700 W"))
        await pilot.pause()
        monkeypatch.setattr(widget, "_set_dirty", lambda *regions: drawn.extend(regions))
        show(line("power ", ("411", Tone.BAD), " W of 700 W"))
    return [(one.x, one.width, one.height) for one in drawn]


async def test_of_lines_that_stand_what_changed_is_drawn(monkeypatch):
    widget = Lines()
    found = await drawn_again(monkeypatch, widget, lambda text: widget.show_lines([text]))
    assert found == [(7, 2, 1)]


@pytest.mark.parametrize(("is_below", "edge"), [(True, 1), (False, 2)])
async def test_of_the_pane_what_changed_is_drawn(monkeypatch, is_below, edge):
    widget = Pane()
    widget.is_below = is_below
    found = await drawn_again(monkeypatch, widget, lambda text: widget.show_lines([text]))
    assert found == [(edge + 7, 2, 1)]


async def test_of_sections_what_changed_is_drawn(monkeypatch):
    widget = Sections()
    found = await drawn_again(
        monkeypatch, widget, lambda text: widget.show([Section("Use", (Entry("a", text),))])
    )
    assert found == [(7, 2, 1)]
