"""What Slurm's accounting reports of usage, made sane: the same for text, JSON and slurmrestd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.records.accounting import EndedJob, EndedJobs, StepUsage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumon.model.fault import SourceError
    from gpumon.model.records.cluster import Job

MAX_NODE_W: Final = 30_000.0
"""No node draws more: a DGX B200 is rated at 14.3 kW; beyond twice that the count is garbage."""

MAX_GPU_UTIL_RATIO: Final = 1.05
"""Utilisation per GPU beyond this is none: unsupported GPUs report absurd values."""

MAX_BYTES: Final = 2.0**60
"""Bytes of memory beyond which a value is garbage: an exbibyte, more than any job has."""
MAX_SECONDS: Final = 2.0**40
"""CPU seconds beyond which a value is garbage: a million cores for twelve days."""


class EndedList(NamedTuple):
    """Ended runs that were read, and how many records were not."""

    jobs: tuple[EndedJob, ...]
    unreadable: int
    remarks: tuple[SourceError, ...] = ()
    """What was complained about beside the records."""
    has_last_runs_only: bool = False
    """Whether earlier runs of jobs that were requeued are not reported."""

    def within(self, since: float, at: float) -> EndedJobs:
        """The runs that ended since then, the last first, as of the time of the answer."""
        found = [ended for ended in self.jobs if ended.job.end_at and ended.job.end_at >= since]
        found.sort(key=lambda ended: (ended.job.end_at or 0.0, ended.job.job_id), reverse=True)
        return EndedJobs(
            jobs=tuple(found),
            since=since,
            at=at,
            unreadable=self.unreadable,
            has_last_runs_only=self.has_last_runs_only,
        )


def ended_job(
    job: Job, elapsed_s: float | None, steps: Sequence[StepUsage], cancelled_by: str = ""
) -> EndedJob:
    """The run with what its steps have used."""
    count = job.gpu_count
    return EndedJob(
        job=job,
        elapsed_s=elapsed_s,
        gpu_seconds=None if count is None or elapsed_s is None else count * elapsed_s,
        cancelled_by=cancelled_by,
        cpu_used_s=_total(step.cpu_used_s for step in steps),
        max_rss_bytes=_largest(step.max_rss_bytes for step in steps),
        gpu_util_ratio=_gpu_util_ratio(count, steps),
        gpu_mem_bytes=_largest(step.gpu_mem_bytes for step in steps) if count else None,
        energy_j=_sane_energy(_largest(step.energy_j for step in steps), job, elapsed_s),
        steps=tuple(steps),
        mem_used_bytes=_mem_used_bytes(steps),
    )


def with_counted_gpus(jobs: Sequence[EndedJob]) -> tuple[EndedJob, ...]:
    """The jobs, those that name no GPU held none where the accounting counts anybody's GPUs."""
    if not any(ended.job.gpu_count for ended in jobs):
        return tuple(jobs)
    return tuple(
        ended
        if ended.job.gpu_count is not None
        else ended._replace(job=ended.job._replace(gpu_count=0), gpu_seconds=0.0)
        for ended in jobs
    )


def sane(value: float | None, limit: float) -> float | None:
    """The value, None where it is negative or beyond what can be."""
    return value if value is not None and 0 <= value <= limit else None


def _mem_used_bytes(steps: Sequence[StepUsage]) -> float | None:
    """Memory of the step that used most; None where it may be a step without a known value."""
    if any(step.max_rss_bytes and step.mem_used_bytes is None for step in steps):
        return None
    return _largest(step.mem_used_bytes for step in steps)


def mem_used(
    total_bytes: float | None, max_rss_bytes: float | None, task_count: int | None
) -> float | None:
    """Host memory of a step's tasks together; None where it is not reported.

    Args:
        total_bytes: What the accounting adds up, `mem` of TRESUsageInTot.
        max_rss_bytes: The largest of one task, which is all where there is one.
        task_count: Tasks of the step.
    """
    return total_bytes or (max_rss_bytes if task_count == 1 else None)


def gpu_use(
    util_percent: float | None, mem_bytes: float | None
) -> tuple[float | None, float | None]:
    """Utilisation as a ratio and memory of a step's GPUs; both None where both are 0.

    Slurm writes 0 for both where it cannot read the GPU at all (MIG, no NVML).
    """
    util = sane(util_percent, 100.0 * 1024)
    mem = sane(mem_bytes, MAX_BYTES)
    if not util and not mem:
        return None, None
    return (None if util is None else util / 100.0), mem


def _gpu_util_ratio(count: int | None, steps: Sequence[StepUsage]) -> float | None:
    """Mean over the job's GPUs, of the step that used them most."""
    if not count:
        return None
    busiest = _largest(step.gpu_util_sum_ratio for step in steps)
    return None if busiest is None else sane(busiest / count, MAX_GPU_UTIL_RATIO)


def _sane_energy(energy_j: float | None, job: Job, elapsed_s: float | None) -> float | None:
    """The energy where it is possible for that many nodes and seconds; 0 means not gathered."""
    if not energy_j or not elapsed_s:
        return None
    return energy_j if energy_j <= MAX_NODE_W * elapsed_s * max(1, job.node_count or 1) else None


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _total(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
