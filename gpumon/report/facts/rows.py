"""Rows over the blocks of a node: links, slices, ports, mounts, jobs' cgroups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from gpumon.model.missing import Reason
from gpumon.model.records.block import EMPTY_BLOCK, MISSING_INTEGER

if TYPE_CHECKING:
    from gpumon.model.records.block import Block
    from gpumon.model.records.cluster import Node


class Readable(Protocol):
    """Anything with values by catalogue key: a GPU, or a row of a block."""

    def value(self, key: str) -> float | int | None:
        """Newest value, None where it is missing."""
        ...

    def reason(self, key: str) -> Reason | None:
        """Why a value is missing, None where it is present."""
        ...

    def label(self, key: str) -> str | None:
        """Text fact, None where it is missing."""
        ...


class BlockRow(NamedTuple):
    """One entity of a block."""

    key: str
    block: Block
    row: int
    is_stale: bool

    def value(self, key: str) -> float | int | None:
        """Newest value, None where it is missing or stale."""
        return None if self.is_stale else self.block.value(key, self.row)

    def reason(self, key: str) -> Reason | None:
        """Why a value is missing, None where it is present."""
        return Reason.STALE if self.is_stale else self.block.reason(key, self.row)

    def label(self, key: str) -> str | None:
        """Text fact, kept also when the values are stale."""
        return self.block.label(key, self.row)


def block_rows(node: Node | None, name: str) -> tuple[BlockRow, ...]:
    """Every entity of one block of a node, none where the node has no such block."""
    if node is None:
        return ()
    block = node.blocks.get(name, EMPTY_BLOCK)
    return tuple(BlockRow(key, block, row, node.is_stale) for row, key in enumerate(block.keys))


def rows_by_gpu(node: Node | None, name: str) -> dict[str, tuple[BlockRow, ...]]:
    """Entities of a block by their GPU: the label `parent`, else what the key begins with.

    Keys lose the UUID in front, and numbers among them are in their order.
    """
    found: dict[str, list[BlockRow]] = {}
    for row in block_rows(node, name):
        head, _, rest = row.key.partition("/")
        found.setdefault(row.label("parent") or head, []).append(row._replace(key=rest or row.key))
    return {
        uuid: tuple(sorted(rows, key=lambda row: (len(row.key), row.key)))
        for uuid, rows in found.items()
    }


INACTIVE: Final = 0
"""Value of `link_state` of a link that carries nothing."""


def link_states(node: Node | None) -> dict[str, tuple[int, int]]:
    """By GPU: inactive NVLinks, and NVLinks whose state is known.

    Made for whole fleets, of which no row is looked at singly.
    """
    block = EMPTY_BLOCK if node is None else node.blocks.get("link", EMPTY_BLOCK)
    found: dict[str, tuple[int, int]] = {}
    for key, state in zip(block.keys, block.columns.get("link_state", ()), strict=False):
        if state != MISSING_INTEGER:
            uuid = key.partition("/")[0]
            down, known = found.get(uuid, (0, 0))
            found[uuid] = (down + (state == INACTIVE), known + 1)
    return found


def host_row(node: Node) -> BlockRow:
    """The node's own values."""
    block = node.block or node.blocks.get("node", EMPTY_BLOCK)
    return BlockRow(node.name, block if block.keys else _NOTHING, 0, node.is_stale)


def awaited_call(node: Node) -> str:
    """The call that opens the node's driver and has not returned: `nvmlInit for 3 s`; or empty."""
    return "" if node.is_stale else host_row(node).label("awaited_call") or ""


_NOTHING = EMPTY_BLOCK._replace(keys=("",))
