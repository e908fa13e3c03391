"""All GPUs by node, also where there are no jobs at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.report.document.queue import stray_lines
from gpumon.report.facts.rows import awaited_call
from gpumon.report.tables.gpu import FLEET_COLUMNS, fleet_basis, fleet_order, fleet_search_text
from gpumon.report.text.cells import some_names
from gpumon.report.wording.empty_states import silent_nodes_lines
from gpumon.report.wording.loss_words import LOSING
from gpumon.tui.actions.registry import bindings_of
from gpumon.tui.screens.base.fleet_view import FleetView
from gpumon.tui.widgets.table.grid import Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumon.report.facts.tick_index import Digest, GpuRow
    from gpumon.report.text.cells import Line


class GpusView(FleetView["GpuRow"]):
    """One line per GPU, and one per node that shows none."""

    view = "gpus"
    BINDINGS = bindings_of("gpus")
    noun = "GPUs"
    plan = Plan(
        FLEET_COLUMNS,
        lambda row: row.key,
        fleet_order,
        fleet_search_text,
        is_steady=True,
        led_by=LOSING,
        rests_on=fleet_basis,
    )

    def rows(self, digest: Digest) -> Sequence[GpuRow]:
        """GPUs and silent nodes."""
        return digest.gpu_rows

    def row_steps(self, digest: Digest) -> Iterable[None]:
        """Those of a few hundred nodes at a time."""
        return digest.gpu_row_steps()

    def head_lines(self, digest: Digest, width: int) -> list[Line]:
        """Only when nodes have gone silent, or processes run where no job does."""
        lines = super().head_lines(digest, width)
        lines += silent_nodes_lines(digest.tick, width)
        return lines + stray_lines(digest, width)

    def empty_words(self, digest: Digest) -> tuple[str, ...]:
        """No GPU anywhere, or none yet: opening a driver takes seconds, and may never end."""
        targets = digest.tick.targets
        awaited = tuple(t.url for t in targets if not t.is_ok and t.error is None)
        who = f"{some_names(awaited)} {'has' if len(awaited) == 1 else 'have'} not answered"
        return (
            f"No GPU is known yet: {who}." if awaited else "No GPU is known.",
            "e shows what the targets say; gpumon doctor checks this machine.",
            "gpumon ssh://NODE reads a node, gpumon demo shows a simulated cluster.",
        )

    def amount(self) -> str:
        """`32 GPUs on 4 nodes`."""
        if self.digest is None:
            return ""
        tick = self.digest.tick
        gpus, nodes = len(tick.gpus), len(tick.nodes)
        shown, known = self.grid.shown
        count = (
            f"{shown} of {known} lines"
            if shown != known
            else f"{gpus} GPU{'s' if gpus != 1 else ''}"
        )
        if self.is_narrowed:
            count = f"{shown} of {gpus} GPUs"
        if not gpus and any(node.errors or awaited_call(node) for node in tick.nodes.values()):
            count = "– GPUs"
        if self.grid.is_counting:
            count = "… GPUs"
        return f"{count} on {nodes} node{'s' if nodes != 1 else ''} "

    def open_row(self, row: GpuRow) -> None:
        """Open the GPU; of a node without GPUs, the node."""
        if row.gpu is None:
            self.open_node(row.node.name)
        else:
            self.open_gpu(row.gpu.uuid)

    def action_node(self) -> None:
        """The node of the row."""
        row = self.grid.current
        if row is not None:
            self.open_node(row.node.name)
