"""Jobs that have ended and what steps have used, as Slurm's accounting lists it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.model.fault import SourceError
    from gpumon.model.records.cluster import Job


class StepUsage(NamedTuple):
    """What one step of a job has used; None where the accounting does not list it."""

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
    """Energy of its nodes; None also where the accounting has 0, which means not gathered."""
    mem_used_bytes: float | None = None
    """Largest resident memories of its tasks, added up."""


class EndedJob(NamedTuple):
    """One run of a job that has ended.

    A job that was requeued, preempted, lost its node or changed its size has several, all with its
    number. Each held its GPUs from its own start to its own end.
    """

    job: Job
    """As in the queue; `gpu_count` is what it held, `exit_code` what it left with."""
    elapsed_s: float | None
    """Time that it ran, without the time for which it was suspended."""
    gpu_seconds: float | None
    """GPUs held times `elapsed_s`; 0 for a job that never began."""
    cancelled_by: str
    """Number of the user who cancelled it, from slurmrestd the name; empty: no one, or unknown."""
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
    mem_used_bytes: float | None = None
    """Host memory of the step that used most: the largest of each of its tasks, added up."""
    jobstats_fields: tuple[str, ...] = ()
    """Names of the fields above that Jobstats gave, as Slurm had nothing."""

    @property
    def run_key(self) -> str:
        """What no other run has, also where Slurm has given a number twice."""
        return f"{self.job.job_id} {self.job.submit_at} {self.job.start_at}"

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
    def mem_used_ratio(self) -> float | None:
        """Share of the host memory it held that it used at most."""
        held, used = self.job.mem_bytes, self.mem_used_bytes
        return None if used is None or not held else used / held

    @property
    def gpu_idle_seconds(self) -> float | None:
        """GPU time without a running kernel, by the utilisation that the cluster gathered."""
        if self.gpu_seconds is None or self.gpu_util_ratio is None:
            return None
        return self.gpu_seconds * max(0.0, 1.0 - self.gpu_util_ratio)

    def gpu_seconds_since(self, since: float) -> float | None:
        """The part of `gpu_seconds` that it held from then on; None where either is unknown.

        When it was suspended is not known, so the whole part counts, up to all that it ran.
        """
        job = self.job
        if not self.gpu_seconds or job.start_at is None or job.start_at >= since:
            return self.gpu_seconds
        if job.end_at is None:
            return None
        return min(self.gpu_seconds, (job.gpu_count or 0) * max(0.0, job.end_at - since))


class EndedJobs(NamedTuple):
    """Runs that ended within a window."""

    jobs: tuple[EndedJob, ...]
    """Those that ended last come first."""
    since: float
    """Unix time at which the window begins."""
    at: float
    """Unix time of the answer, the end of the window."""
    unreadable: int
    """Records of the answer that could not be read and are left out."""
    has_last_runs_only: bool = False
    """Whether earlier runs of jobs that were requeued are missing, as by slurmrestd of 22.05."""

    @property
    def held(self) -> tuple[float | None, int]:
        """GPU-seconds that its runs held within the window, and of how many they are unknown.

        None where there are runs and they are unknown of all.
        """
        given = [ended.gpu_seconds_since(self.since) for ended in self.jobs]
        known = [seconds for seconds in given if seconds is not None]
        return (sum(known) if known or not given else None), len(given) - len(known)


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
