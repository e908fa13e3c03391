"""One stretch of history in memory that the kernel frees when nobody maps it any more."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import tempfile
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.fleet.history.fields import mean_count, spread_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

_F_SEAL_FUTURE_WRITE: Final = 0x10
"""linux/fcntl.h, since Linux 5.1: nobody but the maker may map the memory for writing."""

_MANY: Final = 256
"""Entities of which it is worth remembering where they are."""

_STAMPS: Final = 4
"""Per row its end, period, begin and number of samples, all float64."""


class Stamp(NamedTuple):
    """What a row says of itself."""

    begin: float
    """Unix time of its first sample."""
    end: float
    """Unix time of its last sample."""
    period_s: float
    """Distance to the next row where nothing is lost."""
    samples: int


class ChunkShape(NamedTuple):
    """What one needs to know to read a chunk, besides the entities, which may grow."""

    number: int
    """Names the chunk within its history."""
    block: str
    tier: int
    """0: rows of single ticks; above: rows of several, coarser with every step."""
    keys: tuple[str, ...]
    """Fields in the order of `history_fields.in_order`."""
    width: int
    """Columns: entities that fit."""
    capacity: int
    """Rows that fit."""

    @property
    def row_bytes(self) -> int:
        """Bytes that the values of all entities at one time take."""
        return row_bytes(self.keys, self.width, is_coarse=self.tier > 0)

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole memory."""
        return self.capacity * self.row_bytes


class StoredFields(NamedTuple):
    """Which of some fields a chunk keeps."""

    is_whole: bool
    """Whether it keeps all of them."""
    stored: slice | list[int]
    """Positions of the kept ones among those that were asked for; empty where it keeps none."""
    fields: slice | list[int]
    """Where they lie in the chunk."""


