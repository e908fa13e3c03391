"""All GPUs by node, also where there are no jobs at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.report.document.queue import stray_lines
from gpumon.report.facts.charges import lookup_steps
from gpumon.report.facts.rows import awaited_call
from gpumon.report.next_steps.roads import is_this_machine
from gpumon.report.tables.gpu import (
    FLEET_COLUMNS,
    fleet_basis,
    fleet_order,
    fleet_search_text,
    fleet_widths,
)
from gpumon.report.text import units
from gpumon.report.text.cells import some_names
from gpumon.report.wording.empty_states import silent_nodes_lines
from gpumon.report.wording.loss_words import LOSING
from gpumon.tui.actions.registry import bindings_of
from gpumon.tui.screens.base.command_lines import CommandLineView
from gpumon.tui.screens.base.pane_view import PaneView
from gpumon.tui.widgets.table.grid import Plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumon.report.facts.rows import GpuRow
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Line


_FRAME: Final = 7
"""Lines of the screen that are neither rows nor the machine: head, titles, status, keys."""

_RENEWED_S: Final = 1.9
"""The machine is shown again every other second: the table above has each."""

_LEAST_LINES: Final = 8
"""Lines from which on a machine is shown: host, some GPUs, some processes."""


class GpusView(PaneView["GpuRow"], CommandLineView):
    """One line per GPU, one per MIG instance below its GPU, and one per node that shows none."""

    view = "gpus"
    BINDINGS = bindings_of("gpus")
    noun = "GPUs"
    has_other_lines = True
    plan = Plan(
        FLEET_COLUMNS,
        lambda row: row.key,
        fleet_order,
        fleet_search_text,
        is_steady=True,
        led_by=LOSING,
        rests_on=fleet_basis,
        widths=fleet_widths,
    )

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[str, str | None, int, int, int] | None = None
        """Which machine and GPU the pane shows, in which room, after how many readings of
        commands."""
        self._shown_at = 0.0

    @property
    def shows_processes(self) -> bool:
        """Where the machine is below."""
        return self.pane.display

    def share(self) -> None:
        """Below the table, where no queue is asked and there is room."""
        self.split.share_below(self._room_below())

    def _room_below(self) -> int:
        """Lines that the table leaves; none where a queue says whose GPUs are, or too few."""
        digest = self.digest
        if digest is None:
            return 0
        tick = digest.tick
        if tick.queue_at is not None or tick.jobs:
            return 0
        if max(len(tick.gpus), len(tick.nodes)) > self.size.height:
            # Rows of a large fleet are made in steps, and fill the screen anyway.
            return 0
        if all(node.taken_at is None for node in tick.nodes.values()):
            return 0
        left = self.size.height - len(digest.gpu_rows) - _FRAME
        return left if left >= _LEAST_LINES else 0

    def pane_lines(self, width: int, height: int) -> Sequence[Line] | None:
        """What is known of the machine, every other second."""
        row, digest = self.grid.current, self.digest
        if row is None or digest is None:
            return []
        uuid = None if row.gpu is None else row.gpu.uuid
        shown = (row.node.name, uuid, width, height, self._commands_read)
        is_fresh = 0.0 <= digest.tick.at - self._shown_at < _RENEWED_S
        if shown == self._shown and is_fresh and self.gpumon.travel.is_live:
            return None
        self._shown, self._shown_at = shown, digest.tick.at
        from gpumon.report.pages.machine_glance import Commands, machine_glance

        is_here = self.gpumon.is_real and is_this_machine(digest.tick, row.node.name)
        commands = Commands(self._command, self._commands_read) if is_here else None
        return machine_glance(digest, row.node, width, height, commands, uuid)

    def rows(self, digest: Digest) -> Sequence[GpuRow]:
        """GPUs and silent nodes."""
        return digest.gpu_rows

    def row_steps(self, digest: Digest) -> Iterator[None]:
        """Those of a few hundred nodes at a time, then whose they are, and what each loses."""
        yield from digest.gpu_row_steps()
        yield from lookup_steps(digest)
        yield

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
            "e shows what the targets report; gpumon doctor checks this machine.",
            "gpumon ssh://NODE reads a node, gpumon demo shows a simulated cluster.",
        )

    def _gpu_count(self) -> int:
        """All GPUs, also those that only the queue reports, as the headline counts them."""
        from gpumon.report.headline.fleet_gpus import fleet_gpus

        return 0 if self.digest is None else fleet_gpus(self.digest).gpus

    def amount(self) -> str:
        """`32 GPUs on 4 nodes`; `80 of 88 GPUs on 11 nodes` where no source sees the others."""
        if self.digest is None:
            return ""
        tick = self.digest.tick
        gpus, nodes = len(tick.gpus), len(tick.nodes)
        shown, known = self.grid.shown
        count = f"{shown} of {known} lines" if shown != known else units.gpus(gpus)
        if self.is_narrowed:
            if self.digest.has_instances:
                shown = sum(row.instance is None for row in self.grid.rows)
            count = f"{shown} of {gpus} GPUs"
        if not gpus and any(node.errors or awaited_call(node) for node in tick.nodes.values()):
            count = "– GPUs"
        elif shown == known and not self.is_narrowed and gpus < (every := self._gpu_count()):
            count = f"{gpus} of {every} GPUs"
        if self.grid.is_counting:
            count = "… GPUs"
        return f"{count} on {units.counted(nodes, 'node')} "

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
