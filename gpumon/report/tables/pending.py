"""The columns of the waiting jobs, and the line that sums them up."""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Final

from gpumon.report.facts.array_tasks import asked_gpus, count_tasks, sum_asked, task_count
from gpumon.report.facts.columns import Column, SortKey, shown_first
from gpumon.report.facts.slurm_nodes import rooms
from gpumon.report.tables.job import search_text
from gpumon.report.text import units
from gpumon.report.text.cells import NO_VALUE, Cell, Tone, paragraph
from gpumon.report.wording.pending import expected_start, hints, place_of, start_words, waiting
from gpumon.report.wording.queue_reasons import meaning_of

if TYPE_CHECKING:
    from gpumon.model.records.cluster import JobView
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Line

MOST_REASONS: Final = 3
"""Reasons named in the summary: the commonest show where the queue is stuck."""


def pending_order(digest: Digest, view: JobView) -> SortKey:
    """By partition, then by their place in it; those without a place last."""
    place = place_of(digest, view)
    position = inf if place is None else float(place.position)
    return (view.job.partition, position, view.job.submit_at or 0.0, view.job.job_id)


def pending_search(digest: Digest, view: JobView) -> str:
    """What the row filter looks through, lower case."""
    words = (view.job.reason, meaning_of(view.job.reason).words, view.job.qos)
    return "\n".join((search_text(digest, view), *words)).lower()


def waits_s(digest: Digest, view: JobView) -> float | None:
    """How long a job has waited."""
    since = view.job.submit_at
    return None if since is None else max(0.0, digest.tick.at - since)


def why_cell(view: JobView) -> Cell:
    """Slurm's reason in plain words; marked where waiting alone does not help."""
    meaning = meaning_of(view.job.reason)
    if meaning.is_stuck:
        return Cell(f"! {meaning.words}", Tone.WARN)
    return Cell(meaning.words)


def start_cell(digest: Digest, view: JobView) -> Cell:
    """When the scheduler expects to start a job."""
    words = start_words(digest, view)
    return Cell(words) if words else NO_VALUE


def _place(digest: Digest, view: JobView) -> Cell:
    place = place_of(digest, view)
    return NO_VALUE if place is None else Cell(str(place.position))


def _wait(digest: Digest, view: JobView) -> Cell:
    wait_s = waits_s(digest, view)
    return NO_VALUE if wait_s is None else Cell(units.short_duration(wait_s))


def _by_wait(digest: Digest, view: JobView) -> SortKey | None:
    wait_s = waits_s(digest, view)
    return None if wait_s is None else (wait_s,)


def _by_start(_digest: Digest, view: JobView) -> SortKey | None:
    start = expected_start(view)
    return None if start is None else (start,)


def _by_place(digest: Digest, view: JobView) -> SortKey | None:
    place = place_of(digest, view)
    return None if place is None else (float(place.position), view.job.partition)


def _number(value: int | None) -> Cell:
    return NO_VALUE if value is None else Cell(str(value))


def _by_number(value: float | None) -> SortKey | None:
    return None if value is None else (float(value),)


def _hint(digest: Digest, view: JobView) -> Cell:
    found = hints(digest, view)
    return Cell(found[0].brief or found[0].text, Tone.DIM) if found else NO_VALUE


