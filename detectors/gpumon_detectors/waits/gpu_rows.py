"""How much of the time kernels run on a job's GPUs, row by row."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon_detectors.evidence.gpu_use import COPY_KEYS, is_named
from gpumon_detectors.evidence.watched import unbroken

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpumon.plugin import JobLook

PAST_S: Final = 5400.0
"""How far back is looked: six checkpoints of a quarter of an hour (our choice), and as far as
history keeps what hosts do every ten seconds or so."""

MOST_BUSY: Final = 0.8
"""Share of the time in which kernels run from which nothing is claimed. Our choice: the median of
Acme's GPUs is 98 %, and gaps between small kernels alone leave more than 80 %."""

LEAST_BUSY: Final = 0.03
"""With less the GPUs are idle, which is another class's matter (our choice)."""

_LEAST_BUSY_SM: Final = 0.01
"""The same where SM activity is counted over whole rows: an H200 that trains on what four loaders
prepare for it showed .016 (our choice)."""

_USED: Final = 0.02
_USED_SM: Final = 0.005
"""Mean utilisation, and SM activity, from which a GPU counts as one that the job works on."""

_OWN_LEVEL: Final = 0.97
"""Share of the time in which kernels run in steps that wait for nothing, where the job was not
seen without its waits: the median of Acme's GPUs is 98 %."""

_LEVEL_S: Final = 300.0
"""So long a job must have been seen before its waits to know its own level (our choice)."""

_Z: Final = 1.65
"""Of a short sample's spread: in one of twenty cases the true mean is above the bound."""

_APART: Final = 0.15
_APART_OF_WAIT: Final = 0.5
"""So far apart, or by so much of their mean wait, the GPUs of a job may be that wait alike: more
tells of one that the others wait for (our choice)."""

_BACK_BYTES_PER_S: Final = 50e6
_BACK_SHARE: Final = 0.5
"""What comes back from a GPU over PCIe, and over what goes to it: data go one way (our choice)."""

_KEYS: Final = ("gpu_util_ratio", "sm_active_ratio", "mem_used_bytes")


class GpuRows(NamedTuple):
    """The GPUs that a job works on, as one, since they were first seen at work."""

    times: NDArray[np.float64]
    begins: NDArray[np.float64]
    seconds: NDArray[np.float64]
    """What each row stands for."""
    longest_s: float
    """Distance of two samples from which a gap lies between them."""
    members: tuple[int, ...]
    """Positions of these GPUs within the job's."""
    util: NDArray[np.float64]
    """Mean utilisation: of the short time that the driver looks at, not of the whole row."""
    each: NDArray[np.float32]
    """The same of each of these GPUs."""
    sms: NDArray[np.float64]
    """Mean share of busy SMs over the whole row; NaN without profiling counters."""
    held: NDArray[np.float64]
    """Memory in use, bytes."""

    @property
    def has_counters(self) -> bool:
        """Whether busy SMs are known of most rows."""
        return bool(len(self.sms)) and float(np.isfinite(self.sms).mean()) >= 0.5

    @property
    def least_busy(self) -> float:
        """Share of the time in which kernels run, below which the GPUs are idle."""
        return _LEAST_BUSY_SM if self.has_counters else LEAST_BUSY

    def seen_s(self, first: int = 0) -> float:
        """Seconds from a row on that no hole took."""
        return float(self.seconds[first + 1 :].sum())

    def busy(self, first: int, last: int | None = None) -> float:
        """Share of the time of some rows in which kernels ran, NaN where it is not known.

        No less than that in which SMs were busy: samples of a moment may miss short bursts for
        long, where these come in a beat with them.
        """
        seconds = self.seconds[first:last]
        busy, sms = (mean(values[first:last], seconds) for values in (self.util, self.sms))
        return busy if sms != sms else max(busy, sms)

    def busy_at_most(self, first: int) -> float:
        """The same from a row on with what so few samples leave open, NaN where it is not known."""
        known = self.util[first:][np.isfinite(self.util[first:])]
        if len(known) < 2:
            return float("nan")
        return self.busy(first) + _Z * float(known.std()) / sqrt(len(known))

    def are_alike(self, first: int) -> bool:
        """Whether all of the GPUs have waited since a row, about as much as one another."""
        busy = [mean(column, self.seconds[first:]) for column in self.each[first:].T]
        apart = max(busy) - min(busy)
        return apart <= max(_APART, _APART_OF_WAIT * (1.0 - sum(busy) / len(busy)))

    def lost_share(self, first: int) -> float:
        """Share of the time since a row in which the GPUs wait, over their own steps without."""
        own = _OWN_LEVEL
        if first > 0 and self.seen_s() - self.seen_s(first) >= _LEVEL_S:
            own = max(own, self.busy(0, first))
        return max(0.0, 1.0 - self.busy(first) / min(1.0, own))


