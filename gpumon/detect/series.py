"""What history gives to a detector: one field of one entity, or a table of several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from gpumon.fleet.history_reader import Slab

GAP_PERIODS: Final = 3.0
"""Two samples further apart than this many periods leave a gap, and a window ends there."""


class Series(NamedTuple):
    """One field of one entity over time, read-only."""

    times: NDArray[np.float64]
    values: NDArray[np.float32]
    """NaN where missing."""


class Table(NamedTuple):
    """Several fields of several entities over time, without gaps, read-only."""

    times: NDArray[np.float64]
    """Unix times, ascending; no two further apart than `GAP_PERIODS` periods."""
    columns: Mapping[str, NDArray[np.float32]]
    """By field key, one row per time, one column per entity in the order asked for."""

    @property
    def length_s(self) -> float:
        """Seconds from the first to the last sample, 0 without any."""
        return float(self.times[-1] - self.times[0]) if len(self.times) else 0.0

    def since(self, row: int) -> Table:
        """The part from a row on."""
        return Table(self.times[row:], {key: c[row:] for key, c in self.columns.items()})


def table_of(slab: Slab, keys: Sequence[str], now: float) -> Table:
    """The part of a slab after its last gap; empty without a row of the time of the look.

    A row stands until the next one is due: of all but GPUs there is one every ten seconds or more.
    """
    times, periods, values = slab
    low = 0
    if len(times):
        is_gap = np.diff(times) > GAP_PERIODS * np.maximum(periods[1:], periods[:-1])
        low = int(np.flatnonzero(is_gap)[-1]) + 1 if is_gap.any() else 0
        if now - times[-1] >= periods[-1]:
            low = len(times)
    columns = {key: values[low:, position] for position, key in enumerate(keys)}
    return Table(times[low:], columns)


def rows_since(is_true: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Per column the row since which it holds without a break; the row count where it does not.

    Also for one column alone, as `rows_since(flags[:, None])[0]`.
    """
    rows = len(is_true)
    if not rows:
        return np.zeros(is_true.shape[1:], np.intp)
    back = np.argmin(is_true[::-1], axis=0)
    return np.where(is_true.all(axis=0), 0, rows - back)
