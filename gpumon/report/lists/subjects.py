"""What a row of a table is about, for commands and for copying."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.model.finding import Finding
from gpumon.model.job_name import job_name
from gpumon.model.job_states import has_ended
from gpumon.model.records.accounting import EndedJob
from gpumon.model.records.cluster import JobView
from gpumon.report.facts.groups import Group, PartitionRow
from gpumon.report.facts.reservations import ReservationRow
from gpumon.report.facts.rows import GpuRow
from gpumon.report.facts.tick_index import RankRow
from gpumon.report.next_steps.commands import Subject
from gpumon.report.tables.node import NodeRow
from gpumon.report.tables.process import ProcessRow
from gpumon.report.wording.gpu_cells import processes_of

if TYPE_CHECKING:
    from gpumon.model.records.cluster import Gpu, Job
    from gpumon.report.facts.tick_index import Digest


def of_row(digest: Digest, row: object) -> Subject | None:
    """What a row is about; None: nothing that commands know."""
    match row:
        case JobView():
            return of_job(row)
        case EndedJob():
            return Subject(job_name(row.job.job_id, row.job.label))
        case RankRow():
            return _of_rank(digest, row)
        case GpuRow():
            return _of_gpu_row(digest, row)
        case ProcessRow():
            return _of_process(digest, row)
        case NodeRow():
            return Subject(node=row.node.name)
        case Group():
            return Subject(group=(row.kind, row.name))
        case PartitionRow():
            return Subject(group=(row.group.kind, row.group.name))
        case ReservationRow():
            return Subject(group=("reservation", row.reservation.name))
        case Finding():
            return of_scope(digest, row.subject)
    return None


def of_job(view: JobView) -> Subject:
    """A job; its node too, where it has one only."""
    return _within(view.job, Subject(node=view.job.nodes[0] if len(view.job.nodes) == 1 else None))


def of_gpu(digest: Digest, gpu: Gpu) -> Subject:
    """A GPU with the job that holds it and the processes on it."""
    view = digest.holder(gpu.uuid)
    pids = tuple(process.pid for process in gpu.processes)
    found = Subject(None, gpu.node, gpu.uuid, pids)
    return _within(view.job, found) if view else found


def _of_gpu_row(digest: Digest, row: GpuRow) -> Subject:
    """A GPU, or its node; of a MIG instance the GPU with what runs in the instance."""
    if row.gpu is None:
        return Subject(node=row.node.name)
    found = of_gpu(digest, row.gpu)
    if row.instance is None:
        return found
    return found._replace(pids=tuple(process.pid for process in processes_of(digest, row)))


def _within(job: Job, subject: Subject) -> Subject:
    """The subject as a part of a job that the queue lists."""
    is_over = has_ended(job.state) or job.state == "COMPLETING"
    state = "" if is_over else job.state
    return subject._replace(job=job_name(job.job_id, job.label), job_state=state)


def _of_rank(digest: Digest, row: RankRow) -> Subject:
    if row.rank is not None:
        found = Subject(None, row.rank.node, row.uuid, (row.rank.pid,))
    elif row.gpu is not None:
        found = of_gpu(digest, row.gpu)
    else:
        found = Subject(uuid=row.uuid)
    return _within(row.job.job, found)


def _of_process(digest: Digest, row: ProcessRow) -> Subject:
    process = row.process
    found = Subject(None, process.node, row.uuid, (process.pid,))
    view = digest.tick.job(process.job_id) if process.job_id is not None else None
    return _within(view.job, found) if view is not None else found


def findings_about(digest: Digest, subject: Subject) -> list[Finding]:
    """What is found about a subject: about its GPU first, then its job, then its node."""
    found: list[Finding] = []
    if subject.uuid is not None:
        found += digest.findings_by_gpu.get(subject.uuid, ())
        found += digest.findings_naming_gpu(subject.uuid)
    if subject.job is not None:
        view = digest.tick.job(subject.job.number)
        own = digest.findings_by_job.get(subject.job.number, ())
        verdict = digest.verdict(view) if view is not None else None
        found += [verdict, *own] if verdict is not None else own
    if subject.node is not None:
        found += digest.findings_of_node(subject.node)
    return list({finding.identity: finding for finding in reversed(found)}.values())[::-1]


def of_scope(digest: Digest, scope: str) -> Subject | None:
    """What `job:ID`, `job:ID/rank:N`, `gpu:UUID` or `node:NAME` names."""
    kind, _, name = scope.partition(":")
    if kind == "job":
        job_id, _, rank = name.partition("/rank:")
        view = digest.tick.job(job_id)
        if view is None:
            return Subject(job_name(job_id))
        found = next((r for r in view.ranks if rank and str(r.rank) == rank), None)
        if found is None:
            return of_job(view)
        uuid = found.gpu_uuids[0] if found.gpu_uuids else None
        return _within(view.job, Subject(None, found.node, uuid, (found.pid,)))
    if kind == "gpu":
        gpu = digest.tick.gpus.get(name)
        return Subject(uuid=name) if gpu is None else of_gpu(digest, gpu)
    return Subject(node=name) if kind == "node" else None