def gpu_rows(job: JobLook, seconds: float = PAST_S) -> GpuRows | None:
    """The rows of a job; None where none of its GPUs was seen at work."""
    if not is_named(job):
        return None
    past = unbroken(job.past(_KEYS, seconds))
    if len(past.times) < 2:
        return None
    util = past.columns["gpu_util_ratio"]
    work = ((util, _USED), (past.columns["sm_active_ratio"], _USED_SM))
    members = [
        place
        for place in range(util.shape[1])
        if any(mean(values[:, place], past.seconds) > least for values, least in work)
    ]
    if not members:
        return None
    together, sms, held = (_together(past.columns[key][:, members]) for key in _KEYS)
    at_work = np.flatnonzero((together > _USED) | (sms > _USED_SM))
    if not len(at_work):
        return None
    first = int(at_work[0])
    return GpuRows(
        times=past.times[first:], begins=past.begins[first:], seconds=past.seconds_from(first),
        longest_s=past.longest_s,
        members=tuple(members), util=together[first:], each=util[first:, members], sms=sms[first:],
        held=held[first:],
    )  # fmt: skip


def copied(job: JobLook, rows: GpuRows) -> NDArray[np.float64]:
    """Bytes a second over PCIe and GPU, both ways, at a job's rows; NaN where that is not known."""
    past = job.past(COPY_KEYS, float(rows.times[-1] - rows.begins[0]) + rows.longest_s)
    if not len(past.times):
        return np.full(len(rows.times), np.nan)
    there, back = (_together(past.columns[key][:, rows.members]) for key in COPY_KEYS)
    both = there + back
    place = np.minimum(past.times.searchsorted(rows.times), len(past.times) - 1)
    return np.where(past.times[place] == rows.times, both[place], np.nan)


def comes_back(job: JobLook, rows: GpuRows, first: int) -> float:
    """Bytes a second that come back from a job's first GPU since a row, 0 where they are few."""
    past = job.past(COPY_KEYS, float(rows.times[-1] - rows.begins[first]))
    there, back = (mean(past.columns[key][:, rows.members[0]], past.seconds) for key in COPY_KEYS)
    return back if back >= max(_BACK_BYTES_PER_S, _BACK_SHARE * there) else 0.0


def mean(values: NDArray[np.floating], seconds: NDArray[np.float64]) -> float:
    """Mean over the time of which it is known, NaN where that is none."""
    is_known = np.isfinite(values)
    known_s = float(seconds[is_known].sum())
    if not known_s:
        return float(values[is_known].mean()) if is_known.any() else float("nan")
    return float((values[is_known] * seconds[is_known]).sum()) / known_s


def _together(values: NDArray[np.float32]) -> NDArray[np.float64]:
    """Mean over GPUs of each row, of those that tell it."""
    is_known = np.isfinite(values)
    count = is_known.sum(axis=1)
    total = np.nansum(values, axis=1, dtype=np.float64)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
