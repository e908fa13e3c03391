"""What is broken in the fleet's hardware: a link, a port, a row of memory.

None of it stops a job; counters show it, as they do where no one watches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.simulate.cluster.layout import SimNode

LINKS: Final = "fabric_degraded"
"""Class of a broken NVLink, about its GPU, and of a dead port, about its node."""

MEMORY: Final = "gpu_fault"
"""Class of rows of memory that wait to be remapped."""

BYTES_PER_REPLAY: Final = 2e9
"""Traffic over the broken link between two packets that have to be sent again."""

REPLAYS_PER_RECOVERY: Final = 40
"""Packets sent again for each retraining of the link. A choice."""

DOWNS: Final = 3
"""How often the dead port's link went down before it stayed so."""

XIDS: Final = ((20.0, 63), (20.2, 94))
"""Seconds after the fleet's origin and Xid: a row is marked for remapping, the error contained."""


class Spot(NamedTuple):
    """One device of a node."""

    node: int
    gpu: int
    """Its position, or that of the GPU beside it, in NVML's order."""
    part: int = 0
    """Which of its links."""


class Ailments(NamedTuple):
    """Where the fleet is broken; None: nowhere."""

    link: Spot | None
    port: Spot | None
    memory: Spot | None

    def known(self, nodes: Sequence[SimNode]) -> list[tuple[str, str]]:
        """Subject of each fault and its class; a port is its node's, the GPU beside it is well."""
        named = [
            (f"gpu:{nodes[spot.node].gpus[spot.gpu].uuid}", truth)
            for spot, truth in ((self.link, LINKS), (self.memory, MEMORY))
            if spot
        ]
        return named + ([(f"node:{nodes[self.port.node].name}", LINKS)] if self.port else [])


def ailments_of(nodes: Sequence[SimNode]) -> Ailments:
    """What is broken in a fleet: the link where traffic is, the memory where no job computes.

    A fleet without a drained node has no broken memory, for its error would end a job.
    """
    gpus = len(nodes[0].gpus)
    link = Spot(min(1, len(nodes) - 1), gpus // 2, 7) if gpus > 1 else None
    port = Spot(3, gpus - 1) if gpus > 1 and len(nodes) > 3 else None
    drained = next((node.number for node in nodes if node.is_drained), None)
    return Ailments(link, port, None if drained is None else Spot(drained, min(2, gpus - 1)))


def replays_of(node: SimNode, link: Spot, nvlink_tx_bytes: int) -> int:
    """Packets that the broken link of a GPU sent again, by the counter of all its links."""
    since = nvlink_tx_bytes - node.gpus[link.gpu].nvlink_base_bytes
    return max(0, int(since / node.board.links / BYTES_PER_REPLAY))


def xids_between(after: float, until: float, origin: float) -> list[tuple[float, int]]:
    """Unix time and Xid of the memory's errors after one time and up to another."""
    events = ((origin + at_s, xid) for at_s, xid in XIDS)
    return [(at, xid) for at, xid in events if after < at <= until]


def lost_rows(now: float, origin: float) -> int:
    """Rows of the broken memory that wait for a reset: one since long, one more by the Xids."""
    return 2 if now >= origin + XIDS[0][0] else 1
