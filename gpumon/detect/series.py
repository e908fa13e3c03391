"""What history gives to a detector: one field of one entity, or a table of several."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from gpumon.fleet.history.reader import HistoryReader, Slab

GAP_PERIODS: Final = 3.0
"""Two samples further apart than this many periods leave a gap, and a window ends there."""

LEAST_GAP_S: Final = 30.0
"""Anything shorter is not a gap either, however often samples are taken: of all but GPUs there is a
row every ten seconds at best, and a monitor that paused for a moment has lost no more."""


ANY_KEY: Final = "gpu_util_ratio"


class Series(NamedTuple):
    """One field of one entity over time, read-only."""

    times: NDArray[np.float64]
    values: NDArray[np.float32]
    """NaN where missing."""


class Table(NamedTuple):
    """Several fields of several entities over time, without gaps, read-only."""

    times: NDArray[np.float64]
    """Unix times, ascending; no two further apart than `GAP_PERIODS` periods or `LEAST_GAP_S`."""
    columns: Mapping[str, NDArray[np.float32]]
    """By field key, one row per time, one column per entity in the order asked for."""
    begins: NDArray[np.float64]
    """Unix time of the first sample of each row: of old rows, which hold many, before `times`."""

    @property
    def length_s(self) -> float:
        """Seconds from the first to the last sample, 0 without any."""
        return float(self.times[-1] - self.times[0]) if len(self.times) else 0.0

    def since(self, row: int) -> Table:
        """The part from a row on."""
        columns = {key: c[row:] for key, c in self.columns.items()}
        return Table(self.times[row:], columns, self.begins[row:])


class Past(NamedTuple):
    """Several fields of several entities over time, across gaps, read-only.

    What a gap holds is not known: no row stands for it.
    """

    times: NDArray[np.float64]
    """Unix times, ascending."""
    begins: NDArray[np.float64]
    """Unix time of the first sample of each row."""
    seconds: NDArray[np.float64]
    """Seconds that each row stands for: since the row before, but not over a gap."""
    columns: Mapping[str, NDArray[np.float32]]
    """By field key, one row per time, one column per entity in the order asked for."""
    peaks: Mapping[str, NDArray[np.float32]]
    """Largest value behind each row, of the fields that it was asked for."""
    longest_s: float
    """Distance of two samples from which a gap lies between them."""
    lows: Mapping[str, NDArray[np.float32]] = MappingProxyType({})
    """Smallest value behind each row, of the same fields as `peaks`."""

    def seconds_from(self, row: int) -> NDArray[np.float64]:
        """Seconds of the rows from one on, of the first no more than its own samples span."""
        seconds = self.seconds[row:].copy()
        if len(seconds):
            seconds[0] = self.times[row] - self.begins[row]
        return seconds

    def since_row(self, row: int) -> Past:
        """The part from a row on."""
        columns, peaks, lows = (
            {key: column[row:] for key, column in part.items()}
            for part in (self.columns, self.peaks, self.lows)
        )
        return Past(
            times=self.times[row:], begins=self.begins[row:], seconds=self.seconds_from(row),
            columns=columns, peaks=peaks,
            longest_s=self.longest_s, lows=lows,
        )  # fmt: skip


class Spacing(NamedTuple):
    """What the rows of a past stand for: the same for all entities of a block, read-only."""

    times: NDArray[np.float64]
    """As of `Past`; empty where there is no row of the time of the evaluation."""
    begins: NDArray[np.float64]
    seconds: NDArray[np.float64]
    longest_s: float


class Spacings:
    """Those of one evaluation, each found once: most jobs are asked about the same time."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, float], Spacing] = {}
        self._firsts: dict[tuple[str, float], int] = {}

    def of(self, block: str, start: float, slab: Slab, now: float) -> Spacing:
        """That of a slab with all rows of a block from a Unix time until now."""
        found = self._found.get((block, start))
        if found is None:
            found = self._found[block, start] = spacing_of(slab, now)
        return found

    def first_of(self, block: str, start: float, slab: Slab, now: float) -> int:
        """First row of such a slab that a table shows."""
        found = self._firsts.get((block, start))
        if found is None:
            found = self._firsts[block, start] = _first_shown(slab, now)
        return found


