"""The dots of a chart: means joined to a line, bounds as dots, as braille characters.

Imports numpy: who draws no chart need not wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from gpumon.report.text.ascii_only import BRAILLE
from gpumon.report.text.cells import Cell, Tone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from gpumon.report.charts.chart_records import Chart, Series

    Levels = NDArray[np.float64]
    """Dot rows from the bottom by dot column, NaN where nothing is known for long."""

DOTS_ACROSS: Final = 2
"""Columns of dots of one braille character."""
DOTS_DOWN: Final = 4
"""Rows of dots of one braille character."""

GAP_PERIODS: Final = 3.5
"""Rows further apart than so many of their usual distances are a gap, as they are stale then."""

_BITS: Final = np.array(((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80)), np.int32)
"""Unicode's numbering of the dots, by row from the top and column."""


_TONES: Final = tuple(Tone)
_DIM: Final = _TONES.index(Tone.DIM)


class Plot:
    """Dots on their way to become characters."""

    def __init__(self, chart: Chart, across: int, height: int) -> None:
        self.height = height
        self._chart = chart
        self._across = across
        self._dots = np.zeros((height * DOTS_DOWN, across * DOTS_ACROSS), np.bool_)
        """By row from the bottom and column."""
        self._tones = np.full((height, across), _DIM, np.int8)
        """Of characters, by row from the bottom and column."""

    def curve(self, series: Series, *, is_dashed: bool = False) -> None:
        """The means of each dot column, joined where both neighbours are known.

        One that is dashed leaves every third character out: it differs without colours, too.
        """
        levels = self._levels(series, "mean")
        before = np.concatenate(([np.nan], levels[:-1]))
        lowest, highest = np.fmin(levels, before), np.fmax(levels, before)
        rows = np.arange(len(self._dots))[:, None]
        # Nothing is at most NaN: what is not known sets no dot.
        known = ~np.isnan(levels)
        if is_dashed:
            known &= np.arange(len(levels)) // DOTS_ACROSS % 3 < 2
        self._set((rows >= lowest) & (rows <= highest) & known, series.tone)

    def band(self, series: Series) -> None:
        """A dotted line along each bound, where they lie further apart than the line is thick.

        No shade between them: the line would cut it in two.
        """
        if not len(series.low):
            return
        low = np.fmin.reduce(_by_character(self._levels(series, "least")), axis=1)
        high = np.fmax.reduce(_by_character(self._levels(series, "most")), axis=1)
        columns = np.flatnonzero(high - low >= DOTS_DOWN)
        dots = np.zeros_like(self._dots)
        for bound in (low, high):
            dots[bound[columns].astype(np.intp), columns * DOTS_ACROSS] = True
        self._set(dots, Tone.PAST)

    def rows(self, marked: Mapping[int, Tone]) -> list[list[Cell]]:
        """Lines of characters from the top, neighbours of one tone together.

        Args:
            marked: Tones of vertical lines by their character's column.
        """
        codes = dots_of(self._dots)
        chars = np.where(codes > 0, codes + BRAILLE, ord(" "))
        tones = np.where(codes > 0, self._tones, _DIM)
        for column, tone in marked.items():
            is_free = codes[:, column] == 0
            chars[is_free, column] = ord("┊")
            tones[is_free, column] = _TONES.index(tone)
        return [toned_cells(chars[row], tones[row]) for row in reversed(range(self.height))]

    def _set(self, dots: NDArray[np.bool_], tone: Tone) -> None:
        self._dots |= dots
        shape = (self.height, DOTS_DOWN, self._across, DOTS_ACROSS)
        self._tones[dots.reshape(shape).any(axis=(1, 3))] = _TONES.index(tone)

    def _levels(self, series: Series, of: Literal["mean", "least", "most"]) -> Levels:
        chart, across = self._chart, self._across * DOTS_ACROSS
        chosen = {"mean": series.values, "least": series.low, "most": series.high}[of]
        times, values = np.asarray(series.times, np.float64), np.asarray(chosen, np.float64)
        is_inside = (times >= chart.start) & (times <= chart.end)
        times, values = times[is_inside], values[is_inside]
        width_s = (chart.end - chart.start) / across
        columns = np.zeros(len(times), np.intp)
        if width_s > 0:
            columns = np.minimum(across - 1, ((times - chart.start) / width_s).astype(np.intp))
        found = _gathered(columns, values, across, of)
        top = self.height * DOTS_DOWN - 1
        shares = (found - chart.floor) / ((chart.ceiling - chart.floor) or 1.0)
        levels: Levels = np.clip(np.rint(shares * top), 0, top)
        return _bridged(levels, times, values, columns) if width_s > 0 else levels


