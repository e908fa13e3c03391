"""One GPU: every field with its past, and why a value is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.report.field_columns import FIELD_COLUMNS, field_rows, search_text, span_s
from gpumon.report.gpu_cells import index_text, short_uuid
from gpumon.report.passages import finding_lines, gpu_facts
from gpumon.tui.actions import bindings_of
from gpumon.tui.screens.table_view import TableView
from gpumon.tui.widgets.grid import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.report.columns import Line
    from gpumon.report.digest import Digest
    from gpumon.report.field_columns import FieldRow


class GpuScreen(TableView["FieldRow"]):
    """One line per field of the catalogue."""

    view = "gpu"
    BINDINGS = bindings_of("gpu")
    noun = "fields"
    plan = Plan(FIELD_COLUMNS, lambda row: row.key, lambda _digest, _row: (), search_text)

    def __init__(self, uuid: str, trail_so_far: tuple[str, ...]) -> None:
        super().__init__()
        self.uuid = uuid
        self._so_far = trail_so_far

    def trail(self) -> tuple[str, ...]:
        """Where one came from, then node and index."""
        gpu = self.digest.tick.gpus.get(self.uuid) if self.digest else None
        here = f"{gpu.node}:{index_text(gpu)}" if gpu else short_uuid(self.uuid)
        return (*self._so_far, here)

    def rows(self, digest: Digest) -> Sequence[FieldRow]:
        """The fields, as long as the GPU is known."""
        gpu = digest.tick.gpus.get(self.uuid)
        return () if gpu is None else field_rows(gpu)

    def head_lines(self, digest: Digest, width: int) -> list[Line]:
        """What it is, who uses it, what is wrong with it."""
        gpu = digest.tick.gpus.get(self.uuid)
        if gpu is None:
            return []
        minutes = f"{span_s(digest) / 60:.0f} min"
        lines = gpu_facts(digest, gpu, width, (("curves over", minutes),))
        for finding in digest.findings_by_gpu.get(self.uuid, ()):
            lines += finding_lines(finding, width, is_full=False)
        return lines

    def empty_words(self, _digest: Digest) -> tuple[str, ...]:
        """The GPU is gone."""
        return (
            f"GPU {self.uuid} is no longer listed.",
            "Its node may have gone silent, or the GPU fell off the bus. Esc goes back.",
        )

    def finding_scope(self) -> str | None:
        """This GPU."""
        return f"gpu:{self.uuid}"

    def action_open(self) -> None:
        """Open the job that holds the GPU, unless one came from there."""
        from gpumon.tui.screens.job import JobScreen

        view = self.digest.job_by_gpu.get(self.uuid) if self.digest else None
        if view is None:
            return
        below = self.app.screen_stack[-2] if len(self.app.screen_stack) > 1 else None
        if isinstance(below, JobScreen) and below.job_id == view.job.job_id:
            self.app.pop_screen()
        else:
            self.app.push_screen(JobScreen(view.job.job_id, view.job.label))
