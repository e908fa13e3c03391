"""Reads the past as it was known at one tick."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np

from gpumon.fleet.history.chunk import neighbours
from gpumon.model.records.tick import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from gpumon.fleet.history.chunk import Chunk
    from gpumon.model.records.tick import Interval

_T = TypeVar("_T", bound=np.generic)

_MOST_STRETCHES: Final = 256
"""Stretches of time that are found once: a look asks for the same few of every job, but of young
jobs each has its own."""


class Slab(NamedTuple):
    """Several fields of several entities over time; read-only."""

    times: NDArray[np.float64]
    """Unix time of the last sample of each row, ascending."""
    periods: NDArray[np.float64]
    """Distance to the row before where nothing is lost, seconds: the resolution."""
    values: NDArray[np.float32]
    """Row, field, entity; NaN where missing. In coarse rows means; of counters, masks and ids the
    last value."""
    begins: NDArray[np.float64]
    """Unix time of the first sample of each row."""


class Extremes(NamedTuple):
    """Bounds of what a slab's rows stand for; read-only."""

    times: NDArray[np.float64]
    low: NDArray[np.float32]
    """Smallest value; of masks the bits that were always set, of counters and ids the last."""
    high: NDArray[np.float32]
    """Largest value; of masks the bits that were ever set, of counters and ids the last."""
    counts: NDArray[np.int64]
    """Samples behind each value: 0 where missing."""


class Rows(NamedTuple):
    """What the rows of a slab span; read-only."""

    begins: NDArray[np.float64]
    """Unix time of the first sample of each row."""
    times: NDArray[np.float64]
    """Unix time of the last sample of each row."""
    samples: NDArray[np.float64]
    """Ticks that each row stands for, with or without a value."""


class _Stretch(NamedTuple):
    """Where the rows between two times lie, and what they say of themselves."""

    cuts: list[tuple[Chunk, slice]]
    times: NDArray[np.float64]
    periods: NDArray[np.float64]
    begins: NDArray[np.float64]


