"""Which ranks the others of a job wait for in every step, and since when.

A rank that is slow on its GPU is the busiest: it computes while the others spin in a collective. A
rank that is slow on its host is the idlest: its GPU rests while the others spin. In both cases all
the others do less than before, all alike, and do not rest: that is how it is told from ranks that
just have less to do, or other things.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon_detectors.evidence.watched import mean_over
from gpumon_detectors.ranks.peers import LEAST_GPUS, common_name
from gpumon_detectors.ranks.work_windows import medians

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gpumon_detectors.ranks.work_windows import Floats, WorkWindows

    Flags = NDArray[np.bool_]

RECENT: Final = 5
"""Windows that tell how it is now: a slow rank must be so in five (Minder: four minutes)."""

LEAST_SHIFT: Final = 0.1
"""How much longer the steps must have become: Greyhound's check of a mean shift, without which a
fifth of its alarms were false."""

_LEAST_STATIC: Final = 0.15
"""How much a rank must differ where nothing is known of the time before: ranks of one job differ
by some per cent all the time, boards by five (our choice: three times that)."""

_LEAST_IDLE: Final = 0.08
"""Share of the time in which a rank must rest while the others spin, beyond what it did before:
utilisation is sampled over a sixth of a second, and five minutes of it swing by half of that."""

_BASE_WINDOWS: Final = 10
"""The calmest stretch of so many windows tells how ranks compare while none is late."""

_BEFORE_S: Final = 3600.0
"""So far back before the onset the job's own work is the measure (as in `waiting_peers`)."""

_REST_S: Final = 240.0
"""A rank that is in time for longer is late no more; shorter rests belong to what comes and goes
(our choice: as long as it must be late to be told)."""

_LATE_SHARE: Final = 0.6
"""Share of the windows since the onset in which it must be late (our choice, as of episodes)."""

_LATE_TIMES: Final = 3.0
"""The shift must be so many times what single windows vary by before it: where another rank is the
slowest in each of them, some rank is so for five in a row now and then (our choice)."""

_FALLEN_TIMES: Final = 2.0
"""Likewise the fall of the others' work, of which all have a part (our choice)."""

_MOST_LOSS: Final = 0.67
"""Who takes more of the others' time has stopped the job (`hang`)."""

_ALIKE: Final = 0.05
"""How far apart the falls of those that wait may lie: they wait for the same steps. Ranks of one
job differ by some per cent from window to window (our choice)."""

_MOST_SWING: Final = 0.4
"""By how much those that wait may differ in single windows, as a share of the shift: they wait for
one rank in all of them. Where data are of unlike size each is ahead in its turn (our choice)."""

_LEAST_SPIN: Final = 0.8
"""Utilisation of those that wait: a kernel that waits is one that runs."""

_MOST_UTIL_FALL: Final = 0.05
"""Utilisation by which those that wait may fall: they spin, and do not rest (our choice)."""

_MOST_RISE: Final = 1.35
"""A rank that computed for three quarters of each step can do no more than this of its share
before: one that does has got other work."""

_LEAST_OF_BEFORE: Final = 0.85
"""Share of its earlier work below which a late rank does other work, or works less: one that is
late computes for as long as before, or longer (our choice)."""

_MOST_SHARE: Final = 4
"""At most one rank in so many is slow; more of them are a stage of a pipeline, or a role."""


_LEAST_USED: Final = 0.1
"""Share of what the busiest does below which a GPU takes no part in the job's work (our choice)."""


class Way(StrEnum):
    """How a rank shows that the others wait for it."""

    BUSY = "busy"
    """It computes for longer than they do."""
    IDLE = "idle"
    """Its GPU rests while they spin: its host keeps it waiting."""


class LateRanks(NamedTuple):
    """Some ranks of a job that all others wait for."""

    way: Way
    late: tuple[int, ...]
    """Positions of their GPUs within the job."""
    waiting: tuple[int, ...]
    """Those of the others."""
    first: int
    """First window in which they are late."""
    known_s: float
    """Seconds of work since then that were observed."""
    loss: float
    """Share of all ranks' time that is lost since then, while the job is at work."""
    has_before: bool
    """Whether the job was seen before they were late."""
    shift: float
    """By which part of their own work, or of the time, they differ from the others."""
    is_work: Flags
    """By window whether the job computes."""


def late_ranks(
    windows: WorkWindows, places: Sequence[int], shared: Sequence[Sequence[str]]
) -> LateRanks | None:
    """The ranks that those of one world wait for now, None where there are none.

    Args:
        windows: Of all GPUs of the job.
        places: Positions of the GPUs of the world.
        shared: Kinds of things that several GPUs share and that may slow all of them, such as their
            node: its name for each GPU of the job, empty where nobody knows.
    """
    places = _used(windows, places)
    if len(places) < LEAST_GPUS:
        return None
    own = windows.of(np.asarray(places, np.intp))
    is_work = own.is_work
    at_work = np.flatnonzero(is_work)
    if len(at_work) < RECENT or own.ends[-1] - own.ends[at_work[-1]] > _REST_S:
        return None
    on = [[names[place] for place in places] for names in shared]
    # Power alone tells too little of who is busy: it is sampled over a part of a second.
    ways = (Way.BUSY, Way.IDLE) if own.measure == "sm_active_ratio" else (Way.IDLE,)
    for way in ways:
        signs = _signs(own, way)
        found = _judged(own, way, signs, is_work, on)
        if found is not None:
            return found._replace(
                late=tuple(places[at] for at in found.late),
                waiting=tuple(places[at] for at in found.waiting),
            )
    return None


