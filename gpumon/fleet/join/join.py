"""Jobs, GPUs, processes and ranks joined into one picture.

A GPU is its UUID. Slurm's IDX counts the device files of gres.conf, so the way from a job to its
GPUs is IDX, device file, minor number, UUID. What a job holds is what Slurm gave it, what it uses
is where its processes are seen: these name its GPUs only where Slurm does not.
"""

from __future__ import annotations

from itertools import chain
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.fleet.join.devices import gpus_of, is_stale
from gpumon.fleet.join.labelled_jobs import labelled_jobs, labelled_of, with_labels
from gpumon.fleet.join.nodes import NodeNames, by_uuid, nodes_of
from gpumon.fleet.join.processes import KnownProcesses
from gpumon.fleet.join.ranks import KnownRanks
from gpumon.fleet.join.unowned_processes import is_mig, strays_of
from gpumon.model.job_states import HOLDING_STATES, has_ended
from gpumon.model.records.cluster import JobView, Node

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpumon.fleet.join.disputes import Disputes
    from gpumon.fleet.join.labelled_jobs import Labelled
    from gpumon.model.fault import SourceError
    from gpumon.model.records.cluster import Allocation, Gpu, Job, Process, SlurmNode
    from gpumon.model.records.frame import Frame, QueueRecords


_DEVICE: Final = "/dev/nvidia"


class JoinedFleet(NamedTuple):
    """The joined fleet at one instant."""

    nodes: dict[str, Node]
    gpus: dict[str, Gpu]
    jobs: tuple[JobView, ...]
    strays: tuple[Process, ...] = ()
    """Processes of no job on GPUs that no job holds."""


class Remembered:
    """What the tick before was made of, so that only what has changed is made anew."""

    def __init__(self) -> None:
        """There was no tick before."""
        self.processes = KnownProcesses()
        self.ranks = KnownRanks()


def join(
    frames: Sequence[Frame],
    queue: QueueRecords | None,
    errors: Mapping[str, tuple[SourceError, ...]],
    now: float,
    stale_after_s: float,
    left: Mapping[tuple[str, str], float] = MappingProxyType({}),
    disputes: Disputes | None = None,
    remembered: Remembered | None = None,
) -> JoinedFleet:
    """The fleet as the newest frames and the queue's last answer show it.

    Args:
        frames: Newest frame with values of every node and origin.
        queue: Last answer of the queue, None without one.
        errors: What is wrong now with a node, by the name its source uses.
        now: Unix time of the tick.
        stale_after_s: Age beyond which values are no longer shown as the present.
        left: Since when a source looks at a node no more, by origin and node: Unix time.
        disputes: GPUs that two nodes of one target claim; None: there are none.
        remembered: Of the tick before, kept for the next one; None: all is made anew.
    """
    remembered = remembered or Remembered()
    names = NodeNames(queue.nodes if queue else ())
    named = by_uuid(
        [(names.canonical(frame.node, frame.host_names), frame) for frame in frames], names
    )
    listed_jobs = remembered.processes.begin(queue.jobs if queue else None)
    gpus = gpus_of(named, now, stale_after_s, listed_jobs, disputes, remembered.processes)
    on_node: dict[str, list[Gpu]] = {}
    for gpu in gpus.values():
        on_node.setdefault(gpu.node, []).append(gpu)
    called = {frame.node: name for name, frame in named}
    troubles = {
        called.get(node) or names.canonical(node, ()): trouble
        for node, trouble in errors.items()
        if node
    }
    nodes = nodes_of(named, queue, on_node, troubles, now, stale_after_s, left)
    fresh = [(name, frame) for name, frame in named if not is_stale(frame, now, stale_after_s)]
    labelled = labelled_of(fresh, disputes)
    all_jobs = labelled_jobs(labelled) if queue is None else queue.jobs
    if not all_jobs and queue is None:
        return JoinedFleet(nodes, gpus, ())
    slurm_nodes = queue.nodes if queue else ()
    remembered.ranks.begin()
    jobs = _views(all_jobs, slurm_nodes, gpus, on_node, labelled, remembered.ranks)
    if queue is not None and labelled:
        jobs = with_labels(jobs, labelled)
    if disputes:
        jobs = _with_disputes(jobs, disputes.others())
    return JoinedFleet(nodes, gpus, jobs, strays_of(jobs, slurm_nodes, on_node))


