"""Pages of charts draw what is in sight."""

from __future__ import annotations

import pytest

from gpumon.report.text.cells import Cell
from gpumon.tui.screens.pages import curves
from gpumon.tui.widgets.text.blocks import Block, Blocks
from tests.tui.board import board


def counted(made, name, height):
    def make():
        made.append(name)
        return [(Cell(f"{name}{line}"),) for line in range(height)]

    return Block(height, make)


def words(line):
    return "".join(cell.text for cell in line)


def test_a_block_is_made_once_and_only_when_a_line_of_it_is_asked_for():
    made = []
    text = Blocks([counted(made, "a", 2), counted(made, "b", 0), counted(made, "c", 3)])
    assert len(text) == 5
    assert made == []
    assert [words(text[at]) for at in (1, 4, 2, -1)] == ["  a1", "  c2", "  c0", "  c2"]
    assert made == ["a", "c"]
    assert [words(line) for line in text[:3]] == ["  a0", "  a1", "  c0"]
    with pytest.raises(IndexError):
        text[5]


def test_no_block_is_no_line():
    assert len(Blocks([])) == 0


async def test_of_a_rank_s_charts_those_in_sight_are_drawn(monkeypatch):
    drawn = []
    chart_lines = curves.chart_lines

    def counted(chart, *size):
        drawn.append(chart)
        return chart_lines(chart, *size)

    monkeypatch.setattr(curves, "chart_lines", counted)
    async with board("enter", "i", size=(80, 24)) as b:
        panels = b.app.screen._panels(b.app.screen.digest)
        assert 0 < len(drawn) <= 4 < len(panels) // 2
        first = b.seen().lines
        drawn.clear()
        await b.press("G")
        assert 0 < len(drawn) <= 6
        await b.press("g")
        assert b.seen().lines == first
        assert len(drawn) <= 6


async def test_a_search_looks_at_every_chart():
    async with board("enter", "i", "slash", *"memory free", "enter", size=(80, 24)) as b:
        assert "memory free" in "\n".join(b.seen().lines[1:-3])
