"""Whether all GPUs of a node can be passed over when looking for what is wrong with them.

Most are well most of the time, and reading eighty thousand one by one takes half a second.
Whole columns show it in a hundredth of that; where they leave a doubt, each GPU is read.
"""

from __future__ import annotations

from functools import cache
from math import isnan
from typing import TYPE_CHECKING, Final

from gpumon.model.gpu.conditions import HARMLESS_BITS, IDLE_BITS, may_be_wrong
from gpumon.model.records.block import EMPTY_BLOCK, MISSING_INTEGER
from gpumon.report.facts.rows import INACTIVE

if TYPE_CHECKING:
    from gpumon.model.records.block import Block
    from gpumon.model.records.cluster import Gpu, Node
    from gpumon.report.facts.tick_index import Digest

VITAL: Final = ("mem_used_bytes", "temp_c", "power_w", "gpu_util_ratio")
"""Fields that every GPU has: where all of them are missing, the reason is news."""

_QUIET_BITS: Final = IDLE_BITS | HARMLESS_BITS


def has_calm_node(digest: Digest, gpu: Gpu) -> bool:
    """Whether nothing is wrong with any GPU that was read together with this one."""
    calm: dict[tuple[int, str], bool] = digest.remembered(("calm", ""), dict)
    # The tick keeps its blocks, so that no other one can come to have the same identity.
    what = (id(gpu.block), gpu.node)
    found = calm.get(what)
    if found is None:
        node = digest.tick.nodes.get(gpu.node)
        found = calm[what] = node is not None and _is_calm(gpu.block, node)
    return found


def _is_calm(block: Block, node: Node) -> bool:
    links = node.blocks.get("link", EMPTY_BLOCK)
    known = cache(lambda key: _values(block, key))
    return (
        not node.blocks.get("event", EMPTY_BLOCK).keys
        and all(_is_whole(block, key) for key in VITAL)
        and not may_be_wrong(known)
        and not any(int(v) & ~_QUIET_BITS for v in known("clock_event_reasons"))
        and INACTIVE not in _values(links, "link_state")
    )


def _is_whole(block: Block, key: str) -> bool:
    """Whether every GPU has a value."""
    column = block.columns.get(key)
    if column is None:
        return False
    values = set(column)
    return MISSING_INTEGER not in values and not any(map(isnan, values))


def _values(block: Block, key: str) -> set[float | int]:
    """The known values of a field."""
    column = block.columns.get(key)
    if not column:
        return set()
    return {v for v in set(column) if v != MISSING_INTEGER and not isnan(v)}