def _views(
    jobs: Sequence[Job],
    slurm_nodes: Sequence[SlurmNode],
    gpus: Mapping[str, Gpu],
    on_node: Mapping[str, list[Gpu]],
    labelled: Labelled,
    ranks: KnownRanks,
) -> tuple[JobView, ...]:
    """The jobs with their GPUs and ranks."""
    listed = {node.name: node for node in slurm_nodes}
    by_job = _by_job(gpus.values(), jobs)
    nothing_seen = _Seen({}, {})
    given = {
        (job.job_id, allocation.node): list(labelled[job.job_id][allocation.node])
        if job.is_labelled
        else _given(allocation, on_node.get(allocation.node, ()), listed.get(allocation.node))
        for job in jobs
        for allocation in job.allocations
    }
    owned = frozenset(chain.from_iterable(given.values()))
    nothing: dict[str, dict[str, None]] = {}
    views = tuple(
        _view(
            *(job, on_node, given, owned, by_job.get(job.job_id, nothing_seen)),
            labelled.get(job.job_id, nothing),
            ranks,
        )
        for job in jobs
    )
    return _with_intruders(views)


class _Seen(NamedTuple):
    """Processes of one job by node and PID."""

    now: dict[tuple[str, int], Process]
    """Those that the present shows: ranks and contradictions rest on these alone."""
    ever: dict[tuple[str, int], Process]
    """Also those that a silent node told of last. Which GPUs of a node are a job's does not change
    while it holds some there, so these may still say it."""

    def add(self, process: Process, is_now: bool) -> None:
        """Take in a process that computes, or did, on a GPU."""
        if process.compute_uuids != process.gpu_uuids:
            process = process._replace(gpu_uuids=process.compute_uuids)
        self.ever[process.node, process.pid] = process
        if is_now:
            self.now[process.node, process.pid] = process


def _by_job(gpus: Iterable[Gpu], jobs: Iterable[Job]) -> dict[str, _Seen]:
    """Processes by the id of their job."""
    found: dict[str, _Seen] = {}
    over_at = {job.job_id: _over_at(job) for job in jobs}
    for gpu in gpus:
        for process in gpu.compute_processes:
            if process.job_id is not None:
                is_now = not gpu.is_stale and gpu.taken_at > over_at.get(process.job_id, -inf)
                found.setdefault(process.job_id, _Seen({}, {})).add(process, is_now)
    return found


def _over_at(job: Job) -> float:
    """Up to when what is seen of a job is history.

    The queue and the nodes are asked at different moments: a process that was seen before its job
    ended contradicts nothing. Of a job that waits, what was seen is of the run before or of one
    that has begun since Slurm was asked, so that nothing is a rank of what Slurm lists.
    """
    if job.state in HOLDING_STATES:
        return -inf
    return (job.end_at or -inf) if has_ended(job.state) else inf


def _minors(node: SlurmNode) -> tuple[int, ...]:
    """Minor number of every IDX; empty where gres.conf does not say it for all of them."""
    files = node.gpu_files
    numbers = [file[len(_DEVICE) :] for file in files if file.startswith(_DEVICE)]
    are_all = len(numbers) == len(files) and all(number.isdecimal() for number in numbers)
    return tuple(map(int, numbers)) if are_all else ()


