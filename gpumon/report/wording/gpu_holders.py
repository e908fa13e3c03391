"""Who is on a GPU, or on a MIG instance of it: job, users, processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.model.catalogue.process import ONLY_DRAWS
from gpumon.report.facts.rows import processes_of
from gpumon.report.text.cells import EMPTY_CELL, Cell

if TYPE_CHECKING:
    from gpumon.model.records.cluster import JobView
    from gpumon.report.facts.rows import GpuRow
    from gpumon.report.facts.tick_index import Digest


def _job(digest: Digest, row: GpuRow) -> JobView | None:
    """The job that holds the GPU.

    Which instance a job holds nobody tells: there it is the job of what runs in it.
    """
    if row.gpu is None:
        return None
    if row.instance is None:
        return digest.job_by_gpu.get(row.gpu.uuid)
    found = (digest.job(one.job_id) for one in processes_of(digest, row) if one.job_id)
    return next((view for view in found if view is not None), None)


def holder(digest: Digest, row: GpuRow) -> tuple[str, str]:
    """Job label and user of who holds the GPU, empty where nobody does."""
    view = _job(digest, row)
    return ("", "") if view is None else (view.job.label, view.job.user)


def users_of(digest: Digest, row: GpuRow) -> tuple[str, ...]:
    """The owner of the job that holds the GPU; without one, of the processes on it.

    Those that compute come first. A user whom the node does not name is a number.
    """
    view = _job(digest, row)
    if view is not None or row.gpu is None:
        return (view.job.user,) if view is not None and view.job.user else ()
    uuid, everybody = row.gpu.uuid, processes_of(digest, row)
    computing = [one for one in everybody if one.types.get(uuid) != ONLY_DRAWS]
    by_user = (p.user or str(p.uid) for p in (*computing, *everybody) if p.uid is not None)
    return tuple(dict.fromkeys(by_user))


def user_cell(digest: Digest, row: GpuRow) -> Cell:
    """The first of the users, and how many more."""
    users = users_of(digest, row)
    more = len(users) - 1
    return Cell(f"{users[0]} +{more}" if more > 0 else "".join(users))


def process_cell(digest: Digest, row: GpuRow) -> Cell:
    """The first process, and how many more."""
    processes = processes_of(digest, row)
    if not processes:
        return EMPTY_CELL
    first, more = processes[0], len(processes) - 1
    name = first.name or str(first.pid)
    return Cell(f"{name} +{more}" if more else name)