def spacing_of(slab: Slab, now: float) -> Spacing:
    """How the rows of a slab lie in time, looked at from a Unix time."""
    times, periods, _, begins = slab
    if not len(times) or now - times[-1] >= periods[-1]:
        times, begins = times[:0], begins[:0]
    longest_s = max(GAP_PERIODS * float(periods[-1]) if len(times) else 0.0, LEAST_GAP_S)
    own = times - begins
    steps = np.diff(times, prepend=begins[:1])
    # Between the samples of two rows, however many of them a row holds.
    is_gap = steps - own > longest_s
    seconds = np.where(is_gap, own, steps)
    seconds.flags.writeable = False
    return Spacing(times, begins, seconds, longest_s)


def past_of(
    slab: Slab,
    bounds: Sequence[NDArray[np.float32]] | None,
    keys: Sequence[str],
    spacing: Spacing,
) -> Past:
    """All rows of a slab; none where there is no row of the time of the evaluation.

    Args:
        slab: The rows.
        bounds: Smallest and largest values behind the same rows, for the first of the keys.
        keys: Fields in the order of the slab.
        spacing: How its rows lie in time.
    """
    times, begins, seconds, longest_s = spacing
    values = slab.values
    if not len(times):
        values, bounds = values[:0], None
    columns = {key: values[:, position] for position, key in enumerate(keys)}
    if bounds is None:
        spread = columns if not len(times) else {}
        return Past(
            times=times,
            begins=begins,
            seconds=seconds,
            columns=columns,
            peaks=spread,
            longest_s=longest_s,
            lows=spread,
        )
    lows, peaks = (
        {key: bound[:, position] for position, key in enumerate(keys[: bound.shape[1]])}
        for bound in bounds
    )
    return Past(
        times=times,
        begins=begins,
        seconds=seconds,
        columns=columns,
        peaks=peaks,
        longest_s=longest_s,
        lows=lows,
    )


def table_of(slab: Slab, keys: Sequence[str], first: int) -> Table:
    """The rows of a slab from one on, which `Spacings.first_of` tells."""
    times, _, values, begins = slab
    if first:
        times, values, begins = times[first:], values[first:], begins[first:]
    columns = {key: values[:, position] for position, key in enumerate(keys)}
    return Table(times, columns, begins)


def _first_shown(slab: Slab, now: float) -> int:
    """First row after the last gap; behind all without a row of the time of the evaluation.

    A row stands until the next one is due: of all but GPUs there is one every ten seconds or more.
    """
    times, periods, _, _ = slab
    if not len(times):
        return 0
    return len(times) if now - times[-1] >= periods[-1] else row_after_gap(times, periods)


def row_after_gap(times: NDArray[np.float64], periods: NDArray[np.float64]) -> int:
    """First row behind the last gap, 0 where there is none."""
    longest = np.maximum(GAP_PERIODS * np.maximum(periods[1:], periods[:-1]), LEAST_GAP_S)
    gaps = np.flatnonzero(np.diff(times) > longest)
    return int(gaps[-1]) + 1 if len(gaps) else 0


def unbroken_since(history: HistoryReader, start: float, end: float) -> float:
    """End of the last gap between two Unix times, minus infinity where there was none."""
    slab = history.slab((), (ANY_KEY,), start, end)
    row = row_after_gap(slab.times, slab.periods)
    return float(slab.begins[row]) if row else float("-inf")


def bridged(
    times: NDArray[np.float64],
    flags: NDArray[np.bool_],
    is_known: NDArray[np.bool_],
    longest_s: float = LEAST_GAP_S,
) -> NDArray[np.bool_]:
    """Flags per row and column that go on where nothing is known for a moment.

    Between two rows of a column that are known, no further apart than `longest_s`, holds what
    holds in both. Elsewhere, and in the newest row, nothing is said of what is not known.
    """
    if is_known.all():
        return flags
    rows = np.arange(len(times))[:, None]
    before = np.maximum.accumulate(np.where(is_known, rows, -1), axis=0)
    after = np.minimum.accumulate(np.where(is_known, rows, len(times))[::-1], axis=0)[::-1]
    first, last = np.maximum(before, 0), np.minimum(after, len(times) - 1)
    is_short = (before >= 0) & (after < len(times)) & (times[last] - times[first] <= longest_s)
    held = np.take_along_axis(flags, first, axis=0) & np.take_along_axis(flags, last, axis=0)
    found: NDArray[np.bool_] = np.where(is_known, flags, is_short & held)
    return found


def rows_since(is_true: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Per column the row since which it holds without a break; the row count where it does not.

    Also for one column alone, as `rows_since(flags[:, None])[0]`.
    """
    rows = len(is_true)
    if not rows:
        return np.zeros(is_true.shape[1:], np.intp)
    back = np.argmin(is_true[::-1], axis=0)
    return np.where(is_true.all(axis=0), 0, rows - back)
