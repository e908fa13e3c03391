"""Which GPUs of a job wait for one of them that is slow, or gone: evidence, never a guess.

In a synchronous job every step lasts as long as its slowest rank. Then the others' work, as shares
of time, falls by as much as the slow one loses, and beside it they look the less busy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon_detectors.evidence.gpu_use import PAST_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpumon.plugin import JobLook, Table

_BEFORE_S: Final = 3600.0
"""So far back before the onset the peers' own work is the measure."""

_LEAST_ROWS: Final = 3
"""Samples of a mean: of fewer, one odd value is half of it (our choice)."""

_LEAST_KNOWN: Final = 0.5
"""Share of the samples that must be known for a mean over them."""

_ACTIVITY: Final = (("tensor_active_ratio", 0.02), ("sm_active_ratio", 0.05))
"""Shares of time at work, the surest first, and how much of each there must be to fall."""

_ACTIVITY_FALLS: Final = 0.5
"""Share of the loss by which activity must fall: half, since parts of a step do not wait (our
choice; a GPU that waits at every step falls by all of it)."""

_POWER_FALLS: Final = 0.3
"""Share of the loss by which power must fall: less than of activity, since a GPU that waits in a
collective spins, and one at rest draws a tenth of its limit (our choice)."""

_LEAST_FALL: Final = 0.03
"""Less is the swing of means over ten minutes (our choice)."""

_STILL_UTIL: Final = 0.02
"""Mean utilisation up to which a GPU rests: a kernel in one sample of fifty (our choice)."""

_STILL_TENSOR: Final = 0.005
"""Tensor activity up to which nothing is computed: DLRover calls a job hung from .001 down; spikes
of a probe or of one last step may lie within the mean (our choice)."""

_STILL_SM: Final = 0.25
"""SM activity up to which a GPU may only spin in a collective (the books' floor of useful work)."""

_STILL_FALLS: Final = 0.4
"""Part of power or SM activity that a GPU which only spins no longer shows (our choice)."""


class _Means(NamedTuple):
    """One field of all GPUs of the job, NaN where too little is known."""

    before: NDArray[np.float64]
    since: NDArray[np.float64]

    @property
    def fall(self) -> NDArray[np.float64]:
        """Part of what was before that is gone."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return 1.0 - self.since / self.before


class Work:
    """The work of all GPUs of a job before and since something befell one of them."""

    def __init__(self, job: JobLook, onset: float) -> None:
        keys = (*(key for key, _ in _ACTIVITY), "gpu_util_ratio", "power_w")
        table = job.table(keys, PAST_S)
        self._job = job
        self._means = {key: _means(table, key, onset) for key in keys}

    def slowed_with(self, uuid: str, loss: float) -> tuple[str, ...]:
        """Other GPUs that wait for one which lost a share of its speed.

        Their activity fell with the onset, or else their power; where nothing is known of the time
        before, they are the less active beside it, or at least ranks of its world.
        """
        others = [place for place, other in enumerate(self._job.uuids) if other != uuid]
        if uuid not in self._job.uuids or loss <= 0:
            return ()
        own = self._job.uuids.index(uuid)
        world = _world_of(self._job, uuid)
        waits = [place for place in others if self._waits(place, own, loss, world)]
        return tuple(self._job.uuids[place] for place in waits)

    def _waits(self, place: int, own: int, loss: float, world: frozenset[str]) -> bool:
        least = max(_LEAST_FALL, _ACTIVITY_FALLS * loss)
        for key, floor in _ACTIVITY:
            means = self._means[key]
            before, since = means.before[place], means.since[place]
            if np.isfinite(since) and before >= floor:
                return bool(means.fall[place] >= least)
            if np.isfinite(since) and np.isnan(before) and means.since[own] >= floor:
                return bool(1.0 - since / means.since[own] >= least)
        power, util = self._means["power_w"], self._means["gpu_util_ratio"]
        if np.isfinite(power.fall[place]) or np.isfinite(util.fall[place]):
            is_cooler = power.fall[place] >= max(_LEAST_FALL, _POWER_FALLS * loss)
            return bool(is_cooler or util.fall[place] >= least)
        return self._job.uuids[place] in world

    def still_without(self, uuid: str) -> tuple[str, ...]:
        """Other GPUs that worked and stand still since, as those of a job that waits for ever."""
        others = (place for place, other in enumerate(self._job.uuids) if other != uuid)
        return tuple(self._job.uuids[place] for place in others if self._is_still(place))

    def is_still(self, uuid: str) -> bool:
        """Whether a GPU worked and stands still since."""
        return uuid in self._job.uuids and self._is_still(self._job.uuids.index(uuid))

    def _is_still(self, place: int) -> bool:
        util, power = self._means["gpu_util_ratio"], self._means["power_w"]
        tensor, sm = (self._means[key] for key, _ in _ACTIVITY)
        if util.before[place] <= _STILL_UTIL:
            return False
        if util.since[place] <= _STILL_UTIL:
            return True
        # Utilisation stays at 100 % where a GPU spins in a collective: what it does tells.
        if tensor.before[place] >= _ACTIVITY[0][1] and np.isfinite(tensor.since[place]):
            return bool(tensor.since[place] <= _STILL_TENSOR and not sm.since[place] > _STILL_SM)
        if sm.before[place] >= _ACTIVITY[1][1] and np.isfinite(sm.since[place]):
            return bool(sm.since[place] <= _STILL_SM and sm.fall[place] >= _STILL_FALLS)
        return bool(power.fall[place] >= _STILL_FALLS)


def _means(table: Table, key: str, onset: float) -> _Means:
    """Means of the hour before and of the time since; the row of the onset itself holds both."""
    values = table.columns[key].astype(np.float64)
    is_before = (table.times < onset) & (table.times >= onset - _BEFORE_S)
    return _Means(_mean(values[is_before]), _mean(values[table.begins > onset]))


def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    known = np.isfinite(values).sum(axis=0)
    is_enough = (known >= _LEAST_ROWS) & (known >= _LEAST_KNOWN * len(values))
    total = np.nansum(values, axis=0)
    return np.where(is_enough, total / np.maximum(known, 1), np.nan)


def _world_of(job: JobLook, uuid: str) -> frozenset[str]:
    """GPUs whose ranks communicate with those of one; none where its world is not known."""
    mine = {rank.world_id for rank in job.ranks if uuid in rank.gpu_uuids} - {None}
    peers = (rank for rank in job.ranks if rank.world_id in mine)
    return frozenset(other for rank in peers for other in rank.gpu_uuids)
