"""One node: its host, its GPUs, its ports, its file systems, its jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.report.pages.node_sections import node_facts, node_sections
from gpumon.report.tables.field import FIELD_COLUMNS
from gpumon.report.tables.gpu import NODE_GPU_COLUMNS
from gpumon.report.tables.host import FILESYSTEM_COLUMNS, JOB_USE_COLUMNS, PORT_COLUMNS
from gpumon.report.wording.paragraphs import finding_lines
from gpumon.tui.actions.registry import bindings_of
from gpumon.tui.screens.base.section_view import SectionView, explained

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.tables.sections import Section
    from gpumon.report.text.cells import Line


class NodeScreen(SectionView):
    """Everything that one node reports."""

    view = "node"
    BINDINGS = bindings_of("node")

    def __init__(self, name: str, trail_so_far: tuple[str, ...]) -> None:
        super().__init__()
        self.node_name = name
        self._so_far = trail_so_far

    def trail(self) -> tuple[str, ...]:
        """Where one came from, then the node."""
        return (*self._so_far, f"node {self.node_name}")

    def head_lines(self, digest: Digest, width: int) -> list[Line]:
        """What it is, and what is wrong with it."""
        node = digest.tick.nodes.get(self.node_name)
        if node is None:
            return []
        lines = node_facts(digest, node, width)
        for finding in digest.findings_of_node(self.node_name):
            lines += finding_lines(digest.tick, finding, width, is_full=False)
        return lines

    def sections(self, digest: Digest, width: int) -> list[Section]:
        """What is known of it, by topic: GPUs, host, ports, file systems, jobs."""
        chosen = self.gpumon.chosen_columns.get(self.view)
        node = digest.tick.nodes[self.node_name]
        digest.find_stakes(node.gpu_uuids)
        return node_sections(digest, node, width, chosen)

    def action_columns(self) -> None:
        """Choose the columns of its GPUs."""
        views = self.gpumon.views
        self.app.push_screen(views.columns(self.view, NODE_GPU_COLUMNS, self.trail()))

    def gone_words(self) -> tuple[str, ...]:
        """No source lists the node any more."""
        return (
            f"Node {self.node_name} is not listed at this instant: no target names it.",
            "Esc goes back.",
        )

    def finding_scope(self) -> str | None:
        """This node and its GPUs."""
        return f"node:{self.node_name}"

    def help_columns(self) -> Sequence[tuple[str, str]]:
        """Those of every table."""
        return explained(
            FIELD_COLUMNS, NODE_GPU_COLUMNS, PORT_COLUMNS, FILESYSTEM_COLUMNS, JOB_USE_COLUMNS
        )

    def open_entry(self, opens: str) -> None:
        """A GPU or a job."""
        kind, _, name = opens.partition(":")
        if kind == "job":
            self.open_job(name)
        elif kind == "gpu":
            if self.came_from("gpu", name):
                self.app.pop_screen()
            else:
                self.open_gpu(name)