_COLUMNS: Final[tuple[Column[JobView], ...]] = (
    Column(
        "position", "POS", 4, "right", priority=1, cell=_place, order=_by_place,
        doc="Place by priority among those that wait in its partition; – for a held job, an "
        "unknown priority, or where jobs of others are not in view (--all shows them). A smaller "
        "job behind may start earlier where it fits in between.",
        unit="",
    ),
    Column(
        "job_id", "JOBID", 8, "left", priority=0,
        cell=lambda _d, v: Cell(v.job.label),
        order=lambda _d, v: (float(v.job.job_id) if v.job.job_id.isdecimal() else inf, v.job.label),
        doc="Slurm's job id; an array task as 6_1.", max_width=16,
    ),
    Column(
        "user", "USER", 8, "left", priority=1,
        cell=lambda _d, v: Cell(v.job.user), order=lambda _d, v: (v.job.user,),
        doc="Owner of the job.", max_width=12,
    ),
    Column(
        "partition", "PART", 6, "left", priority=3,
        cell=lambda _d, v: Cell(v.job.partition), order=lambda _d, v: (v.job.partition,),
        doc="Partition, or the partitions that it may run in.", max_width=10,
    ),
    Column(
        "gpus", "GPUS", 4, "right", priority=0,
        cell=lambda _d, v: _number(asked_gpus(v.job)),
        order=lambda _d, v: _by_number(asked_gpus(v.job)),
        doc="GPUs asked for, by all waiting tasks of an array together.", max_width=0,
        is_descending=True, unit="",
    ),
    Column(
        "nodes", "NODES", 5, "right", priority=4,
        cell=lambda _d, v: _number(v.job.node_count),
        order=lambda _d, v: _by_number(v.job.node_count),
        doc="Nodes asked for.", max_width=0, is_descending=True, unit="",
    ),
    Column(
        "waits", "WAITS", 6, "right", priority=1, cell=_wait, order=_by_wait,
        doc="Time since it was submitted.", max_width=0, is_descending=True, unit="s",
    ),
    Column(
        "start", "STARTS", 9, "right", priority=2, cell=start_cell, order=_by_start,
        doc="When the scheduler expects to start it, at the latest; – where it has not planned "
        "that.",
        unit="s",
        value=lambda d, v: None if (at := expected_start(v)) is None else at - d.tick.at,
    ),
    Column(
        "limit", "LIMIT", 6, "right", priority=6,
        cell=lambda _d, v: Cell(units.short_duration(v.job.time_limit_s)),
        order=lambda _d, v: _by_number(v.job.time_limit_s),
        doc="Time limit.", max_width=0, is_descending=True, unit="s",
    ),
    Column(
        "priority", "PRIORITY", 10, "right", priority=7,
        cell=lambda _d, v: _number(v.job.priority), order=lambda _d, v: _by_number(v.job.priority),
        doc="Slurm's priority.", max_width=0, is_descending=True, unit="",
    ),
    Column(
        "qos", "QOS", 6, "left", priority=8,
        cell=lambda _d, v: Cell(v.job.qos) if v.job.qos else NO_VALUE,
        order=lambda _d, v: (v.job.qos,),
        doc="Quality of service.", max_width=10,
    ),
    Column(
        "why", "WHY", 26, "left", priority=0,
        cell=lambda _d, v: why_cell(v), order=lambda _d, v: (v.job.reason,),
        doc="Slurm's reason in plain words; ! where waiting alone does not help.", max_width=36,
        value=lambda _d, v: v.job.reason,
    ),
    Column(
        "hint", "WHAT HOLDS IT BACK", 33, "left", priority=5, cell=_hint, order=None,
        doc="The first thing known about it; Enter shows everything.", max_width=100,
    ),
)  # fmt: skip

PENDING_COLUMNS: Final = shown_first(
    ("position", "job_id", "user", "partition", "gpus", "start", "why", "hint"), _COLUMNS
)


def pending_summary(digest: Digest, width: int) -> list[Line]:
    """How many wait for how much, what is free, and the commonest reasons."""
    views = waiting(digest)
    if not views:
        return []
    asked, jobs = sum_asked(views), count_tasks(views)
    count = f"{units.counted(jobs, 'job')} wait{'s' * (jobs == 1)}"
    parts = [f"{count} for {units.gpus(asked)}"]
    free = [room.free for room in rooms(digest).values() if room.is_open and room.free]
    if rooms(digest):
        nodes = f" on {units.counted(len(free), 'node')}" if free else ""
        parts.append(f"{sum(free)} free{nodes}")
    waits = [wait for view in views if (wait := waits_s(digest, view)) is not None]
    if waits:
        parts.append(f"longest wait {units.short_duration(max(waits))}")
    reasons: Counter[str] = Counter()
    for view in views:
        reasons[meaning_of(view.job.reason).words] += task_count(view.job)
    parts += [f"{words}: {number}" for words, number in reasons.most_common(MOST_REASONS)]
    text = parts[0]
    for part in parts[1:]:
        if len(text) + len(part) + 3 <= width:
            text += f" · {part}"
    return paragraph(text, width, Tone.DIM)
