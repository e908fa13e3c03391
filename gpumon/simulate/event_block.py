"""The block of a node's driver events: the Xids of its broken memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.model.block import EMPTY_BLOCK, Block
from gpumon.simulate.ailments import xids_between
from gpumon.simulate.columns import column

if TYPE_CHECKING:
    from gpumon.simulate.fleet import Fleet
    from gpumon.simulate.layout import SimNode

_SHOWN_S: Final = 30.0
"""How long an event stays in the reports."""

_XID_EVENT: Final = 0x8


def event_block(fleet: Fleet, node: SimNode, now: float) -> Block:
    """What the driver told of late, keyed `UUID/XID/SEQUENCE`."""
    memory = fleet.ailments.memory
    if memory is None or memory.node != node.number:
        return EMPTY_BLOCK
    told = xids_between(now - _SHOWN_S, now, fleet.origin)
    uuid = node.gpus[memory.gpu].uuid
    return Block(
        tuple(f"{uuid}/{xid}/{number}" for number, (_, xid) in enumerate(told, 1)),
        {
            "xid": column("xid", [xid for _, xid in told]),
            "event_type": column("event_type", [_XID_EVENT for _ in told]),
            "event_age_s": column("event_age_s", [round(now - at, 3) for at, _ in told]),
        },
        {},
        {},
    )
