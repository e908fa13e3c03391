"""The findings with their life: what is open, out of sight, known, or over."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from gpumon.model.finding_classes import finding_class
from gpumon.model.records.ledger import Charged
from gpumon.report.facts.losses import loss_of, mark_of
from gpumon.report.pages.finding import find, finding_entries
from gpumon.report.tables.finding import (
    FINDING_COLUMNS,
    finding_key,
    finding_order,
    finding_search,
    state_of,
    subject_words,
)
from gpumon.report.text.cells import Cell, Tone, paragraph
from gpumon.report.wording.empty_states import nothing_lines, resting_words
from gpumon.report.wording.loss_words import LOSING, loss_words
from gpumon.report.wording.paragraphs import unjudged_lines
from gpumon.report.wording.verdict_words import SEVERITY_SIGNS, SEVERITY_TONES
from gpumon.tui.actions.registry import bindings_of
from gpumon.tui.screens.base.finding_actions import Judging
from gpumon.tui.screens.base.page import Page
from gpumon.tui.screens.base.table_view import TableView
from gpumon.tui.widgets.table.grid import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.model.finding import Finding
    from gpumon.model.records.tick import Tick
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Line


_WIDE: Final = 100
"""Cells from which on the head says over which time something was lost."""


def scoped(digest: Digest, scope: str | None) -> tuple[Finding, ...]:
    """Findings about a job, GPU or node and what belongs to it, and those that went away.

    Those of a job's nodes, and of a GPU's node where they name it, come behind.
    """
    kind, _, name = (scope or "").partition(":")
    findings = (*digest.tick.findings, *digest.tick.cleared)
    if not kind:
        return findings
    subjects = {scope}
    naming: tuple[Finding, ...] = ()
    if kind == "job":
        view = digest.tick.job(name)
        naming = digest.findings_of_nodes(view) if view else ()
        subjects |= {f"gpu:{uuid}" for uuid in (view.gpu_uuids if view else ())}
    elif kind == "node":
        node = digest.tick.nodes.get(name)
        subjects |= {f"gpu:{uuid}" for uuid in (node.gpu_uuids if node else ())}
    elif kind == "gpu":
        naming = digest.findings_naming_gpu(name)
    own = (finding for finding in findings if finding.subject.partition("/")[0] in subjects)
    return (*own, *naming)


def _lost(tick: Tick, findings: Sequence[Finding]) -> str:
    """GPU time lost to them since their onsets, from the ledger; empty where there is none."""
    losses = [loss for finding in findings if (loss := loss_of(tick, finding)) is not None]
    whole = Charged(sum(one.wasted_s for one in losses), sum(one.suspected_s for one in losses))
    return loss_words(whole) if sum(whole) >= 1 else ""


class FindingsView(Judging, TableView["Finding"]):
    """One line per finding."""

    view = "findings"
    BINDINGS = bindings_of("findings")
    noun = "findings"
    plan = Plan(FINDING_COLUMNS, finding_key, finding_order, finding_search, led_by=LOSING)

    def __init__(self, came_from: tuple[str, ...] = (), scope: str | None = None) -> None:
        """`scope` is `job:ID`, `gpu:UUID` or `node:NAME`; None: everything."""
        super().__init__()
        self._came_from = came_from
        self._scope = scope

    def trail(self) -> tuple[str, ...]:
        """Where one came from, then this."""
        return (*self._came_from, "findings")

    def finding_scope(self) -> str | None:
        """What the findings are about."""
        return self._scope

    def rows(self, digest: Digest) -> Sequence[Finding]:
        """What is open and what went away within the last hour."""
        return scoped(digest, self._scope)

    def head_lines(self, digest: Digest, width: int) -> list[Line]:
        """How many of which severity, what is muted, and which detectors say nothing."""
        wanted = self.wanted_rows(digest)
        open_ones = [f for f in wanted if state_of(f) in ("open", "unknown")]
        counts = Counter(mark_of(digest.tick, finding) for finding in open_ones)
        cells = [
            Cell(f"{SEVERITY_SIGNS[severity]} {counts[severity]} {severity.value}  ", tone)
            for severity, tone in reversed(SEVERITY_TONES.items())
            if counts[severity]
        ]
        own = [finding for finding in wanted if self._is_own(finding)]
        lost = _lost(digest.tick, [one for one in own if one.cleared_at is None])
        if over := _lost(digest.tick, [one for one in own if one.cleared_at is not None]):
            lost = f"{lost or 'nothing'} lost, cleared: {over}"
        elif lost:
            lost = f"{lost} lost"
        if lost:
            cells.append(Cell(f"{lost}  ", Tone.DIM))
        lines: list[Line] = [tuple(cells)] if cells else []
        lines += unjudged_lines(digest.tick, width)
        return [*lines, *self.mute_lines(digest, width)]

    def _is_own(self, finding: Finding) -> bool:
        """Whether what is lost to it is counted here: a node's is not its jobs' as well."""
        is_of_node = finding.subject.startswith("node:")
        return not is_of_node or not (self._scope or "").startswith(("job:", "gpu:"))

    def empty_words(self, digest: Digest) -> tuple[str, ...]:
        """Nothing was found, or no detector could run."""
        if digest.is_unjudged:
            words = ("No detector has reported yet.", "f shows what they could and could not see.")
            return resting_words(digest.tick) or words
        if digest.is_waiting:
            return ("No finding yet: the detectors wait for their windows to fill.",)
        return ("No finding.", "f shows what the detectors could and could not see.")

    def current_finding(self) -> Finding | None:
        """The one under the cursor."""
        return self.grid.current

    def open_row(self, row: Finding) -> None:
        """Open the finding."""
        self.app.push_screen(self.gpumon.views.finding(row.identity, self.trail()))

    def action_findings(self) -> None:
        """Everything in full, and what the detectors could not see."""
        views = self.gpumon.views
        self.app.push_screen(views.findings_in_full(self.trail(), self._scope))


class FindingScreen(Judging, Page):
    """One finding with its evidence on the charts that show it."""

    view = "finding"
    BINDINGS = bindings_of("finding")

    def __init__(self, identity: tuple[str, str, str], came_from: tuple[str, ...]) -> None:
        super().__init__(finding_class(identity[1]).title, came_from, self._entries)
        self.identity = identity

    def current_finding(self) -> Finding | None:
        """This one, as long as it is listed."""
        return find(self.digest, self.identity) if self.digest else None

    def finding_scope(self) -> str | None:
        """Its subject."""
        return self.identity[2].partition("/")[0]

    def amount(self) -> str:
        """Whom it is about."""
        finding = self.current_finding()
        return f"{subject_words(self.digest, finding)} " if finding and self.digest else ""

    def _entries(self, digest: Digest | None, width: int) -> list[list[Line]]:
        if digest is None:
            return [paragraph("Waiting for the first sample …", width, Tone.DIM)]
        finding = find(digest, self.identity)
        if finding is None:
            text = "This finding is not open at this instant: it has not begun, ended more "
            text += "than an hour ago, or is muted."
            words = (text, "Esc goes back.")
            return [nothing_lines(digest, words, width), [*self.mute_lines(digest, width)]]
        return [
            *([line] for line in self.mute_lines(digest, width)),
            *finding_entries(digest, finding, width, self.size.height),
        ]

    def action_open(self) -> None:
        """Open what the finding is about."""
        kind, _, name = self.identity[2].partition(":")
        if kind == "job":
            self._open_job(name.partition("/")[0])
        elif kind == "node":
            self.open_node(name)
        else:
            self.open_gpu(name)
