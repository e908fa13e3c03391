"""Curves are drawn on fixed scales; gaps stay gaps, marks and windows are where they belong."""

from __future__ import annotations

from math import nan

import pytest

from gpumon.report.charts.chart import AXIS_WIDTH, chart_lines, time_axis
from gpumon.report.charts.chart_records import Chart, Mark, Series
from gpumon.report.text.cells import Tone, text_width

START = 1_760_000_000.0
PLOT = AXIS_WIDTH + 1


def chart(values, *, step=1.0, marks=(), window=None, low=(), high=(), end=None):
    times = [START + i * step for i in range(len(values))]
    last = START + len(values) * step if end is None else end
    series = Series(times, values, Tone.INFO, low, high)
    return Chart(START, last, 0.0, 1.0, "ratio", (series,), marks, window)


def drawn(made: Chart, width: int = 50, height: int = 2) -> list[str]:
    return ["".join(cell.text for cell in line) for line in chart_lines(made, width, height)]


def test_a_line_at_the_top_and_one_at_the_bottom():
    full, empty = drawn(chart([1.0] * 82)), drawn(chart([0.0] * 82))
    assert full[0][PLOT:] == "⠉" * 41
    assert full[1][PLOT:] == " " * 41
    assert empty[1][PLOT:] == "⣀" * 41


def test_the_second_curve_has_gaps_that_no_colour_is_needed_for():
    made = chart([1.0] * 82)
    (first,) = made.series
    both = made._replace(series=(first, first._replace(values=[0.0] * 82, tone=Tone.GOOD)))
    upper, lower = drawn(both)
    assert upper[PLOT:] == "⠉" * 41
    assert lower[PLOT:] == ("⣀⣀ " * 14)[:41]


def test_the_scale_is_fixed_and_named_at_its_ends():
    lines = drawn(chart([0.1] * 82), height=4)
    assert lines[0].startswith("   100 %│")
    assert lines[3].startswith("     0 %│")
    assert [line[AXIS_WIDTH] for line in lines] == ["│"] * 4


@pytest.mark.parametrize(
    ("ceiling", "ends"),
    [
        (80 * 2**30, ["  80 GiB│", " 0.0 GiB│"]),
        (2e7, ["  19 MiB│", "   0 MiB│"]),
        (5e8, [" 477 MiB│", "   0 MiB│"]),
        (5e4, ["  49 KiB│", "   0 KiB│"]),
    ],
)
def test_both_ends_of_a_scale_of_sizes_have_one_unit_to_compare_them_by(ceiling, ends):
    made = chart([0.1] * 82)._replace(unit="bytes", ceiling=float(ceiling))
    rows = drawn(made, height=4)
    assert [rows[0][: AXIS_WIDTH + 1], rows[-1][: AXIS_WIDTH + 1]] == ends


@pytest.mark.parametrize("value", [5.0, -3.0])
def test_values_beyond_the_scale_are_drawn_at_its_edge(value):
    rows = drawn(chart([value] * 82))
    assert rows[0 if value > 0 else 1][PLOT:].strip()


@pytest.mark.parametrize("width", [20, 50, 71, 120])
def test_every_line_has_the_width_it_was_given(width):
    made = chart([0.5] * 30, marks=(Mark(START + 3, "onset"),), window=(START + 3, START + 20))
    for line in [*chart_lines(made, width, 3), *time_axis(made, width)]:
        assert sum(text_width(cell.text) for cell in line) <= width
    assert all(len(row) == width for row in drawn(made, width))


def test_missing_values_leave_a_gap():
    rows = drawn(chart([0.0] * 20 + [nan] * 20 + [0.0] * 42))
    assert rows[1][PLOT:] == "⣀" * 10 + " " * 10 + "⣀" * 21


def test_rows_that_are_missing_leave_a_gap():
    times = [START + i for i in (*range(20), *range(60, 82))]
    made = Chart(START, START + 82, 0.0, 1.0, "ratio", (Series(times, [0.0] * len(times)),))
    row = drawn(made)[1][PLOT:]
    assert row[:10] == "⣀" * 10
    assert row[10:30].strip() == ""
    assert row[30:] == "⣀" * 11


def test_each_column_shows_the_mean_of_its_rows_and_bounds_their_least_and_most():
    # Two rows a dot, of which the second is at the top.
    values = [0.0, 1.0] * 40
    made = chart(values, low=[value * 0.5 for value in values], high=values)
    rows = [row[PLOT:] for row in drawn(made, width=PLOT + 20, height=5)]
    assert rows == ["⠁" * 20, " " * 20, "⠒" * 20, " " * 20, "⡀" * 20]


def test_a_stretch_of_no_length_draws_what_is_at_it():
    made = Chart(START, START, 0.0, 1.0, "ratio", (Series([START], [1.0]),))
    assert drawn(made)[0][PLOT:].strip() == "⠁"


def test_coarse_rows_are_joined_beside_fine_ones():
    times = [*(START + 10 * i for i in range(5)), *(START + 41 + i for i in range(41))]
    made = Chart(START, START + 82, 0.0, 1.0, "ratio", (Series(times, [0.0] * len(times)),))
    assert " " not in drawn(made)[1][PLOT:]


def test_a_short_spike_between_two_dots_is_seen_in_the_bounds():
    values = [0.1] * 820
    high = [0.1] * 820
    high[400] = 1.0
    rows = drawn(chart(values, low=values, high=high))
    assert rows[0][PLOT:].strip() == "⠁"
    assert rows[0][PLOT:].index("⠁") == 20


def test_bounds_are_dotted_lines_that_the_curve_does_not_cut():
    made = chart([0.5] * 82, low=[0.0] * 82, high=[1.0] * 82)
    rows = [row[PLOT:] for row in drawn(made, height=4)]
    assert rows == ["⠁" * 41, "⣀" * 41, " " * 41, "⡀" * 41]
    close = drawn(chart([0.5] * 82, low=[0.45] * 82, high=[0.55] * 82), height=4)
    assert close == drawn(chart([0.5] * 82), height=4)


def test_the_onset_and_the_window_are_marked():
    made = chart([0.5] * 82, marks=(Mark(START + 41, "onset"),), window=(START + 60, START + 80))
    assert drawn(made)[1][PLOT + 20] == "┊"
    below = "".join(cell.text for cell in time_axis(made, 50)[0])
    assert below[PLOT + 20 : PLOT + 27] == "▲ onset"
    assert below[PLOT + 30 : PLOT + 41] == "▔" * 11


def test_a_mark_at_the_right_edge_has_its_name_and_one_outside_is_not_drawn():
    made = chart([0.5] * 82, marks=(Mark(START + 81, "onset"), Mark(START - 5, "before")))
    below = "".join(cell.text for cell in time_axis(made, 50)[0])
    assert below.endswith("onset ▲")
    assert "before" not in below


def test_the_axis_names_both_edges():
    made = chart([0.5] * 82, end=START + 3600)
    text = "".join(cell.text for cell in time_axis(made, 60)[-1])
    assert len(text.split()) == 3
    assert len(text) == 60


def test_nothing_at_all_is_drawn_as_nothing():
    assert drawn(chart([nan] * 10))[0][PLOT:].strip() == ""
    assert drawn(Chart(START, START, 0.0, 0.0, "W", (Series((), ()),)))
