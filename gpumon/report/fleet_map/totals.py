"""The lines that matter: how many GPUs are held, busy, doing useful work, and what is lost."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.model.finding import Severity
from gpumon.model.records.ledger import Charged
from gpumon.report.facts.array_tasks import task_count
from gpumon.report.facts.reference_values import LOW_RATIO
from gpumon.report.facts.slurm_nodes import is_open
from gpumon.report.text import units
from gpumon.report.text.cells import Cell, Tone, safe, text_width
from gpumon.report.wording.loss_words import loss_words
from gpumon.report.wording.verdict_words import SEVERITY_SIGNS, SEVERITY_TONES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.fleet_map.columns import FleetColumns
    from gpumon.report.text.cells import Line

USEFUL_RATIO: Final = 0.50
"""SM activity from which a GPU counts as doing useful work: below it, says NVIDIA's DCGM guide,
the GPU is likely used ineffectively."""


TOTALLED: Final = ("gpu_util_ratio", "sm_active_ratio")
"""Fields of every GPU that are counted."""


class Loss(NamedTuple):
    """GPU time that was wasted."""

    gpu_seconds: float
    """By the books."""
    suspected_s: float
    """GPU-seconds that are suspected, likewise."""
    since: float
    """Unix time from which on it was counted."""
    cost: float | None
    """Its price; None: nobody named one."""
    currency: str


class HeatTotals(NamedTuple):
    """The whole fleet in numbers."""

    gpus: int
    """GPUs that telemetry names, of which everything else is a part."""
    unseen: int
    """GPUs that the queue lists beside them, on nodes that have told nothing."""
    allocated: int | None
    """GPUs that jobs hold; None: no queue tells."""
    busy: int
    """GPUs on which some kernel ran for at least a tenth of the time."""
    busy_known: int
    """GPUs whose duty cycle is known."""
    useful: int
    """GPUs whose SM activity is at least `USEFUL_RATIO`."""
    useful_known: int
    """GPUs whose SM activity is known."""
    loss: Loss | None
    """None: nobody keeps the books, and no finding counts any."""
    findings: tuple[tuple[Severity, int], ...]
    """Open findings by severity, the gravest first; those that nobody has stay out."""
    waiting: int
    oldest_wait_s: float | None
    nodes: int
    nodes_down: int
    """Closed to jobs by the queue: down, drained, in maintenance."""
    nodes_stale: int
    detectors: int = 0
    detectors_waiting: int = 0
    """Those that have not watched the fleet for long enough to judge it."""


def heat_totals(digest: Digest, columns: FleetColumns) -> HeatTotals:
    """Counted once for a picture."""
    return digest.remembered(("heat totals", ""), lambda: _totals(digest, columns))


def _totals(digest: Digest, columns: FleetColumns) -> HeatTotals:
    tick = digest.tick
    duty, active = map(columns.column, TOTALLED)
    busy, busy_known = _at_least(duty, LOW_RATIO)
    useful, useful_known = _at_least(active, USEFUL_RATIO)
    states = Counter(node.state for node in tick.nodes.values())
    grades = Counter(finding.severity for finding in tick.findings)
    pending = [view.job for view in tick.jobs if view.job.state == "PENDING"]
    submitted = [job.submit_at for job in pending if job.submit_at is not None]
    return HeatTotals(
        len(tick.gpus),
        _unseen(digest, columns),
        None if tick.queue_at is None else int(columns.used.sum()),
        busy,
        busy_known,
        useful,
        useful_known,
        _loss(digest),
        tuple((grade, grades[grade]) for grade in reversed(Severity) if grades[grade]),
        sum(task_count(job) for job in pending),
        max(0.0, tick.at - min(submitted)) if submitted else None,
        len(tick.nodes),
        sum(count for state, count in states.items() if state is not None and not is_open(state)),
        sum(1 for node in tick.nodes.values() if node.is_stale and node.left_at is None),
        len(digest.coverage_at_work),
        sum(one.state == "waiting" for one in tick.coverage),
    )


def _unseen(digest: Digest, columns: FleetColumns) -> int:
    """GPUs of the queue's nodes that no telemetry names."""
    roster, queue = columns.roster, digest.tick.queue
    if queue is None or roster.first_slot[-1] == roster.first_row[-1]:
        return 0
    counts = roster.row_counts.tolist()
    named = {unit.name: count for unit, count in zip(roster.units, counts, strict=True)}
    return sum(
        max(0, (node.gpu_count or 0) - named[node.name])
        for node in queue.nodes
        if node.name in named
    )


def _at_least(values: NDArray[np.float64], least: float) -> tuple[int, int]:
    """How many values are that large, and how many are known."""
    return int((values >= least).sum()), int((~np.isnan(values)).sum())


