"""Which rows belong to one user: their jobs, GPUs and processes, and what is found about these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.model.finding import Finding
from gpumon.model.records.accounting import EndedJob
from gpumon.model.records.cluster import JobView
from gpumon.report.facts.rows import GpuRow
from gpumon.report.lists.all_processes import owners
from gpumon.report.tables.process import ProcessRow
from gpumon.report.wording.gpu_cells import users_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeVar

    from gpumon.report.facts.tick_index import Digest

    R = TypeVar("R")


def own_rows(digest: Digest, rows: Sequence[R], user: str) -> list[R]:
    """The rows that are about a user's jobs, in their order.

    A GPU without a job is theirs where a process of theirs is on it, and so is a MIG instance.
    """
    return [row for row in rows if _is_own(digest, row, user)]


def _is_own(digest: Digest, row: object, user: str) -> bool:
    match row:
        case JobView() | EndedJob():
            return row.job.user == user
        case GpuRow(instance=None):
            return row.gpu is not None and _holds_gpu(digest, row.gpu.uuid, user)
        case GpuRow():
            return user in users_of(digest, row)
        case ProcessRow():
            return user in owners(digest, row)
        case Finding():
            return _is_about(digest, row.subject, user)
    return False


def _holds_gpu(digest: Digest, uuid: str, user: str) -> bool:
    view, gpu = digest.job_by_gpu.get(uuid), digest.tick.gpus.get(uuid)
    if view is not None:
        return view.job.user == user
    return gpu is not None and any(process.user == user for process in gpu.processes)


def _is_about(digest: Digest, subject: str, user: str) -> bool:
    """Whether a finding's subject is a user's job, a GPU that they hold, or a node of theirs."""
    kind, _, name = subject.partition(":")
    if kind == "job":
        view = digest.job(name.partition("/")[0])
        return view is not None and view.job.user == user
    if kind == "gpu":
        return _holds_gpu(digest, name, user)
    node = digest.tick.nodes.get(name)
    return node is not None and any(_holds_gpu(digest, uuid, user) for uuid in node.gpu_uuids)
