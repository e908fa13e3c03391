"""The jobs, those that need a look on top."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.report import units
from gpumon.report.columns import Tone
from gpumon.report.job_columns import JOB_COLUMNS, default_order, search_text
from gpumon.report.passages import all_errors, paragraph
from gpumon.tui.actions import bindings_of
from gpumon.tui.screens.table_view import TableView
from gpumon.tui.status import QUEUE_OLD_S
from gpumon.tui.widgets.grid import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.model.cluster import JobView
    from gpumon.report.columns import Line
    from gpumon.report.digest import Digest


class JobsView(TableView["JobView"]):
    """One line per job."""

    view = "jobs"
    BINDINGS = bindings_of("jobs")
    noun = "jobs"
    plan = Plan(JOB_COLUMNS, lambda view: view.job.job_id, default_order, search_text)

    def trail(self) -> tuple[str, ...]:
        """The root."""
        return ("jobs",)

    def rows(self, digest: Digest) -> Sequence[JobView]:
        """All jobs."""
        return digest.tick.jobs

    def head_lines(self, digest: Digest, width: int) -> list[Line]:
        """Only when the queue's answer has grown old."""
        tick = digest.tick
        if tick.queue_at is None or tick.at - tick.queue_at <= QUEUE_OLD_S:
            return []
        age = units.short_duration(tick.at - tick.queue_at)
        text = f"stale {age}: the queue has not answered since; jobs may have begun or ended"
        return paragraph(text, width, Tone.WARN, "! ", "  ")

    def empty_words(self, digest: Digest) -> tuple[str, ...]:
        """No queue, or an empty one."""
        tick = digest.tick
        if tick.queue_at is not None:
            return ("The queue lists no jobs.", "Tab shows the GPUs by node.")
        if any("slurm" in target.url for target in tick.targets):
            said = "could not be read" if all_errors(tick) else "has not answered yet"
            return (f"The queue {said}.", "Tab shows the GPUs by node.")
        return (
            "No jobs: none of the targets is a queue.",
            "Tab shows the GPUs by node.",
            "gpumon slurm reads a Slurm cluster, gpumon demo shows a simulated one.",
        )

    def open_row(self, row: JobView) -> None:
        """Open the job."""
        from gpumon.tui.screens.job import JobScreen

        self.app.push_screen(JobScreen(row.job.job_id, row.job.label))

    def action_switch(self) -> None:
        """To the GPUs by node."""
        self.gpumon.show_gpus()
