"""What one source reported about one node, or about the queue, at one instant."""

from __future__ import annotations

from array import array
from math import isnan
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.missing import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.model.accounting import EndedReport
    from gpumon.model.cluster import Job, SlurmNode
    from gpumon.model.queue import Partition, Reservation

MISSING_INTEGER: Final = -(2**63)
"""Placeholder of a missing value in an integer column; never leaves the frame."""


class Block(NamedTuple):
    """Values of one kind of entity: parallel columns, one row per entity."""

    keys: tuple[str, ...]
    """Entity keys: UUIDs for `gpu`, PIDs for `process`, `PID/UUID` for `context`."""
    columns: Mapping[str, array[float] | array[int]]
    """Per field present, one column of `len(keys)`; NaN or the placeholder where missing."""
    labels: Mapping[str, tuple[str | None, ...]]
    """Per text label, one value per entity."""
    missing: Mapping[tuple[str, int], Reason]
    """Why a value or label is missing, by field key and row."""

    def value(self, key: str, row: int) -> float | int | None:
        """Value of one field of one entity, None where it is missing."""
        column = self.columns.get(key)
        if column is None:
            return None
        value = column[row]
        return None if value == MISSING_INTEGER or isnan(value) else value

    def label(self, key: str, row: int) -> str | None:
        """Text of one entity, None where it is missing."""
        column = self.labels.get(key)
        return column[row] if column else None

    def reason(self, key: str, row: int) -> Reason | None:
        """Why a value is missing, None where it is present."""
        if self.value(key, row) is not None or self.label(key, row) is not None:
            return None
        return self.missing.get((key, row), Reason.NOT_SAMPLED)


EMPTY_BLOCK: Final = Block((), {}, {}, {})


class SourceError(NamedTuple):
    """One thing that a source could not do, in one line that names it and the way out."""

    where: str
    """Target URL, node or command that failed."""
    message: str
    hint: str = ""
    """The way out, where one is known."""


class QueueRecords(NamedTuple):
    """What a queue system said: jobs, nodes, and when each was asked."""

    jobs: tuple[Job, ...]
    nodes: tuple[SlurmNode, ...]
    jobs_at: float
    """Unix time of the answer that listed the jobs."""
    nodes_at: float
    partitions: tuple[Partition, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    is_filtered: bool = False
    """Whether jobs that the queue listed were left out, as nobody asked for them."""


class Frame(NamedTuple):
    """One report of one source."""

    origin: str
    """URL of the target it comes from."""
    node: str
    """Node that it describes as the source names it; empty for a queue's report."""
    taken_at: float
    """Unix time of the report on the monitor's clock."""
    lateness_s: float
    """How long after its period's beat the report was ready, and how much longer than others of
    its probe it was on the way."""
    blocks: Mapping[str, Block]
    errors: tuple[SourceError, ...] = ()
    queue: QueueRecords | None = None
    host_names: tuple[str, ...] = ()
    """Other names under which the node knows itself, for matching with Slurm's."""
    ended: EndedReport | None = None
    """What the accounting was asked and said; such a frame says nothing else."""
    is_left: bool = False
    """Whether the source has ended its look at the node itself, as no job in view is there."""

    def block(self, name: str) -> Block:
        """The named block, empty where the frame has none."""
        return self.blocks.get(name, EMPTY_BLOCK)


def column_for(is_integer: bool, values: list[float | int | None]) -> array[float] | array[int]:
    """Column of a frame; None becomes NaN, or the integer placeholder."""
    if is_integer:
        return array("q", [MISSING_INTEGER if value is None else int(value) for value in values])
    return array("d", [float("nan") if value is None else float(value) for value in values])
