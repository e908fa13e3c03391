"""Jobs that have ended and what steps have used, as Slurm's accounting tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.model.fault import SourceError
    from gpumon.model.records.cluster import Job


class StepUsage(NamedTuple):
    """What one step of a job has used; None where the accounting does not say."""

    job_id: str
    step: str
    """`batch`, `extern`, `interactive` or the number of an srun."""
    name: str
    state: str
    """Base state, upper case; empty where only a running step's usage was asked for."""
    exit_code: str
    """`3:0` as sacct prints it; empty while unknown."""
    elapsed_s: float | None
    task_count: int | None
    cpu_used_s: float | None
    """CPU time in user and system mode, of all tasks."""
    max_rss_bytes: float | None
    """Largest resident memory that one of its tasks had."""
    gpu_util_sum_ratio: float | None
    """Slurm's `gres/gpuutil` added up over the step's GPUs: 2.0 may be two busy ones."""
    gpu_mem_bytes: float | None
    """Slurm's `gres/gpumem` added up over the step's tasks."""
    energy_j: float | None
    """Energy of its nodes; None also where the accounting says 0, which means not gathered."""


class EndedJob(NamedTuple):
    """One job that has ended."""

    job: Job
    """As in the queue; `gpu_count` is what it held, `exit_code` what it left with."""
    elapsed_s: float | None
    """Time that it ran, without the time for which it was suspended."""
    gpu_seconds: float | None
    """GPUs held times `elapsed_s`; 0 for a job that never began."""
    cancelled_by: str
    """Number of the user who cancelled it, from slurmrestd the name; empty: nobody, or not told."""
    cpu_used_s: float | None
    """CPU time of all its steps."""
    max_rss_bytes: float | None
    """Largest resident memory of a single task."""
    gpu_util_ratio: float | None
    """Mean over its GPUs, as the cluster itself gathered it; None where it does not."""
    gpu_mem_bytes: float | None
    energy_j: float | None
    """Largest energy of a step, since each step counts its nodes as a whole."""
    steps: tuple[StepUsage, ...] = ()

    @property
    def exit_status(self) -> int | None:
        """What the job returned, None where it is not known."""
        return _part(self.job.exit_code, 0)

    @property
    def exit_signal(self) -> int | None:
        """Signal that ended the job, 0 for none, None where it is not known."""
        return _part(self.job.exit_code, 1)

    @property
    def cpu_used_ratio(self) -> float | None:
        """Share of the CPU time it held that it used."""
        held_s = (self.job.cpu_count or 0) * (self.elapsed_s or 0.0)
        return None if self.cpu_used_s is None or not held_s else self.cpu_used_s / held_s

    @property
    def gpu_idle_seconds(self) -> float | None:
        """GPU time without a running kernel, by the utilisation that the cluster gathered."""
        if self.gpu_seconds is None or self.gpu_util_ratio is None:
            return None
        return self.gpu_seconds * max(0.0, 1.0 - self.gpu_util_ratio)


class EndedJobs(NamedTuple):
    """Jobs that ended within a window."""

    jobs: tuple[EndedJob, ...]
    """Those that ended last come first."""
    since: float
    """Unix time at which the window begins."""
    at: float
    """Unix time of the answer, the end of the window."""
    unreadable: int
    """Records of the answer that could not be read and are left out."""


class RunningUse(NamedTuple):
    """What steps that still run have used so far."""

    steps: Mapping[str, tuple[StepUsage, ...]]
    """By the job's number; a job without a step that this user may ask about is absent."""
    at: float
    """Unix time of the answer."""


class EndedReport(NamedTuple):
    """What came of the last questions after ended jobs and running steps."""

    records: EndedJobs | None
    """The newest answer; None: there was none yet."""
    errors: tuple[SourceError, ...] = ()
    running: RunningUse | None = None
    """The newest answer about running steps; None: there was none yet."""


def _part(exit_code: str, place: int) -> int | None:
    """Status or signal of `3:0`."""
    part = exit_code.split(":")[place] if exit_code.count(":") == 1 else ""
    return int(part) if part.isascii() and part.isdecimal() else None
