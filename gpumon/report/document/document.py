"""The JSON document: one tick as plain data, keys with units, null for unknown.

Its form is `document-2.schema.json` beside this file; within a major version it only grows.
What only jobs and findings need is imported where there are any: a single sample of this machine
has none, and is to cost no more than that of other tools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from gpumon import __version__
from gpumon.report.document.ended import ended_jobs, ended_window, running_steps
from gpumon.report.document.ledger import job_lines, ledger_part
from gpumon.report.document.nodes import Machine, cgroups
from gpumon.report.document.queue import (
    job_request,
    partitions,
    queue_age_s,
    reservations,
    slurm_node,
    stray_processes,
    waiting,
)
from gpumon.report.facts.entities import moment, number
from gpumon.report.facts.tick_index import Digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumon.base.footprint import Footprint
    from gpumon.model.fault import SourceError
    from gpumon.model.finding import Coverage, Finding
    from gpumon.model.records.cluster import Job, JobView, Node, Rank
    from gpumon.model.records.tick import TargetState, Tick
    from gpumon.report.document import forms
    from gpumon.report.facts.rows import GpuRow

SCHEMA: Final[Literal["gpumon-document/2"]] = "gpumon-document/2"
"""Name and major version of the document's form."""


def document(
    tick: Tick,
    passes_job: Callable[[JobView], bool] | None = None,
    footprint: Footprint | None = None,
    passes_gpu: Callable[[Digest, GpuRow], bool] | None = None,
    user: str | None = None,
    *,
    has_bounds: bool = False,
) -> forms.Document:
    """The whole tick.

    Args:
        tick: What to report.
        passes_job: Which jobs to report, with their findings; None: all. All nodes are reported,
            with the GPUs of those that a queue lists and the findings about them.
        footprint: What gpumon costs here; None: not measured.
        passes_gpu: Which GPUs to report of nodes that no queue lists, with their findings; None:
            all.
        user: Of these only the GPUs on which this user has processes, and of processes only those;
            None: everyone's.
        has_bounds: Whether to report what bounds these jobs: their past is read for it.
    """
    digest, used, ledger_lines = Digest(tick), cgroups(tick.nodes), job_lines(tick)
    hidden = _hidden(digest, passes_gpu, user)
    jobs = [view for view in tick.jobs if passes_job is None or passes_job(view)]
    return {
        "schema": SCHEMA,
        "tool": _tool(footprint),
        "generated_at": moment(tick.at),
        "observed_since": moment(tick.observed_since),
        "queue_age_s": queue_age_s(digest),
        "targets": [_target(target) for target in tick.targets],
        "nodes": [_node(digest, node, hidden, user) for node in tick.nodes.values()],
        "jobs": [
            _job(
                digest,
                view,
                used=used.get(view.job.job_id, []),
                ledger_line=ledger_lines.get(view.job.job_id),
                bounds=_speed_of_light(digest, view) if has_bounds else None,
            )
            for view in jobs
        ],
        "ended_jobs": ended_jobs(tick),
        "ended_window": ended_window(tick),
        "partitions": partitions(digest),
        "reservations": reservations(digest),
        "stray_processes": stray_processes(digest),
        "ledger": ledger_part(tick),
        "findings": [
            _finding(tick, one)
            for one in _about(tick, hidden, None if passes_job is None else jobs)
        ],
        "coverage": [_coverage(coverage) for coverage in tick.coverage],
        "errors": [_error(error) for error in tick.errors],
    }


def _about(tick: Tick, hidden: frozenset[str], jobs: list[JobView] | None) -> Iterator[Finding]:
    """Findings about these jobs, None: about all, and about GPUs that are reported."""
    subjects = None if jobs is None else {f"job:{view.job.job_id}" for view in jobs}
    for finding in (*tick.findings, *tick.cleared):
        subject, _, _ = finding.subject.partition("/")
        is_wanted = subjects is None or not subject.startswith("job:") or subject in subjects
        if is_wanted and finding.subject.removeprefix("gpu:") not in hidden:
            yield finding


def _tool(footprint: Footprint | None) -> forms.Tool:
    tool: forms.Tool = {"name": "gpumon", "version": __version__}
    if footprint is not None:
        tool["footprint"] = {
            "cpu_ratio": number(footprint.cpu_ratio),
            "rss_bytes": footprint.rss_bytes,
            "children": list(footprint.children),
        }
    return tool


def _error(error: SourceError) -> forms.Error:
    return {"where": error.where, "message": error.message, "hint": error.hint or None}


def _target(target: TargetState) -> forms.Target:
    return {
        "url": target.url,
        "ok": target.is_ok,
        "error": _error(target.error) if target.error else None,
        "age_s": None if target.age_s is None else round(target.age_s, 3),
    }


def _hidden(
    digest: Digest, passes_gpu: Callable[[Digest, GpuRow], bool] | None, user: str | None
) -> frozenset[str]:
    """UUIDs of the GPUs that were not asked for, of nodes that no queue lists."""
    if passes_gpu is None and user is None:
        return frozenset()
    return frozenset(
        gpu.uuid
        for row in digest.gpu_rows
        if (gpu := row.whole) is not None
        and row.node.state is None
        and not (
            (passes_gpu is None or passes_gpu(digest, row))
            and (user is None or any(one.is_of(user) for one in gpu.processes))
        )
    )


