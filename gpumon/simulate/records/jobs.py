"""The jobs of the simulated fleet as Slurm lists them: running, waiting in line, and held back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpumon.model.records.cluster import Allocation, Job
from gpumon.model.units import HOUR_S
from gpumon.simulate.cluster.people import ACCOUNTS, YOU
from gpumon.simulate.cluster.schedule import FIRST_JOB_ID
from gpumon.simulate.records.site import MAINTENANCE_END_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumon.simulate.cluster.layout import SimNode
    from gpumon.simulate.cluster.schedule import SimJob
    from gpumon.simulate.cluster.sim_cluster import Fleet

_PLANNED: Final = 2
"""Jobs at the head of each partition's line for which the scheduler plans a start."""

_PRIORITY_AT_SUBMISSION: Final = 10_000
"""Priority of a job that has not waited yet; each minute adds 1. Our choice: Slurm has no unit."""


class _HeldBack(NamedTuple):
    """A job that does not start during the demonstration."""

    number: int
    name: str
    user: str
    gpus: int
    nodes: int
    reason: str
    age_h: float
    limit_h: float
    qos: str = "normal"
    start_in_h: float | None = None
    """Expected start behind the fleet's origin."""


# Our choice: reasons for which a job waits that are not those of the line.
_HELD_BACK: Final = (
    _HeldBack(
        FIRST_JOB_ID - 9,
        "ablation-v2",
        YOU,
        4,
        nodes=1,
        reason="JobHeldUser",
        age_h=26.0,
        limit_h=12.0,
    ),
    _HeldBack(
        FIRST_JOB_ID - 7,
        "pretrain-70b",
        "kavya",
        32,
        nodes=4,
        reason="ReqNodeNotAvail,_Reserved_for_maintenance",
        age_h=22.0,
        limit_h=48.0,
        qos="large",
        start_in_h=MAINTENANCE_END_S / HOUR_S,
    ),
    _HeldBack(
        FIRST_JOB_ID - 6,
        "protein-lm",
        "eunji",
        16,
        nodes=2,
        reason="QOSMaxGRESPerUser",
        age_h=19.0,
        limit_h=24.0,
    ),
    _HeldBack(
        FIRST_JOB_ID - 4,
        "nightly-eval",
        "luca",
        1,
        nodes=1,
        reason="BeginTime",
        age_h=12.0,
        limit_h=2.0,
        start_in_h=8.5,
    ),
)


def job_records(fleet: Fleet, now: float, reserved: Mapping[int, str]) -> list[Job]:
    """Every job that Slurm lists at a time.

    Args:
        fleet: The fleet.
        now: Unix time.
        reserved: Reservation by job number.
    """
    running = fleet.running(now)
    jobs = [_running(fleet, job, reserved.get(job.job_id, ""), now) for job in running]
    jobs += _waiting(fleet, running, fleet.waiting(now), now)
    jobs += [_held_record(fleet, held) for held in _HELD_BACK if _fits(fleet, held)]
    leader = next((job for job in running if job.request.user == YOU), None)
    if leader is not None:
        held = _HeldBack(
            number=FIRST_JOB_ID - 2,
            name="evaluate",
            user=YOU,
            gpus=1,
            nodes=1,
            reason="Dependency",
            age_h=0.0,
            limit_h=1.0,
        )
        dependency = f"afterok:{leader.job_id}(unfulfilled)"
        jobs.append(_held_record(fleet, held)._replace(dependency=dependency, eligible_at=None))
    return jobs


def ended_record(fleet: Fleet, job: SimJob) -> Job:
    """A job that ran to its end."""
    end_at = job.end_at or 0.0
    return _running(fleet, job, "", end_at)._replace(state="COMPLETED", end_at=end_at)


def _fits(fleet: Fleet, held: _HeldBack) -> bool:
    """Whether the fleet is large enough that a user would ask for so much."""
    return len(fleet.nodes) >= 2 * held.nodes and fleet.gpus_per_node * held.nodes >= held.gpus


def _running(fleet: Fleet, job: SimJob, reservation: str, now: float) -> Job:
    """A job that holds GPUs; one that is over holds its node while something is left there."""
    request = job.request
    node = fleet.nodes[job.spots[0].node]
    per_gpu = node.cpus_per_gpu
    allocations = tuple(
        Allocation(fleet.nodes[spot.node].name, len(spot.gpus), spot.gpus, per_gpu * len(spot.gpus))
        for spot in job.spots
    )
    start, over_at = job.start_at or 0.0, fleet.over_at(job)
    is_over = over_at is not None and over_at <= now
    return Job(
        job_id=str(job.job_id),
        label=_label(job),
        name=request.name,
        user=request.user,
        account=request.account,
        partition=request.partition,
        state="COMPLETING" if is_over else "RUNNING",
        reason="",
        nodes=tuple(allocation.node for allocation in allocations),
        allocations=allocations,
        gpu_count=request.shape.world,
        submit_at=job.submit_at,
        start_at=start,
        end_at=over_at if is_over else start + request.limit_s,
        time_limit_s=request.limit_s,
        reservation=reservation,
        **_asked(fleet, job, node, start - job.submit_at),
    )


def _label(job: SimJob) -> str:
    return str(job.job_id) if job.array_task is None else f"{job.array_id}_{job.array_task}"


