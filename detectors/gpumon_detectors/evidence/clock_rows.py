"""Clocks of a job's GPUs over time: who is loaded, who is held down, who is slower than peers."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon_detectors.evidence.episodes import row_seconds
from gpumon_detectors.evidence.gpu_use import PAST_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpumon.plugin import JobLook, Table, View

HELD_BITS: Final = 0x008 | 0x020 | 0x040 | 0x080
"""Hardware slowdown, software and hardware thermal slowdown, hardware power brake (nvml.h): what
holds a clock down and is a fault of the GPU, its cooling or its power."""

_CLOCK_SETTING_BITS: Final = 0x002 | 0x010 | 0x100
"""Application clocks, sync boost, display clocks (nvml.h): the clock lies where somebody set it."""

POWER_CAP_BIT: Final = 0x004
"""Software power cap (nvml.h): the clock is as high as the power limit allows."""

SET_BITS: Final = _CLOCK_SETTING_BITS | POWER_CAP_BIT
"""These and the software power cap: as high as the power limit allows is no fault either."""

IDLE_BIT: Final = 0x001
"""The GPU idles (nvml.h: nvmlClocksEventReasonGpuIdle)."""
LOADED: Final = 0.5
"""Utilisation from which a GPU's clock should be up: KempnerPulse's bound of busy classes."""

LOST_TIMES: Final = {"sw_thermal_us": 0x020, "hw_thermal_us": 0x040, "power_brake_us": 0x080}
"""The driver's counters of time lost, and the reason that each counts."""

LEAST_LOST: Final = 0.01
"""Share of the time lost by the driver's own counters that is more than a flicker."""

_MIN_PEERS: Final = 3
"""Loaded GPUs of which a median tells the odd one out."""

_LESS_USED: Final = 0.1
"""Utilisation by which a GPU may be below its peers' median and still be as loaded as they are (our
choice: single samples swing by some per cent)."""

_MORE_POWER: Final = 1.05
"""Times the peers' median power above which a GPU does heavier work: then a lower clock is normal
(our choice)."""

_AT_LIMIT: Final = 0.95
"""Share of the power limit from which a GPU works at it: readings lag behind and swing by some
per cent, so that not each of them shows the limit itself (our choice)."""

_SAME_LIMIT_W: Final = 5.0
"""Power limits that differ by less are one setting."""

SET_SHARE: Final = 0.1
"""Share of its loaded samples in which a GPU is told to be at a setting or a cap, from which that
is why it is slow in the others too: the bits come and go with the phases of a step (our choice)."""

_LEAST_BEFORE_S: Final = 60.0
"""Shorter than this a GPU may run above what its power limit allows in the long run (our choice:
power is averaged over a second, and boards heat up within a minute)."""

_BEFORE_S: Final = 3600.0
"""So far back before an episode a clock tells what the GPU had."""


