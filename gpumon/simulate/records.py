"""What a queue and the processes of the simulated fleet say of themselves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from gpumon.model.cluster import Allocation, Job, SlurmNode
from gpumon.model.frame import QueueRecords
from gpumon.simulate.layout import SimNode, down_node
from gpumon.simulate.people import UIDS, YOU
from gpumon.simulate.workloads import gpus_used

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.simulate.fleet import Fleet
    from gpumon.simulate.schedule import SimJob
    from gpumon.simulate.timeline import Stay


class SimProcess(NamedTuple):
    """One process that holds GPUs of a node."""

    pid: int
    job: SimJob
    uid: int
    step: str
    task: str | None
    rank_vars: str | None
    """JSON object; None where its environment belongs to somebody else."""
    start_time_s: float
    rows: tuple[int, ...]
    """Its GPUs' positions in NVML's order."""
    parent_pid: int
    """Of the launcher on the node."""


def queue_records(fleet: Fleet, now: float) -> QueueRecords:
    """Jobs and nodes as Slurm lists them at a time."""
    running = fleet.running(now)
    jobs = [_running_job(fleet, job) for job in running]
    jobs += _waiting_jobs(fleet.waiting(now))
    held: dict[int, int] = {}
    for job in running:
        for spot in job.spots:
            held[spot.node] = held.get(spot.node, 0) + len(spot.gpus)
    memory = fleet.ailments.memory
    broken = None if memory is None else memory.node
    nodes = [
        _slurm_node(node, held.get(node.number, 0), node.number == broken) for node in fleet.nodes
    ]
    lost = down_node(len(fleet.nodes))
    nodes.append(
        SlurmNode(
            lost, lost, lost, "down+not_responding", fleet.gpus_per_node, (), "Not responding"
        )
    )
    return QueueRecords(tuple(jobs), tuple(nodes), now, now)


def processes_of(fleet: Fleet, node: SimNode, stays: Sequence[Stay]) -> list[SimProcess]:
    """Processes on a node, given what runs on each of its GPUs.

    Args:
        fleet: The fleet.
        node: One of its nodes.
        stays: Per GPU in NVML's order; GPUs that no process has opened yet must not be used.
    """
    groups: dict[tuple[int, int], list[tuple[int, Stay]]] = {}
    for row, stay in enumerate(stays):
        if stay.job is None or not stay.is_used:
            continue
        is_one = stay.job.request.workload.launcher == "process"
        key = (stay.job.job_id, 0 if is_one else stay.local)
        groups.setdefault(key, []).append((row, stay))
    return [_process(fleet, node, members) for _, members in sorted(groups.items())]


def _process(fleet: Fleet, node: SimNode, members: list[tuple[int, Stay]]) -> SimProcess:
    stay = min((stay for _, stay in members), key=lambda stay: stay.local)
    job = stay.job
    if job is None:
        raise ValueError("a process without a job")
    workload = job.request.workload
    alone = "interactive" if workload.is_interactive else "batch"
    step = alone if workload.launcher == "process" else "0"
    task = {"torchrun": stay.spot, "srun": _rank(job, stay), "process": None}[workload.launcher]
    return SimProcess(
        pid=2000 + (job.job_id * 131 + stay.local * 7) % 4_000_000,
        job=job,
        uid=UIDS[job.request.user],
        step=step,
        task=None if task is None else str(task),
        rank_vars=_rank_vars(fleet, job, stay) if job.request.user == YOU else None,
        start_time_s=round(node.up_s + stay.start - fleet.origin + 2.0 + 0.31 * stay.local, 2),
        rows=tuple(row for row, _ in members),
        parent_pid=1999 + job.job_id * 131 % 4_000_000,
    )


def _rank(job: SimJob, stay: Stay) -> int:
    return stay.spot * gpus_used(job.request.workload, job.request.shape.gpus) + stay.local


def _rank_vars(fleet: Fleet, job: SimJob, stay: Stay) -> str:
    """The rank variables as the launcher sets them, one JSON object."""
    workload, shape = job.request.workload, job.request.shape
    used = gpus_used(workload, shape.gpus)
    variables = {"SLURM_JOB_ID": str(job.job_id)}
    if workload.launcher == "process":
        return json.dumps(variables | {"SLURM_LOCALID": "0", "SLURM_PROCID": "0"}, sort_keys=True)
    is_torchrun = workload.launcher == "torchrun"
    rank = _rank(job, stay)
    variables |= {
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": str(stay.spot if is_torchrun else rank),
        "SLURM_LOCALID": "0" if is_torchrun else str(stay.local),
        "SLURM_NTASKS": str(shape.nodes if is_torchrun else shape.nodes * used),
        "RANK": str(rank),
        "LOCAL_RANK": str(stay.local),
        "WORLD_SIZE": str(shape.nodes * used),
        "MASTER_ADDR": fleet.nodes[job.spots[0].node].name,
        "MASTER_PORT": str(29_500 + job.job_id % 1000),
    }
    if is_torchrun:
        variables["TORCHELASTIC_RUN_ID"] = str(job.job_id)
    return json.dumps(variables, sort_keys=True)


def _running_job(fleet: Fleet, job: SimJob) -> Job:
    request = job.request
    per_gpu = fleet.nodes[job.spots[0].node].cpus_per_gpu
    allocations = tuple(
        Allocation(fleet.nodes[spot.node].name, len(spot.gpus), spot.gpus, per_gpu * len(spot.gpus))
        for spot in job.spots
    )
    label = str(job.job_id) if job.array_task is None else f"{job.array_id}_{job.array_task}"
    start = job.start_at or 0.0
    return Job(
        str(job.job_id),
        label,
        request.name,
        request.user,
        request.account,
        request.partition,
        "RUNNING",
        "",
        tuple(allocation.node for allocation in allocations),
        allocations,
        request.shape.world,
        job.submit_at,
        start,
        start + request.limit_s,
        request.limit_s,
        request.workload.is_interactive,
    )


def _waiting_jobs(waiting: Sequence[SimJob]) -> list[Job]:
    """Pending jobs, one record per array; the first of a partition waits for resources."""
    records, served, arrays = [], set[str](), set[int]()
    for job in waiting:
        request = job.request
        label, job_id, reason = str(job.job_id), job.job_id, "Priority"
        if job.array_task is not None:
            if job.array_id in arrays:
                continue
            arrays.add(job.array_id)
            last = request.array_tasks - 1
            span = f"{job.array_task}-{last}" if job.array_task < last else str(last)
            label = f"{job.array_id}_[{span}%{request.array_throttle}]"
            job_id, reason = job.array_id, "JobArrayTaskLimit"
        elif request.partition not in served:
            served.add(request.partition)
            reason = "Resources"
        records.append(_pending_job(job, str(job_id), label, reason))
    return records


def _pending_job(job: SimJob, job_id: str, label: str, reason: str) -> Job:
    request = job.request
    return Job(
        job_id,
        label,
        request.name,
        request.user,
        request.account,
        request.partition,
        "PENDING",
        reason,
        (),
        (),
        request.shape.world,
        job.submit_at,
        None,
        None,
        request.limit_s,
        request.workload.is_interactive,
    )


def _slurm_node(node: SimNode, held: int, is_broken: bool) -> SlurmNode:
    total = len(node.gpus)
    state = "idle" if not held else "allocated" if held == total else "mixed"
    return SlurmNode(
        node.name,
        node.name,
        node.name,
        "idle+drain" if node.is_drained else state,
        total,
        tuple(f"/dev/nvidia{number}" for number in range(total)),
        ("GPU memory row remap pending" if is_broken else "kernel update")
        if node.is_drained
        else "",
    )
