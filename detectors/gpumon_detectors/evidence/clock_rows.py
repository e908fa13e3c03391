"""Clocks of a job's GPUs over time: who is loaded, who is held down, who is slower than peers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon_detectors.evidence.episodes import row_seconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpumon.detect.view import JobLook

HELD_BITS: Final = 0x008 | 0x020 | 0x040 | 0x080
"""Hardware slowdown, software and hardware thermal slowdown, hardware power brake (nvml.h)."""

_IDLE_BIT: Final = 0x001
_LOADED: Final = 0.5
"""Utilisation from which a GPU's clock should be up: KempnerPulse's bound of busy classes."""

_LOST_TIMES: Final = ("sw_thermal_us", "hw_thermal_us", "power_brake_us")
_LEAST_LOST: Final = 0.01
"""Share of the time lost by the driver's own counters that is more than a flicker."""

_MIN_PEERS: Final = 3
"""Loaded GPUs of which a median tells the odd one out."""

_LESS_USED: Final = 0.1
_MORE_POWER: Final = 1.05


class ClockRows(NamedTuple):
    """One row per sample, one column per GPU of the job."""

    times: NDArray[np.float64]
    clock: NDArray[np.float32]
    mask: NDArray[np.float32]
    util: NDArray[np.float32]
    power: NDArray[np.float32]
    lost_share: NDArray[np.float64]
    """Share of the time since the row before that the driver counted as lost; 0 where unknown."""

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """Where clock and reasons are told."""
        return np.isfinite(self.clock) & np.isfinite(self.mask)

    @property
    def is_loaded(self) -> NDArray[np.bool_]:
        """Where the GPU computes; by the driver's idle bit where utilisation is not offered."""
        bits = np.nan_to_num(self.mask).astype(np.int64)
        is_awake = (bits & _IDLE_BIT) == 0
        return np.where(np.isfinite(self.util), self.util >= _LOADED, is_awake) & self.is_known

    @property
    def is_held(self) -> NDArray[np.bool_]:
        """Where the driver says that heat, power or the board holds the clock down."""
        bits = np.nan_to_num(self.mask).astype(np.int64)
        is_held: NDArray[np.bool_] = ((bits & HELD_BITS) != 0) | (self.lost_share > _LEAST_LOST)
        return is_held & self.is_loaded

    def is_slow(self, ratio: float) -> NDArray[np.bool_]:
        """Where a clock is below its peers' at the same load and no more power."""
        loaded = self.is_loaded
        is_enough = loaded.sum(axis=1, keepdims=True) >= _MIN_PEERS
        clock, util, power = (_medians(c, loaded) for c in (self.clock, self.util, self.power))
        with np.errstate(invalid="ignore"):
            is_below = self.clock < ratio * clock
            is_used = ~(self.util < util - _LESS_USED)
            is_no_heavier = ~(self.power > _MORE_POWER * power)
        is_slow: NDArray[np.bool_] = loaded & is_enough & is_below & is_used & is_no_heavier
        return is_slow

    def reference(
        self, place: int, first: int, is_bad: NDArray[np.bool_]
    ) -> tuple[float | None, str]:
        """The clock that the GPU should have from a row on, and whose it is; None: unknown."""
        sound = self.is_loaded & ~is_bad
        others = np.delete(self.clock[first:], place, axis=1)[np.delete(sound[first:], place, 1)]
        if len(others):
            return float(np.median(others)), "the job's sound GPUs"
        before = self.clock[:first, place][sound[:first, place]]
        if len(before) >= _MIN_PEERS:
            return float(np.median(before)), "before the episode"
        return None, ""


def clock_rows(job: JobLook, seconds: float) -> ClockRows:
    """The job's GPUs while it held them all, back to the last gap in the sampling."""
    keys = ("sm_clock_mhz", "clock_event_reasons", "gpu_util_ratio", "power_w", *_LOST_TIMES)
    table = job.table(keys, seconds)
    seconds_of = np.maximum(row_seconds(table.times), 1e-9)[:, None]
    lost = np.zeros(table.columns["power_w"].shape)
    for key in _LOST_TIMES:
        counted = table.columns[key].astype(np.float64)
        if len(counted):
            grown = np.nan_to_num(np.diff(counted, axis=0, prepend=counted[:1]))
            lost = np.maximum(lost, 1e-6 * grown / seconds_of)
    lost[:1] = 0.0
    clock, mask, util, power = (table.columns[key] for key in keys[:4])
    return ClockRows(table.times, clock, mask, util, power, lost)


def _medians(values: NDArray[np.float32], is_counted: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Per row the median of what counts, NaN without any; one column."""
    shown = np.where(is_counted, values, np.nan).astype(np.float64)
    medians = np.full((len(shown), 1), np.nan)
    rows = np.isfinite(shown).any(axis=1)
    medians[rows, 0] = np.nanmedian(shown[rows], axis=1)
    return medians
