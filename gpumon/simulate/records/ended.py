"""Jobs of the simulated fleet that have ended, as its accounting lists them.

Of those that ended before the demonstration opened it has gathered how much their GPUs did; what
those did that ended since then is in the ledger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.records.accounting import EndedJob, EndedJobs
from gpumon.model.records.cluster import Job
from gpumon.model.units import GIB, HOUR_S
from gpumon.simulate.cluster.people import ACCOUNTS, FIRST_PARTITION, YOU
from gpumon.simulate.cluster.schedule import FIRST_JOB_ID
from gpumon.simulate.records.jobs import ended_record

if TYPE_CHECKING:
    from gpumon.simulate.cluster.schedule import SimJob
    from gpumon.simulate.cluster.sim_cluster import Fleet

_HELD_GIB: Final = 120.0
"""Host memory that a job holds for each of its GPUs."""

_QUEUED_H: Final = 0.4
"""Hours that each waited for its start. Our choice: long enough to be seen."""


class _Past(NamedTuple):
    """One run that has ended."""

    number: int
    """Below the number of the first job that runs; two with one number are runs of one job."""
    name: str
    user: str
    gpus: int
    state: str
    exit_code: str
    ended_h: float
    """Hours before the fleet's origin."""
    ran_h: float
    util_ratio: float | None
    """What the accounting gathered; None for a job that was too short for a sample."""
    cpu_ratio: float | None
    rss_gib: float | None


# Our choice: every end that accounting knows, of jobs that used much and little.
_PAST: Final = (
    _Past(12, "vit-finetune", YOU, 8, state="COMPLETED", exit_code="0:0", ended_h=0.6, ran_h=5.2,
        util_ratio=0.91, cpu_ratio=0.42, rss_gib=31),
    _Past(14, "sweep-lr-3e-4", YOU, 1, state="OUT_OF_MEMORY", exit_code="0:125", ended_h=1.1,
        ran_h=0.3, util_ratio=0.7, cpu_ratio=0.9, rss_gib=118),
    _Past(15, "tokenize", "amina", 4, state="COMPLETED", exit_code="0:0", ended_h=1.9, ran_h=7.5,
        util_ratio=0.03, cpu_ratio=0.97, rss_gib=54),
    _Past(18, "gnn-pretrain", "bjorn", 8, state="TIMEOUT", exit_code="0:0", ended_h=3.4, ran_h=24.0,
        util_ratio=0.88, cpu_ratio=0.3, rss_gib=40),
    _Past(21, "notebook", YOU, 2, state="CANCELLED", exit_code="0:0", ended_h=6.0, ran_h=8.0,
        util_ratio=0.01, cpu_ratio=0.02, rss_gib=6),
    _Past(25, "smoke-test", "dmitri", 1, state="FAILED", exit_code="1:0", ended_h=9.2, ran_h=0.01,
        util_ratio=None, cpu_ratio=None, rss_gib=None),
    _Past(29, "fold-screen", "eunji", 4, state="COMPLETED", exit_code="0:0", ended_h=15.5,
        ran_h=3.1, util_ratio=0.66, cpu_ratio=0.5, rss_gib=22),
    _Past(29, "fold-screen", "eunji", 4, state="PREEMPTED", exit_code="0:0", ended_h=19.1,
        ran_h=2.2, util_ratio=0.64, cpu_ratio=0.5, rss_gib=21),
)  # fmt: skip


def ended_records(fleet: Fleet, since: float, now: float) -> EndedJobs:
    """The runs that ended since then, those that ended last first."""
    before = [_ended(fleet, past) for past in _PAST if past.gpus <= fleet.gpus_per_node]
    runs = [one for one in before if since <= (one.job.end_at or 0.0) <= now]
    runs += [_watched(fleet, job) for job in fleet.ended(since, now)]
    runs.sort(key=lambda one: one.job.end_at or 0.0, reverse=True)
    return EndedJobs(tuple(runs), since, now, 0)


def _watched(fleet: Fleet, job: SimJob) -> EndedJob:
    """A job that ended since the queue began to move, of which nothing was gathered."""
    record = ended_record(fleet, job)
    elapsed_s = (job.end_at or 0.0) - (job.start_at or 0.0)
    return EndedJob(
        job=record._replace(exit_code="0:0"),
        elapsed_s=elapsed_s,
        gpu_seconds=job.request.shape.world * elapsed_s,
        cancelled_by="",
        cpu_used_s=None,
        max_rss_bytes=None,
        gpu_util_ratio=None,
        gpu_mem_bytes=None,
        energy_j=None,
        mem_used_bytes=None,
    )


def _ended(fleet: Fleet, past: _Past) -> EndedJob:
    node = fleet.nodes[past.number % len(fleet.nodes)]
    cpus = past.gpus * node.cpus_per_gpu
    end_at = fleet.origin - past.ended_h * HOUR_S
    elapsed_s = past.ran_h * HOUR_S
    job = Job(
        job_id=str(FIRST_JOB_ID - past.number),
        label=str(FIRST_JOB_ID - past.number),
        name=past.name,
        user=past.user,
        account=ACCOUNTS[past.user],
        partition=FIRST_PARTITION,
        state=past.state,
        reason="",
        nodes=(node.name,),
        allocations=(),
        gpu_count=past.gpus,
        submit_at=end_at - elapsed_s - _QUEUED_H * HOUR_S,
        start_at=end_at - elapsed_s,
        end_at=end_at,
        time_limit_s=24.0 * HOUR_S,
        exit_code=past.exit_code,
        node_count=1,
        cpu_count=cpus,
        mem_bytes=past.gpus * _HELD_GIB * GIB,
    )
    return EndedJob(
        job=job,
        elapsed_s=elapsed_s,
        gpu_seconds=past.gpus * elapsed_s,
        cancelled_by="",
        cpu_used_s=None if past.cpu_ratio is None else past.cpu_ratio * cpus * elapsed_s,
        max_rss_bytes=None if past.rss_gib is None else past.rss_gib * GIB,
        gpu_util_ratio=past.util_ratio,
        gpu_mem_bytes=None,
        energy_j=None,
        mem_used_bytes=None if past.rss_gib is None else past.rss_gib * GIB,
    )
