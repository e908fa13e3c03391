"""What a job loses while a link of it is slow: its own work before, against its work since.

How much a slow link costs depends on how much is moved over it, which no counter of the link tells.
But a job that waits for it does less of the same work, and that is measured. Only a fall that is
clear counts, and no more than it. Where the job has begun behind the slow link already, a GPU that
copies over it pauses for longer than its peers that copy as much, and that is measured as well.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import LINK_BUSY_BYTES_PER_S, Evidence
from gpumon_detectors.evidence.gpu_use import COPY_KEYS, FALLS_BEHIND, PAST_S, SLOWEST_COPY
from gpumon_detectors.evidence.phrases import counted
from gpumon_detectors.evidence.watched import mean_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gpumon.plugin import JobLook, Past, View, Window

_WORK: Final = (
    ("tensor_active_ratio", 0.02, "tensor activity"),
    ("sm_active_ratio", 0.05, "SM activity"),
    ("gpu_util_ratio", 0.05, "utilisation"),
)
"""What tells of work done, the surest first, and how much of each there must have been to fall."""

_AT_WORK: Final = 0.05
"""Utilisation from which on a GPU is at work (KempnerPulse's bound): at rest it waits for no
link."""

_LEAST_FALL: Final = 0.1
"""Part of the work that must be gone: below 10 % Greyhound takes a shift of means for noise."""

_BEFORE_S: Final = 3600.0
"""So far back before the onset the job's own work is the measure."""

_PARTS: Final = 3
_PART_S: Final = 240.0
"""Each part of the time before lies above each of the time since, or the job's work goes up and
down anyway. Parts of four minutes hold whole steps, and two checkpoints at most (our choice)."""

_LEAST_PARTS: Final = 2
"""So many parts must be known: of a GPU that rests for a while one may not be."""

_LEAST_KNOWN: Final = 0.5
"""Share of a part's time in which the GPU must be known to be at work."""


_TIMES_NOISE: Final = 3.0
"""A GPU must pause for longer than its peers by so many times what the mean of as many readings
errs by: each is the mean of a second or less (our choice)."""

_LEAST_ROWS: Final = 10
"""Samples that show all GPUs of the job: the error of a mean over fewer is not known well enough
(our choice)."""

_AS_MUCH: Final = 0.9
"""Part of what its peers copy that it must copy as well: ranks that meet in every step do as many
steps, however slow one of them is; a worker of its own would copy less (our choice)."""


class LinkLoss(NamedTuple):
    """What the GPUs of a job lose while a link is slow."""

    gpu_seconds: float
    """Within the window."""
    uuids: tuple[str, ...]
    """Of the GPUs that lose it."""
    evidence: Evidence


def loss_of(view: View, window: Window, behind: Sequence[str]) -> LinkLoss | None:
    """What is lost since a link is slow, by the job that loses most; None: it cannot be told.

    Args:
        view: What is seen.
        window: Since when the link is slow, as far as it was followed.
        behind: GPUs behind the link; without a fall of one of these it is not the link's.
    """
    jobs = {job.job.job_id: job for uuid in behind for job in view.jobs_of(uuid)}
    found = [loss for job in jobs.values() if (loss := _of_job(job, window, behind)) is not None]
    return max(found, key=lambda loss: loss.gpu_seconds, default=None)


def behind_peers(
    view: View, window: Window, uuid: str, link_bytes_per_s: float | None
) -> LinkLoss | None:
    """What the job of a GPU loses that pauses for its copies while its peers do not; None: unknown.

    Args:
        view: What is seen.
        window: Since when its link is slow, as far as it was followed.
        uuid: The GPU.
        link_bytes_per_s: What its link carries now; None: not known.
    """
    jobs = view.jobs_of(uuid)
    if len(jobs) != 1 or len(jobs[0].gpus) < 2 or not link_bytes_per_s:
        return None
    (job,) = jobs
    if job.all_held_since > window.start:
        # Of the jobs before it nothing is measured here, and the loss counts from the onset.
        return None
    past = job.past((_WORK[2][0], *COPY_KEYS), view.now - window.start)
    own = job.uuids.index(uuid)
    moved = np.fmax(*(mean_of(past, key) for key in COPY_KEYS))
    usual = float(np.median(np.delete(moved, own)))
    if not moved[own] >= max(_AS_MUCH * usual, LINK_BUSY_BYTES_PER_S):
        return None
    util = past.columns[_WORK[2][0]].astype(np.float64)
    util = util[np.isfinite(util).all(axis=1)]
    if len(util) < _LEAST_ROWS:
        return None
    peers = np.median(np.delete(util, own, axis=1), axis=1)
    behind = peers - util[:, own]
    lost = float(behind.mean())
    if lost < max(FALLS_BEHIND, _TIMES_NOISE * float(behind.std()) / sqrt(len(behind))):
        return None
    lost = min(lost, float(moved[own]) / (SLOWEST_COPY * link_bytes_per_s))
    text = (
        f"it works {100 * util[:, own].mean():.0f} % of the time, its peers in job {job.job.label} "
        f"that copy as much in {100 * peers.mean():.0f} %: {counted(len(job.gpus), 'GPU')} wait "
        "for it"
    )
    seconds = lost * len(job.gpus) * (window.end - window.start)
    return LinkLoss(seconds, job.uuids, Evidence(_WORK[2][0], job.subject, text, lost))


def _of_job(job: JobLook, window: Window, behind: Sequence[str]) -> LinkLoss | None:
    past = job.past([key for key, _, _ in _WORK], PAST_S)
    if not len(past.times):
        return None
    util = past.columns[_WORK[2][0]]
    before = (past.times < window.start) & (past.times >= window.start - _BEFORE_S)
    since = past.begins > window.start
    is_mine = np.isin(job.uuids, list(behind))
    for key, floor, what in _WORK:
        work = np.where(util >= _AT_WORK, past.columns[key], np.nan)
        high, low = _parts(past, before, work), _parts(past, since, work)
        if high is None or low is None:
            return None
        is_known = np.isfinite(high).sum(axis=0) >= _LEAST_PARTS
        is_known &= np.isfinite(low).sum(axis=0) >= _LEAST_PARTS
        least, then, now = np.fmin.reduce(high), _mean(high), _mean(low)
        is_comparable = is_known & (least >= floor)
        if not is_comparable[is_mine].any():
            continue
        falls = 1.0 - now / np.where(is_comparable, then, 1.0)
        is_clear = is_comparable & (np.fmax.reduce(low) < least) & (falls >= _LEAST_FALL)
        if not is_clear[is_mine].any():
            return None
        at_work = past.seconds[since] @ (util[since] >= _AT_WORK) / past.seconds[since].sum()
        lost = (falls * at_work)[is_clear]
        places = np.flatnonzero(is_clear)
        text = (
            f"{what} of {counted(len(places), 'GPU')} of job {job.job.label}: "
            f"{100 * then[places].mean():.0f} % in the hour before, "
            f"{100 * now[places].mean():.0f} % since: {100 * falls[places].mean():.0f} % is lost"
        )
        return LinkLoss(
            float(lost.sum()) * (window.end - window.start),
            tuple(job.uuids[place] for place in places),
            Evidence(key, job.subject, text, float(falls[places].mean())),
        )
    return None


def _mean(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    known = np.isfinite(parts).sum(axis=0)
    means: NDArray[np.float64] = np.nansum(parts, axis=0) / np.maximum(known, 1)
    return means


def _parts(
    past: Past, is_in: NDArray[np.bool_], work: NDArray[np.floating]
) -> NDArray[np.float64] | None:
    """Means of the parts of some rows, part by GPU; NaN: too little is known, None: too short."""
    rows = np.flatnonzero(is_in)
    if not len(rows) or past.seconds[rows].sum() < _PARTS * _PART_S:
        return None
    passed = np.cumsum(past.seconds[rows])
    edges = np.searchsorted(passed, passed[-1] * np.arange(1, _PARTS) / _PARTS)
    found = []
    for part in np.split(rows, edges):
        seconds = past.seconds[part]
        known = seconds @ np.isfinite(work[part])
        total = seconds @ np.nan_to_num(work[part]).astype(np.float64)
        is_enough = known >= _LEAST_KNOWN * max(1.0, float(seconds.sum()))
        found.append(np.where(is_enough, total / np.maximum(known, 1.0), np.nan))
    return np.stack(found)
