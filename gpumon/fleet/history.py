"""The fleet's recent past: gauges and rates as columns over time, in bounded memory."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from gpumon.fleet.membership import Membership
from gpumon.model.field import Kind
from gpumon.model.fields import CATALOGUE

if TYPE_CHECKING:
    from gpumon.fleet.history_chunk import Chunk
    from gpumon.fleet.history_reader import HistoryReader
    from gpumon.model.tick import Tick

HISTORY_KEYS: Final = tuple(
    field.key
    for field in CATALOGUE.values()
    if field.block == "gpu" and field.is_kept and field.kind in (Kind.GAUGE, Kind.RATE)
)
"""Fields that are kept over time. Counters and masks lose their meaning in float32."""

MAX_ROWS: Final = 512
"""Rows of one chunk at most."""

_CHUNKS_OF_BUDGET: Final = 8
"""A chunk holds at most this part of the memory, for the oldest is dropped as a whole."""

_MAX_CHUNKS: Final = 64
"""Each costs two descriptors, and login nodes allow 1,024 a process."""


class History:
    """The last `span_s` seconds, or less where they do not fit into `max_bytes`.

    One row per tick: the values that the tick shows, NaN where they are missing or stale. A row is
    written once, so whoever holds a reader of an earlier tick sees that tick's past unchanged.
    """

    def __init__(self, span_s: float = 3600.0, max_bytes: int = 256 * 2**20) -> None:
        self._span_s = span_s
        self._max_bytes = max_bytes
        self._chunks: deque[Chunk] = deque()
        self._made = 0
        self._newest_at = float("-inf")
        self._membership = Membership(span_s)

    def append(self, tick: Tick) -> None:
        """Keep the tick's values and who held which GPU.

        A tick of the same time again is ignored. A clock that was set back starts the past anew:
        no window could be told from there.
        """
        if tick.at == self._newest_at:
            return
        if tick.at < self._newest_at:
            self._chunks.clear()
            self._membership = Membership(self._span_s)
        self._newest_at = tick.at
        self._membership.update(tick.at, tick.jobs)
        if tick.gpus:
            self._chunk_for(tick).append(tick.at, tick.period_s, tick.gpus)
        self._drop_old()

    def reader(self) -> HistoryReader:
        """Reader of the past as it is now."""
        from gpumon.fleet.history_reader import HistoryReader

        chunks = tuple((chunk, chunk.rows) for chunk in self._chunks)
        return HistoryReader(chunks, self._membership.snapshot())

    def close(self) -> None:
        """Let go of the memory; what readers still hold lives as long as they do."""
        self._chunks.clear()

    @property
    def used_bytes(self) -> int:
        """Memory in use."""
        return sum(chunk.used_bytes for chunk in self._chunks)

    def _chunk_for(self, tick: Tick) -> Chunk:
        """Newest chunk, or a new one where it is full or lacks a GPU of the tick.

        A GPU that went away does not end a chunk: its values are NaN until the chunk is full.
        """
        newest = self._chunks[-1] if self._chunks else None
        if newest is not None and not newest.is_full and tick.gpus.keys() <= newest.columns.keys():
            return newest
        # numpy is loaded with the first row, so that one sample without a past never needs it.
        from gpumon.fleet.history_chunk import Chunk, ChunkShape, row_bytes

        fitting = (
            self._max_bytes // _CHUNKS_OF_BUDGET // row_bytes(len(tick.gpus), len(HISTORY_KEYS))
        )
        self._made += 1
        capacity = max(1, min(MAX_ROWS, fitting))
        chunk = Chunk.create(ChunkShape(self._made, tuple(tick.gpus), HISTORY_KEYS, capacity))
        self._chunks.append(chunk)
        return chunk

    def _drop_old(self) -> None:
        oldest_at = self._newest_at - self._span_s
        used = self.used_bytes
        while len(self._chunks) > 1:
            chunk = self._chunks[0]
            is_past = chunk.times[chunk.rows - 1] < oldest_at
            if not is_past and used <= self._max_bytes and len(self._chunks) <= _MAX_CHUNKS:
                return
            used -= chunk.used_bytes
            self._chunks.popleft()