def _node(digest: Digest, node: Node, hidden: frozenset[str], user: str | None) -> forms.Node:
    tick, machine = digest.tick, Machine(node, digest.rank_of, user)
    return {
        "name": node.name,
        "state": node.state,
        "age_s": None if node.taken_at is None else round(tick.at - node.taken_at, 3),
        "stale": node.is_stale,
        "left_at": moment(node.left_at),
        "lateness_s": node.lateness_s,
        "slurm": slurm_node(digest, node.name),
        **machine.host(),
        "gpus": [machine.gpu(tick.gpus[uuid]) for uuid in node.gpu_uuids if uuid not in hidden],
        "nics": machine.nics(),
        "filesystems": machine.filesystems(),
        "local_filesystems": machine.local_filesystems(),
        "events": machine.events(tick.at),
        "errors": [_error(error) for error in node.errors],
    }


def _job(
    digest: Digest,
    view: JobView,
    *,
    used: list[forms.Cgroup],
    ledger_line: forms.LedgerLine | None,
    bounds: forms.SpeedOfLight | None,
) -> forms.Job:
    job = view.job
    return {
        "job_id": job.job_id,
        "label": job.label,
        **_names(job),
        "reason": job.reason or None,
        "submitted_at": moment(job.submit_at),
        "started_at": moment(job.start_at),
        "ends_at": moment(job.end_at),
        "time_limit_s": job.time_limit_s,
        "interactive": job.is_interactive,
        "cluster": digest.tick.cluster_of(job.job_id),
        **job_request(job),
        "waiting": waiting(digest, view),
        "nodes": list(job.nodes),
        "gpu_count": job.gpu_count,
        "allocations": list(_allocations(job)),
        "gpus": list(view.gpu_uuids),
        "gpus_unknown": view.gpus_unknown,
        "gpus_used": list(view.gpu_uuids_used),
        "ranks": [_rank(rank) for rank in view.ranks],
        "cgroups": used,
        "contradictions": list(view.contradictions),
        "running_steps": running_steps(digest.tick, job.job_id),
        "waste": ledger_line,
        "speed_of_light": bounds,
    }


def _names(job: Job) -> forms.JobNames:
    """What a queue calls a job; null where only a label of an exporter names it."""
    is_listed = not job.is_labelled
    return {
        "name": job.name if is_listed else None,
        "user": job.user if is_listed else None,
        "account": job.account if is_listed else None,
        "partition": job.partition if is_listed else None,
        "state": job.state if is_listed else None,
        "told_by": "slurm" if is_listed else "labels",
    }


def _speed_of_light(digest: Digest, view: JobView) -> forms.SpeedOfLight:
    # Imported here, because few documents have it.
    from gpumon.report.document.job_bounds import speed_of_light_part

    return speed_of_light_part(digest, view)


def _allocations(job: Job) -> Iterator[forms.Allocation]:
    """One entry per GPU, as Slurm gave them, with or without telemetry."""
    for part in job.allocations:
        indices = part.gpu_indices
        for place in range(part.gpu_count if indices is None else len(indices)):
            yield {
                "node": part.node,
                "index": None if indices is None else indices[place],
                "type": (part.gpu_types[place] if part.gpu_types else "") or None,
            }


def _rank(rank: Rank) -> forms.Rank:
    return {
        "step": rank.step,
        "world_id": rank.world_id,
        "rank": rank.rank,
        "local_rank": rank.local_rank,
        "world_size": rank.world_size,
        "node": rank.node,
        "pid": rank.pid,
        "program": rank.program,
        "gpu_uuids": list(rank.gpu_uuids),
        "why": rank.why,
    }


def _finding(tick: Tick, finding: Finding) -> forms.Finding:
    from gpumon.report.facts.losses import loss_of

    loss = loss_of(tick, finding)
    return {
        "detector": finding.detector,
        "class": finding.finding_class,
        "subject": finding.subject,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "summary": finding.summary,
        "evidence": [
            {"field": e.field, "subject": e.subject, "text": e.text, "value": number(e.value)}
            for e in finding.evidence
        ],
        "window": {
            "start": moment(finding.window.start),
            "end": moment(finding.window.end),
            "duration_s": round(finding.window.end - finding.window.start, 3),
            "samples": finding.window.samples,
        },
        "first_seen": moment(finding.first_seen),
        "last_seen": moment(finding.last_seen),
        "advice": list(finding.advice),
        "machine_advice": list(finding.machine_advice),
        "is_learned": finding.is_learned,
        "gpu_seconds": number(finding.gpu_seconds),
        "wasted_gpu_seconds": None if loss is None else round(loss.wasted_s, 3),
        "suspected_gpu_seconds": None if loss is None else round(loss.suspected_s, 3),
        "gpus": list(finding.gpus),
        "onset": moment(finding.began_at),
        "cleared_at": moment(finding.cleared_at),
        "unknown_since": moment(finding.unknown_since),
        "acknowledged": finding.is_acknowledged,
        "category": finding.category or None,
        "owner": list(finding.owners),
    }


def _coverage(coverage: Coverage) -> forms.Coverage:
    return {
        "detector": coverage.detector,
        "state": coverage.state,
        "subjects_seen": coverage.subjects_seen,
        "subjects_blind": coverage.subjects_blind,
        "missing_fields": list(coverage.missing_fields),
        "declined": [{"why": why, "subjects": count} for why, count in coverage.reasons],
        "unseen": [
            {"what": what, "subjects": len(names)} for what, names in coverage.unseen.items()
        ],
        "note": coverage.note or None,
    }
