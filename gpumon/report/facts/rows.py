"""Rows over the blocks of a node: links, slices, ports, mounts, jobs' cgroups."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from gpumon.model.missing import Reason
from gpumon.model.records.block import EMPTY_BLOCK, MISSING_INTEGER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumon.model.records.block import Block
    from gpumon.model.records.cluster import Gpu, Node


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
        """Text fact, also when the values are stale."""
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


OF_INSTANCE: Final = {
    "sm_active_ratio": "mig_sm_active_ratio",
    "tensor_active_ratio": "mig_tensor_active_ratio",
    "dram_active_ratio": "mig_dram_active_ratio",
    "mem_used_bytes": "mig_mem_used_bytes",
    "mem_total_bytes": "mig_mem_total_bytes",
}
"""Which fields of a GPU a MIG instance has of its own, and what these are called there."""


class Instance(NamedTuple):
    """A MIG instance, read by the keys of a GPU's fields."""

    row: BlockRow
    numbers: tuple[int | None, int | None]
    """NVML's of the GPU instance and of the compute instance within it; None: not known."""
    is_shared: bool = False
    """Whether the GPU instance, which its values are of, has other compute instances."""

    @property
    def uuid(self) -> str:
        """NVML's UUID, `MIG-…`, which no other instance has."""
        return self.row.key

    def value(self, key: str) -> float | int | None:
        """Newest value, None where it is missing, or only the whole GPU has one."""
        own = OF_INSTANCE.get(key)
        return None if own is None else self.row.value(own)

    def reason(self, key: str) -> Reason | None:
        """Why a value is missing, None where it is present."""
        own = OF_INSTANCE.get(key)
        return Reason.NOT_SUPPORTED if own is None else self.row.reason(own)

    def label(self, key: str) -> str | None:
        """Text fact, `profile` or `parent`."""
        return self.row.label(key)


class GpuRow(NamedTuple):
    """One line of the fleet: a GPU, a MIG instance of it, or a node that shows no GPU."""

    node: Node
    gpu: Gpu | None
    """The GPU; of an instance the one that is cut."""
    instance: Instance | None = None
    """The instance that the line is about; None: the GPU as a whole."""

    @property
    def whole(self) -> Gpu | None:
        """The GPU where the line is about the whole of it."""
        return self.gpu if self.instance is None else None

    @property
    def key(self) -> str:
        """What names the line over time."""
        if self.instance is not None:
            return self.instance.uuid
        return self.gpu.uuid if self.gpu else f"node:{self.node.name}"


def with_instances(node: Node, rows: Iterable[GpuRow]) -> list[GpuRow]:
    """The rows of a node's GPUs, each followed by those of its MIG instances."""
    found: list[GpuRow] = []
    cut = _instances(node)
    for row in rows:
        found.append(row)
        gpu = row.gpu
        if gpu is None:
            continue
        for one in cut.get(gpu.uuid, ()):
            is_stale = one.row.is_stale or gpu.is_stale
            found.append(GpuRow(node, gpu, one._replace(row=one.row._replace(is_stale=is_stale))))
    return found


def _instances(node: Node) -> dict[str, list[Instance]]:
    """By UUID of the GPU, in the order of their numbers."""
    found: dict[str, list[Instance]] = {}
    for row in block_rows(node, "mig"):
        numbers = [row.block.value(f"mig_{of}_instance", row.row) for of in ("gpu", "compute")]
        one = Instance(row, (_whole(numbers[0]), _whole(numbers[1])))
        found.setdefault(row.label("parent") or "", []).append(one)
    for instances in found.values():
        instances.sort(key=lambda one: [(n is None, n or 0) for n in one.numbers])
        among = Counter(one.numbers[0] for one in instances)
        instances[:] = [
            one._replace(is_shared=one.numbers[0] is not None and among[one.numbers[0]] > 1)
            for one in instances
        ]
    return found


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


INACTIVE: Final = 0
"""Value of `link_state` of a link that carries nothing."""


def link_states(node: Node | None) -> dict[str, tuple[int, int]]:
    """By GPU: inactive NVLinks, and NVLinks whose state is known.

    Made for whole fleets, of which no row is read singly.
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
