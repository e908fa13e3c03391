"""One GPU: where its time goes, what holds it back, and why a value is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.report.pages.gpu_sections import gpu_sections
from gpumon.report.tables.field import FIELD_COLUMNS, span_s
from gpumon.report.tables.finding import subject_words
from gpumon.report.tables.link import LINK_COLUMNS, SLICE_COLUMNS
from gpumon.report.tables.process import PROCESS_COLUMNS
from gpumon.report.text import units
from gpumon.report.text.cells import paragraph
from gpumon.report.text.units import index_text
from gpumon.report.wording.gpu_cells import short_uuid
from gpumon.report.wording.health import troubles
from gpumon.report.wording.paragraphs import finding_lines, gpu_facts
from gpumon.tui.actions.registry import bindings_of
from gpumon.tui.screens.base.section_view import SectionView, explained

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.model.records.cluster import Gpu
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.tables.sections import Section
    from gpumon.report.text.cells import Line


class GpuScreen(SectionView):
    """Use, memory, power, links, processes, health."""

    view = "gpu"
    BINDINGS = bindings_of("gpu")

    def __init__(self, uuid: str, trail_so_far: tuple[str, ...]) -> None:
        super().__init__()
        self.uuid = uuid
        self._so_far = trail_so_far

    def gpu(self) -> Gpu | None:
        """The GPU as of now."""
        return self.digest.tick.gpus.get(self.uuid) if self.digest else None

    def trail(self) -> tuple[str, ...]:
        """Where one came from, then node and index."""
        gpu = self.gpu()
        here = f"{gpu.node}:{index_text(gpu)}" if gpu else short_uuid(self.uuid)
        return (*self._so_far, here)

    def head_lines(self, digest: Digest, width: int) -> list[Line]:
        """What it is, who uses it, what is wrong with it."""
        gpu = digest.tick.gpus.get(self.uuid)
        if gpu is None:
            return []
        minutes = units.span(span_s(digest))
        lines = gpu_facts(digest, gpu, width, (("curves over", minutes),))
        for trouble in troubles(digest, gpu)[:1]:
            lines += paragraph(trouble.sentence, width, trouble.tone, f"{trouble.sign} ", "  ")
        for finding in digest.findings_by_gpu.get(self.uuid, ()):
            lines += finding_lines(digest.tick, finding, width, is_full=False)
        for finding in digest.findings_naming_gpu(self.uuid):
            kind = finding.subject.partition(":")[0]
            whom = f"{kind} {subject_words(digest, finding)}"
            lines += finding_lines(digest.tick, finding, width, is_full=False, whom=whom)
        return lines

    def sections(self, digest: Digest, width: int) -> list[Section]:
        """What is known of it, by topic: values, links, processes."""
        chosen = self.gpumon.chosen_columns.get(self.view)
        return gpu_sections(digest, digest.tick.gpus[self.uuid], width, chosen)

    def action_columns(self) -> None:
        """Choose the columns of its processes."""
        views = self.gpumon.views
        self.app.push_screen(views.columns(self.view, PROCESS_COLUMNS, self.trail()))

    def gone_words(self) -> tuple[str, ...]:
        """What is shown in place of sections when no target reports it."""
        return (
            f"{self.uuid} is not listed at this instant.",
            "Its node may not have answered yet, or the GPU fell off the bus.",
            "Esc goes back.",
        )

    def finding_scope(self) -> str | None:
        """Its subject, as findings name it."""
        return f"gpu:{self.uuid}"

    def help_columns(self) -> Sequence[tuple[str, str]]:
        """Those of the fields, the links, the instances and the processes."""
        return explained(FIELD_COLUMNS, LINK_COLUMNS, SLICE_COLUMNS, PROCESS_COLUMNS)

    def open_entry(self, opens: str) -> None:
        """The job of a process, else the job that holds the GPU."""
        kind, _, name = opens.partition(":")
        view = self.digest.holder(self.uuid) if self.digest else None
        if kind == "job":
            self.open_job(name)
        elif view is not None:
            self.open_job(view.job.job_id)

    def action_rank(self) -> None:
        """Curves of everything around the GPU: also of its processes and links."""
        self.app.push_screen(self.gpumon.views.curves(f"rank:{self.uuid}", self.trail()))

    def action_node(self) -> None:
        """Show the page of its node; nothing when it is not listed."""
        gpu = self.gpu()
        if gpu is not None:
            self.open_node(gpu.node)
