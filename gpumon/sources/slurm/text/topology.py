"""Which leaf switch or block a node belongs to, from the text of `scontrol show topology`.

Every line is a record: switches of topology/tree at all levels, or blocks of topology/block. Blocks
of blocks, rings and tori are passed over, as is all that a login shell prints ahead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.hostlist import expand, is_host_name
from gpumon.model.text import plain
from gpumon.sources.slurm.text.records import pairs

if TYPE_CHECKING:
    from collections.abc import Mapping

_SWITCH: Final = "SwitchName"
_BLOCK: Final = "BlockName"


class Place(NamedTuple):
    """Where a node is in the network; empty names where that is not reported."""

    leaf_switch: str = ""
    block: str = ""


NOWHERE: Final = Place()


class Topology(NamedTuple):
    """Places by the node's name, and how many records could not be read."""

    places: Mapping[str, Place]
    total: int
    """Leaf switches and blocks, those that could not be read among them."""
    unreadable: int


def parse_topology(text: str) -> Topology:
    """The place of every node that hangs on a switch or belongs to a block.

    A node of several leaf switches, as a dragonfly may have them, counts to the first.
    """
    places: dict[str, Place] = {}
    total = unreadable = 0
    for line in text.split("\n"):
        key = line.partition("=")[0]
        if key not in (_SWITCH, _BLOCK):
            continue
        fields = pairs(line)
        # Only the lowest level names switches that nodes hang on; the others repeat their nodes.
        if key == _SWITCH and fields.get("Level") != "0":
            continue
        total += 1
        try:
            name, nodes = _record(fields, key)
        except ValueError:
            unreadable += 1
            continue
        for node in nodes:
            place = places.get(node, NOWHERE)
            if key == _SWITCH:
                place = place._replace(leaf_switch=place.leaf_switch or name)
            else:
                place = place._replace(block=place.block or name)
            places[node] = place
    return Topology(places, total, unreadable)


def _record(fields: Mapping[str, str], key: str) -> tuple[str, tuple[str, ...]]:
    """Name and nodes of a switch or block.

    Raises:
        ValueError: it has no name, or its nodes can't be read.
    """
    name, nodes = plain(fields.get(key, "")), expand(fields.get("Nodes", ""))
    if not name:
        raise ValueError("no name")
    if not all(map(is_host_name, nodes)):
        raise ValueError("nodes that are no names")
    return name, nodes
