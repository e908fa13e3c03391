"""One finding in full: the claim, its life, the evidence drawn on the charts that show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.model.finding_classes import class_of, merge
from gpumon.report.charts.chart import chart_lines, time_axis
from gpumon.report.charts.chart_records import Mark
from gpumon.report.charts.curves import field_chart
from gpumon.report.charts.evidence_places import Place, gpu_of_subject, gpu_title, places
from gpumon.report.facts.losses import loss_of, mark_of
from gpumon.report.tables.finding import state_words, subject_words
from gpumon.report.text import units
from gpumon.report.text.cells import Cell, Line, Tone, paragraph
from gpumon.report.wording.loss_words import loss_words
from gpumon.report.wording.paragraphs import facts
from gpumon.report.wording.verdict_words import (
    SEVERITY_SIGNS,
    SEVERITY_TONES,
    machine_step,
    runs_jobs,
)

if TYPE_CHECKING:
    from gpumon.model.finding import Finding
    from gpumon.report.charts.curves import Panel
    from gpumon.report.facts.tick_index import Digest

CHART_HEIGHT: Final = 4
"""Lines of a chart. A choice: 16 steps of braille dots."""
TALL_HEIGHT: Final = 8
"""Lines of a chart where all have room on the screen. A choice: twice as many."""

TALL_ROOM: Final = 48
"""Lines of a screen from which on three tall charts leave room for the words."""

MAX_CHARTS: Final = 6
"""Charts of one finding: more evidence is words alone."""

CHARTS_EACH: Final = 2
"""Charts of one piece of evidence, which may name many links."""

LEAD: Final = 0.25
"""Share of the window's length that is drawn before it, so that its beginning is seen."""

LEAST_S: Final = 120.0
"""Shortest stretch that is drawn, seconds."""


def find(digest: Digest, identity: tuple[str, str, str]) -> Finding | None:
    """The finding at this instant, else as it was cleared."""
    every = (*digest.tick.findings, *digest.tick.cleared)
    return next((finding for finding in every if finding.identity == identity), None)


def finding_entries(
    digest: Digest, finding: Finding, width: int, height: int = 0
) -> list[list[Line]]:
    """The page's paragraphs: the claim with the first thing to do, its life, evidence, the rest.

    `height` is that of the screen in lines: on a tall one charts are taller.
    """
    rows = TALL_HEIGHT if height >= TALL_ROOM else CHART_HEIGHT
    known = class_of(finding)
    mark = mark_of(digest.tick, finding)
    tone = SEVERITY_TONES[mark]
    head = f"{SEVERITY_SIGNS[mark]} {known.title}: {subject_words(digest, finding)}"
    found: list[list[Line]] = [[(Cell(head, tone),), *paragraph(finding.summary, width)]]
    if known.meaning:
        found[0] += paragraph(known.meaning, width, Tone.DIM)
    for step in finding.advice[:1]:
        found[0] += paragraph(step, width, Tone.INFO, "→ ", "  ")
    for step in finding.machine_advice[:1]:
        step = machine_step(digest.tick, step)
        found[0] += paragraph(step, width, Tone.INFO, "→ ", "  ")
    found.append([*_life(digest, finding, width), ()])
    found += _evidence(digest, finding, width, rows)
    mine, theirs = finding.advice[1:], finding.machine_advice[1:]
    if not runs_jobs(digest.tick):
        mine, theirs = (*mine, *theirs), ()
    for title, steps in (("What else to do", mine), ("What else administrators can do", theirs)):
        if steps:
            found.append([(), (Cell(title, Tone.STRONG),)])
            found += [paragraph(step, width, Tone.INFO, "→ ", "  ") for step in steps]
    found += _others(digest, finding, width)
    return found


def _life(digest: Digest, finding: Finding, width: int) -> list[Line]:
    """Since when, how sure, what became of it."""
    window = finding.window
    seen = f"{units.short_duration(window.end - window.start)}, {window.samples} samples"
    loss = loss_of(digest.tick, finding)
    return facts(
        (
            ("state", state_words(digest, finding)),
            ("since", units.clock_time(finding.began_at, with_seconds=True)),
            ("first seen", units.clock_time(finding.first_seen)),
            ("last seen", units.clock_time(finding.last_seen)),
            ("confidence", finding.confidence.value),
            ("window", seen),
            ("lost", loss_words(loss)),
            ("kind", class_of(finding).category.value),
            ("detector", finding.detector),
            ("subject", finding.subject),
        ),
        width,
    )