def _asked(fleet: Fleet, job: SimJob, node: SimNode, waited_s: float) -> dict[str, Any]:
    """What a job asked for, whether it has it yet or not."""
    request = job.request
    is_interactive = request.workload.is_interactive
    folder = f"/home/{request.user}/runs/{request.name}"
    output = None if is_interactive else f"{folder}/slurm-{_label(job)}.out"
    gpus = request.shape.world
    return {
        "is_interactive": is_interactive,
        "qos": _qos(request.shape.nodes, is_interactive=is_interactive),
        "features": request.partition if request.shape.nodes > 1 else "",
        "priority": _PRIORITY_AT_SUBMISSION + int(waited_s / 60.0),
        "eligible_at": job.submit_at,
        "restart_count": 0,
        "node_count": request.shape.nodes,
        "cpu_count": gpus * node.cpus_per_gpu,
        "mem_bytes": float(gpus * (node.host_mem_bytes // (fleet.gpus_per_node + 1))),
        "work_dir": folder,
        "stdout_path": output,
        "stderr_path": output,
        "gpus_per_node": -(-gpus // request.shape.nodes),
    }


def _qos(nodes: int, *, is_interactive: bool) -> str:
    if is_interactive:
        return "interactive"
    return "large" if nodes > 1 else "normal"


def _waiting(
    fleet: Fleet, running: Sequence[SimJob], waiting: Sequence[SimJob], now: float
) -> list[Job]:
    """Pending jobs, one record per array; the first of a partition waits for resources."""
    records, served, arrays = [], dict[str, list[float]](), set[int]()
    for job in waiting:
        request = job.request
        line = served.setdefault(request.partition, [])
        label, job_id, reason = str(job.job_id), job.job_id, "Priority"
        if job.array_task is not None:
            if job.array_id in arrays:
                continue
            arrays.add(job.array_id)
            last = request.array_tasks - 1
            span = f"{job.array_task}-{last}" if job.array_task < last else str(last)
            label = f"{job.array_id}_[{span}%{request.array_throttle}]"
            job_id, reason = job.array_id, "JobArrayTaskLimit"
        elif not line:
            reason = "Resources"
        plan: tuple[float | None, tuple[str, ...]] = (None, ())
        if job.array_task is None and len(line) < _PLANNED:
            start, nodes = _plan(fleet, running, job, now)
            line.append(max([start, *line]))
            plan = line[-1], nodes
        records.append(_pending(fleet, job, (str(job_id), label, reason), plan, now))
    return records


def _plan(
    fleet: Fleet, running: Sequence[SimJob], job: SimJob, now: float
) -> tuple[float, tuple[str, ...]]:
    """When and where a job fits at the latest, should every running one use up its limit."""
    releases: dict[int, list[tuple[float, int]]] = {}
    for other in running:
        ends_by = (other.start_at or 0.0) + other.request.limit_s
        for spot in other.spots:
            releases.setdefault(spot.node, []).append((ends_by, len(spot.gpus)))
    ready = []
    for node in fleet.nodes:
        if node.is_drained or node.partition != job.request.partition:
            continue
        ends = sorted(releases.get(node.number, []))
        free, at = len(node.gpus) - sum(gpus for _, gpus in ends), now + 60.0
        for ends_by, gpus in ends:
            if free >= job.request.shape.gpus:
                break
            free, at = free + gpus, ends_by
        ready.append((at, node.name))
    chosen = sorted(ready)[: job.request.shape.nodes]
    return chosen[-1][0], tuple(sorted(name for _, name in chosen))


def _pending(
    fleet: Fleet,
    job: SimJob,
    texts: tuple[str, str, str],
    plan: tuple[float | None, tuple[str, ...]],
    now: float,
) -> Job:
    request = job.request
    job_id, label, reason = texts
    node = next(one for one in fleet.nodes if one.partition == request.partition)
    return Job(
        job_id=job_id,
        label=label,
        name=request.name,
        user=request.user,
        account=request.account,
        partition=request.partition,
        state="PENDING",
        reason=reason,
        nodes=(),
        allocations=(),
        gpu_count=request.shape.world,
        submit_at=job.submit_at,
        start_at=plan[0],
        end_at=None,
        time_limit_s=request.limit_s,
        expected_nodes=plan[1],
        **_asked(fleet, job, node, now - job.submit_at),
    )


def _held_record(fleet: Fleet, held: _HeldBack) -> Job:
    node = fleet.nodes[0]
    submit_at = fleet.origin - held.age_h * HOUR_S
    start_at = None if held.start_in_h is None else fleet.origin + held.start_in_h * HOUR_S
    folder = f"/home/{held.user}/runs/{held.name}"
    is_held = held.reason == "JobHeldUser"
    begins = start_at if held.reason == "BeginTime" else submit_at
    return Job(
        job_id=str(held.number),
        label=str(held.number),
        name=held.name,
        user=held.user,
        account=ACCOUNTS[held.user],
        partition=node.partition,
        state="PENDING",
        reason=held.reason,
        nodes=(),
        allocations=(),
        gpu_count=held.gpus,
        submit_at=submit_at,
        start_at=start_at,
        end_at=None,
        time_limit_s=held.limit_h * HOUR_S,
        qos=_qos(held.nodes, is_interactive=False),
        priority=0 if is_held else _PRIORITY_AT_SUBMISSION,
        eligible_at=None if is_held else begins,
        restart_count=0,
        node_count=held.nodes,
        cpu_count=held.gpus * node.cpus_per_gpu,
        mem_bytes=float(held.gpus * (node.host_mem_bytes // (fleet.gpus_per_node + 1))),
        work_dir=folder,
        stdout_path=f"{folder}/slurm-{held.number}.out",
        stderr_path=f"{folder}/slurm-{held.number}.out",
        gpus_per_node=-(-held.gpus // held.nodes),
    )
