"""Commands about one job that change nothing; every id in them is checked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gpumon.detect.view import JobLook

_JOB_ID: Final = re.compile(r"[1-9][0-9]{0,9}")


def command_id(job: JobLook) -> str | None:
    """The job's id as a command may hold it; None where it is no plain number."""
    return job.job.job_id if _JOB_ID.fullmatch(job.job.job_id) else None


def look_inside(job: JobLook) -> tuple[str, ...]:
    """How to see what a job does on its GPUs, and what it was given."""
    job_id = command_id(job)
    if job_id is None:
        return ()
    return (
        f"What runs on its GPUs: srun --jobid={job_id} --overlap --pty nvidia-smi",
        f"What it was given: scontrol show job -d {job_id}",
    )