def _used(windows: WorkWindows, places: Sequence[int]) -> list[int]:
    """Those that do anything: a GPU that is not used is no peer."""
    work = mean_over(windows.means[windows.measure])[list(places)]
    with np.errstate(invalid="ignore"):
        is_used = work >= _LEAST_USED * np.nanmax(work, initial=0.0)
    return [place for place, is_peer in zip(places, is_used, strict=True) if is_peer]


def _signs(own: WorkWindows, way: Way) -> Floats:
    """By window and GPU how much it looks like one that the others wait for."""
    if way is Way.BUSY:
        work = own.means[own.measure]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.log(work / medians(work)[:, None])
    util = own.means["gpu_util_ratio"]
    return medians(util)[:, None] - util


def _judged(
    own: WorkWindows, way: Way, signs: Floats, is_work: Flags, on: Sequence[Sequence[str]]
) -> LateRanks | None:
    """Who is late now and was not before; else who is, as long as the job has been seen."""
    at_work = np.flatnonzero(is_work)
    now = mean_over(signs[at_work[-RECENT:]])
    base = _base(signs[at_work[:-RECENT]])
    least = 0.5 * (LEAST_SHIFT if way is Way.BUSY else _LEAST_IDLE)
    for usual in (np.where(np.isfinite(base), base, 0.0), np.zeros(len(now))):
        with np.errstate(invalid="ignore"):
            late = _culprits(now - usual >= least, on)
        if late is not None:
            middle = max(float((now[late] + usual[late]).mean()) / 2, least)
            found = _since(own, way, signs, is_work, late, middle)
            if found is not None:
                return found
    return None


def _since(
    own: WorkWindows,
    way: Way,
    signs: Floats,
    is_work: Flags,
    late: NDArray[np.intp],
    middle: float,
) -> LateRanks | None:
    """Since when some ranks are late, if the others wait for them; `middle`: how late is late."""
    sign = mean_over(signs[:, late].T)
    with np.errstate(invalid="ignore"):
        is_late = is_work & (sign >= middle)
    first = _onset(own, is_work, is_late)
    if first is None:
        return None
    since = is_work & (np.arange(len(is_work)) >= first)
    before = is_work & ~is_late & ~since & (own.ends >= own.begins[first] - _BEFORE_S)
    if is_late[since].mean() < _LATE_SHARE or since.sum() < RECENT:
        return None
    others = np.setdiff1d(np.arange(own.gpu_count), late)
    judge = _Judge(own, late, others, before, since)
    has_before = int(before.sum()) >= RECENT
    if has_before:
        moved = float(np.nanmean(sign[since]) - np.nanmean(sign[before]))
        if moved < _LATE_TIMES * float(np.nanstd(sign[before])):
            return None
        judged = judge.busier() if way is Way.BUSY else judge.idler()
    else:
        judged = judge.busier_all_the_time() if way is Way.BUSY else judge.idler_all_the_time()
    if judged is None or judged[1] > _MOST_LOSS or judged[1] < _FALLEN_TIMES * judge.unrest():
        return None
    shift, loss = judged
    known_s = float(own.seconds[since].sum())
    return LateRanks(
        way=way, late=tuple(map(int, late)), waiting=tuple(map(int, others)), first=first,
        known_s=known_s, loss=loss, has_before=has_before,
        shift=shift, is_work=is_work,
    )  # fmt: skip


