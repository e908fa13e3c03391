"""Every process on every GPU in view: whose it is, what it uses, how long it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.report.document.queue import stray_lines
from gpumon.report.lists.all_processes import (
    ALL_PROCESS_COLUMNS,
    every_process,
    process_key,
    process_order,
    process_search,
    process_steps,
)
from gpumon.report.wording.empty_states import silent_nodes_lines
from gpumon.tui.actions.registry import bindings_of
from gpumon.tui.screens.base.fleet_view import FleetView
from gpumon.tui.widgets.table.grid import Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.tables.process import ProcessRow
    from gpumon.report.text.cells import Line


class ProcessesView(FleetView["ProcessRow"]):
    """One line for each process on each GPU."""

    view = "processes"
    BINDINGS = bindings_of("processes")
    noun = "processes"
    plan = Plan(ALL_PROCESS_COLUMNS, process_key, process_order, process_search, led_by="memory")

    def rows(self, digest: Digest) -> Sequence[ProcessRow]:
        """Every process on each of its GPUs."""
        return every_process(digest)

    def row_steps(self, digest: Digest) -> Iterable[None]:
        """Some hundred processes at a time."""
        return process_steps(digest)

    def head_lines(self, digest: Digest, width: int) -> list[Line]:
        """Also nodes that have gone silent, and processes where no job runs."""
        lines = super().head_lines(digest, width)
        lines += silent_nodes_lines(digest.tick, width)
        return lines + stray_lines(digest, width)

    def empty_words(self, digest: Digest) -> tuple[str, ...]:
        """No GPU has a process, or no GPU is known."""
        if digest.tick.gpus:
            return ("No process is on the GPUs in view.", "Tab shows the other views.")
        return ("No GPU is known, so no process on one.", "e shows what the targets say.")

    def amount(self) -> str:
        """`12 processes`, or `1 process`."""
        return super().amount().replace(" processe ", " process ")

    def open_row(self, row: ProcessRow) -> None:
        """The process over time: its curves, those of its GPU and of what surrounds it."""
        subject = f"process:{row.uuid}/{row.process.pid}"
        trail = (*self.trail(), f"{row.process.node}:{row.process.pid}")
        self.app.push_screen(self.gpumon.views.curves(subject, trail))

    def action_node(self) -> None:
        """The node that the process runs on."""
        row = self.grid.current
        if row is not None:
            self.open_node(row.process.node)

    def action_copy(self) -> None:
        """Copy the PID."""
        row = self.grid.current
        if row is None:
            super().action_copy()
        else:
            self.copy_text(str(row.process.pid))
