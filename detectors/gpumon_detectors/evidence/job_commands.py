"""Commands about one job that change nothing; every id in them is checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.plugin import job_name

if TYPE_CHECKING:
    from gpumon.plugin import Job, JobLook


def srun_in(job: Job) -> str | None:
    """The beginning of a command that runs within the job; None where it has no proper id."""
    name = job_name(job.job_id, job.label)
    return None if name is None else f"srun {' '.join(name.srun_words)} --overlap"


def show_job(job: JobLook) -> str | None:
    """The command that tells what a job was given; None where it has no proper id."""
    name = job_name(job.job.job_id, job.job.label)
    return None if name is None else f"scontrol show job -d {name.shown}"


def inspect_commands(job: JobLook) -> tuple[str, ...]:
    """How to see what a job does on its GPUs, and what it was given."""
    within, shown = srun_in(job.job), show_job(job)
    if within is None or shown is None:
        return ()
    return (
        f"What runs on its GPUs: {within} --pty nvidia-smi",
        f"What it was given: {shown}",
    )
