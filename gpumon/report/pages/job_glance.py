"""A job at a glance, beside the list that it is in: verdict, next step, evidence, curve, ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.model.job_states import has_ended
from gpumon.report.charts.chart import chart_lines, time_axis
from gpumon.report.charts.curves import job_activity
from gpumon.report.text.cells import Cell, Tone, paragraph
from gpumon.report.wording.ledger_words import job_ledger_lines
from gpumon.report.wording.paragraphs import finding_lines, job_facts, watching_lines
from gpumon.report.wording.pending import wait_words
from gpumon.report.wording.trend import TREND_S
from gpumon.report.wording.verdict_words import finding_cell, machine_step

if TYPE_CHECKING:
    from gpumon.model.finding import Finding
    from gpumon.model.records.cluster import JobView
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Line

MOST_EVIDENCE: Final = 4
"""Pieces of evidence: the page of the finding has all of them."""

CURVE_HEIGHT: Final = 5
"""Lines of the curve. A choice: 20 steps of braille dots."""

_LEAST_CURVED: Final = 20
"""Lines from which on a curve leaves room for the words."""


def job_glance(digest: Digest, view: JobView, width: int, height: int) -> list[Line]:
    """What is known of a job, what matters first; at most so many lines of so many cells."""
    lines = job_facts(digest, view, width)
    if view.job.state == "PENDING":
        first, *hints = wait_words(digest, view)
        lines += paragraph(first, width, Tone.STRONG)
        for hint in hints:
            lines += paragraph(hint, width, Tone.PLAIN, "→ ", "  ")
        return lines[:height]
    found = _findings(digest, view)
    lines.append(())
    if found:
        lines += _verdict(digest, found[0], width)
    elif view.job.state == "RUNNING":
        lines += watching_lines(digest, view, width) or [(Cell("no finding", Tone.GOOD),)]
    if height >= _LEAST_CURVED:
        lines += _curve(digest, view, width)
    for other in found[1:]:
        cell = finding_cell(digest.tick, other)
        lines += paragraph(f"{cell.text}: {other.summary}", width, cell.tone)
    ledger_lines = job_ledger_lines(digest, view, width)
    if ledger_lines:
        lines += [(), *ledger_lines]
    return lines[:height]


def _findings(digest: Digest, view: JobView) -> list[Finding]:
    """Findings about a job and its nodes, first the one that its row shows."""
    if has_ended(view.job.state):
        return []
    first = digest.shown_finding(view)
    every = (*digest.findings_by_job.get(view.job.job_id, ()), *digest.findings_of_nodes(view))
    others = [one for one in every if first is None or one.identity != first.identity]
    return others if first is None else [first, *others]


def _verdict(digest: Digest, finding: Finding, width: int) -> list[Line]:
    """What it claims, the first steps for its owner and for who runs the machine, and why."""
    lines = finding_lines(digest.tick, finding, width, is_full=False)
    if finding.advice:
        for step in finding.machine_advice[:1]:
            lines += paragraph(machine_step(digest.tick, step), width, Tone.INFO, "  → ", "    ")
    for evidence in finding.evidence[:MOST_EVIDENCE]:
        lines += paragraph(evidence.text, width, Tone.DIM, "  · ", "    ")
    return lines


def _curve(digest: Digest, view: JobView, width: int) -> list[Line]:
    """Its activity over the same time as in the list."""
    panel = job_activity(digest, view, TREND_S)
    if panel is None:
        return []
    drawn = chart_lines(panel.chart, width, CURVE_HEIGHT)
    return [(), panel.title, *drawn, *time_axis(panel.chart, width)]
