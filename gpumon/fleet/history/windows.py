"""Windows of the past by job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpumon.model.records.tick import Interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gpumon.fleet.history.reader import HistoryReader, Slab


def held(history: HistoryReader, job_id: str, start: float, end: float) -> tuple[Interval, ...]:
    """Stretches within a window in which the job held a GPU, cut to the window."""
    cut = (
        Interval(uuid, max(start, first), end if last is None else min(end, last))
        for uuid, first, last in history.intervals(job_id)
    )
    return tuple(interval for interval in cut if interval.end and interval.start <= interval.end)


def job_slab(
    history: HistoryReader, job_id: str, keys: Sequence[str], start: float, end: float
) -> tuple[tuple[str, ...], Slab]:
    """UUIDs of every GPU that the job held within a window, and their fields.

    NaN where the job did not hold the GPU, so that no row tells of the job before or after; a
    coarse row counts where the job held the GPU for all of it.
    """
    stretches = held(history, job_id, start, end)
    uuids = tuple(dict.fromkeys(stretch.uuid for stretch in stretches))
    since = min((stretch.start for stretch in stretches), default=end)
    slab = history.slab(uuids, keys, since, end)
    rows = history.rows(since, end)
    firsts = np.array([stretch.start for stretch in stretches])
    lasts = np.array([stretch.end for stretch in stretches], float)
    is_held = (rows.begins[:, None] >= firsts) & (rows.times[:, None] <= lasts)
    if len(stretches) > len(uuids):
        # A job that was requeued held a GPU more than once.
        is_held = _joined(is_held, [stretch.uuid for stretch in stretches], uuids)
    if is_held.all():
        return uuids, slab
    values = np.where(is_held[:, None, :], slab.values, np.float32(np.nan))
    values.flags.writeable = False
    return uuids, slab._replace(values=values)


def _joined(
    is_held: NDArray[np.bool_], of: Sequence[str], uuids: Sequence[str]
) -> NDArray[np.bool_]:
    """By row and GPU what is by row and stretch; `of` names the GPU of each stretch."""
    columns = {uuid: column for column, uuid in enumerate(uuids)}
    joined = np.zeros((len(is_held), len(uuids)), np.bool_)
    for place, uuid in enumerate(of):
        joined[:, columns[uuid]] |= is_held[:, place]
    return joined


def job_spread(
    history: HistoryReader, job_id: str, keys: Sequence[str], start: float, end: float, most: int
) -> tuple[list[float], list[tuple[list[float], list[float], list[float]]]]:
    """Unix times, and per field the mean, the least and the most over a job's GPUs.

    NaN where none is known. Of more than `most` GPUs evenly spread ones are taken.
    """
    uuids, slab = job_slab(history, job_id, keys, start, end)
    every = -(-len(uuids) // most) or 1
    values = slab.values[:, :, ::every]
    known = ~np.isnan(values)
    counts = known.sum(axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(known, values, 0.0).sum(axis=2) / counts
    low = np.where(known, values, np.inf).min(axis=2, initial=np.inf)
    high = np.where(known, values, -np.inf).max(axis=2, initial=-np.inf)
    low, high = (np.where(counts > 0, bound, np.nan) for bound in (low, high))
    return slab.times.tolist(), [
        (mean[:, i].tolist(), low[:, i].tolist(), high[:, i].tolist()) for i in range(len(keys))
    ]
