"""The jobs that wait: why, since when, until when, and what would let them start sooner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.report.facts.array_tasks import count_tasks
from gpumon.report.tables.pending import (
    PENDING_COLUMNS,
    pending_order,
    pending_search,
    pending_summary,
)
from gpumon.report.wording.pending import waiting
from gpumon.tui.actions.registry import bindings_of
from gpumon.tui.screens.base.fleet_view import FleetView
from gpumon.tui.widgets.table.grid import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.model.records.cluster import JobView
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Line


class PendingView(FleetView["JobView"]):
    """One line per waiting job, in the order of the queue."""

    view = "pending"
    BINDINGS = bindings_of("pending")
    noun = "waiting jobs"
    has_other_lines = True
    plan = Plan(
        PENDING_COLUMNS,
        lambda view: view.job.job_id,
        pending_order,
        pending_search,
        led_by="position",
        is_rising=True,
    )

    def rows(self, digest: Digest) -> Sequence[JobView]:
        """Jobs that wait."""
        return waiting(digest)

    def head_lines(self, digest: Digest, width: int) -> list[Line]:
        """How much waits for what."""
        return [*super().head_lines(digest, width), *pending_summary(digest, width)]

    def amount(self) -> str:
        """`11 waiting jobs`; where arrays make it more, `31 waiting jobs on 11 lines`."""
        shown, known = self.grid.shown
        jobs = count_tasks(waiting(self.digest)) if self.digest else 0
        if self.grid.is_counting or jobs <= known:
            return super().amount()
        if shown != known:
            return f"{shown} of {known} lines "
        return f"{jobs:,} {self.noun} on {known} line{'s' * (known != 1)} "

    def empty_words(self, digest: Digest) -> tuple[str, ...]:
        """No queue, or nothing waits in it."""
        return self.no_queue_words(digest) or ("No job waits.", "Tab shows the other views.")

    def open_row(self, row: JobView) -> None:
        """Open the job, which shows all that is known of its wait."""
        views = self.gpumon.views
        self.app.push_screen(views.job(row.job.job_id, row.job.label, self.trail()))