def _gathered(
    columns: NDArray[np.intp], values: NDArray[np.float64], across: int, of: str
) -> NDArray[np.float64]:
    """One value for those of each column, which ascend; NaN where there is none."""
    found = np.full(across, np.nan)
    is_known = ~np.isnan(values)
    columns, values = columns[is_known], values[is_known]
    if not len(columns):
        return found
    if of == "mean":
        counts = np.bincount(columns, minlength=across)
        sums = np.bincount(columns, values, minlength=across)
        np.divide(sums, counts, out=found, where=counts > 0)
        return found
    firsts = np.flatnonzero(np.concatenate(([True], columns[1:] != columns[:-1])))
    reduced = np.minimum if of == "least" else np.maximum
    found[columns[firsts]] = reduced.reduceat(values, firsts)
    return found


def _bridged(
    levels: Levels,
    times: NDArray[np.float64],
    values: NDArray[np.float64],
    columns: NDArray[np.intp],
) -> Levels:
    """Carry a value on to the next one where rows are sparser than dots, but not over a gap.

    A gap is a missing value, or more than `GAP_PERIODS` times what rows around it are apart:
    older rows are coarser.
    """
    apart_s = np.diff(times)
    around_s = np.full(len(apart_s), -np.inf)
    around_s[1:] = apart_s[:-1]
    around_s[:-1] = np.maximum(around_s[:-1], apart_s[1:])
    # Two rows alone have nothing around them to be compared with.
    around_s = np.where(np.isinf(around_s), apart_s, around_s)
    is_known = ~np.isnan(values)
    is_joined = is_known[:-1] & is_known[1:] & (apart_s <= GAP_PERIODS * around_s)
    firsts, lasts = columns[:-1][is_joined], columns[1:][is_joined]
    is_apart = lasts > firsts + 1
    change = np.zeros(len(levels) + 1, np.intp)
    change[firsts[is_apart] + 1] += 1
    change[lasts[is_apart]] -= 1
    is_between = np.cumsum(change[:-1]) > 0
    places = np.arange(len(levels))
    carried: Levels = levels[np.maximum.accumulate(np.where(is_between, 0, places))]
    return carried


def _by_character(levels: Levels) -> NDArray[np.float64]:
    return levels.reshape(-1, DOTS_ACROSS)


def dots_of(dots: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The dots of each character as Unicode numbers them, by row from the bottom and column.

    Args:
        dots: By row from the bottom and column, whole characters of them.
    """
    rows, columns = dots.shape
    cut = dots.reshape(rows // DOTS_DOWN, DOTS_DOWN, columns // DOTS_ACROSS, DOTS_ACROSS)[:, ::-1]
    codes: NDArray[np.int64] = (cut * _BITS[None, :, None, :]).sum(axis=(1, 3), dtype=np.int64)
    return codes


def toned_cells(chars: NDArray[np.int64], tones: NDArray[np.int8]) -> list[Cell]:
    """One line of characters, neighbours of one tone together; tones by their place in `Tone`."""
    text = "".join(map(chr, chars.tolist()))
    ends = [*(np.flatnonzero(tones[1:] != tones[:-1]) + 1).tolist(), len(text)]
    starts = [0, *ends[:-1]]
    return [
        Cell(text[start:end], _TONES[tones[start]]) for start, end in zip(starts, ends, strict=True)
    ]