class HistoryReader:
    """A `WindowReader` over chunks; keeps them alive, never sees a later row.

    Entities are named as `history_rows.part_of` says: GPUs by UUID.
    """

    def __init__(
        self,
        chunks: Iterable[tuple[Chunk, int]],
        intervals: Mapping[str, tuple[Interval, ...]],
    ) -> None:
        self.chunks = tuple((chunk, rows) for chunk, rows in chunks if rows)
        """Chunks with the rows that were written when this was made; oldest first in a tier."""
        self.membership = intervals
        """Intervals by job id."""
        self._pieces: dict[str, list[tuple[Chunk, int, int]]] = {}
        self._stretches: dict[tuple[str, float, float], _Stretch] = {}

    def window(
        self, uuid: str, key: str, start: float, end: float, block: str = "gpu"
    ) -> tuple[list[float], list[float]]:
        """Unix times and values of one field of one entity, both ends included, NaN where missing.

        What is older is coarser: its values are means over the time since the row before.
        """
        slab = self.slab((uuid,), (key,), start, end, block)
        return slab.times.tolist(), slab.values[:, 0, 0].tolist()

    def intervals(self, job_id: str) -> tuple[Interval, ...]:
        """When the job held which GPU, so that no window crosses from one job into the next."""
        return self.membership.get(job_id, ())

    def slab(
        self,
        uuids: Sequence[str],
        keys: Sequence[str],
        start: float,
        end: float,
        block: str = "gpu",
    ) -> Slab:
        """Fields of entities between two Unix times, both included.

        Only rows that lie within as a whole: no sample from before `start` is in any mean.
        A view of the memory where one chunk holds it all side by side, else a copy of it.
        """
        stretch = self._stretch(block, start, end)
        return _slab(stretch, _values(stretch.cuts, uuids, keys), len(keys), len(uuids))

    def bounded(
        self,
        uuids: Sequence[str],
        keys: Sequence[str],
        count: int,
        start: float,
        end: float,
        block: str = "gpu",
    ) -> tuple[Slab, NDArray[np.float32], NDArray[np.float32]]:
        """As `slab`, with the smallest and the largest value behind its rows, of the first keys.

        A row of one sample is its own bounds and is read once.
        """
        stretch = self._stretch(block, start, end)
        cuts, values = stretch.cuts, _values(stretch.cuts, uuids, keys)
        slab = _slab(stretch, values, len(keys), len(uuids))
        if all(chunk.counts is None for chunk, _ in cuts):
            return slab, slab.values[:, :count], slab.values[:, :count]
        low, high = (
            [
                own[:, :count]
                if chunk.counts is None
                else _bounds(chunk, chunk.low if is_low else chunk.high, rows, uuids, keys[:count])
                for (chunk, rows), own in zip(cuts, values, strict=True)
            ]
            for is_low in (True, False)
        )
        empty = slab.values[:0, :count]
        return slab, _joined(low, empty), _joined(high, empty)

    def extremes(
        self,
        uuids: Sequence[str],
        keys: Sequence[str],
        start: float,
        end: float,
        block: str = "gpu",
    ) -> Extremes:
        """Bounds of the same rows as `slab`, and how many samples stand behind them."""
        stretch = self._stretch(block, start, end)
        cuts, empty = stretch.cuts, np.empty((0, len(keys), len(uuids)), np.float32)
        low = [_bounds(chunk, chunk.low, rows, uuids, keys) for chunk, rows in cuts]
        high = [_bounds(chunk, chunk.high, rows, uuids, keys) for chunk, rows in cuts]
        counts = [_counts(chunk, rows, uuids, keys) for chunk, rows in cuts]
        return Extremes(
            stretch.times,
            _joined(low, empty),
            _joined(high, empty),
            _joined(counts, np.empty(empty.shape, np.int64)),
        )

    def rows(self, start: float, end: float, block: str = "gpu") -> Rows:
        """What the rows of `slab` span."""
        stretch = self._stretch(block, start, end)
        samples = [chunk.samples[rows] for chunk, rows in stretch.cuts]
        return Rows(stretch.begins, stretch.times, _joined(samples, np.empty(0)))

    def newest(
        self, uuids: Sequence[str], keys: Sequence[str], block: str = "gpu"
    ) -> NDArray[np.float32]:
        """Field by entity in the newest row, NaN where missing."""
        pieces = self._tiles(block)
        if not pieces:
            return np.full((len(keys), len(uuids)), np.nan, np.float32)
        chunk, _, end = pieces[-1]
        columns = chunk.places(uuids)
        if isinstance(columns, slice):
            is_whole, _, fields = chunk.stored_fields(keys)
            if is_whole:
                return _frozen(chunk.values[end - 1, fields, columns])
        values = _gather(chunk, chunk.values, slice(end - 1, end), uuids, keys, columns)
        row: NDArray[np.float32] = _frozen(values)[0]
        return row

    def newest_of_all(self, key: str, block: str) -> tuple[Sequence[str], NDArray[np.float32]]:
        """Entities of the newest stretch of a block, and a field of each in its newest row.

        The entities are the same object, only longer, as long as it is the same stretch.
        """
        pieces = self._tiles(block)
        if not pieces:
            return (), np.empty(0, np.float32)
        chunk, _, end = pieces[-1]
        count, field = len(chunk.entities), chunk.fields.get(key)
        if field is None:
            return chunk.entities, np.full(count, np.nan, np.float32)
        return chunk.entities, _frozen(chunk.values[end - 1, field, :count])

    def entities(self, block: str = "gpu") -> tuple[str, ...]:
        """Every entity of a block that the past knows, the longest known first."""
        held = (chunk.entities for chunk, _ in self.chunks if chunk.shape.block == block)
        return tuple(dict.fromkeys(name for names in held for name in tuple(names)))

    def spans(self, block: str = "gpu") -> tuple[Span, ...]:
        """What is covered in which resolution, the oldest and coarsest first."""
        spans: list[tuple[int, Span]] = []
        for chunk, low, high in self._tiles(block):
            span = Span(
                float(chunk.begins[low]),
                float(chunk.times[high - 1]),
                float(chunk.periods[high - 1]),
            )
            if spans and spans[-1][0] == chunk.shape.tier:
                span = span._replace(start=spans.pop()[1].start)
            spans.append((chunk.shape.tier, span))
        return tuple(span for _, span in spans)

    @cached_property
    def first_at(self) -> float | None:
        """Unix time of the oldest sample of any GPU, None while there is none."""
        pieces = self._tiles("gpu")
        return float(pieces[0][0].begins[pieces[0][1]]) if pieces else None

    @cached_property
    def newest_at(self) -> float | None:
        """Unix time of the newest row of the GPUs, None while there is none."""
        pieces = self._tiles("gpu")
        return float(pieces[-1][0].times[pieces[-1][2] - 1]) if pieces else None

    def _stretch(self, block: str, start: float, end: float) -> _Stretch:
        """The rows between two times; all jobs of a look are asked about the same few."""
        asked = block, start, end
        found = self._stretches.get(asked)
        if found is None:
            if len(self._stretches) >= _MOST_STRETCHES:
                self._stretches.clear()
            cuts, none = self._cuts(block, start, end), np.empty(0)
            found = self._stretches[asked] = _Stretch(
                cuts,
                _joined([chunk.times[rows] for chunk, rows in cuts], none),
                _joined([chunk.periods[rows] for chunk, rows in cuts], none),
                _joined([chunk.begins[rows] for chunk, rows in cuts], none),
            )
        return found

    def _cuts(self, block: str, start: float, end: float) -> list[tuple[Chunk, slice]]:
        """Rows between two times, as slices of chunks."""
        cuts = []
        for chunk, first, last in self._tiles(block):
            low = first + int(chunk.begins[first:last].searchsorted(start, "left"))
            high = first + int(chunk.times[first:last].searchsorted(end, "right"))
            if low < high:
                cuts.append((chunk, slice(low, high)))
        return cuts

    def _tiles(self, block: str) -> list[tuple[Chunk, int, int]]:
        """Chunks and their rows that together cover the past once, the oldest first.

        Each stretch is told by the finest tier that reaches back so far; a coarse row that the
        finer tier has only in part stands for all of it.
        """
        known = self._pieces.get(block)
        if known is None:
            known = self._pieces[block] = _tiles(
                [(chunk, rows) for chunk, rows in self.chunks if chunk.shape.block == block]
            )
        return known


