"""The partitions: nodes, GPUs held and free, and who waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.report.facts.groups import partition_row_steps, partition_rows
from gpumon.report.tables.group import PARTITION_COLUMNS, partition_order, partition_search
from gpumon.report.wording.loss_words import LOSING
from gpumon.tui.actions.registry import bindings_of
from gpumon.tui.screens.base.fleet_view import FleetView
from gpumon.tui.widgets.table.grid import Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumon.report.facts.groups import PartitionRow
    from gpumon.report.facts.tick_index import Digest


class PartitionsView(FleetView["PartitionRow"]):
    """One line per partition."""

    view = "partitions"
    BINDINGS = bindings_of("partitions")
    noun = "partitions"
    plan = Plan(
        PARTITION_COLUMNS,
        lambda row: row.group.name,
        partition_order,
        partition_search,
        led_by=LOSING,
    )

    def rows(self, digest: Digest) -> Sequence[PartitionRow]:
        """Every partition that is listed or that a job names."""
        return partition_rows(digest)

    def row_steps(self, digest: Digest) -> Iterable[None]:
        """A few hundred jobs at a time."""
        return partition_row_steps(digest)

    def empty_words(self, digest: Digest) -> tuple[str, ...]:
        """No queue, or one that reports no partition."""
        words = self.no_queue_words(digest)
        return words or ("The queue has no partition.", "Tab shows the other views.")

    def open_row(self, row: PartitionRow) -> None:
        """The jobs of the partition."""
        self.open_group("partition", row.group.name)
