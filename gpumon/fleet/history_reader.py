"""Reads the past as it was known at one tick."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from gpumon.fleet.history_chunk import Chunk
    from gpumon.model.tick import Interval


class Slab(NamedTuple):
    """Several fields of several GPUs over time; read-only."""

    times: NDArray[np.float64]
    """Unix time of each row, ascending."""
    periods: NDArray[np.float64]
    """Period in force at each row, seconds."""
    values: NDArray[np.float32]
    """Row, field, GPU; NaN where missing."""


class HistoryReader:
    """A `WindowReader` over chunks; keeps them alive, never sees a later row."""

    def __init__(
        self,
        chunks: Sequence[tuple[Chunk, int]],
        intervals: Mapping[str, tuple[Interval, ...]],
    ) -> None:
        self.chunks = tuple((chunk, rows) for chunk, rows in chunks if rows)
        """Chunks, oldest first, each with the rows that were written when this was made."""
        self.membership = intervals
        """Intervals by job id."""

    def window(
        self, uuid: str, key: str, start: float, end: float
    ) -> tuple[list[float], list[float]]:
        """Unix times and values of one field of one GPU, both ends included, NaN where missing."""
        slab = self.slab((uuid,), (key,), start, end)
        return slab.times.tolist(), slab.values[:, 0, 0].tolist()

    def intervals(self, job_id: str) -> tuple[Interval, ...]:
        """When the job held which GPU, so that no window crosses from one job into the next."""
        return self.membership.get(job_id, ())

    def slab(self, uuids: Sequence[str], keys: Sequence[str], start: float, end: float) -> Slab:
        """Fields of GPUs between two Unix times, both included."""
        parts = [
            (
                chunk.times[rows],
                chunk.periods[rows],
                _gather(chunk, rows, uuids, keys),
            )
            for chunk, rows in self._slices(start, end)
        ]
        if not parts:
            empty = np.empty(0)
            return _frozen(empty, empty, np.empty((0, len(keys), len(uuids)), np.float32))
        times, periods, values = zip(*parts, strict=True)
        return _frozen(np.concatenate(times), np.concatenate(periods), np.concatenate(values))

    def newest(self, uuids: Sequence[str], keys: Sequence[str]) -> NDArray[np.float32]:
        """Field by GPU in the newest row, NaN where missing."""
        if not self.chunks:
            return np.full((len(keys), len(uuids)), np.nan, np.float32)
        chunk, rows = self.chunks[-1]
        row: NDArray[np.float32] = _gather(chunk, slice(rows - 1, rows), uuids, keys)[0]
        return row

    @property
    def first_at(self) -> float | None:
        """Unix time of the oldest row, None while there is none."""
        return float(self.chunks[0][0].times[0]) if self.chunks else None

    @property
    def newest_at(self) -> float | None:
        """Unix time of the newest row, None while there is none."""
        if not self.chunks:
            return None
        chunk, rows = self.chunks[-1]
        return float(chunk.times[rows - 1])

    def _slices(self, start: float, end: float) -> Iterator[tuple[Chunk, slice]]:
        for chunk, rows in self.chunks:
            times = chunk.times[:rows]
            low = int(times.searchsorted(start, "left"))
            high = int(times.searchsorted(end, "right"))
            if low < high:
                yield chunk, slice(low, high)


def _gather(
    chunk: Chunk, rows: slice, uuids: Sequence[str], keys: Sequence[str]
) -> NDArray[np.float32]:
    """Copy of some rows, NaN for GPUs and fields that the chunk has not."""
    fields = [chunk.fields.get(key, -1) for key in keys]
    columns = [chunk.columns.get(uuid, -1) for uuid in uuids]
    block = chunk.values[rows]
    if len(columns) and columns == list(range(columns[0], columns[0] + len(columns))):
        # A job's GPUs are mostly neighbours, and a slice is cheaper than an index.
        near = block[:, :, columns[0] : columns[0] + len(columns)] if columns[0] >= 0 else None
        if near is not None and min(fields, default=-1) >= 0:
            return near[:, fields]
    out = np.full((block.shape[0], len(keys), len(uuids)), np.nan, np.float32)
    known_fields = [i for i, field in enumerate(fields) if field >= 0]
    known_columns = [i for i, column in enumerate(columns) if column >= 0]
    if known_fields and known_columns:
        source = np.ix_([fields[i] for i in known_fields], [columns[i] for i in known_columns])
        out[:, np.array(known_fields)[:, None], np.array(known_columns)] = block[
            :, source[0], source[1]
        ]
    return out


def _frozen(
    times: NDArray[np.float64], periods: NDArray[np.float64], values: NDArray[np.float32]
) -> Slab:
    for part in (times, periods, values):
        part.flags.writeable = False
    return Slab(times, periods, values)