def _tiles(chunks: Sequence[tuple[Chunk, int]]) -> list[tuple[Chunk, int, int]]:
    first_begins: dict[int, float] = {}
    for chunk, _ in chunks:
        first_begins.setdefault(chunk.shape.tier, float(chunk.begins[0]))
    pieces: list[tuple[Chunk, int, int]] = []
    covered = float("-inf")
    for tier in sorted(first_begins, reverse=True):
        finer = min((b for t, b in first_begins.items() if t < tier), default=float("inf"))
        for chunk, rows in chunks:
            if chunk.shape.tier != tier:
                continue
            low = int(chunk.begins[:rows].searchsorted(covered, "right"))
            high = int(chunk.begins[:rows].searchsorted(finer, "left"))
            if low < high:
                pieces.append((chunk, low, high))
                covered = float(chunk.times[high - 1])
    return pieces


def _slab(
    stretch: _Stretch, values: Sequence[NDArray[np.float32]], keys: int, entities: int
) -> Slab:
    joined = _joined(values, np.empty((0, keys, entities), np.float32))
    return Slab(stretch.times, stretch.periods, joined, stretch.begins)


def _values(
    cuts: Sequence[tuple[Chunk, slice]], uuids: Sequence[str], keys: Sequence[str]
) -> list[NDArray[np.float32]]:
    """Values of the rows of each stretch."""
    columns: slice | list[int] | None = None
    if not uuids:
        # Of nobody: whoever asks wants to know when there are rows.
        return [np.empty((rows.stop - rows.start, len(keys), 0), np.float32) for _, rows in cuts]
    found = []
    for chunk, rows in cuts:
        columns = chunk.places(uuids, columns)
        if not isinstance(columns, slice):
            found.append(_gather(chunk, chunk.values, rows, uuids, keys, columns))
            continue
        # A job's GPUs lie side by side: that is nearly all that a look asks for.
        is_whole, stored, fields = chunk.stored_fields(keys)
        if is_whole:
            found.append(chunk.values[rows, fields, columns])
            continue
        out = np.full((rows.stop - rows.start, len(keys), len(uuids)), np.nan, np.float32)
        if stored:
            out[:, stored] = chunk.values[rows, fields, columns]
        found.append(out)
    return found