def _view(
    job: Job,
    on_node: Mapping[str, list[Gpu]],
    given: Mapping[tuple[str, str], Sequence[str]],
    owned: frozenset[str],
    seen: _Seen,
    labelled: Mapping[str, Mapping[str, None]],
    ranks: KnownRanks,
) -> JobView:
    uuids: list[str] = []
    contradictions: list[str] = []
    processes = tuple(seen.now.values())
    unnamed_by = "no label names as its" if job.is_labelled else "Slurm's allocation does not name"
    for allocation in job.allocations:
        derived = given[job.job_id, allocation.node]
        used = _used_on(allocation.node, seen.ever.values())
        # Where Slurm does not say which, a label does as well as a process.
        held = _held(allocation, derived, used.union(labelled.get(allocation.node, ())), owned)
        uuids += held
        contradictions += [
            f"a process of job {job.label} is on {uuid} of {allocation.node}, which {unnamed_by}"
            for uuid in sorted(_used_on(allocation.node, processes) - set(held))
        ]
    if has_ended(job.state):
        contradictions += [
            f"a process of job {job.label} is still on {uuid} of {process.node}, "
            f"though Slurm says {job.state}"
            for process in processes
            for uuid in process.gpu_uuids
        ]
    elsewhere = {p.node for p in processes} - {a.node for a in job.allocations}
    if job.state == "RUNNING":
        contradictions += [
            f"processes of job {job.label} run on {node}, where it holds no GPU"
            for node in sorted(elsewhere)
        ]
    granted = sum(allocation.gpu_count for allocation in job.allocations)
    if any(is_mig(gpu) for a in job.allocations for gpu in on_node.get(a.node, ())):
        # Slurm counts instances there, of which several lie on one GPU.
        granted = len(uuids) if uuids else granted
    return JobView(
        job=job,
        gpu_uuids=tuple(uuids),
        gpus_unknown=max(0, granted - len(uuids)),
        ranks=ranks.of(job.job_id, processes),
        contradictions=tuple(contradictions),
    )


def _with_intruders(views: tuple[JobView, ...]) -> tuple[JobView, ...]:
    """The jobs, of which those whose GPUs another job runs on say so."""
    intruders: dict[str, list[str]] = {}
    for view in views:
        # Whoever is on a GPU that it does not hold has a contradiction of its own.
        if view.contradictions:
            for uuid in set(view.gpu_uuids_used).difference(view.gpu_uuids):
                intruders.setdefault(uuid, []).append(view.job.label)
    if not intruders:
        return views
    found = []
    for view in views:
        more = [
            f"a process of job {label} is on {uuid}, which Slurm gave to job {view.job.label}"
            for uuid in view.gpu_uuids
            for label in sorted(intruders.get(uuid, ()))
        ]
        found.append(view._replace(contradictions=(*view.contradictions, *more)) if more else view)
    return tuple(found)


def _with_disputes(
    views: tuple[JobView, ...], others: Mapping[str, tuple[str, ...]]
) -> tuple[JobView, ...]:
    """The jobs, of which those whose GPUs another node claims, too, say so."""
    found = []
    for view in views:
        more = [
            f"{node} claims {uuid} of job {view.job.label}, too"
            for uuid in view.gpu_uuids
            for node in others.get(uuid, ())
        ]
        found.append(view._replace(contradictions=(*view.contradictions, *more)) if more else view)
    return tuple(found)


def _used_on(node: str, processes: Iterable[Process]) -> set[str]:
    """UUIDs of a node's GPUs that processes are on."""
    return {uuid for process in processes if process.node == node for uuid in process.gpu_uuids}


def _given(allocation: Allocation, gpus: Sequence[Gpu], node: SlurmNode | None) -> list[str]:
    """UUIDs of the GPUs of a node that Slurm says an allocation holds, as far as it says which."""
    minors = _minors(node) if node else ()
    by_minor = {gpu.minor_number: gpu.uuid for gpu in gpus}
    derived = [
        by_minor[minors[index]]
        for index in allocation.gpu_indices or ()
        if index < len(minors) and minors[index] in by_minor
    ]
    in_node = node.gpu_count if node else None
    if derived or not allocation.gpu_count == len(gpus) == in_node:
        return derived
    # A job that holds the whole node needs no order to be known. Slurm's count says whether
    # this is the whole: a probe within a job sees only what that job may open.
    return [gpu.uuid for gpu in sorted(gpus, key=lambda gpu: (gpu.nvml_index or 0, gpu.uuid))]


def _held(
    allocation: Allocation, derived: Sequence[str], used: set[str], owned: frozenset[str]
) -> list[str]:
    """UUIDs that a job holds on one node: what Slurm gave it, the rest by its processes.

    They name no GPU that Slurm gave to somebody, and none where they are on more than it can hold:
    then nobody knows on which of them it may be.
    """
    if allocation.has_shares:
        return [*derived, *sorted(used - set(derived))]
    free = sorted(used - owned)
    is_room = len(derived) + len(free) <= allocation.gpu_count
    return [*derived, *(free if is_room else ())]
