"""Processes on GPUs from what nodes tell, made anew only where a node tells something else.

Most processes live for hours, and a node tells of them at every tick.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.missing import Reason
from gpumon.model.records.cluster import Process
from gpumon.model.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gpumon.model.records.block import Block
    from gpumon.model.records.cluster import Job
    from gpumon.model.records.frame import Frame

_REMEMBERED: Final = 2**14
"""Texts of rank variables that are read once only: a process keeps its own for life."""

_LONGEST_REMEMBERED: Final = 4096
"""Characters: all variables that a probe sends take half of it."""

CONTEXT_FIELDS: Final = ("context_mem_used_bytes", "type")
PROCESS_FIELDS: Final = (
    *("uid", "parent_pid", "start_time_s", "name", "step", "rank_vars"),
    *("container", "user", "job_id", "sluid"),
)
"""Values and labels of the two blocks that a process is made of: where these are as they were, so
are the processes."""

_WHY: Final = "rank_vars"
"""The one field of which it is kept why it is missing."""


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


class _Made(NamedTuple):
    """The processes of one node, and what they were made of."""

    node: str
    contexts: Block
    owners: Block
    bare: tuple[tuple[Process, int | None], ...]
    """Each without its job, and its row in `owners`."""
    listed: Listed
    job_ids: tuple[str | None, ...]
    """Of `bare`, as `listed` had it."""
    held: Mapping[str, tuple[Process, ...]]
    """By the UUID of each GPU on which they hold a context."""


class KnownProcesses:
    """The processes of all nodes, of which those stay that a node tells of as it did before."""

    def __init__(self) -> None:
        """Nobody has told anything yet."""
        self._before: dict[tuple[str, str], _Made] = {}
        self._now: dict[tuple[str, str], _Made] = {}
        self._jobs: tuple[Job, ...] | None = None
        self._listed = Listed()

    def begin(self, jobs: tuple[Job, ...] | None) -> Listed:
        """Begin a tick: who tells nothing in it is forgotten with the next one.

        Args:
            jobs: What the queue lists; None: there is no queue.
        """
        self._before, self._now = self._now, {}
        if jobs != self._jobs:
            self._jobs, self._listed = jobs, Listed(jobs)
        return self._listed

    def of(self, frame: Frame, node: str, listed: Listed) -> Mapping[str, tuple[Process, ...]]:
        """Processes by the UUID of each GPU on which they hold a context.

        Args:
            frame: What an origin said of a node.
            node: How the node is called.
            listed: The queue's jobs.
        """
        contexts, owners = frame.block("context"), frame.block("process")
        if not contexts.keys:
            return {}
        key = (frame.origin, frame.node)
        made = self._before.get(key)
        if made is not None and node == made.node and _is_same(contexts, owners, made):
            made = _renewed(made._replace(contexts=contexts, owners=owners), listed)
        else:
            bare = tuple(_bare(node, contexts, owners))
            made = _with_jobs(
                _Made(
                    node=node,
                    contexts=contexts,
                    owners=owners,
                    bare=bare,
                    listed=listed,
                    job_ids=(),
                    held={},
                ),
                listed,
            )
        self._now[key] = made
        return made.held


def _is_same(contexts: Block, owners: Block, made: _Made) -> bool:
    """Whether two blocks tell of processes what those told that some were made of."""
    if contexts is made.contexts and owners is made.owners:
        return True
    return (
        _values_of(contexts, CONTEXT_FIELDS) == _values_of(made.contexts, CONTEXT_FIELDS)
        and _values_of(owners, PROCESS_FIELDS) == _values_of(made.owners, PROCESS_FIELDS)
        and _reasons(owners) == _reasons(made.owners)
    )


def _values_of(block: Block, fields: tuple[str, ...]) -> list[object]:
    """What a block says in some of its fields, to be compared: as bytes, for nan equals nothing."""
    columns, labels = block.columns, block.labels
    numbers = [(columns[key].typecode, columns[key].tobytes()) for key in fields if key in columns]
    return [block.keys, numbers, [labels.get(key) for key in fields]]


def _reasons(owners: Block) -> list[Reason | None]:
    if not owners.missing:
        return [None] * len(owners.keys)
    return [owners.missing.get((_WHY, row)) for row in range(len(owners.keys))]


def _renewed(made: _Made, listed: Listed) -> _Made:
    """The same where the queue may list other jobs by now."""
    if listed is made.listed:
        return made
    if _job_ids(made, listed) == made.job_ids:
        return made._replace(listed=listed)
    return _with_jobs(made, listed)


def _with_jobs(made: _Made, listed: Listed) -> _Made:
    """The processes with their jobs, by GPU."""
    job_ids = _job_ids(made, listed)
    held: dict[str, list[Process]] = {}
    for (process, _), job_id in zip(made.bare, job_ids, strict=True):
        whole = process if job_id is None else process._replace(job_id=job_id)
        for uuid in process.gpu_uuids:
            held.setdefault(uuid, []).append(whole)
    return made._replace(
        listed=listed, job_ids=job_ids, held={uuid: tuple(on) for uuid, on in held.items()}
    )


def _job_ids(made: _Made, listed: Listed) -> tuple[str | None, ...]:
    jobs_by_sluid = _jobs_by_sluid(made.owners)
    return tuple(
        None if row is None else _job_id(process, made.owners, row, listed, jobs_by_sluid)
        for process, row in made.bare
    )


def _bare(node: str, contexts: Block, owners: Block) -> Iterator[tuple[Process, int | None]]:
    """The processes of a node, each with its row among `owners`, without their jobs."""
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
    rows = {pid: row for row, pid in enumerate(owners.keys)}
    for pid, on in uuids.items():
        if pid.isascii() and pid.isdecimal():
            place = rows.get(pid)
            process = _process(node, int(pid), owners, place, tuple(on), memory.get(pid))
            yield (process._replace(types=types[pid]) if pid in types else process), place


def _job_id(
    process: Process, block: Block, row: int, listed: Listed, jobs_by_sluid: Mapping[str, str]
) -> str | None:
    """The job that a process belongs to: by its control group, else by its environment and uid."""
    by_cgroup, sluid = block.label("job_id", row), block.label("sluid", row)
    if by_cgroup is not None and sluid is None:
        return by_cgroup
    # Slurm's word counts more than an environment: of a het job that names the leader.
    known = listed.by_sluid.get(sluid) if sluid is not None else None
    if known is not None:
        return known
    job_id = by_cgroup or process.rank_vars.get("SLURM_JOB_ID")
    if sluid is not None:
        job_id = jobs_by_sluid.get(sluid, job_id)
    return job_id if job_id is not None and listed.may_be(job_id, process.uid) else None


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
