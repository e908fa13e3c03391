"""Which rows have a finding that the user should look at, and which of these come next."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from gpumon.model.finding import Finding, Severity
from gpumon.model.records.cluster import JobView
from gpumon.report.facts.rows import GpuRow
from gpumon.report.facts.tick_index import RankRow
from gpumon.report.tables.node import NodeRow

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from gpumon.report.facts.tick_index import Digest

    Identity = tuple[str, str, str]


def problems_of(digest: Digest, row: object) -> tuple[Finding, ...]:
    """Findings about a row that are open, a warning at least, and not acknowledged."""
    return tuple(finding for finding in _findings_of(digest, row) if _is_problem(finding))


def next_problem(
    digest: Digest, rows: Sequence[object], at: int, met: Collection[Identity], steps: int
) -> int | None:
    """Where the next row with a problem is; None: no other row has one.

    Args:
        digest: The tick.
        rows: The rows in the order of the screen.
        at: The row to go on from.
        met: Findings that were gone to already; a row with another one comes first.
        steps: 1: downwards, where the last is followed by the first; -1: upwards.
    """
    may, count = _may_have_one(digest), len(rows)
    if steps < 0:
        above = chain(range(min(at, count) - 1, -1, -1), range(count - 1, at, -1))
        return next((i for i in above if may(rows[i]) and problems_of(digest, rows[i])), None)
    others: list[int] = []
    # No further than to the first that was not gone to: below it may be a hundred thousand rows.
    for index, row in enumerate(rows):
        if may(row) and index != at and (problems := problems_of(digest, row)):
            if any(one.identity not in met for one in problems):
                return index
            others.append(index)
    return next((i for i in others if i > at), others[0] if others else None)


def _may_have_one(digest: Digest) -> Callable[[object], bool]:
    """Whether a row may have a problem: of a large fleet's few are named at all."""
    by_gpu, by_job = _by_gpu(digest), digest.findings_by_job
    has_nodes = any(one.subject.startswith("node:") for one in digest.tick.findings)

    def may(row: object) -> bool:
        if isinstance(row, JobView):
            return row.job.job_id in by_job or has_nodes
        if isinstance(row, GpuRow):
            return row.gpu is None or row.gpu.uuid in by_gpu
        return True

    return may


def _is_problem(finding: Finding) -> bool:
    is_grave = finding.severity.rank >= Severity.WARNING.rank
    return is_grave and finding.is_open and not finding.is_acknowledged


def _findings_of(digest: Digest, row: object) -> Iterable[Finding]:
    match row:
        case Finding():
            return (row,)
        case JobView():
            return (*digest.findings_by_job.get(row.job.job_id, ()), *digest.findings_of_nodes(row))
        case GpuRow():
            if row.gpu is None:
                return digest.findings_of_node(row.node.name)
            # What is found is found about the whole GPU, in whose row it is met.
            return _by_gpu(digest).get(row.gpu.uuid, ()) if row.instance is None else ()
        case NodeRow():
            return digest.findings_of_node(row.node.name)
        case RankRow():
            found = digest.row_finding(row)
            return () if found is None else (found,)
    return ()


def _by_gpu(digest: Digest) -> dict[str, list[Finding]]:
    """Findings about a GPU, or that name it."""

    def made() -> dict[str, list[Finding]]:
        found: dict[str, list[Finding]] = {}
        for finding in digest.tick.findings:
            named = {finding.subject, *(one.subject for one in finding.evidence)}
            uuids = {name.removeprefix("gpu:") for name in named if name.startswith("gpu:")}
            for uuid in uuids | set(finding.gpus):
                found.setdefault(uuid, []).append(finding)
        return found

    return digest.remembered(("problems", "by gpu"), made)
