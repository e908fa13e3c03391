"""GPUs and their processes from the newest frames, each GPU under its UUID."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.fleet.join.completing import OriginRow, completed
from gpumon.fleet.join.processes import KnownProcesses
from gpumon.model.records.cluster import Gpu
from gpumon.sources.address import rank_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpumon.fleet.join.disputes import Disputes
    from gpumon.fleet.join.processes import Listed
    from gpumon.model.records.block import Block
    from gpumon.model.records.frame import Frame


def is_stale(frame: Frame, now: float, stale_after_s: float) -> bool:
    """Whether what a frame tells is no longer of the present.

    Args:
        frame: What an origin said.
        now: Unix time of the tick.
        stale_after_s: Age beyond which that is so, unless its source asks for longer.
    """
    if frame.over_at is not None and now >= frame.over_at:
        return True
    return now - frame.taken_at > max(stale_after_s, frame.stale_after_s)


def worth(candidate: Frame | Gpu, *, is_old: bool) -> tuple[bool, int, float]:
    """What tells which of two origins counts: the larger.

    Args:
        candidate: What an origin said.
        is_old: Whether that is no longer of the present.
    """
    return not is_old, rank_of(candidate.origin), candidate.taken_at


def gpus_of(
    frames: Iterable[tuple[str, Frame]],
    now: float,
    stale_after_s: float,
    listed: Listed,
    disputes: Disputes | None = None,
    made: KnownProcesses | None = None,
) -> dict[str, Gpu]:
    """Every GPU by UUID; one that two targets report is taken from the better origin.

    A probe that is not silent is better than an exporter, and that is better than a server that has
    gathered its pages; of two alike the fresher one counts. What that one does not tell is filled
    in from the others that are heard (`completed`). One that two nodes of a target claim is taken
    from the one that had it first.

    Args:
        frames: Canonical node name and newest frame of that node, per origin.
        now: Unix time of the tick.
        stale_after_s: Age beyond which values are no longer shown as the present.
        listed: the queue's jobs.
        disputes: What several nodes claim.
        made: Processes of the tick before; None: all are made anew.
    """
    gpus: dict[str, Gpu] = {}
    others: dict[str, list[Gpu]] = {}
    # Asked once, not for each of eighty thousand GPUs.
    disputes = disputes or None
    made = made or KnownProcesses()
    for node, frame in frames:
        block = frame.block("gpu")
        held = made.of(frame, node, listed)
        is_old = is_stale(frame, now, stale_after_s)
        for row, uuid in enumerate(block.keys):
            if disputes is not None and disputes.is_refused(frame, uuid):
                continue
            processes = held.get(uuid, ())
            gpu = Gpu(
                uuid=uuid,
                node=node,
                block=block,
                row=row,
                taken_at=frame.taken_at,
                origin=frame.origin,
                is_stale=is_old,
                processes=processes,
            )
            known = gpus.get(uuid)
            if known is None:
                gpus[uuid] = gpu
                continue
            is_better = worth(gpu, is_old=is_old) > worth(known, is_old=known.is_stale)
            gpus[uuid] = gpu if is_better else known
            others.setdefault(uuid, []).append(known if is_better else gpu)
    return {**gpus, **_completed(gpus, others)} if others else gpus


def _completed(gpus: Mapping[str, Gpu], others: Mapping[str, list[Gpu]]) -> dict[str, Gpu]:
    """GPUs of several origins with what the best one does not tell, filled in from the others."""
    by_block: dict[int, dict[int, list[OriginRow]]] = {}
    for uuid, candidates in others.items():
        fresh = [one for one in candidates if not one.is_stale and one.origin != gpus[uuid].origin]
        fresh.sort(key=lambda one: worth(one, is_old=False), reverse=True)
        if fresh and not gpus[uuid].is_stale:
            rows = by_block.setdefault(id(gpus[uuid].block), {})
            rows[gpus[uuid].row] = [OriginRow(one.origin, one.block, one.row) for one in fresh]
    filled: dict[int, tuple[Block, dict[int, dict[str, str]]]] = {}
    found = {}
    for gpu in gpus.values():
        rows = by_block.get(id(gpu.block), {})
        if not rows:
            continue
        if id(gpu.block) not in filled:
            filled[id(gpu.block)] = completed(gpu.block, rows)
        block, borrowed = filled[id(gpu.block)]
        # All GPUs of a block stay together: history gathers them from one.
        found[gpu.uuid] = gpu._replace(block=block, borrowed=borrowed.get(gpu.row, {}))
    return found
