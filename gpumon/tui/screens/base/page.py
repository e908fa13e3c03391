"""Texts over a whole screen: help, findings, errors. They follow the tick, and / searches them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from gpumon.report.filter.help import FILTER_HELP
from gpumon.report.tables.finding import subject_words
from gpumon.report.text.cells import Cell, Line, Tone, paragraph
from gpumon.report.wording.empty_states import nothing_lines, resting_words, silent_lines
from gpumon.report.wording.paragraphs import (
    all_errors,
    coverage_lines,
    error_lines,
    finding_lines,
    target_lines,
)
from gpumon.report.wording.verdict_words import MARKS_DOC
from gpumon.tui.actions.action import LISTED
from gpumon.tui.actions.registry import PURPOSES, bindings_of
from gpumon.tui.screens.base.view import View
from gpumon.tui.status import own_lines
from gpumon.tui.widgets.text.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumon.model.finding import Finding
    from gpumon.report.facts.tick_index import Digest
    from gpumon.tui.actions.action import ViewName
    from gpumon.tui.beside import Discovering, LedgerReader
    from gpumon.tui.screens.base.contract import Entries
    from gpumon.tui.status import Mood


class Page(View):
    """One text."""

    view: ClassVar[ViewName] = "page"
    BINDINGS = bindings_of("page")

    def __init__(self, title: str, trail: tuple[str, ...], entries: Entries) -> None:
        super().__init__()
        self._heading = title
        self._trail = trail
        self._entries = entries
        self._needle = ""
        self.reader = Reader()

    def body(self) -> Reader:
        """The text."""
        return self.reader

    def trail(self) -> tuple[str, ...]:
        """Where one came from, then the title."""
        return (*self._trail, self._heading)

    def draw(self) -> None:
        """Write the text for this width."""
        entries = self._entries(self.digest, max(20, self.size.width - 4))
        if self._needle:
            entries = [entry for entry in entries if self._needle in _plain(entry)]
        lines: list[Line] = [()]
        for entry in entries:
            lines += [(Cell("  "), *line) for line in entry]
        if not entries:
            lines += [(Cell("  Nothing contains this text. Esc clears the search.", Tone.DIM),)]
        self.reader.show_lines(lines)

    def needle(self) -> str:
        """The text that is looked for."""
        return self._needle

    def apply_needle(self, needle: str) -> None:
        """Show only entries with this text."""
        self._needle = needle.lower()
        self.draw()

    def action_down(self) -> None:
        """Down one line."""
        self.reader.scroll_lines(1)

    def action_up(self) -> None:
        """Up one line."""
        self.reader.scroll_lines(-1)

    def action_page_down(self) -> None:
        """Show what is below, with one line of what was shown."""
        self.reader.scroll_lines(max(1, self.reader.size.height - 1))

    def action_page_up(self) -> None:
        """Show what is above, with one line of what was shown."""
        self.reader.scroll_lines(-max(1, self.reader.size.height - 1))

    def action_top(self) -> None:
        """To the first line."""
        self.reader.scroll_to(y=0, animate=False)

    def action_bottom(self) -> None:
        """To the last line."""
        self.reader.scroll_to(y=self.reader.virtual_size.height, animate=False)


def _plain(entry: list[Line]) -> str:
    return " ".join(cell.text for line in entry for cell in line).lower()


_SIGNS = (
    ("–", "not known; one GPU's view says why. Never a 0."),
    ("i ! ‼", f"of a finding: {MARKS_DOC}."),
    ("?", "behind a finding: a hypothesis, seen for a short while only."),
    ("stale 12s", "last heard 12 seconds ago; old values are not shown."),
    ("6/8", "under GPUS: telemetry names 6 of the job's 8 GPUs."),
    ("▲ ▼", "in a title: the table is sorted by this column."),
)


def help_page(view: ViewName, columns: Sequence[tuple[str, str]], trail: tuple[str, ...]) -> Page:
    """Keys, signs and columns of a view."""

    def entries(_digest: Digest | None, width: int) -> list[list[Line]]:
        found = _key_entries(view, width)
        if view in LISTED:
            found += [[()], [(Cell("Filter (/)", Tone.STRONG),)]]
            found += [_entry(typed, 12, doc, width, Tone.INFO) for typed, doc in FILTER_HELP]
        found += [[()], [(Cell("Signs", Tone.STRONG),)]]
        found += [_entry(sign, 10, doc, width, Tone.INFO) for sign, doc in _SIGNS]
        if columns:
            found += [[()], [(Cell("Columns", Tone.STRONG),)]]
            found += [_entry(title, 10, doc, width, Tone.INFO) for title, doc in columns]
            text = "A narrow terminal drops the least important columns."
            found.append(paragraph(text, width, Tone.DIM))
        return found

    return Page("help", trail, entries)


def _key_entries(view: ViewName, width: int) -> list[list[Line]]:
    """The keys of a view by what they are for."""
    found: list[list[Line]] = []
    for purpose, actions in PURPOSES:
        here = [action for action in actions if view in action.views]
        if here and found:
            found.append([()])
        if here:
            found.append([(Cell(purpose, Tone.STRONG),)])
            found += [_entry(one.shown, 10, one.doc, width, Tone.INFO) for one in here]
    return found


def _entry(name: str, room: int, doc: str, width: int, tone: Tone) -> list[Line]:
    """A name in the margin and its explanation beside it."""
    blanks = " " * (room + 1)
    lines = paragraph(doc, width, Tone.PLAIN, blanks, blanks)
    if len(name) > room:
        return [(Cell(name, tone),), *lines]
    first = lines[0][0].text[room:]
    return [(Cell(name.ljust(room), tone), Cell(first)), *lines[1:]]


def findings_page(trail: tuple[str, ...], scope: str | None) -> Page:
    """Every finding about something in full, and what the detectors could not see."""

    def findings(digest: Digest) -> tuple[Finding, ...]:
        kind, _, name = (scope or "").partition(":")
        if kind == "job":
            view = digest.tick.job(name)
            of_nodes = digest.findings_of_nodes(view) if view else ()
            return digest.findings_by_job.get(name, ()) + of_nodes
        if kind == "gpu":
            return digest.findings_by_gpu.get(name, ()) + digest.findings_naming_gpu(name)
        if kind == "node":
            return digest.findings_of_node(name)
        return digest.tick.findings

    def entries(digest: Digest | None, width: int) -> list[list[Line]]:
        if digest is None:
            return [paragraph("Waiting for the first sample …", width, Tone.DIM)]
        found: list[list[Line]] = [
            [*_about(digest, finding), *finding_lines(digest.tick, finding, width), ()]
            for finding in digest.by_loss(findings(digest))
        ]
        if not found and digest.is_unjudged:
            text = "No detector has reported yet, so waste is not known."
            words = resting_words(digest.tick) or (text,)
            found.append([*nothing_lines(digest, words, width), ()])
        elif not found:
            text = "No finding. What the detectors could and could not see is below."
            found.append([*paragraph(text, width), ()])
        found.append([(Cell("Detectors", Tone.STRONG),), *coverage_lines(digest.tick, width)])
        return found

    return Page("in full", trail, entries)


def _about(digest: Digest, finding: Finding) -> list[Line]:
    """Whom a finding is about."""
    kind, _, name = finding.subject.partition(":")
    view = digest.tick.job(name.partition("/")[0]) if kind == "job" else None
    if kind == "gpu":
        view = digest.holder(name)
    if view is None:
        return [(Cell(subject_words(digest, finding), Tone.STRONG),)]
    job = view.job
    return [(Cell(f"{job.label} ", Tone.STRONG), Cell(f"{job.user} {job.name}", Tone.DIM))]


def errors_page(trail: tuple[str, ...], mood: Callable[[], Mood]) -> Page:
    """How the targets and gpumon itself fare, and everything that failed."""

    def entries(digest: Digest | None, width: int) -> list[list[Line]]:
        if digest is None:
            return [paragraph("Waiting for the first sample …", width, Tone.DIM)]
        errors = all_errors(digest.tick)
        found: list[list[Line]] = [[(Cell("Targets", Tone.STRONG),)]]
        found += [target_lines(digest.tick, width), silent_lines(digest.tick, width), [()]]
        found.append([(Cell("Errors", Tone.STRONG),)])
        found += [error_lines((error,), width) for error in errors]
        if not errors:
            found.append(paragraph("None.", width, Tone.GOOD))
        found += [[()], [(Cell("gpumon itself", Tone.STRONG),)]]
        found += [[line] for line in own_lines(digest.tick, mood())]
        return found

    return Page("errors", trail, entries)


def patterns_page(trail: tuple[str, ...], discovery: Discovering | None) -> Page:
    """Jobs that behave alike in time that no finding explains."""

    def entries(_digest: Digest | None, width: int) -> list[list[Line]]:
        if discovery is None:
            text = "Patterns are not searched here; gpumon patterns FILE finds those of a recording"
            return [paragraph(text, width, Tone.DIM)]
        from gpumon.report.pages.patterns import pattern_entries

        return pattern_entries(discovery.found, width)

    return Page("patterns", trail, entries)


def ledger_page(trail: tuple[str, ...], stored: LedgerReader | None) -> Page:
    """Where GPU time went this week and the last; without a stored ledger, since gpumon began."""

    def entries(digest: Digest | None, width: int) -> list[list[Line]]:
        if digest is None:
            return [paragraph("Waiting for the first sample …", width, Tone.DIM)]
        from gpumon.report.pages.week import session_entries, week_entries

        ledger = digest.tick.ledger
        if stored is None:
            return session_entries(ledger, width)
        stored.ask(digest.tick.at)
        if stored.trouble:
            return [paragraph(stored.trouble, width, Tone.WARN, "! ", "  ")]
        if stored.weeks is None:
            return [paragraph("Reading the ledger …", width, Tone.DIM)]
        return week_entries(stored.weeks, width)

    return Page("ledger", trail, entries)
