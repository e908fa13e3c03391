"""What each rank of a job shows of one field now, and what was found about it."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Final

from gpumon.model.finding import Severity
from gpumon.report.facts.losses import mark_of
from gpumon.report.fleet_map import marks
from gpumon.report.fleet_map.map import MapMarks, Unit
from gpumon.report.fleet_map.marks import FIELDS, Ink
from gpumon.report.rank_map.slots import SLOTS_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.model.finding import Finding
    from gpumon.model.records.cluster import JobView
    from gpumon.report.facts.rank_groups import RankGroup
    from gpumon.report.facts.tick_index import Digest, RankRow
    from gpumon.report.fleet_map.marks import MapField, Mark

MAP_FIELDS: Final = tuple(field for field in FIELDS if field.name_of is None)
"""By what the map of ranks can be drawn: all but whose the GPUs are."""

STRIP_FIELDS: Final = tuple(field for field in MAP_FIELDS if field.keys)
"""What can be drawn over time: everything that has a scale."""

_FIRST_SPAN_S: Final = 900.0
_LONGEST_FIRST_SPAN_S: Final = 2 * 3600.0
_PAST_ONSET: Final = 0.85
"""Share of the chart behind the onset of a finding; the rest is what was before."""

_BY_KEY: Final = {field.key: field for field in FIELDS}

_SIGNS: Final = {
    Severity.INFO: marks.INFO,
    Severity.WARNING: marks.WARNING,
    Severity.CRITICAL: marks.CRITICAL,
}


def first_field(digest: Digest, view: JobView) -> MapField:
    """SM activity, where any GPU of the job reports it; else the duty cycle."""
    return _BY_KEY["duty" if digest.mean(view, "sm_active_ratio") is None else "sm"]


def rank_finding(digest: Digest, row: RankRow) -> Finding | None:
    """What was found about this rank or its GPU; a finding about the whole job marks no rank."""
    found = digest.row_finding(row)
    return _of_some(digest, row.job).get(row.uuid or "") if found is None else found


def faulty_rank(digest: Digest, view: JobView, finding: Finding) -> RankRow | None:
    """The one rank or GPU of a job that a finding is about; None: it is about more, or none."""
    kind, _, name = finding.subject.partition(":")
    number = name.partition("/rank:")[2] if kind == "job" else ""
    for row in digest.rank_rows(view):
        is_named = row.rank is not None and str(row.rank.rank) == number if number else False
        if is_named or (kind == "gpu" and row.uuid == name):
            return row
    return None


def _of_some(digest: Digest, view: JobView) -> dict[str, Finding]:
    """Findings about some of a job's GPUs and not all of them, by UUID, the gravest."""

    def made() -> dict[str, Finding]:
        found: dict[str, Finding] = {}
        whole = len(view.gpu_uuids)
        for finding in digest.findings_by_job.get(view.job.job_id, ()):
            if len(finding.gpus) < whole:
                for uuid in finding.gpus:
                    found.setdefault(uuid, finding)
        return found

    return digest.remembered(("findings of some", view.job.job_id), made)


def finding_signs(digest: Digest, groups: Sequence[RankGroup]) -> dict[int, Mark]:
    """The sign of the gravest finding by position of the rank."""
    rows = [row for group in groups for row in group.rows]
    found = ((at, rank_finding(digest, row)) for at, row in enumerate(rows))
    tick = digest.tick
    return {at: _SIGNS[mark_of(tick, one)] for at, one in found if one is not None}


def rank_marks(digest: Digest, groups: Sequence[RankGroup], field: MapField) -> list[Mark]:
    """One mark for each rank, in the order of the groups."""
    signs = finding_signs(digest, groups) if field.key == "verdict" else {}
    by_field = MapMarks(digest, _BY_KEY["sm"] if field.key == "verdict" else field)
    by_duty = MapMarks(digest, _BY_KEY["duty"])
    found = []
    for at, row in enumerate(row for group in groups for row in group.rows):
        mark = _mark(by_field, row)
        if field.key == "verdict":
            if mark is marks.MISSING:
                mark = _mark(by_duty, row)
            mark = signs.get(at, marks.WORKING if mark.is_filled else mark)
        found.append(mark)
    return found


def rank_value(row: RankRow, field: MapField) -> tuple[MapField, float]:
    """What a rank's GPU shows of a field now, NaN where it is not known.

    Verdicts have no value: SM activity takes their place, or the duty cycle where it is unknown.
    """
    if field.keys:
        return field, _newest(row, field)
    active = _newest(row, _BY_KEY["sm"])
    if active == active:
        return _BY_KEY["sm"], active
    duty = _newest(row, _BY_KEY["duty"])
    return _BY_KEY["sm" if duty != duty else "duty"], duty


def _newest(row: RankRow, field: MapField) -> float:
    values = [None if row.gpu is None else row.gpu.value(key) for key in field.keys]
    first, whole = values[0], values[1] if len(values) == 2 else 1.0
    return nan if first is None or not whole else first / whole


def _mark(map_marks: MapMarks, row: RankRow) -> Mark:
    gpu = row.gpu
    node = map_marks.digest.tick.nodes.get(gpu.node) if gpu is not None else None
    if gpu is None or node is None or gpu.uuid not in node.gpu_uuids:
        return marks.MISSING
    return map_marks.marks(Unit(node.name, len(node.gpu_uuids)))[node.gpu_uuids.index(gpu.uuid)]


def onset_of(digest: Digest, view: JobView) -> tuple[float, Ink] | None:
    """When the evidence of the job's leading finding began; None where none is open."""
    verdict = digest.verdict(view)
    if verdict is None or not verdict.is_open:
        return None
    return verdict.began_at, Ink.BAD if verdict.severity is Severity.CRITICAL else Ink.WARN


def first_slot_s(digest: Digest, view: JobView, count: int) -> float:
    """Seconds of the shortest slot with which `count` of them show what is worth it at first.

    That is the last quarter of an hour, or as much as it takes to see how the leading finding
    began: how a rank parts from its peers shows more than how it goes on.
    """
    tick = digest.tick
    wanted_s = _FIRST_SPAN_S
    onset = onset_of(digest, view)
    if onset is not None:
        since_s = (tick.at - onset[0]) / _PAST_ONSET
        wanted_s = max(wanted_s, since_s) if since_s <= _LONGEST_FIRST_SPAN_S else wanted_s
    seen_s = min(wanted_s, tick.at - tick.observed_since)
    some = (slot for slot in SLOTS_S if slot >= tick.period_s and slot * count >= seen_s)
    return next(some, SLOTS_S[-1])