def _gather(
    chunk: Chunk,
    plane: NDArray[np.float32] | NDArray[np.uint16],
    rows: slice,
    uuids: Sequence[str],
    keys: Sequence[str],
    columns: slice | list[int] | None = None,
) -> NDArray[np.float32]:
    """Some rows of a plane, NaN for entities and fields that the chunk has not.

    `columns` are those of the entities, where they are known.
    """
    fields = chunk.field_places(keys)
    if max(fields, default=-1) >= plane.shape[1]:
        fields = [field if field < plane.shape[1] else -1 for field in fields]
    if columns is None:
        columns = chunk.places(uuids)
    block = plane[rows]
    is_known = isinstance(columns, slice) or min(columns, default=-1) >= 0
    if is_known and min(fields, default=-1) >= 0:
        return _picked(block, neighbours(fields), columns)
    out = np.full((block.shape[0], len(keys), len(uuids)), np.nan, np.float32)
    known_fields = [i for i, field in enumerate(fields) if field >= 0]
    if not known_fields:
        return out
    if isinstance(columns, slice):
        out[:, known_fields] = block[:, [fields[i] for i in known_fields], columns]
        return out
    known_columns = [i for i, column in enumerate(columns) if column >= 0]
    if known_columns:
        source = np.ix_([fields[i] for i in known_fields], [columns[i] for i in known_columns])
        out[:, np.array(known_fields)[:, None], np.array(known_columns)] = block[
            :, source[0], source[1]
        ]
    return out


def _bounds(
    chunk: Chunk,
    plane: NDArray[np.float32],
    rows: slice,
    uuids: Sequence[str],
    keys: Sequence[str],
) -> NDArray[np.float32]:
    """A bound of some rows; of what has none the value itself."""
    bounds = _gather(chunk, plane, rows, uuids, keys)
    bare = [i for i, key in enumerate(keys) if chunk.fields.get(key, -1) >= plane.shape[1]]
    if bare:
        bounds[:, bare] = _gather(chunk, chunk.values, rows, uuids, [keys[i] for i in bare])
    return bounds


def _counts(
    chunk: Chunk, rows: slice, uuids: Sequence[str], keys: Sequence[str]
) -> NDArray[np.int64]:
    """Samples behind each value."""
    if chunk.counts is None:
        known: NDArray[np.int64] = (
            ~np.isnan(_gather(chunk, chunk.values, rows, uuids, keys))
        ).astype(np.int64)
        return known
    return np.nan_to_num(_gather(chunk, chunk.counts, rows, uuids, keys)).astype(np.int64)


def _picked(
    block: NDArray[np.float32] | NDArray[np.uint16],
    fields: slice | list[int],
    columns: slice | list[int],
) -> NDArray[np.float32]:
    """Fields and columns of rows: a view where both are slices, else a copy of just these."""
    if isinstance(fields, list) and isinstance(columns, list):
        picked = block[:, np.array(fields)[:, None], np.array(columns)]
    elif isinstance(fields, slice):
        picked = block[:, fields][:, :, columns]
    else:
        picked = block[:, :, columns][:, fields]
    return picked.astype(np.float32, copy=False)


def _joined(parts: Sequence[NDArray[_T]], empty: NDArray[_T]) -> NDArray[_T]:
    """Parts end to end, read-only; a single one as it is."""
    return _frozen(parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else empty)


def _frozen(values: NDArray[_T]) -> NDArray[_T]:
    view = values.view()
    view.flags.writeable = False
    return view