class ClockRows:
    """One row per sample, one column per GPU of the job, as far back as a day."""

    def __init__(self, table: Table, masks: NDArray[np.float32], kinds: NDArray[np.intp]) -> None:
        self.times: NDArray[np.float64] = table.times
        self.begins: NDArray[np.float64] = table.begins
        self.clock = table.columns["sm_clock_mhz"]
        self.power = table.columns["power_w"]
        self._masks = masks
        """Of old rows, which hold many samples, the bits that were ever set."""
        self._util = table.columns["gpu_util_ratio"]
        self._limit = table.columns["power_limit_w"]
        self._lost = _lost_bits(table)
        self.highest = newest_known(table.columns["sm_clock_max_mhz"])
        """Highest clock of each GPU's board, NaN where it is not told."""
        self._beside: dict[tuple[int, int], float | None] = {}
        self.kinds = kinds
        """Number of each GPU's kind: only GPUs of one product and power limit are compared."""

    @cached_property
    def bits(self) -> NDArray[np.int64]:
        """Reasons that the driver told at the sample, or counted time for since the one before."""
        masks: NDArray[np.int64] = np.nan_to_num(self._masks).astype(np.int64) | self._lost
        return masks

    @cached_property
    def is_known(self) -> NDArray[np.bool_]:
        """Where clock and reasons are told."""
        return np.isfinite(self.clock) & np.isfinite(self._masks)

    @cached_property
    def is_loaded(self) -> NDArray[np.bool_]:
        """Where the GPU computes; by the driver's idle bit where utilisation is not offered."""
        is_awake = (self.bits & IDLE_BIT) == 0
        return np.where(np.isfinite(self._util), self._util >= LOADED, is_awake) & self.is_known

    @cached_property
    def is_held(self) -> NDArray[np.bool_]:
        """Where the driver says that heat, power or the board holds the clock down."""
        return np.asarray(((self.bits & HELD_BITS) != 0) & self.is_loaded, np.bool_)

    @cached_property
    def is_set(self) -> NDArray[np.bool_]:
        """Where the clock lies at a setting, or the GPU at its power limit."""
        with np.errstate(invalid="ignore"):
            is_at_limit = self.power >= _AT_LIMIT * self._limit
        return np.asarray((((self.bits & SET_BITS) != 0) | is_at_limit) & self.is_loaded, np.bool_)

    def is_slow(self, ratio: float) -> NDArray[np.bool_]:
        """Where a clock is below that of its like at the same load, no more power and no setting.

        Like are GPUs of the job of the same product, power limit and clock setting.
        """
        is_slow = np.zeros(self.clock.shape, np.bool_)
        is_like = self.is_loaded & ~self.is_held & ((self.bits & _CLOCK_SETTING_BITS) == 0)
        for kind in range(int(self.kinds.max(initial=-1)) + 1):
            places = np.flatnonzero(self.kinds == kind)
            if len(places) >= _MIN_PEERS:
                is_slow[:, places] = self._is_slow(ratio, places, is_like[:, places])
        return is_slow & ~self.is_set

    def _is_slow(
        self, ratio: float, places: NDArray[np.intp], is_like: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        clock, util, power = (c[:, places] for c in (self.clock, self._util, self.power))
        usual = [_medians(column, is_like) for column in (clock, util, power)]
        is_enough = is_like.sum(axis=1, keepdims=True) >= _MIN_PEERS
        with np.errstate(invalid="ignore"):
            is_below = clock < ratio * usual[0]
            is_used = ~(util < usual[1] - _LESS_USED)
            is_no_heavier = ~(power > _MORE_POWER * usual[2])
        return np.asarray(is_like & is_enough & is_below & is_used & is_no_heavier, np.bool_)

    def is_mostly_set(self, place: int, first: int) -> bool:
        """Whether settings or caps explain a clock from a row on, though not in every sample."""
        loaded = int(self.is_loaded[first:, place].sum())
        return int(self.is_set[first:, place].sum()) >= SET_SHARE * max(1, loaded)

    def before(self, place: int, first: int, is_bad: NDArray[np.bool_]) -> float | None:
        """The GPU's own clock under load before a row; None where that was seen too shortly."""
        low = int(self.times.searchsorted(self.times[first] - _BEFORE_S))
        rows = low + np.flatnonzero((self.is_loaded & ~is_bad)[low:first, place])
        if len(rows) < _MIN_PEERS or self.times[first] - self.begins[rows[0]] < _LEAST_BEFORE_S:
            return None
        return float(np.median(self.clock[rows, place]))

    def beside(self, place: int, first: int, is_bad: NDArray[np.bool_]) -> float | None:
        """The clock of the job's GPUs of the same kind from a row on while they are sound."""
        kind = int(self.kinds[place])
        if (kind, first) not in self._beside:
            like = np.flatnonzero(self.kinds == kind)
            clocks = self.clock[first:, like][(self.is_loaded & ~is_bad)[first:, like]]
            self._beside[kind, first] = float(np.median(clocks)) if len(clocks) else None
        return self._beside[kind, first]


def clock_rows(view: View, job: JobLook) -> ClockRows:
    """The job's GPUs while it held them all, back to the last gap in the sampling."""
    keys = (
        *("sm_clock_mhz", "clock_event_reasons", "gpu_util_ratio", "power_w", "power_limit_w"),
        *("sm_clock_max_mhz", *LOST_TIMES),
    )
    table = job.table(keys, PAST_S)
    rows = len(table.times)
    masks = table.columns["clock_event_reasons"]
    if rows and table.begins[0] < table.times[0]:
        begin = float(table.begins[0])
        bounds = view.history.extremes(job.uuids, ("clock_event_reasons",), begin, view.now)
        masks = bounds.high[-rows:, 0]
    return ClockRows(table, masks, _kinds(job, table))


def _kinds(job: JobLook, table: Table) -> NDArray[np.intp]:
    """Number of each GPU's product and power limit; limits that are not known are alike."""
    limits = newest_known(table.columns["power_limit_w"])
    marks = [
        (gpu.name, None if np.isnan(limit) else round(float(limit) / _SAME_LIMIT_W))
        for gpu, limit in zip(job.gpus, limits, strict=True)
    ]
    numbers = {mark: number for number, mark in enumerate(dict.fromkeys(marks))}
    return np.fromiter((numbers[mark] for mark in marks), np.intp, len(marks))


def newest_known(column: NDArray[np.float32]) -> NDArray[np.float64]:
    """Per GPU the newest value that is known, NaN without any."""
    found = np.full(column.shape[1], np.nan)
    for place in range(column.shape[1]):
        known = np.flatnonzero(np.isfinite(column[:, place]))
        if len(known):
            found[place] = column[known[-1], place]
    return found


def _lost_bits(table: Table) -> NDArray[np.int64]:
    """Reasons for which the driver counted more than a flicker of time since the row before."""
    seconds = np.maximum(row_seconds(table.times), 1e-9)[:, None]
    found = np.zeros(table.columns["power_w"].shape, np.int64)
    for key, bit in LOST_TIMES.items():
        counted = table.columns[key].astype(np.float64)
        if len(counted):
            share = 1e-6 * np.nan_to_num(np.diff(counted, axis=0, prepend=counted[:1])) / seconds
            share[:1] = 0.0
            found |= np.where(share > LEAST_LOST, bit, 0)
    return found


def _medians(values: NDArray[np.float32], is_counted: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Per row the median of what counts, NaN without any; one column."""
    shown = np.where(is_counted, values, np.nan).astype(np.float64)
    medians = np.full((len(shown), 1), np.nan)
    rows = np.isfinite(shown).any(axis=1)
    medians[rows, 0] = np.nanmedian(shown[rows], axis=1)
    return medians
