"""Tasks of an array that wait together under one number: each is a job that asks for its own GPUs.

Slurm lists those tasks of an array that have not started as one record, labelled `4_[4-9:2,12%2]`:
ranges with steps, then how many may run at once. What waits is counted by task everywhere.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpumon.model.job_name import TASK_RANGE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumon.model.records.cluster import Job, JobView

_TOGETHER: Final = re.compile(r"_\[([^\]%]*)(?:%[0-9]+)?\]$")


def task_count(job: Job) -> int:
    """Jobs in a record: the tasks of an array that wait together, else one.

    Slurm cuts long lists of tasks and ends them with `...`: what is cut off is not counted.
    """
    found = _TOGETHER.search(job.label) if job.state == "PENDING" else None
    if found is None:
        return 1
    ranges = (TASK_RANGE.fullmatch(part.strip()) for part in found[1].split(","))
    return max(1, sum(_length(*one.groups()) for one in ranges if one is not None))


def _length(first: str, last: str | None, step: str | None) -> int:
    """Tasks of one range, both ends included."""
    if last is None:
        return 1
    return max(0, (int(last) - int(first)) // int(step or 1) + 1)


def asked_gpus(job: Job) -> int | None:
    """GPUs that a job holds or asks for, all waiting tasks of an array together; None: unknown."""
    return None if job.gpu_count is None else job.gpu_count * task_count(job)


def count_tasks(views: Iterable[JobView]) -> int:
    """Jobs that wait, arrays counted by task."""
    return sum(task_count(view.job) for view in views)


def sum_asked(views: Iterable[JobView]) -> int:
    """GPUs that all these wait for, as far as Slurm says."""
    return sum(asked_gpus(view.job) or 0 for view in views)
