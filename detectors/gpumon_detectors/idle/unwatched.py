"""What a job did before anybody watched it, told by the CPU time that it has used since it began.

A GPU that is empty now may have worked for hours before gpumon came. No counter of the GPU says for
whom it worked; but whoever computes on a GPU keeps a CPU busy with it, and the job's control group
counts that from its first second on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import Evidence
from gpumon_detectors.evidence.gpu_use import PAST_S
from gpumon_detectors.evidence.host_use import IDLE_CORES
from gpumon_detectors.evidence.phrases import span
from gpumon_detectors.evidence.stretch import began_with_job

if TYPE_CHECKING:
    from gpumon.plugin import JobLook, Past
    from gpumon_detectors.evidence.host_use import HostUse

_CPU: Final = "job_cpu_us"

_WORK_S: Final = 600.0
"""CPU time for each GPU beyond what the job uses at rest, from which on it has worked. Our choice:
ten minutes of one process a GPU; importing a framework and opening a GPU take seconds of it."""

_NO_WORK_S: Final = 30.0
"""The same up to which no GPU was at work for long: a program that computes on one polls or
launches kernels on a CPU meanwhile. Our choice: half a minute of it is no work."""

_MOST_AT_REST: Final = 2.0
_LIKE_REST: Final = 1.25
"""How much more CPU time than in the rest that was watched may have been spent in one that was not:
what sleeps wakes up now and then. Beyond the first it was work, up to the second it was rest, and
in between nobody can tell (our choice)."""

_SAME_RATIO: Final = 0.2
"""Part by which the CPUs busy before may differ from those busy now in a job that does the same all
the time (our choice: a program that also fed GPUs before needed others)."""


class Unwatched(NamedTuple):
    """What a job used before its first sample."""

    seconds: float
    """How long it ran unwatched."""
    cpu_s: float | None
    """CPU time used meanwhile; None: it is not told."""
    rest_cpu_s: float
    """What the rest as watched would have used in that time."""
    gpus: int

    @property
    def has_worked(self) -> bool:
        """Whether the job worked for so long that its GPUs were in use."""
        least_s = _MOST_AT_REST * self.rest_cpu_s + _WORK_S * self.gpus
        return self.cpu_s is not None and self.cpu_s >= least_s

    @property
    def has_rested(self) -> bool:
        """Whether no GPU can have worked for long."""
        most_s = _LIKE_REST * self.rest_cpu_s + _NO_WORK_S * self.gpus
        return self.cpu_s is not None and self.cpu_s <= most_s

    def slept(self, nodes: int) -> bool:
        """Whether no GPU worked, as far as its CPU time can tell.

        What polls on a CPU at rest may have fed a GPU with as much.

        Args:
            nodes: On how many the job is.
        """
        is_asleep = self.rest_cpu_s <= IDLE_CORES * nodes * self.seconds
        return self.has_rested and is_asleep

    def is_like(self, cores: float) -> bool:
        """Whether about so many CPUs were busy before, too."""
        if self.cpu_s is None or self.seconds <= 0:
            return False
        return abs(self.cpu_s / self.seconds - cores) <= _SAME_RATIO * cores

    def evidence(self, job: JobLook) -> Evidence:
        """What is known of the time before, in words."""
        if self.cpu_s is None:
            text = (
                f"it ran for {span(self.seconds)} before it was watched, and its CPU time since it "
                "began, which could show whether it worked, is unknown"
            )
            return Evidence(_CPU, job.subject, text)
        before = f"in the {span(self.seconds)} before it was watched it used"
        if self.cpu_s < 60.0:
            text = f"{before} less than a minute of CPU time"
        else:
            text = f"{before} {span(self.cpu_s)} of CPU time"
        return Evidence(_CPU, job.subject, text, self.cpu_s)


def unwatched(job: JobLook, watched: Past, host: HostUse, since: float) -> Unwatched | None:
    """What a job did before its first sample; None where it was watched from its start on.

    Args:
        job: The job.
        watched: Its GPUs as watched.
        host: What its CPUs did since, of which the quiet part is the measure.
        since: Unix time since when it rests as watched.
    """
    start_at, first_at = job.job.start_at, float(watched.begins[0])
    if began_with_job(job, watched, first_at):
        return None
    if start_at is None:
        return Unwatched(0.0, None, 0.0, job.gpu_count)
    past = job.cgroup_past((_CPU,), PAST_S)
    cpu_us = past.columns[_CPU]
    rows = np.flatnonzero((cpu_us > 0).all(axis=1))
    if not (cpu_us.size and len(rows)):
        return Unwatched(first_at - start_at, None, 0.0, job.gpu_count)
    seconds = float(past.times[rows[0]]) - start_at
    cpu_s = float(cpu_us[rows[0]].sum(dtype=np.float64)) / 1e6
    at_rest = host.mean_cores(since) if host.is_own else 0.0
    rest_cpu_s = float(np.nan_to_num(at_rest)) * seconds
    return Unwatched(seconds, cpu_s, rest_cpu_s, job.gpu_count)
