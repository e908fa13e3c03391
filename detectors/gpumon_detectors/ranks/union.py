"""Whether some GPUs of a job are ranks that wait for one another, or programs side by side."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import LINK_BUSY_BYTES_PER_S, Evidence
from gpumon_detectors.placement.exchange import NVLINK
from gpumon_detectors.ranks.work_windows import medians, windows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.plugin import JobLook

PAST_S: Final = 3600.0
"""How much of a job's past is read, seconds: history holds every sample for an hour."""
WIDTH_S: Final = 30.0
"""Shortest window in which peers of one job can be compared (see `work_windows`)."""

LEAST_WINDOWS: Final = 20
"""So many tell how far apart they are (our choice: ten minutes)."""

_ALIKE: Final = 0.5
"""What NVLinks carry differs by so much of what the work does, at most, where the ranks are of one
job: in each step all of them exchange as much, whoever has had most to do. Servers and worlds of
their own exchange as they work (our choice)."""


class Union(NamedTuple):
    """What is known of whether GPUs belong to one program of several ranks."""

    is_known: bool
    """Whether they do, for sure."""
    evidence: tuple[Evidence, ...]
    """Why, where their ranks are not told; or that it is not known."""


def union_of(job: JobLook, world: Sequence[int], since: float, spread: float) -> Union:
    """Whether GPUs are ranks of one world.

    Args:
        job: Whose GPUs they are.
        world: Their positions.
        since: Unix time from which on their links are looked at.
        spread: Deviation of the logarithms of what they do, in a window.
    """
    mine = {job.uuids[place] for place in world}
    worlds = {rank.world_id for rank in job.ranks if mine & {*rank.gpu_uuids}}
    if len(worlds) == 1 and None not in worlds:
        return Union(True, ())
    is_named = any(name is not None for name in worlds)
    apart = nan if is_named else _exchanged_apart(job, world, since)
    if apart <= _ALIKE * spread:
        text = f"they are ranks of one job: what their NVLinks carry differs by {100 * apart:.1f} %"
        return Union(True, (Evidence(NVLINK[0], job.subject, text, apart),))
    text = "whether its processes are ranks of one job is not known"
    return Union(False, (Evidence("job", job.subject, text),))


def _exchanged_apart(job: JobLook, world: Sequence[int], since: float) -> float:
    """By how much the ranks of one window differ in what their NVLinks carry; NaN: not known."""
    windows = windows_of(job.past(NVLINK, PAST_S), WIDTH_S)
    means = np.fmax(*(windows.means[key][:, list(world)] for key in NVLINK))
    means = means[(windows.begins >= since) & np.isfinite(means).all(axis=1)]
    if len(means) < LEAST_WINDOWS or means.mean() < LINK_BUSY_BYTES_PER_S:
        return nan
    lead = np.log(np.maximum(means, 1.0))
    return float(np.median((lead - medians(lead)[:, None]).std(axis=1, ddof=1)))
