"""Who is a peer of whom in a job: its worlds, their ranks, and what several of them share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon_detectors.evidence.watched import mean_over

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gpumon.plugin import JobLook, View

_LATELY_S: Final = 300.0
"""The mean of so long tells whether a job is worth a look back."""

_LEAST_APART: Final = 0.06
"""How far apart a job's GPUs must be now, as a share of what they do, to be worth that."""

_LEAST_APART_W: Final = 0.08
"""Likewise of power: boards of one product differ by some per cent."""

LEAST_GPUS: Final = 3
"""Of two ranks nobody can say which one is odd."""


def worlds_of(job: JobLook) -> list[tuple[int, ...]]:
    """Positions of the GPUs of each world; all of them where nobody tells worlds.

    On a node whose processes may not be read nobody knows the ranks: its GPUs belong to the only
    world that is told where that has as many ranks more.
    """
    place = {uuid: number for number, uuid in enumerate(job.uuids)}
    found: dict[str, dict[int, None]] = {}
    sizes: dict[str, int] = {}
    for rank in job.ranks:
        if rank.world_id is not None:
            mine = found.setdefault(rank.world_id, {})
            mine.update((place[uuid], None) for uuid in rank.gpu_uuids if uuid in place)
            sizes[rank.world_id] = max(sizes.get(rank.world_id, 0), rank.world_size or 0)
    worlds = [tuple(sorted(mine)) for mine in found.values() if mine]
    is_whole = len(found) == 1 and max(sizes.values()) >= len(job.uuids)
    return worlds if worlds and not is_whole else [tuple(range(len(job.uuids)))]


def rank_of(job: JobLook, place: int) -> int | None:
    """The number of the only rank on a GPU, None where it has none, or its number is not one's."""
    uuid = job.uuids[place]
    on_it = {rank.rank for rank in job.ranks if uuid in rank.gpu_uuids and rank.rank is not None}
    if len(on_it) != 1:
        return None
    number = on_it.pop()
    return number if sum(rank.rank == number for rank in job.ranks) == 1 else None


class _Apart:
    """What was found out on one evaluation: several rules ask."""

    def __init__(self) -> None:
        self.found: NDArray[np.bool_] | None = None


def jobs_apart(view: View) -> NDArray[np.bool_]:
    """Running jobs whose GPUs differ by more than a little of late."""
    known = view.shared.setdefault(_Apart, _Apart())
    assert isinstance(known, _Apart)
    if known.found is None:
        known.found = _apart(view)
    return known.found


def _apart(view: View) -> NDArray[np.bool_]:
    groups = view.job_layout.groups
    found = np.zeros(len(view.running), np.bool_)
    if not view.uuids:
        return found
    sm, util, power = (
        mean_over(view.table(view.uuids, (key,), _LATELY_S).columns[key])
        for key in ("sm_active_ratio", "gpu_util_ratio", "power_w")
    )
    # Power differs from board to board: it is asked only where nothing else tells.
    plain = np.where(np.isfinite(sm), np.nan, power)
    for means, share in ((sm, _LEAST_APART), (util, _LEAST_APART), (plain, _LEAST_APART_W)):
        column = np.append(means, np.nan)
        with np.errstate(invalid="ignore"):
            found |= groups.least(column) < (1.0 - share) * groups.most(column)
    is_large: NDArray[np.bool_] = groups.sizes() >= LEAST_GPUS
    return found & is_large


def shared_by(view: View, job: JobLook) -> list[list[str]]:
    """What GPUs of a job may have in common: their node, its switch, its block of nodes."""
    records = [view.nodes[gpu.node].slurm if gpu.node in view.nodes else None for gpu in job.gpus]
    return [
        [gpu.node for gpu in job.gpus],
        [record.leaf_switch if record else "" for record in records],
        [record.block if record else "" for record in records],
    ]


def name_of(job: JobLook, place: int) -> str:
    """A GPU by its rank, where that is known, and its place."""
    number, where = rank_of(job, place), job.gpus[place].place
    return where if number is None else f"rank {number} ({where})"


def common_name(names: Sequence[str], places: Sequence[int] | NDArray[np.intp]) -> str:
    """What some places share and no other has; empty where there is no such thing.

    Args:
        names: Of all places.
        places: Some of them.
    """
    found = {names[place] for place in places}
    name = found.pop() if len(found) == 1 else ""
    return name if name and names.count(name) == len(places) else ""
