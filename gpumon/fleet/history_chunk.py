"""One stretch of history in memory that the kernel frees when nobody maps it any more."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import tempfile
from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from gpumon.model.cluster import Gpu
    from gpumon.model.frame import Block

_F_SEAL_FUTURE_WRITE: Final = 0x10
"""linux/fcntl.h, since Linux 5.1: nobody but the maker may map the memory for writing."""

_STAMP_BYTES: Final = 16
"""Per row a time and a period, both float64."""


class ChunkShape(NamedTuple):
    """What one needs to know to read a chunk."""

    number: int
    """Names the chunk within its history."""
    uuids: tuple[str, ...]
    keys: tuple[str, ...]
    capacity: int
    """Rows that fit."""

    @property
    def row_bytes(self) -> int:
        """Bytes of one row: its stamps, and a float32 per field and GPU."""
        return row_bytes(len(self.uuids), len(self.keys))

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole memory."""
        return self.capacity * self.row_bytes


class Chunk:
    """Rows of one set of GPUs, time-major: written once by their maker, never changed."""

    def __init__(self, shape: ChunkShape, fd: int, memory: mmap.mmap) -> None:
        self.shape = shape
        self.fd = fd
        self.rows = 0
        """Rows written; a reader keeps its own number."""
        self.columns = {uuid: column for column, uuid in enumerate(shape.uuids)}
        self.fields = {key: position for position, key in enumerate(shape.keys)}
        rows = shape.capacity
        stamps = np.frombuffer(memory, np.float64, 2 * rows)
        self.times: NDArray[np.float64] = stamps[:rows]
        """Unix time of each row."""
        self.periods: NDArray[np.float64] = stamps[rows:]
        """Period, in seconds, that was in force when the row was taken."""
        count = rows * len(shape.keys) * len(shape.uuids)
        values = np.frombuffer(memory, np.float32, count, rows * _STAMP_BYTES)
        self.values: NDArray[np.float32] = values.reshape(rows, len(shape.keys), len(shape.uuids))
        """Row, field, GPU; NaN where missing."""

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    @classmethod
    def create(cls, shape: ChunkShape) -> Chunk:
        """New chunk of this process; other processes may map it, but only for reading."""
        fd = _new_memory()
        try:
            os.ftruncate(fd, shape.size_bytes)
            memory = mmap.mmap(fd, shape.size_bytes)
        except BaseException:
            os.close(fd)
            raise
        _seal(fd)
        return cls(shape, fd, memory)

    @classmethod
    def attach(cls, shape: ChunkShape, fd: int) -> Chunk:
        """The chunk of another process, read-only; takes the descriptor over."""
        try:
            memory = mmap.mmap(fd, shape.size_bytes, prot=mmap.PROT_READ)
        finally:
            os.close(fd)
        return cls(shape, -1, memory)

    @property
    def is_full(self) -> bool:
        """Whether no further row fits."""
        return self.rows >= self.shape.capacity

    @property
    def used_bytes(self) -> int:
        """Memory that is really in use: the kernel gives pages when they are first written."""
        return self.rows * self.shape.row_bytes

    def append(self, at: float, period_s: float, gpus: Mapping[str, Gpu]) -> None:
        """Write one row; each GPU must be among the chunk's."""
        row = self.values[self.rows]
        row.fill(np.nan)
        blocks, sources, targets = _plan(gpus, self.columns)
        blanks = [array("d", [np.nan]) * len(block.keys) for block in blocks]
        for position, key in enumerate(self.shape.keys):
            columns = [block.columns.get(key) for block in blocks]
            if any(column is not None for column in columns):
                parts = [
                    blank if column is None else column
                    for column, blank in zip(columns, blanks, strict=True)
                ]
                row[position, targets] = np.frombuffer(b"".join(parts))[sources]
        self.times[self.rows] = at
        self.periods[self.rows] = period_s
        self.rows += 1


def row_bytes(gpu_count: int, field_count: int) -> int:
    """Bytes of one row of a chunk."""
    return _STAMP_BYTES + 4 * gpu_count * field_count


def _plan(
    gpus: Mapping[str, Gpu], columns: Mapping[str, int]
) -> tuple[list[Block], list[int], list[int]]:
    """Blocks of the fresh GPUs; row of each GPU within the blocks end to end; its column."""
    blocks: list[Block] = []
    offsets: dict[int, int] = {}
    sources: list[int] = []
    targets: list[int] = []
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
        targets.append(columns[uuid])
    return blocks, sources, targets


def _new_memory() -> int:
    """Descriptor of memory without a name; an unlinked file where the kernel has no memfd."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("gpumon-history", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _seal(fd: int) -> None:
    """Forbid that anybody resizes the memory or maps it for writing from now on.

    A plugin that shrank it would end the monitor with SIGBUS.
    """
    size = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
    for seals in (size | _F_SEAL_FUTURE_WRITE, size):
        # Kernels before 5.1 know no FUTURE_WRITE, and plain files know no seals.
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
            return
