"""What a queue and the processes of the simulated fleet report of themselves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from gpumon.model.records.frame import QueueRecords
from gpumon.simulate.cluster.people import UIDS, YOU
from gpumon.simulate.cluster.workloads import gpus_used
from gpumon.simulate.records.jobs import job_records
from gpumon.simulate.records.site import maintenance, node_records, partition_records, sprint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.simulate.cluster.layout import SimNode
    from gpumon.simulate.cluster.schedule import SimJob
    from gpumon.simulate.cluster.sim_cluster import Fleet
    from gpumon.simulate.cluster.timeline import Stay


class SimProcess(NamedTuple):
    """One process that holds GPUs of a node."""

    pid: int
    job: SimJob
    uid: int
    step: str
    task: str | None
    rank_vars: str | None
    """JSON object; None where its environment belongs to another user."""
    start_time_s: float
    rows: tuple[int, ...]
    """Its GPUs' positions in NVML's order."""
    parent_pid: int
    """Of the launcher on the node."""


def queue_records(fleet: Fleet, now: float) -> QueueRecords:
    """Jobs, nodes, partitions and reservations as Slurm lists them at a time."""
    running = fleet.running(now)
    found = sprint(fleet, running)
    reserved = {found[1]: found[0].name} if found else {}
    due = maintenance(fleet, now)
    reservations = ((found[0],) if found else ()) + ((due,) if due else ())
    return QueueRecords(
        jobs=tuple(job_records(fleet, now, reserved)),
        nodes=node_records(fleet, running, found[0] if found else None, now),
        jobs_at=now,
        nodes_at=now,
        partitions=partition_records(fleet),
        reservations=reservations,
    )


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
