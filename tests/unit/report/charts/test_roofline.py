"""The drawing of a roofline: the slope, the peaks, the points, into any room."""

from __future__ import annotations

from itertools import pairwise
from math import nan

import pytest

from gpumon.report.charts.roofline import Place, Roof, roofline_lines
from gpumon.report.text.cells import text_width

PEAK, MEMORY = 400e12, 2e12


def roof(*spread, at=(80.0, 100e12), peaks=(("tensor 400 TFLOPS", PEAK), ("fp32 40", 40e12))):
    return Roof(MEMORY, peaks, "memory 2 TB/s", Place(*at), tuple(Place(*one) for one in spread))


def rows(made, width=90, height=18):
    return ["".join(cell.text for cell in line) for line in roofline_lines(made, width, height)]


def point_of(lines):
    """Line and column of the mean."""
    ((row, column),) = [(n, line.index("●")) for n, line in enumerate(lines) if "●" in line]
    return row, column


@pytest.mark.parametrize("width", [20, 61, 76, 120, 200])
@pytest.mark.parametrize("height", [4, 8, 13, 30])
def test_it_fills_the_room_it_is_given(width, height):
    made = roof((5.0, 3e12), (4000.0, 399e12), (nan, 1e12), (300.0, 0.0))
    lines = rows(made, width, height)
    assert len(lines) == height
    assert {text_width(line) for line in lines} == {width}


def test_a_faster_point_lies_higher_and_a_denser_one_further_right():
    points = [point_of(rows(roof(at=at))) for at in ((20.0, 10e12), (80.0, 40e12), (900.0, 300e12))]
    for (row, column), (next_row, next_column) in pairwise(points):
        assert next_row < row
        assert next_column > column


def test_ceilings_are_named_on_their_own_lines():
    lines = rows(roof())
    labels = [next(n for n, line in enumerate(lines) if text in line) for text in (
        "tensor 400 TFLOPS", "memory 2 TB/s", "fp32 40",
    )]  # fmt: skip
    assert labels[0] == min(labels)
    assert "op/B" in lines[-1]
    assert "100 T│" in "\n".join(lines)


@pytest.mark.parametrize("width", [66, 90, 130, 200])
@pytest.mark.parametrize("height", [9, 14, 26])
def test_every_ceiling_has_its_name_however_flat_the_slope_is(width, height):
    drawn = "\n".join(rows(roof(), width, height))
    assert all(name in drawn for name in ("tensor 400 TFLOPS", "memory 2 TB/s", "fp32 40"))


def test_a_point_on_the_memorys_slope_touches_it():
    at = (50.0, 50.0 * MEMORY)
    row, column = point_of(rows(roof(at=at)))
    bare = rows(roof(at=(nan, nan)))
    assert "●" not in "".join(bare)
    assert bare[row][column] not in " │"


def test_what_is_far_below_is_drawn_at_the_edge():
    row, _ = point_of(rows(roof(at=(0.0001, 1.0)), height=12))
    assert row == 10