def _base(signs: Floats) -> Floats:
    """Per GPU the lowest mean of some windows in a row, NaN where there are too few."""
    if len(signs) < RECENT:
        return np.full(signs.shape[1], np.nan)
    width = min(_BASE_WINDOWS, len(signs))
    known = np.isfinite(signs)
    total, count = (
        np.cumsum(np.vstack((np.zeros(signs.shape[1]), part)), axis=0)
        for part in (np.where(known, signs, 0.0), known)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (total[width:] - total[:-width]) / (count[width:] - count[:-width])
    lowest: Floats = np.where(np.isfinite(means), means, np.inf).min(axis=0)
    return np.where(np.isfinite(lowest), lowest, np.nan)


def _culprits(is_late: Flags, on: Sequence[Sequence[str]]) -> NDArray[np.intp] | None:
    """Positions of those that are late, if they are few, or all that share one thing."""
    late = np.flatnonzero(is_late)
    if not len(late) or 2 * len(late) > len(is_late):
        return None
    if len(late) <= max(1, len(is_late) // _MOST_SHARE):
        return late
    return late if any(common_name(names, late) for names in on) else None


def _onset(own: WorkWindows, is_work: Flags, is_late: Flags) -> int | None:
    """First window of the lateness that lasts until now."""
    first, rested_s = None, 0.0
    for row in np.flatnonzero(is_work)[::-1]:
        if is_late[row]:
            first, rested_s = int(row), 0.0
            continue
        rested_s += float(own.seconds[row])
        if rested_s > _REST_S:
            break
    return first


class _Judge:
    """What the windows before and since say of those that are late and of the others."""

    def __init__(
        self,
        own: WorkWindows,
        late: NDArray[np.intp],
        others: NDArray[np.intp],
        before: Flags,
        since: Flags,
    ) -> None:
        self._own, self._late, self._others = own, late, others
        self._before, self._since = before, since
        self._work = own.means[own.measure]
        self._util = own.means["gpu_util_ratio"]

    def _means(self, values: Floats) -> tuple[Floats, Floats]:
        return mean_over(values[self._before]), mean_over(values[self._since])

    def busier(self) -> tuple[float, float] | None:
        """How much more the late ones compute than before, beside the others; and the loss."""
        was, now = self._means(self._work)
        with np.errstate(invalid="ignore", divide="ignore"):
            of_before = now / was
        theirs, own = of_before[self._others], of_before[self._late]
        shift = float(np.median(own) / np.median(theirs)) - 1.0
        loss = self._fallen()
        if not (shift >= LEAST_SHIFT and loss >= LEAST_SHIFT / 2 and self._spins()):
            return None
        if not (own.min() >= _LEAST_OF_BEFORE and own.max() <= _MOST_RISE):
            return None
        if self._swing() > _MOST_SWING * float(np.log1p(shift)):
            return None
        return (shift, loss) if _are_alike(theirs) else None

    def _swing(self) -> float:
        """Deviation of the logarithms by which those that wait differ in single windows since."""
        with np.errstate(invalid="ignore", divide="ignore"):
            lead = np.log(self._work[self._since][:, self._others])
        lead = lead[np.isfinite(lead).all(axis=1)]
        windows, count = lead.shape
        if windows < 2 or count < 2:
            return 0.0
        lead = lead - lead.mean(axis=1, keepdims=True)
        lead = lead - lead.mean(axis=0)
        return float(np.sqrt((lead**2).sum() / ((windows - 1) * (count - 1))))

    def idler(self) -> tuple[float, float] | None:
        """How much longer the late ones rest while the others spin; that is the loss."""
        was, now = self._means(self._util)
        rests = (np.median(now[self._others]) - now[self._late]) - (
            np.median(was[self._others]) - was[self._late]
        )
        share = float(rests.min())
        fallen = self._own.fall(self._before, self._since)[self._others]
        if not (share >= _LEAST_IDLE and self._spins() and np.isfinite(fallen).all()):
            return None
        is_slower = float(np.median(fallen)) >= max(0.03, 0.3 * share)
        return (share, share) if is_slower and _are_alike(fallen) else None

    def _fallen(self) -> float:
        """Share of the work of those that wait that is gone."""
        fallen = self._own.fall(self._before, self._since)[self._others]
        return float(np.median(fallen)) if np.isfinite(fallen).all() else 0.0

    def unrest(self) -> float:
        """By which share of itself the job's work varies from window to window before."""
        level = medians(self._work[self._before])
        known = level[np.isfinite(level)]
        return float(known.std() / known.mean()) if len(known) >= RECENT else 0.0

    def _spins(self) -> bool:
        """Whether those that wait do not rest more than before."""
        was, now = self._means(self._util)
        return bool((now[self._others] >= was[self._others] - _MOST_UTIL_FALL).all())

    def busier_all_the_time(self) -> tuple[float, float] | None:
        """The same where nobody saw the job before."""
        work, util = mean_over(self._work[self._since]), mean_over(self._util[self._since])
        theirs = work[self._others]
        shift = float(work[self._late].min() / np.median(theirs)) - 1.0
        does_spin = (util[self._others] >= np.minimum(_LEAST_SPIN, util[self._late].max())).all()
        is_alike = _are_alike(theirs / np.median(theirs))
        if not (shift >= _LEAST_STATIC and does_spin and is_alike):
            return None
        key = "tensor_active_ratio"
        tensor = mean_over(self._own.means[key][self._since])
        if np.isfinite(tensor).all() and tensor[self._late].min() > 0.02:
            work = tensor
        return shift, 1.0 - float(np.median(work[self._others]) / work[self._late].min())

    def idler_all_the_time(self) -> tuple[float, float] | None:
        """The same where nobody saw the job before."""
        work, util = mean_over(self._work[self._since]), mean_over(self._util[self._since])
        theirs = util[self._others]
        share = float(np.median(theirs) - util[self._late].max())
        is_alike = _are_alike(theirs) and _are_alike(work[self._others] / np.median(work))
        does_spin = bool((theirs >= _LEAST_SPIN).all())
        does_no_less = (work[self._late] >= 0.8 * np.median(work)).all()
        is_late = share >= _LEAST_STATIC and does_spin and is_alike and does_no_less
        return (share, share) if is_late else None


def _are_alike(values: Floats) -> bool:
    low, high = np.percentile(values, (5.0, 95.0))
    return bool(high - low <= 2 * _ALIKE)
