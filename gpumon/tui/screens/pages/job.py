"""One job: what is wrong with it, then its ranks and GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.report.facts.array_tasks import asked_gpus
from gpumon.report.facts.rank_groups import LEAST_PEERS
from gpumon.report.lists.folded_ranks import folded_ranks
from gpumon.report.rank_map.legend import faulty_words
from gpumon.report.rank_map.marks import faulty_rank
from gpumon.report.tables.gpu import RANK_COLUMNS, rank_order, rank_search_text
from gpumon.report.text import units
from gpumon.report.text.cells import Tone, paragraph
from gpumon.report.wording.empty_states import (
    gone_job_words,
    job_errors,
    no_gpus_words,
    stale_job_lines,
)
from gpumon.report.wording.ledger_words import job_ledger_lines
from gpumon.report.wording.loss_words import LOSING
from gpumon.report.wording.paragraphs import (
    blind_lines,
    contradiction_lines,
    finding_lines,
    job_facts,
    unjudged_lines,
    unknown_gpus,
    watching_lines,
)
from gpumon.report.wording.pending import wait_words
from gpumon.report.wording.progress import output_lines, tail_lines
from gpumon.report.wording.trend import trend_lines
from gpumon.sources.source import Wish
from gpumon.tui.actions.registry import bindings_of
from gpumon.tui.screens.base.rank_view import RankView
from gpumon.tui.screens.base.table_view import TableView
from gpumon.tui.widgets.table.grid import Plan
from gpumon.tui.widgets.text.lines import KeyBar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.model.fault import SourceError
    from gpumon.model.records.cluster import JobView
    from gpumon.report.facts.tick_index import Digest, RankRow
    from gpumon.report.text.cells import Line
    from gpumon.tui.actions.action import Action


_FEW: Final = 128
"""GPUs and ranks up to which they are counted for the room that they take."""

_SHARE_OF_ROWS: Final = 0.25
"""Of the lines of a screen: rows that take more are folded in smaller groups, too."""

_OF_RANKS: Final = frozenset(
    ("open", "ranks", "closer", "rank", "filter", "curves", "node", "next_problem", "sort")
)
"""Keys that do nothing where there is no rank and no GPU."""

_NOTICE: Final = 8
"""Lines that are left for why there is no rank."""


class JobScreen(RankView, TableView["RankRow"]):
    """One line per rank and GPU."""

    view = "job"
    BINDINGS = bindings_of("job")
    noun = "lines"
    none_here = "no rank and no GPU here"
    plan = Plan(RANK_COLUMNS, lambda row: row.key, rank_order, rank_search_text, led_by=LOSING)

    def __init__(self, job_id: str, label: str, came_from: tuple[str, ...] = ("jobs",)) -> None:
        super().__init__()
        self._came_from = came_from
        self.job_id = job_id
        self.label = label
        self._has_begun = False
        self._is_unfolded = False

    def on_screen_resume(self) -> None:
        """Ask for closer sampling of the job's GPUs; another job may have had it meanwhile."""
        digest = self.gpumon.digest
        view = digest.job(self.job_id) if digest else None
        wish = Wish(zoom_nodes=view.job.nodes, zoom_gpus=view.gpu_uuids) if view else Wish()
        self.gpumon.wish(wish)
        super().on_screen_resume()

    def on_unmount(self) -> None:
        """Closer sampling is no longer needed, unless one came back to a job."""
        if not any(isinstance(screen, JobScreen) for screen in self.app.screen_stack):
            self.gpumon.wish(Wish())

    def trail(self) -> tuple[str, ...]:
        """Where one came from, then this one."""
        view = self.digest.job(self.job_id) if self.digest else None
        return (*self._came_from, f"{self.label} {view.job.name}" if view else self.label)

    def rows(self, digest: Digest) -> Sequence[RankRow]:
        """The job's ranks and GPUs; nothing once it has left the queue."""
        view = digest.job(self.job_id)
        if view is None:
            return ()
        digest.find_stakes(view.gpu_uuids)
        if self._is_unfolded or self.grid.needle:
            return digest.rank_rows(view)
        verdict = digest.verdict(view)
        faulty = verdict and faulty_rank(digest, view, verdict)
        rows = folded_ranks(digest, view, faulty)
        if len(rows) <= self.app.size.height * _SHARE_OF_ROWS:
            return rows
        return folded_ranks(digest, view, faulty, LEAST_PEERS)

    def rows_below(self, digest: Digest) -> int | None:
        """A line for each rank and GPU, or room to say why there is none."""
        view = digest.job(self.job_id)
        if view is None or len(view.gpu_uuids) + len(view.ranks) > _FEW:
            return None
        return len(self.rows(digest)) or _NOTICE

    def head_lines(self, digest: Digest, width: int) -> list[Line]:
        """What is wrong comes first, then what it did, its ledger, what it is, and its output.

        Small terminals cut the end.
        """
        view = digest.job(self.job_id)
        if view is None:
            return []
        lines = stale_job_lines(digest, view, width)
        verdict = digest.verdict(view)
        found = digest.findings_by_job.get(self.job_id, ())
        for finding in sorted(found, key=lambda one: one is not verdict):
            whom = faulty_words(digest, view, finding)
            lines += finding_lines(digest.tick, finding, width, is_full=False, whom=whom)
        for finding in digest.findings_of_nodes(view):
            whom = finding.subject.replace(":", " ", 1)
            lines += finding_lines(digest.tick, finding, width, is_full=False, whom=whom)
        lines += trend_lines(digest, view, width) + job_ledger_lines(digest, view, width)
        lines += job_facts(digest, view, width)
        if view.job.state == "PENDING" and digest.rank_rows(view):
            lines += _wait_lines(digest, view, width)
        if view.job.state == "RUNNING" and view.job.gpu_count != 0:
            lines += unjudged_lines(digest.tick, width)
            is_seen = bool(digest.gpus(view)) and digest.stale_age_s(view) is None
            if is_seen and digest.verdict(view) is None:
                lines += watching_lines(digest, view, width)
            if is_seen:
                lines += blind_lines(digest, view, width)
        lines += contradiction_lines(view, width)
        lines += unknown_gpus(digest, view, width)
        lines += output_lines(digest, view, width)
        outputs = self.gpumon.outputs if self.gpumon.travel.is_live else None
        return lines + (tail_lines(outputs.tail(view.job), width) if outputs is not None else [])

    def empty_words(self, digest: Digest) -> tuple[str, ...]:
        """Ended, pending, or without telemetry."""
        view = digest.job(self.job_id)
        if view is None:
            return gone_job_words(digest, self.label, self.job_id)
        return no_gpus_words(digest, view)

    def footer(self) -> Sequence[Action]:
        """Of a job that waits name only keys that do something."""
        view = self.digest.job(self.job_id) if self.digest else None
        has_rows = view is not None and bool(view.gpu_uuids or view.ranks)
        return [one for one in super().footer() if has_rows or one.name not in _OF_RANKS]

    def draw(self) -> None:
        """Also begin on the rank at fault, and name the keys that it takes now."""
        super().draw()
        self._begin()
        for bar in self.query(KeyBar):
            bar.offer(self.footer())

    def on_grid_settled(self) -> None:
        """Begin on the rank at fault where rows took longer than a key may wait."""
        self._begin()

    def _begin(self) -> None:
        """Put the cursor on the rank at fault, once there are rows: it may be out of sight."""
        view = self.digest.job(self.job_id) if self.digest else None
        rows = self.grid.table[1]
        if self.digest is None or view is None or self._has_begun or not rows:
            return
        self._has_begun = True
        verdict = self.digest.verdict(view)
        faulty = None if verdict is None else faulty_rank(self.digest, view, verdict)
        if faulty is None:
            return
        for index, row in enumerate(rows):
            if row.key == faulty.key:
                self.grid.move_to(index)
        if not self.grid.size:
            # Before the layout a table has no height: its layout scrolls as far as it takes.
            self.grid.scroll_to(y=0, animate=False, force=True)

    def errors_behind(self, digest: Digest) -> Sequence[SourceError]:
        """Those of its own nodes; of a job that is not in the queue all, as they may say why."""
        view = digest.job(self.job_id)
        return super().errors_behind(digest) if view is None else job_errors(digest, view)

    def amount(self) -> str:
        """`5 ranks, 8 GPUs`."""
        view = self.digest.job(self.job_id) if self.digest else None
        if view is None or self.grid.needle:
            return super().amount()
        asked = asked_gpus(view.job)
        gpus = asked if asked is not None else len(view.gpu_uuids)
        ranks = len(view.ranks)
        if view.job.state == "PENDING" and not ranks:
            return f"asks for {units.gpus(gpus)} "
        return f"{units.counted(ranks, 'rank')}, {units.gpus(gpus)} "

    def finding_scope(self) -> str | None:
        """Its subject, as findings name it."""
        return f"job:{self.job_id}"

    def action_open(self) -> None:
        """Open the GPU under the cursor."""
        if self.grid.current is None:
            self.report(self.none_here)
        super().action_open()

    def open_row(self, row: RankRow) -> None:
        """Open the GPU; of peers that are one line, list each."""
        if row.folded:
            self.action_closer()
        else:
            self.open_rank(row)

    def action_closer(self) -> None:
        """A line for every rank, or one for peers that are alike."""
        self._is_unfolded = not self._is_unfolded
        self.draw()

    def apply_needle(self, needle: str) -> None:
        """Look through every rank; those that are folded have no line to be found in."""
        super().apply_needle(needle)
        self.draw()

    def action_ranks(self) -> None:
        """The ranks over time."""
        self.app.push_screen(self.gpumon.views.ranks(self.job_id, self.label, self.trail()))

    def current_rank(self) -> RankRow | None:
        """The rank or GPU under the cursor."""
        return self.grid.current

    def job_trail(self) -> tuple[str, ...]:
        """These crumbs."""
        return self.trail()


def _wait_lines(digest: Digest, view: JobView, width: int) -> list[Line]:
    """What a requeued job waits for, above the ranks that are left of its run before."""
    first, *hints = wait_words(digest, view)
    lines = paragraph(first, width, Tone.STRONG)
    for hint in hints:
        lines += paragraph(hint, width, Tone.PLAIN, "→ ", "  ")
    return lines + paragraph("Below is what remains of its previous run.", width, Tone.DIM)
