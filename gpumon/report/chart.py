"""Curves over time in braille dots: fixed scales, gaps as gaps, bounds as dotted lines, marks."""

from __future__ import annotations

from itertools import pairwise
from math import isnan
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.report import units
from gpumon.report.columns import Cell, Line, Tone, fit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    _Sum = Callable[[Sequence[float]], float]

DOTS_ACROSS: Final = 2
DOTS_DOWN: Final = 4
"""Dots of one braille character."""

AXIS_WIDTH: Final = 8
"""Cells left of the plot, for the ends of the scale."""

GAP_PERIODS: Final = 3.5
"""Rows further apart than so many of their usual distances are a gap, as they are stale then."""

_BITS: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Unicode's numbering of the dots, by row and column."""

_BRAILLE: Final = 0x2800


class Series(NamedTuple):
    """One curve."""

    times: Sequence[float]
    """Unix times, ascending."""
    values: Sequence[float]
    """NaN where nothing is known."""
    tone: Tone = Tone.INFO
    low: Sequence[float] = ()
    """Smallest values behind each mean; empty: there is nothing behind it."""
    high: Sequence[float] = ()


class Mark(NamedTuple):
    """An instant that matters."""

    at: float
    """Unix time."""
    label: str
    tone: Tone = Tone.WARN


class Chart(NamedTuple):
    """Curves over one stretch of time and one scale."""

    start: float
    """Unix time of the left edge."""
    end: float
    """Unix time of the right edge."""
    floor: float
    ceiling: float
    unit: str
    """Unit of the catalogue, for the ends of the scale."""
    series: tuple[Series, ...]
    """The first is drawn over the others."""
    marks: tuple[Mark, ...] = ()
    window: tuple[float, float] | None = None
    """Unix times between which something was observed; drawn below the axis."""


def chart_lines(chart: Chart, width: int, height: int) -> list[Line]:
    """The chart with its scale at the left and no time axis: `time_axis` draws one for several."""
    across = max(1, width - AXIS_WIDTH - 1)
    plot = _Plot(chart, across, max(1, height))
    for series in chart.series:
        plot.band(series)
    for series in reversed(chart.series):
        plot.curve(series)
    plot.marks()
    return [
        (_scale_cell(chart, row, plot.height), Cell("│", Tone.DIM), *plot.row(row))
        for row in range(plot.height)
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
    """An end of a scale, as short as it is clear: `100 %`, `80 GiB`, `20G/s`.

    Sizes have the unit that fits the upper end, so that both ends can be compared.
    """
    if unit == "bytes/s":
        return f"{units.short_rate(value)}/s"
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


class _Plot:
    """Dots on their way to become characters."""

    def __init__(self, chart: Chart, across: int, height: int) -> None:
        self.chart = chart
        self.across = across
        self.height = height
        self._dots = [[0] * across for _ in range(height)]
        self._tones = [[Tone.DIM] * across for _ in range(height)]
        self._marked: dict[int, Tone] = {}

    def curve(self, series: Series) -> None:
        """The means of each dot column, joined where both neighbours are known."""
        before: int | None = None
        for x, level in enumerate(self._levels(series.times, series.values, _mean)):
            if level is None:
                before = None
                continue
            lowest, highest = sorted((level, level if before is None else before))
            for y in range(lowest, highest + 1):
                self._set(x, y, series.tone)
            before = level

    def band(self, series: Series) -> None:
        """A dotted line along each bound, where they lie further apart than the line is thick.

        No shade between them: the line would cut it into what looks like two areas.
        """
        if not series.low:
            return
        lows = self._levels(series.times, series.low, min)
        highs = self._levels(series.times, series.high, max)
        for column in range(self.across):
            dots = range(column * DOTS_ACROSS, (column + 1) * DOTS_ACROSS)
            low = min((y for x in dots if (y := lows[x]) is not None), default=None)
            high = max((y for x in dots if (y := highs[x]) is not None), default=None)
            if low is not None and high is not None and high - low >= DOTS_DOWN:
                self._set(dots[0], low, Tone.PAST)
                self._set(dots[0], high, Tone.PAST)

    def marks(self) -> None:
        """A vertical line at each mark."""
        for mark in self.chart.marks:
            if self.chart.start <= mark.at <= self.chart.end:
                self._marked[_column(self.chart, mark.at, self.across)] = mark.tone

    def row(self, row: int) -> list[Cell]:
        """One line of characters, neighbours of one tone together."""
        cells: list[Cell] = []
        for column in range(self.across):
            dots, tone = self._dots[row][column], self._tones[row][column]
            if dots:
                char = chr(_BRAILLE + dots)
            elif column in self._marked:
                char, tone = "┊", self._marked[column]
            else:
                char, tone = " ", Tone.DIM
            if cells and cells[-1].tone is tone:
                cells[-1] = Cell(cells[-1].text + char, tone)
            else:
                cells.append(Cell(char, tone))
        return cells

    def _levels(
        self, times: Sequence[float], values: Sequence[float], of: _Sum
    ) -> list[int | None]:
        """Dot rows from the bottom by dot column; None where nothing is known for long."""
        chart, across = self.chart, self.across * DOTS_ACROSS
        gathered: list[list[float]] = [[] for _ in range(across)]
        width_s = (chart.end - chart.start) / across
        known: list[tuple[float, float]] = []
        for at, value in zip(times, values, strict=True):
            if chart.start <= at <= chart.end:
                known.append((at, value))
                if not isnan(value):
                    x = min(across - 1, int((at - chart.start) / width_s)) if width_s else 0
                    gathered[x].append(value)
        levels = [self._level(of(found)) if found else None for found in gathered]
        _bridge(levels, known, chart.start, width_s)
        return levels

    def _level(self, value: float) -> int:
        chart = self.chart
        top = self.height * DOTS_DOWN - 1
        share = (value - chart.floor) / ((chart.ceiling - chart.floor) or 1.0)
        return max(0, min(top, round(share * top)))

    def _set(self, x: int, y: int, tone: Tone) -> None:
        column, row = x // DOTS_ACROSS, self.height - 1 - y // DOTS_DOWN
        self._dots[row][column] |= _BITS[DOTS_DOWN - 1 - y % DOTS_DOWN][x % DOTS_ACROSS]
        self._tones[row][column] = tone


def _bridge(
    levels: list[int | None], known: Sequence[tuple[float, float]], start: float, width_s: float
) -> None:
    """Carry a value on to the next one where rows are sparser than dots, but not over a gap.

    A gap is a missing value, or more than `GAP_PERIODS` times what rows around it are apart:
    older rows are coarser.
    """
    if width_s <= 0:
        return
    for number, ((at, value), (later, following)) in enumerate(pairwise(known)):
        around = [b[0] - a[0] for a, b in pairwise(known[max(0, number - 1) : number + 1])]
        around += [b[0] - a[0] for a, b in pairwise(known[number + 1 : number + 3])]
        is_gap = later - at > GAP_PERIODS * max(around, default=later - at)
        if isnan(value) or isnan(following) or is_gap:
            continue
        first, last = (min(len(levels) - 1, int((t - start) / width_s)) for t in (at, later))
        for x in range(first + 1, last):
            levels[x] = levels[first]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
