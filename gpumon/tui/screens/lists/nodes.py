"""The nodes of the fleet: their state, what jobs hold of them, their health."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.report.facts.slurm_nodes import is_open
from gpumon.report.tables.node import (
    NODE_COLUMNS,
    node_order,
    node_row_steps,
    node_rows,
    node_search,
)
from gpumon.report.text.cells import Tone, paragraph, some_names
from gpumon.report.wording.empty_states import silent_nodes_lines
from gpumon.report.wording.loss_words import LOSING
from gpumon.tui.actions.registry import bindings_of
from gpumon.tui.screens.base.fleet_view import FleetView
from gpumon.tui.widgets.table.grid import Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.tables.node import NodeRow
    from gpumon.report.text.cells import Line


class NodesView(FleetView["NodeRow"]):
    """One line per node that a target or the queue names."""

    view = "nodes"
    BINDINGS = bindings_of("nodes")
    noun = "nodes"
    plan = Plan(NODE_COLUMNS, lambda row: row.node.name, node_order, node_search, led_by=LOSING)

    def rows(self, digest: Digest) -> Sequence[NodeRow]:
        """Every node."""
        return node_rows(digest)

    def row_steps(self, digest: Digest) -> Iterable[None]:
        """A few hundred nodes at a time."""
        return node_row_steps(digest)

    def head_lines(self, digest: Digest, width: int) -> list[Line]:
        """Nodes that have gone silent while others answer, and those that take no jobs."""
        lines = super().head_lines(digest, width)
        lines += silent_nodes_lines(digest.tick, width)
        out = tuple(n.name for n in digest.tick.nodes.values() if n.state and not is_open(n.state))
        if out:
            text = f"out of service: {some_names(out)}"
            lines += paragraph(text, width, Tone.WARN, "! ", "  ")
        return lines

    def empty_words(self, _digest: Digest) -> tuple[str, ...]:
        """Nothing answers, and no queue lists a node."""
        return (
            "No node is known.",
            "e shows what the targets report; gpumon doctor checks this machine.",
            "gpumon ssh://NODE reads a node, gpumon demo shows a simulated cluster.",
        )

    def open_row(self, row: NodeRow) -> None:
        """Show the page of the node."""
        self.open_node(row.node.name)
