"""One tick's values of one block as a row of a chunk."""

from __future__ import annotations

from array import array
from math import isnan
from operator import is_
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.model.catalogue.field import Kind
from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.records.block import MISSING_INTEGER, column_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from gpumon.fleet.history.chunk import Chunk
    from gpumon.model.records.block import Block
    from gpumon.model.records.cluster import Gpu, Node
    from gpumon.model.records.tick import Tick

    _Columns = Sequence[array[float] | array[int] | None]
    """One field of all blocks of a part."""

EXACT_BELOW: Final = 2.0**24
"""Whole numbers below this are exact in float32."""

_BLANKS: Final = {"d": float("nan"), "q": MISSING_INTEGER}
"""What stands for a missing value in a column, by its type."""


SUBSTITUTES: Final = {"compute_process_count": "process_count"}
"""What is kept of a field that a block has not got. Older recordings tell processes that compute
alone, and call them all of them."""


def _column_of(block: Block, key: str) -> array[float] | array[int] | None:
    column = block.columns.get(key)
    return block.columns.get(SUBSTITUTES.get(key, key)) if column is None else column


class Part(NamedTuple):
    """Entities of one kind in a tick, and where their values lie."""

    names: Sequence[str]
    """Every entity of the tick, also those without fresh values."""
    blocks: Sequence[Block]
    fresh: Sequence[str]
    """Entities with fresh values."""
    sources: Sequence[int]
    """Row of each fresh entity within the blocks end to end."""

    def present(self, keys: Sequence[str]) -> list[str]:
        """Keys that at least one block has."""
        if not self.blocks:
            return []
        # Nearly always they all have the same.
        first = self.blocks[0].columns.keys()
        others = (block.columns.keys() for block in self.blocks[1:])
        present_keys = {*first, *(key for keys in others if keys != first for key in keys)}
        present_keys.update(
            key for key, substitute in SUBSTITUTES.items() if substitute in present_keys
        )
        return [key for key in keys if key in present_keys]


def part_of(tick: Tick, block: str) -> Part:
    """The tick's entities of a block.

    GPUs, MIG devices and links are named as their block does (UUID, UUID, `UUID/N`), a node by
    its name, all others by `NODE/KEY`: ports, mounts and jobs are unique on their node only.
    """
    return _gpus(tick.gpus) if block == "gpu" else _others(tick.nodes, block)


def _gpus(gpus: Mapping[str, Gpu]) -> Part:
    blocks: list[Block] = []
    offsets: dict[int, int] = {}
    sources: list[int] = []
    fresh: list[str] = []
    offset, end = 0, 0
    last: Block | None = None
    for uuid, gpu in gpus.items():
        if gpu.is_stale:
            continue
        block = gpu.block
        if block is not last:
            known = offsets.get(id(block))
            if known is None:
                known = offsets[id(block)] = end
                blocks.append(block)
                end += len(block.keys)
            offset, last = known, block
        sources.append(offset + gpu.row)
        fresh.append(uuid)
    return Part(tuple(gpus), blocks, fresh, sources)


def _others(nodes: Mapping[str, Node], name: str) -> Part:
    blocks: list[Block] = []
    names: dict[str, int] = {}
    end = 0
    for node in nodes.values():
        block = None if node.is_stale else node.blocks.get(name)
        if block is None or not block.keys:
            continue
        if name == "node":
            names[node.name] = end
        elif name in ("link", "mig"):
            names.update(zip(block.keys, range(end, end + len(block.keys)), strict=True))
        else:
            names.update((f"{node.name}/{key}", end + row) for row, key in enumerate(block.keys))
        blocks.append(block)
        end += len(block.keys)
    fresh = list(names)
    return Part(fresh, blocks, fresh, list(names.values()))


WHOLE: Final = frozenset({"job_cpu_us"})
"""Counters that are kept with what was counted before their entity was first seen: the CPU time of
a job tells whether it worked before anybody watched it. float32 holds half a year of one CPU to a
second."""


