"""GPUs and their processes from the newest frames, each GPU under its UUID."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from gpumon.fleet.join.completing import Told, completed
from gpumon.model.missing import Reason
from gpumon.model.records.cluster import Gpu, Process
from gpumon.model.text import plain
from gpumon.sources.address import rank_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpumon.fleet.join.disputes import Disputes
    from gpumon.model.records.block import Block
    from gpumon.model.records.cluster import Job
    from gpumon.model.records.frame import Frame

_REMEMBERED: Final = 2**14
"""Texts of rank variables that are read once only: a process keeps its own for life."""

_LONGEST_REMEMBERED: Final = 4096
"""Characters: all variables that a probe sends take half of it."""


class Listed:
    """What the queue lists, to tell whose a process is. Without a queue every word is taken."""

    def __init__(self, jobs: Iterable[Job] | None = None) -> None:
        """Index the jobs by id and by SLUID; None: there is no queue."""
        self._jobs = None if jobs is None else {job.job_id: job for job in jobs}
        listed = (self._jobs or {}).values()
        self.by_sluid = {job.sluid: job.job_id for job in listed if job.sluid}
        """Job ids by the name of their control group."""
        self._newest = max(
            (int(job_id) for job_id in self._jobs or () if job_id.isdecimal()), default=0
        )

    def may_be(self, job_id: str, uid: float | None) -> bool:
        """Whether a process of this user may say of itself that it is the job's.

        Anybody can write a number into an environment, so that its uid must be the job's. A
        number beyond all that are listed may be that of a job that began since.
        """
        if self._jobs is None:
            return True
        job = self._jobs.get(job_id)
        if job is None:
            return job_id.isdecimal() and int(job_id) > self._newest
        return None in (job.user_id, uid) or job.user_id == uid


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


def worth(told: Frame | Gpu, *, is_old: bool) -> tuple[bool, int, float]:
    """What tells which of two origins counts: the larger.

    Args:
        told: What an origin said.
        is_old: Whether that is no longer of the present.
    """
    return not is_old, rank_of(told.origin), told.taken_at


def gpus_of(
    frames: Iterable[tuple[str, Frame]],
    now: float,
    stale_after_s: float,
    listed: Listed,
    disputes: Disputes | None = None,
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
    """
    gpus: dict[str, Gpu] = {}
    others: dict[str, list[Gpu]] = {}
    # Asked once, not for each of eighty thousand GPUs.
    disputes = disputes or None
    for node, frame in frames:
        block = frame.block("gpu")
        held = _processes(frame, node, listed)
        is_old = is_stale(frame, now, stale_after_s)
        for row, uuid in enumerate(block.keys):
            if disputes is not None and disputes.is_refused(frame, uuid):
                continue
            processes = tuple(held.get(uuid, ()))
            told = Gpu(
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
                gpus[uuid] = told
                continue
            is_better = worth(told, is_old=is_old) > worth(known, is_old=known.is_stale)
            gpus[uuid] = told if is_better else known
            others.setdefault(uuid, []).append(known if is_better else told)
    return {**gpus, **_completed(gpus, others)} if others else gpus


def _completed(gpus: Mapping[str, Gpu], others: Mapping[str, list[Gpu]]) -> dict[str, Gpu]:
    """GPUs of several origins with what the best one does not tell, filled in from the others."""
    by_block: dict[int, dict[int, list[Told]]] = {}
    for uuid, told in others.items():
        fresh = [one for one in told if not one.is_stale and one.origin != gpus[uuid].origin]
        fresh.sort(key=lambda one: worth(one, is_old=False), reverse=True)
        if fresh and not gpus[uuid].is_stale:
            rows = by_block.setdefault(id(gpus[uuid].block), {})
            rows[gpus[uuid].row] = [Told(one.origin, one.block, one.row) for one in fresh]
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


def _processes(frame: Frame, node: str, listed: Listed) -> Mapping[str, list[Process]]:
    """Processes by the UUID of each GPU on which they hold a context."""
    contexts, owners = frame.block("context"), frame.block("process")
    if not contexts.keys:
        return {}
    memory: dict[str, dict[str, float]] = {}
    uuids: dict[str, list[str]] = {}
    types: dict[str, dict[str, str]] = {}
    for row, key in enumerate(contexts.keys):
        pid, _, uuid = key.partition("/")
        uuids.setdefault(pid, []).append(uuid)
        used = contexts.value("context_mem_used_bytes", row)
        if used is not None:
            memory.setdefault(pid, {})[uuid] = used
        kind = contexts.label("type", row)
        if kind is not None:
            types.setdefault(pid, {})[uuid] = kind
    held: dict[str, list[Process]] = {}
    rows = {pid: row for row, pid in enumerate(owners.keys)}
    told_here = _jobs_by_sluid(owners)
    for pid, on in uuids.items():
        if pid.isascii() and pid.isdecimal():
            place = rows.get(pid)
            process = _process(node, int(pid), owners, place, tuple(on), memory.get(pid))
            if pid in types:
                process = process._replace(types=types[pid])
            if place is not None:
                process = process._replace(
                    job_id=_job_id(process, owners, place, listed, told_here)
                )
            for uuid in on:
                held.setdefault(uuid, []).append(process)
    return held


def _job_id(
    process: Process, block: Block, row: int, listed: Listed, told_here: Mapping[str, str]
) -> str | None:
    """The job that a process belongs to: by its control group, else by its environment and uid."""
    by_cgroup, sluid = block.label("job_id", row), block.label("sluid", row)
    if by_cgroup is not None and sluid is None:
        return by_cgroup
    # Slurm's word counts more than an environment: of a het job that names the leader.
    known = listed.by_sluid.get(sluid) if sluid is not None else None
    if known is not None:
        return known
    told = by_cgroup or process.rank_vars.get("SLURM_JOB_ID")
    if sluid is not None:
        told = told_here.get(sluid, told)
    return told if told is not None and listed.may_be(told, process.uid) else None


def _jobs_by_sluid(block: Block) -> dict[str, str]:
    """Job ids by the SLUID that names their cgroup, from processes of which both are known.

    One readable process of a job is enough to tell whose the others are.
    """
    found: dict[str, str] = {}
    for row in range(len(block.keys)):
        sluid, job_id = block.label("sluid", row), block.label("job_id", row)
        if sluid and job_id:
            found[sluid] = job_id
    return found


def _process(
    node: str,
    pid: int,
    block: Block,
    row: int | None,
    uuids: tuple[str, ...],
    memory: Mapping[str, float] | None,
) -> Process:
    if row is None:
        nothing: dict[str, str] = {}
        return Process(
            node=node,
            pid=pid,
            name=None,
            uid=None,
            job_id=None,
            step=None,
            rank_vars=nothing,
            why=Reason.NO_PROCESS,
            gpu_uuids=uuids,
            mem_used_bytes=memory or {},
        )
    uid, parent = block.value("uid", row), block.value("parent_pid", row)
    variables = _variables(block.label("rank_vars", row))
    return Process(
        node=node,
        pid=pid,
        name=block.label("name", row),
        uid=None if uid is None else int(uid),
        job_id=None,
        step=block.label("step", row),
        rank_vars=variables,
        why=block.reason("rank_vars", row),
        gpu_uuids=uuids,
        mem_used_bytes=memory or {},
        start_time_s=block.value("start_time_s", row),
        parent_pid=None if parent is None else int(parent),
        container=block.label("container", row),
        user=block.label("user", row),
    )


def _variables(text: str | None) -> Mapping[str, str]:
    """Rank variables of a process, remembered unless only a hostile node would tell them."""
    is_long = text is not None and len(text) > _LONGEST_REMEMBERED
    return _variables_in(text) if is_long else _remembered(text)


@lru_cache(_REMEMBERED)
def _remembered(text: str | None) -> Mapping[str, str]:
    return _variables_in(text)


def _variables_in(text: str | None) -> Mapping[str, str]:
    """What a text tells; one that is no JSON object names none."""
    try:
        variables = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(variables, dict):
        return {}
    return {plain(str(key)): plain(str(value)) for key, value in variables.items()}