class Chunk:
    """Rows of one block, time-major: written once by their maker, never changed.

    Entities may still be given columns; in the rows before they have no values.
    """

    def __init__(self, shape: ChunkShape, fd: int, memory: mmap.mmap) -> None:
        self.shape = shape
        self.fd = fd
        self.rows = 0
        """Rows written; a reader keeps its own number."""
        self.entities: list[str] = []
        self.columns: dict[str, int] = {}
        self._asked: tuple[Sequence[str], int, slice | list[int]] = ((), 0, [])
        self.fields = {key: position for position, key in enumerate(shape.keys)}
        self._row_bytes = shape.row_bytes
        self._rows_of: dict[tuple[str, ...], list[int]] = {}
        self._stored_of: dict[tuple[str, ...], StoredFields] = {}
        rows, keys, width = shape.capacity, len(shape.keys), shape.width
        stamps = np.frombuffer(memory, np.float64, _STAMPS * rows).reshape(_STAMPS, rows)
        self.times, self.periods, self.begins, self.samples = stamps
        offset = stamps.nbytes
        self.values: NDArray[np.float32] = np.frombuffer(
            memory, np.float32, rows * keys * width, offset
        ).reshape(rows, keys, width)
        """Row, field, entity; NaN where missing. In a coarse row the mean, or the last value."""
        self.low = self.high = self.values
        """Smallest and largest value, for masks the bits always and ever set; first keys only."""
        self.counts: NDArray[np.uint16] | None = None
        """Samples behind each value of a coarse row; None: one row is one sample."""
        if shape.tier:
            offset += self.values.nbytes
            spread = (rows, spread_count(shape.keys), width)
            size = spread[0] * spread[1] * spread[2]
            self.low = np.frombuffer(memory, np.float32, size, offset).reshape(spread)
            offset += self.low.nbytes
            self.high = np.frombuffer(memory, np.float32, size, offset).reshape(spread)
            offset += self.high.nbytes
            counts = np.frombuffer(memory, np.uint16, rows * keys * width, offset)
            self.counts = counts.reshape(rows, keys, width)

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    @classmethod
    def create(cls, shape: ChunkShape, entities: Iterable[str]) -> Chunk:
        """New chunk of this process; other processes may map it, but only for reading."""
        fd = _new_memory()
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, fd)
            os.ftruncate(fd, shape.size_bytes)
            memory = mmap.mmap(fd, shape.size_bytes)
            undo.pop_all()
        _seal(fd)
        chunk = cls(shape, fd, memory)
        chunk.add(entities)
        return chunk

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
        return self.rows * self._row_bytes

    @property
    def mean_count(self) -> int:
        """How many of the keys, the first ones, have a mean."""
        return mean_count(self.shape.keys)

    def takes(self, keys: Iterable[str], new: Sequence[str]) -> bool:
        """Whether a row with these keys and further entities fits."""
        has_room = len(self.entities) + len(new) <= self.shape.width
        return has_room and not self.is_full and all(key in self.fields for key in keys)

    def add(self, entities: Iterable[str]) -> None:
        """Give further entities a column each."""
        for name in entities:
            self.columns[name] = len(self.entities)
            self.entities.append(name)

    def field_places(self, keys: Sequence[str]) -> list[int]:
        """Position of each field, -1 where it is not kept; whoever asks asks for the same again."""
        asked = tuple(keys)
        found = self._rows_of.get(asked)
        if found is None:
            if len(self._rows_of) >= _MANY:
                self._rows_of.clear()
            found = self._rows_of[asked] = [self.fields.get(key, -1) for key in asked]
        return found

    def stored_fields(self, keys: Sequence[str]) -> StoredFields:
        """Which of the fields are kept, and where; neighbours as a slice."""
        asked = tuple(keys)
        found = self._stored_of.get(asked)
        if found is None:
            if len(self._stored_of) >= _MANY:
                self._stored_of.clear()
            places = self.field_places(asked)
            stored = [place for place, field in enumerate(places) if field >= 0]
            sources = neighbours([places[place] for place in stored])
            found = self._stored_of[asked] = StoredFields(
                len(stored) == len(places), neighbours(stored), sources
            )
        return found

    def places(
        self, entities: Sequence[str], guess: slice | list[int] | None = None
    ) -> slice | list[int]:
        """Column of each entity, -1 where it has none; neighbours, as a job's GPUs, as a slice.

        Whoever asks about a whole fleet asks again with the same tuple, field by field.

        Args:
            entities: Their names.
            guess: Where they are in the stretch before: mostly in the same place.
        """
        if len(entities) == 1:
            place = self.columns.get(entities[0], -1)
            return slice(place, place + 1) if place >= 0 else [place]
        asked, count, found = self._asked
        if asked is entities and count == len(self.entities):
            return found
        is_few = 0 < len(entities) < _MANY
        if is_few and isinstance(guess, slice) and self.entities[guess] == [*entities]:
            return guess
        count = len(self.entities)
        found = neighbours([self.columns.get(name, -1) for name in entities])
        if isinstance(entities, tuple) and len(entities) >= _MANY:
            self._asked = (entities, count, found)
        return found

    def close_row(self, stamp: Stamp) -> None:
        """Count the next row as written."""
        row = self.rows
        self.times[row], self.periods[row] = stamp.end, stamp.period_s
        self.begins[row], self.samples[row] = stamp.begin, stamp.samples
        self.rows = row + 1

    def stamp(self, row: int) -> Stamp:
        """What a row says of itself."""
        return Stamp(
            float(self.begins[row]),
            float(self.times[row]),
            float(self.periods[row]),
            int(self.samples[row]),
        )


def row_bytes(keys: Sequence[str], width: int, *, is_coarse: bool) -> int:
    """Bytes of one row of a chunk."""
    cell_bytes = 4 * len(keys)
    if is_coarse:
        cell_bytes += 8 * spread_count(keys) + 2 * len(keys)
    return 8 * _STAMPS + cell_bytes * width


def neighbours(positions: list[int]) -> slice | list[int]:
    """Neighbours as a slice: a job's GPUs mostly are some."""
    first = positions[0] if positions else -1
    if first >= 0 and positions == list(range(first, first + len(positions))):
        return slice(first, first + len(positions))
    return positions


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
