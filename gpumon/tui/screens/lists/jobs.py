"""The jobs, those that need attention on top."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.tui.actions.registry import bindings_of
from gpumon.tui.screens.base.pane_view import PaneView
from gpumon.tui.widgets.table.grid import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.model.records.cluster import JobView
    from gpumon.report.facts.groups import Scope
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Line
    from gpumon.tui.actions.action import ViewName

_ROOTS: Final[dict[str, ViewName]] = {
    "user": "users",
    "account": "accounts",
    "partition": "partitions",
    "reservation": "reservations",
}
"""The view that lists groups of a kind."""

_FEW: Final = 4
"""Lines of a pane that only writes out what the columns cut off."""


class JobsView(PaneView["JobView"]):
    """One line per job; of one group, or of the whole queue."""

    view = "jobs"
    BINDINGS = bindings_of("jobs")
    noun = "jobs"

    def __init__(self, scope: Scope | None = None) -> None:
        """A scope names the group whose jobs are listed."""
        super().__init__()
        self.scope = scope

    def planned(self) -> Plan[JobView]:
        """Verdicts with their words come with the columns; the first screen waits for neither."""
        from gpumon.report.tables.job import JOB_COLUMNS, default_order, search_text
        from gpumon.report.wording.loss_words import LOSING

        return Plan(
            JOB_COLUMNS,
            lambda view: view.job.job_id,
            default_order,
            search_text,
            stamp=lambda digest, view: (view.job, digest.shown_finding(view)),
            led_by=LOSING,
        )

    def share(self) -> None:
        """Below the table from 50 lines on, else beside it from 160 columns on, else two lines."""
        self.split.share(self.size)

    def pane_lines(self, width: int, height: int) -> Sequence[Line]:
        """What is known of the job under the cursor."""
        row, digest = self.grid.current, self.digest
        if row is None or digest is None:
            return []
        if height <= _FEW:
            from gpumon.report.wording.paragraphs import row_lines

            return row_lines(digest, row, width, height)
        from gpumon.report.pages.job_glance import job_glance

        return job_glance(digest, row, width, height)

    @property
    def root(self) -> ViewName:
        """Its own place, or that of the groups of its kind."""
        return "jobs" if self.scope is None else _ROOTS[self.scope.kind]

    def trail(self) -> tuple[str, ...]:
        """The root, or the group."""
        return (self.root,) if self.scope is None else (self.root, self.scope.name or "–")

    def rows(self, digest: Digest) -> Sequence[JobView]:
        """All jobs, or those of the group."""
        if self.scope is None:
            return digest.tick.jobs
        from gpumon.report.facts.groups import jobs_of

        return jobs_of(digest, self.scope)

    def empty_words(self, digest: Digest) -> tuple[str, ...]:
        """No queue, or an empty one."""
        if words := self.no_queue_words(digest):
            return words
        if self.scope is None:
            return ("The queue lists no jobs.", "Tab shows the other views.")
        return (
            f"The queue lists no jobs of {self.scope.kind} {self.scope.name}.",
            "Esc goes back.",
        )

    def open_row(self, row: JobView) -> None:
        """Show the job with its ranks and GPUs."""
        views = self.gpumon.views
        self.app.push_screen(views.job(row.job.job_id, row.job.label, self.trail()))
