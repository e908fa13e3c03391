"""Rows on the screen: cells are made once a tick, lines drawn again only for what they show."""

from __future__ import annotations

import pytest
from rich.style import Style

from gpumon.report.facts.columns import Column, place
from gpumon.report.facts.tick_index import Digest
from gpumon.report.text.cells import Cell, Tone
from gpumon.tui.look.map_theme import MAP_DARK
from gpumon.tui.look.theme import ThemeStyles
from gpumon.tui.widgets.table.row_strips import RowStrips
from tests.tui.widgets.table.test_grid import GridApp
from tests.worlds.tick import tick

MARK = Style(reverse=True)
WIDTH = 20


class Table:
    """One column over numbers, its strips, and what was asked of it."""

    def __init__(self) -> None:
        self.made: list[int] = []

        def cell(_digest, row):
            self.made.append(row)
            return Cell(f"row {row}", Tone.STRONG)

        self.places = place((Column("n", "N", 8, "left", 0, cell, None, ""),), WIDTH)
        self.strips: RowStrips[int] = RowStrips()
        self.look = GridApp().look
        self.digest = Digest(tick())

    def cells(self, number=0, row=7):
        return self.strips.cells(number, self.places, self.digest, row)

    def line(self, number=0, width=WIDTH, look=None, mark=None):
        return self.strips.line(number, self.places, width, look or self.look, mark)


@pytest.fixture
def table():
    return Table()


def test_the_cells_of_a_row_are_made_once(table):
    assert table.cells() is table.cells()
    assert table.made == [7]
    assert table.cells(1, 8) == (Cell("row 8", Tone.STRONG),)


def test_a_line_is_drawn_once_and_says_what_its_cells_say(table):
    table.cells()
    line = table.line()
    assert line.text.strip() == "row 7"
    assert line.cell_length == WIDTH
    assert table.line() is line


@pytest.mark.parametrize("change", ["width", "look", "mark", "cells"])
def test_a_line_is_drawn_again_where_it_is_another(table, change):
    table.cells()
    line = table.line()
    given = {}
    if change == "width":
        given["width"] = WIDTH + 5
    elif change == "look":
        given["look"] = ThemeStyles({**MAP_DARK, **GridApp().get_css_variables()}, has_colour=False)
    elif change == "mark":
        given["mark"] = MARK
    else:
        table.strips.renew()
        table.cells(row=9)
    now = table.line(**given)
    assert now is not line
    assert table.line(**given) is now
    if change == "mark":
        assert all(segment.style.reverse for segment in now)
    if change == "cells":
        assert now.text.strip() == "row 9"


def test_of_another_tick_the_same_cells_are_kept_with_their_line(table):
    old = table.cells()
    line = table.line()
    assert table.strips.renew() == {0: old}
    assert table.cells() is not old
    assert table.made == [7, 7]
    table.strips.reuse(0, old)
    assert table.line() is line


def test_what_was_cleared_is_made_and_drawn_again(table):
    table.cells()
    line = table.line()
    table.strips.clear()
    table.cells()
    assert table.made == [7, 7]
    assert table.line() is not line
