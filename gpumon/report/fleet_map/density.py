"""How much of the fleet one cell of the map shows, and what its lines are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from gpumon.report.fleet_map.groups import Cluster
    from gpumon.report.fleet_map.map import Unit

DensityName = Literal["numbers", "wide", "cells", "rows", "halves", "nodes", "half nodes"]

DENSITIES: Final[tuple[DensityName, ...]] = (
    "numbers", "wide", "cells", "rows", "halves", "nodes", "half nodes",
)  # fmt: skip
"""From the largest cells to the smallest."""

WORDS: Final[dict[DensityName, str]] = {
    "numbers": "a number per GPU",
    "wide": "a cell per GPU",
    "cells": "a cell per GPU",
    "rows": "a cell per GPU",
    "halves": "2 GPUs per cell",
    "nodes": "a cell per node",
    "half nodes": "2 nodes per cell",
}

HALF: Final[frozenset[DensityName]] = frozenset({"halves", "half nodes"})
"""Two things in one character, one above the other: only colours separate them."""

NAMED: Final[frozenset[DensityName]] = frozenset({"numbers", "wide", "cells"})
"""Each node carries its name; in the others only the first of each line."""

BY_NODE: Final[frozenset[DensityName]] = frozenset({"nodes", "half nodes"})

MOST_NAME: Final = 14
"""Cells of a node's name: longer ones lose their middle."""

STEPS: Final[dict[DensityName, int]] = {"numbers": 4, "wide": 2}

_MARKED: Final[dict[DensityName, tuple[int, int]]] = {"numbers": (1, 4), "wide": (-1, 2)}


class Spot(NamedTuple):
    """One thing that the cursor can be on."""

    x: int
    is_lower: bool
    unit: Unit
    slot: int
    """Position of the GPU on its node; 0 where a cell is a whole node."""


class Block(NamedTuple):
    """One node on a line."""

    x: int
    unit: Unit
    is_lower: bool = False


class MapLine(NamedTuple):
    """One line of the map: a heading, or nodes."""

    cluster: Cluster
    label: str
    """Name of its group or its first node, for nodes that do not carry their own."""
    blocks: tuple[Block, ...]
    """Empty: the heading of its group."""
    is_gap: bool = False
    """Whether it is the blank line above a heading."""
    beside: tuple[tuple[int, str], ...] = ()
    """Column and name of each further group on it."""


def short_name(name: str, width: int) -> str:
    """The name, its middle cut where it is too long: nodes differ at the end."""
    if len(name) <= width:
        return name
    tail = (width - 1) * 2 // 3
    return name[: width - 1 - tail] + "…" + name[len(name) - tail :]


def allowed(*, has_colour: bool) -> tuple[DensityName, ...]:
    """The densities whose cells can be read."""
    return tuple(name for name in DENSITIES if has_colour or name not in HALF)


def marked_cells(density: DensityName, x: int) -> range:
    """Columns that the cursor reverses for the cell at x: also the blanks beside it."""
    before, after = _MARKED.get(density, (0, 1))
    return range(x + before, x + after)


def extent_of(clusters: tuple[Cluster, ...]) -> tuple[int, int]:
    """Cells of the nodes' names, and the most GPUs of a node."""
    units = [unit for cluster in clusters for unit in cluster.units]
    name_width = min(MOST_NAME, max((len(unit.name) for unit in units), default=0))
    return name_width, max((unit.size for unit in units), default=1)