def stretch_of(finding: Finding, at: float) -> tuple[float, float]:
    """Unix times between which its evidence is drawn: the window with a lead, up to now."""
    begin = min(finding.window.start, finding.began_at)
    end = max(finding.window.end, min(at, finding.last_seen))
    length = max(LEAST_S, end - begin)
    return begin - LEAD * length, end


def _evidence(digest: Digest, finding: Finding, width: int, rows: int) -> list[list[Line]]:
    """Each piece in words; where a curve shows it, the curve with window and onset marked."""
    if not finding.evidence:
        return []
    found: list[list[Line]] = [[(Cell("Evidence", Tone.STRONG),)]]
    drawn: set[tuple[str, str]] = set()
    for evidence in finding.evidence:
        lines = paragraph(evidence.text, width, Tone.PLAIN, "· ", "  ")
        charts = 0
        for place in places(digest, finding, evidence):
            what = (evidence.field, place.name)
            if what in drawn or len(drawn) >= MAX_CHARTS or charts >= CHARTS_EACH:
                continue
            panel = evidence_chart(digest, finding, evidence.field, place)
            if panel is not None:
                drawn.add(what)
                charts += 1
                lines += _drawn("  ", panel, place.title, width, rows)
        found.append(lines)
    if not drawn and (uuid := gpu_of_subject(digest, finding, finding.subject)):
        found += _meanwhile(digest, finding, uuid, width, rows)
    return found


def _drawn(before: str, panel: Panel, title: str, width: int, rows: int) -> list[Line]:
    return [
        (Cell(before), *panel.title, Cell(f" {title}", Tone.DIM)),
        *chart_lines(panel.chart, width, rows),
        *time_axis(panel.chart, width),
    ]


def _meanwhile(
    digest: Digest, finding: Finding, uuid: str, width: int, rows: int
) -> list[list[Line]]:
    """If no evidence is a curve: what the GPU did before and since."""
    gpu = digest.tick.gpus.get(uuid)
    if gpu is None:
        return []
    for key in ("sm_active_ratio", "gpu_util_ratio"):
        place = Place(gpu, uuid, gpu_title(digest, uuid))
        panel = evidence_chart(digest, finding, key, place)
        if panel is not None:
            return [[(), *_drawn("  meanwhile ", panel, place.title, width, rows)]]
    return []


def evidence_chart(digest: Digest, finding: Finding, key: str, place: Place) -> Panel | None:
    """The curve of a field with the window and the onset; None: no curve shows it."""
    stretch = stretch_of(finding, digest.tick.at)
    marks = [Mark(finding.began_at, "onset")]
    if finding.cleared_at is not None:
        marks.append(Mark(finding.cleared_at, "cleared", Tone.GOOD))
    window = (finding.window.start, finding.window.end)
    return field_chart(digest, key, place.entity, place.name, stretch, tuple(marks), window)


def _others(digest: Digest, finding: Finding, width: int) -> list[list[Line]]:
    """Other findings about the same subject, and which of all explains the rest."""
    verdict = merge(digest.tick.findings).get(finding.subject)
    if verdict is None or not verdict.explained:
        return []
    main = verdict.main
    lines: list[Line] = [(), (Cell("Also found", Tone.STRONG),)]
    if main.identity == finding.identity:
        text = "this finding accounts for the others: GPU time is charged to it"
    else:
        text = f"{class_of(main).title} accounts for this one: GPU time is charged to that"
    lines += paragraph(text, width, Tone.DIM)
    for other in (main, *verdict.explained):
        if other.identity != finding.identity:
            text = f"{class_of(other).title}: {other.summary}"
            sign = SEVERITY_SIGNS[mark_of(digest.tick, other)]
            lines += paragraph(text, width, Tone.PLAIN, f"{sign} ", "  ")
    return [lines]