def _loss(digest: Digest) -> Loss | None:
    books = digest.tick.ledger
    if books is None:
        return None
    whole = books.total()
    cost = None if whole.cost is None else sum(whole.wasted_cost.values())
    return Loss(whole.waste_s, whole.suspicion_s, books.since, cost, books.prices.currency)


def total_lines(totals: HeatTotals, width: int) -> list[Line]:
    """What the GPUs do, then what is lost and what waits; on narrow terminals in fewer words."""
    is_wide = width >= _WIDE
    trouble = _packed(_trouble(totals, is_wide), width)
    if len(trouble) > 1:
        trouble = _packed(_trouble(totals, is_wide, has_since=False), width)
    return _packed(_use(totals, is_wide), width) + trouble


_WIDE: Final = 110
"""Cells from which on counts stand beside shares and words beside signs."""


def _use(totals: HeatTotals, is_wide: bool) -> list[Cell]:
    gpus = totals.gpus
    parts = [Cell(units.gpus(gpus), Tone.STRONG)]
    if totals.unseen:
        # All of them, as the groups below count: a share is one of those that are seen.
        whole = units.gpus(gpus + totals.unseen)
        parts[0] = Cell(f"{whole}, {totals.unseen:,} of them unseen", Tone.STRONG)
    if totals.allocated is not None:
        parts.append(Cell(f"{_of(totals.allocated, gpus, is_wide)} allocated"))
    if totals.busy_known:
        parts.append(Cell(f"{_of(totals.busy, gpus, is_wide)} busy"))
    if totals.useful_known:
        text = f"{_of(totals.useful, gpus, is_wide)} {'at ' * is_wide}useful work"
        if totals.useful_known < gpus:
            text += f", {gpus - totals.useful_known:,} unknown"
        parts.append(Cell(text))
    elif gpus:
        words = "useful work –" + (" (no GPU tells SM activity)" if is_wide else "")
        parts.append(Cell(words, Tone.DIM))
    return parts


def _of(count: int, whole: int, is_wide: bool) -> str:
    """A share, with its count where there is room."""
    share = f"{units.percent(count / whole) if whole else units.MISSING} %"
    return f"{count:,} ({share})" if is_wide else share


def _silence_words(totals: HeatTotals) -> str:
    """That nothing was found, or how many detectors have judged by now."""
    if not totals.detectors_waiting:
        return "no finding"
    judged = totals.detectors - totals.detectors_waiting
    return f"watching ({judged} of {totals.detectors})"


def _trouble(totals: HeatTotals, is_wide: bool, has_since: bool = True) -> list[Cell]:
    parts = []
    loss = totals.loss
    if loss is not None:
        lost = Charged(loss.gpu_seconds, loss.suspected_s)
        text = f"lost {loss_words(lost)}"
        if loss.cost is not None:
            text += f", {loss.cost:,.0f} {loss.currency}".rstrip()
        if has_since:
            text += f" since {units.clock_time(loss.since)}"
        parts.append(Cell(text, Tone.WARN if sum(lost) >= 1 else Tone.DIM))
    for grade, count in totals.findings:
        words = f" {_GRADES[grade]}" if is_wide else ""
        parts.append(Cell(f"{SEVERITY_SIGNS[grade]} {count}{words}", SEVERITY_TONES[grade]))
    if not totals.findings:
        parts.append(Cell(_silence_words(totals), Tone.DIM))
    if totals.waiting:
        text = f"{totals.waiting:,} wait{'ing' if is_wide else ''}"
        if totals.oldest_wait_s is not None:
            text += f", longest {units.short_duration(totals.oldest_wait_s)}"
        parts.append(Cell(text))
    if totals.nodes_down:
        words = "down or drained" if is_wide else "out"
        parts.append(Cell(f"{totals.nodes_down} of {totals.nodes:,} nodes {words}", Tone.WARN))
    else:
        parts.append(Cell(f"{totals.nodes:,} node{'' if totals.nodes == 1 else 's'}"))
    if totals.nodes_stale:
        parts.append(Cell(f"{totals.nodes_stale} stale", Tone.WARN))
    return parts


_GRADES: Final = {
    Severity.CRITICAL: "critical",
    Severity.WARNING: "warning",
    Severity.INFO: "info",
}


def _packed(parts: list[Cell], width: int) -> list[Line]:
    """The parts in as few lines as hold them whole."""
    lines: list[list[Cell]] = []
    room = 0
    for part in parts:
        size = text_width(safe(part.text))
        if not lines or size + 3 > room:
            lines.append([part])
            room = width - size
        else:
            lines[-1] += [Cell(" · ", Tone.DIM), part]
            room -= size + 3
    return [tuple(line) for line in lines]
