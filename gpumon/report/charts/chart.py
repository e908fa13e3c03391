"""Curves over time in braille dots: fixed scales, gaps as gaps, bounds as dotted lines, marks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.report.text import units
from gpumon.report.text.cells import Cell, Line, Tone, fit

if TYPE_CHECKING:
    from gpumon.report.charts.chart_records import Chart

AXIS_WIDTH: Final = 8
"""Cells left of the plot, for the ends of the scale."""


def chart_lines(chart: Chart, width: int, height: int) -> list[Line]:
    """The chart with its scale at the left and no time axis: `time_axis` draws one for several."""
    across = max(1, width - AXIS_WIDTH - 1)
    # Imported here, because numpy comes with it.
    from gpumon.report.charts.plot import Plot

    plot = Plot(chart, across, max(1, height))
    for series in chart.series:
        plot.band(series)
    for number, series in reversed([*enumerate(chart.series)]):
        plot.curve(series, is_dashed=number > 0)
    marked = {
        _column(chart, mark.at, across): mark.tone
        for mark in chart.marks
        if chart.start <= mark.at <= chart.end
    }
    return [
        (_scale_cell(chart, row, plot.height), Cell("│", Tone.DIM), *cells)
        for row, cells in enumerate(plot.rows(marked))
    ]


def time_axis(chart: Chart, width: int) -> list[Line]:
    """The marks by name, what was observed, and the times of both edges and the middle."""
    across = max(1, width - AXIS_WIDTH - 1)
    lines: list[Line] = []
    if chart.window is not None or chart.marks:
        lines.append((Cell(" " * (AXIS_WIDTH + 1)), *_marks_row(chart, across)))
    middle = (chart.start + chart.end) / 2
    seconds = chart.end - chart.start < 300
    left, mid, right = (
        units.clock_time(at, with_seconds=seconds) for at in (chart.start, middle, chart.end)
    )
    spare = across - len(left) - len(mid) - len(right)
    if spare < 2:
        text = (left + " " * max(1, across - len(left) - len(right)) + right)[:across]
    else:
        before = max(1, (across - len(mid)) // 2 - len(left))
        text = left + " " * before + mid
        text += " " * max(1, across - len(text) - len(right)) + right
    return [*lines, (Cell(" " * AXIS_WIDTH + "└", Tone.DIM), Cell(text, Tone.DIM))]


def _scale_cell(chart: Chart, row: int, height: int) -> Cell:
    """The ends of the scale, at the rows where they are."""
    value = chart.ceiling if row == 0 else chart.floor if row == height - 1 else None
    text = "" if value is None else scale_text(value, chart.unit, chart.ceiling)
    return Cell(fit(text, AXIS_WIDTH, "right"), Tone.DIM)


def scale_text(value: float, unit: str, ceiling: float) -> str:
    """An end of a scale in few characters: `100 %`, `80 GiB`, `20 GB/s`.

    Sizes have the unit that fits the upper end, so that both ends can be compared.
    """
    if unit == "bytes/s":
        return units.rate(value)
    if unit == "ratio":
        return f"{units.percent(value)} %"
    text = units.size(value, ceiling) if unit == "bytes" else units.quantity(value, unit)
    return text if len(text) <= AXIS_WIDTH else text.split(" ")[0]


def _column(chart: Chart, at: float, across: int) -> int:
    share = (at - chart.start) / (chart.end - chart.start) if chart.end > chart.start else 0.0
    return max(0, min(across - 1, int(share * across)))


def _marks_row(chart: Chart, across: int) -> list[Cell]:
    """`▔▔▔` below the window, `▲ onset` below a mark; a label that does not fit is left out."""
    text = [" "] * across
    tones = [Tone.DIM] * across
    if chart.window is not None:
        first, last = (_column(chart, at, across) for at in chart.window)
        for column in range(first, last + 1):
            text[column] = "▔"
            tones[column] = Tone.INFO
    for mark in chart.marks:
        if not chart.start <= mark.at <= chart.end:
            continue
        column = _column(chart, mark.at, across)
        label = f"▲ {mark.label} "
        if column + len(label) > across:
            label = f" {mark.label} ▲"
            column -= len(label) - 1
        if column < 0:
            continue
        for position, char in enumerate(label[: across - column]):
            text[column + position] = char
            tones[column + position] = mark.tone
    cells: list[Cell] = []
    for char, tone in zip(text, tones, strict=True):
        if cells and cells[-1].tone is tone:
            cells[-1] = Cell(cells[-1].text + char, tone)
        else:
            cells.append(Cell(char, tone))
    return cells