class Increases:
    """Counters as what they grew since their entity was first seen, which float32 can hold.

    Those of `WHOLE` are kept as they are told.

    Where a counter went back (its driver or node was started anew) one value is missing, for
    nobody knows what was counted in between; then it goes on from where it stood.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._rows = {key: row for row, key in enumerate(keys)}
        self._columns: dict[str, int] = {}
        self._base = np.empty((len(keys), 0), np.int64)
        self._last = np.empty((len(keys), 0), np.int64)

    def slots(self, names: Sequence[str]) -> NDArray[np.intp] | slice:
        """Columns of entities, new ones for those that are new."""
        columns = self._columns
        for name in names:
            if name not in columns:
                columns[name] = len(columns)
        short = len(columns) - self._base.shape[1]
        if short > 0:
            room = ((0, 0), (0, short + len(columns) // 8))
            self._base = np.pad(self._base, room, constant_values=MISSING_INTEGER)
            self._last = np.pad(self._last, room, constant_values=MISSING_INTEGER)
        return _index([columns[name] for name in names])

    def take(
        self, key: str, slots: NDArray[np.intp] | slice, now: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """What the counter has grown by, NaN where it is missing or went back."""
        row = self._rows[key]
        last, base = self._last[row, slots], self._base[row, slots]
        if (now >= last).all() and (last != MISSING_INTEGER).all():
            # As nearly always: each was known, and none went back.
            self._last[row, slots] = now
            return (now - base).astype(np.float64)
        is_known = now != MISSING_INTEGER
        is_new = last == MISSING_INTEGER
        went_back = is_known & ~is_new & (now < last)
        if is_new.any() or went_back.any():
            first = np.zeros_like(now) if key in WHOLE else now
            base = np.where(is_new, first, np.where(went_back, now - (last - base), base))
            self._base[row, slots] = base
        self._last[row, slots] = np.where(is_known, now, last)
        return np.where(is_known & ~went_back, (now - base).astype(np.float64), np.nan)

    def forget_all_but(self, names: set[str]) -> None:
        """Drop entities that no row has any more."""
        remaining = [name for name in self._columns if name in names]
        if len(remaining) < len(self._columns):
            columns = [self._columns[name] for name in remaining]
            self._base, self._last = self._base[:, columns], self._last[:, columns]
            self._columns = {name: column for column, name in enumerate(remaining)}


class Gathering:
    """Where the fresh values of a part go in the rows of a chunk."""

    def __init__(self, part: Part, chunk: Chunk, increases: Increases) -> None:
        self._chunk = chunk
        self._fresh = part.fresh
        self._rows = part.sources
        self._sources = _index(part.sources)
        self._targets = _index([chunk.columns[name] for name in part.fresh])
        self._increases = increases
        self._slots = increases.slots(part.fresh)
        self._made: dict[str, _Columns] = {}
        """By field the columns that the last row was written from."""
        self._filled: tuple[Sequence[Block], NDArray[np.float32] | None] = ((), None)
        """The last row and the blocks that it was written from."""

    def is_for(self, part: Part, chunk: Chunk) -> bool:
        """Whether it holds for a part of a later tick and a chunk."""
        same = chunk is self._chunk and part.sources == self._rows
        return same and part.fresh == self._fresh

    def fill(self, blocks: Sequence[Block], row: NDArray[np.float32]) -> None:
        """Write a row from the blocks of the part: field by entity, NaN where missing."""
        filled, written = self._filled
        if written is not None and _are_the_same(filled, blocks):
            row[:] = written
            return
        if written is None:
            row.fill(np.nan)
        else:
            # Of most fields the columns are the very same: so is what was written of them.
            row[:] = written
        sizes = [len(block.keys) for block in blocks]
        made = self._made
        for position, key in enumerate(self._chunk.shape.keys):
            if key in SUBSTITUTES:
                columns = [_column_of(block, key) for block in blocks]
            else:
                columns = [block.columns.get(key) for block in blocks]
            before = made.get(key)
            if before is not None and _are_the_same(before, columns):
                continue
            if columns.count(None) < len(columns):
                made[key] = columns
                row[position, self._targets] = self._values(key, columns, sizes)
            elif before is not None:
                del made[key]
                row[position] = np.nan
        self._filled = blocks, row

    def _values(
        self,
        key: str,
        columns: _Columns,
        sizes: Sequence[int],
    ) -> NDArray[np.float64]:
        kind = CATALOGUE[key].kind
        if not kind.is_integer:
            floats = np.frombuffer(_joined(columns, sizes, "d"), np.float64)
            return floats[self._sources]
        whole = np.frombuffer(_joined(columns, sizes, "q"), np.int64)[self._sources]
        if kind is Kind.COUNTER:
            return self._increases.take(key, self._slots, whole)
        numbers = whole.astype(np.float64)
        numbers[np.abs(numbers) >= EXACT_BELOW] = np.nan
        return numbers


def _are_the_same(first: Sequence[object], second: Sequence[object]) -> bool:
    """Whether both hold the very same objects."""
    return len(first) == len(second) and all(map(is_, first, second))


def _index(rows: Sequence[int]) -> NDArray[np.intp] | slice:
    """The rows as an index; as a slice, which is cheaper, where they are neighbours."""
    first = rows[0] if rows else 0
    if list(rows) == list(range(first, first + len(rows))):
        return slice(first, first + len(rows))
    return np.array(rows, np.intp)


def _joined(
    columns: Sequence[array[float] | array[int] | None], sizes: Sequence[int], code: str
) -> bytes | array[float] | array[int]:
    """One column of all blocks, end to end; sources may keep whole numbers as floats."""
    only = columns[0] if len(columns) == 1 else None
    if only is not None and only.typecode == code:
        return only
    return b"".join(
        array(code, [_BLANKS[code]]) * size
        if column is None
        else (column if column.typecode == code else _converted(column, code))
        for column, size in zip(columns, sizes, strict=True)
    )


def _converted(column: array[float] | array[int], code: str) -> array[float] | array[int]:
    """The column in the other type, missing values as that type has them."""
    known = [None if value == MISSING_INTEGER or isnan(value) else value for value in column]
    return column_for(code == "q", known)
