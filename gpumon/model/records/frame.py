"""What one source reported about one node, or about the queue, at one instant."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.records.block import EMPTY_BLOCK, Block

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumon.model.fault import SourceError
    from gpumon.model.records.accounting import EndedReport
    from gpumon.model.records.cluster import Job, SlurmNode
    from gpumon.model.records.queue import Partition, Reservation


class QueueRecords(NamedTuple):
    """What a queue system reported: jobs, nodes, and when each was asked."""

    jobs: tuple[Job, ...]
    nodes: tuple[SlurmNode, ...]
    jobs_at: float
    """Unix time of the answer that listed the jobs."""
    nodes_at: float
    partitions: tuple[Partition, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    is_filtered: bool = False
    """Whether jobs that the queue listed were left out, as they were not asked for."""
    cluster: str = ""
    """Slurm's name of the cluster, lower case; empty: unknown, or each record's name has its."""


def merged_queues(answers: Sequence[QueueRecords]) -> QueueRecords | None:
    """Last answers of several queues as one, None where there is none."""
    if not answers:
        return None
    merged = answers[0]
    for other in answers[1:]:
        merged = merged._replace(
            jobs=merged.jobs + other.jobs,
            nodes=merged.nodes + other.nodes,
            jobs_at=min(merged.jobs_at, other.jobs_at),
            nodes_at=min(merged.nodes_at, other.nodes_at),
            partitions=merged.partitions + other.partitions,
            reservations=merged.reservations + other.reservations,
            is_filtered=merged.is_filtered or other.is_filtered,
            # Two answers of one cluster are of it; of several, each name has its own.
            cluster=merged.cluster if merged.cluster == other.cluster else "",
        )
    return merged


_NO_BLOCKS: Final[Mapping[str, Block]] = MappingProxyType({})


class Frame(NamedTuple):
    """One report of one source."""

    origin: str
    """URL of the target it comes from."""
    node: str
    """Node that it describes as the source names it; empty for a queue's report."""
    taken_at: float
    """Unix time of the report on the monitor's clock."""
    lateness_s: float = 0.0
    """How long after the end of its period the report was ready, and how much longer than others of
    its probe it was on the way."""
    blocks: Mapping[str, Block] = _NO_BLOCKS
    """What was measured, by the name of the block; empty: nothing, as of a queue or a failure."""
    errors: tuple[SourceError, ...] = ()
    queue: QueueRecords | None = None
    host_names: tuple[str, ...] = ()
    """Other names under which the node knows itself, for matching with Slurm's."""
    ended: EndedReport | None = None
    """What the accounting was asked and answered; such a frame has nothing else."""
    is_left: bool = False
    """Whether the source has stopped to watch the node itself, as no job in view is there."""

    stale_after_s: float = 0.0
    """Up to which age its values are of the present where they come more seldom than the period, as
    what a server has gathered in a period of its own does; 0: for as long as the period."""
    over_at: float | None = None
    """Of a failure: Unix time from which on what its origin reported before, of this node or of all
    if it has none, is not of the present any more; None: its age alone decides."""

    def block(self, name: str) -> Block:
        """The named block, empty where the frame has none."""
        return self.blocks.get(name, EMPTY_BLOCK)
