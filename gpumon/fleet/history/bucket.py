"""Rows added up, one by one, into the one row of a coarser tier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.fleet.history.chunk import Stamp, neighbours
from gpumon.fleet.history.fields import mean_count, spread_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gpumon.fleet.history.chunk import Chunk

_ALL_BITS: Final = 2**24 - 1
"""Masks are kept where they fit into float32."""

GAP_PERIODS: Final = 3.0
"""Rows further apart than this many periods end a bucket, so that the gap stays to be seen."""

_MOST: Final = np.iinfo(np.uint16).max

_AT_ONCE: Final = 4096
"""Values that may wait: one row of two hundred GPUs. More are added as they come (our choice)."""


class Bucket:
    """The rows since the last coarse one, as sums, bounds, last values and counts.

    Rows of a large fleet are added as they come, so that no tick pays for many; of a small one
    several wait where they are written, as each pass costs more than the numbers in it.
    """

    def __init__(self, keys: tuple[str, ...], entities: Sequence[str]) -> None:
        self.keys = keys
        self.entities = list(entities)
        self.stamp: Stamp | None = None
        """None while it is empty."""
        self._means, self._spread = mean_count(keys), spread_count(keys)
        width, masks = len(self.entities), self._spread - self._means
        self._sums = np.zeros((self._means, width), np.float64)
        self._low = np.full((self._means, width), np.nan, np.float32)
        self._high = np.full((self._means, width), np.nan, np.float32)
        self._always = np.full((masks, width), _ALL_BITS, np.int32)
        self._ever = np.zeros((masks, width), np.int32)
        self._last = np.full((len(keys) - self._means, width), np.nan, np.float32)
        self._counts = np.zeros((len(keys), width), np.int32)
        self._source: Chunk | None = None
        """Holds the rows that wait, from `_first` up to `_end`."""
        self._first = self._end = 0

    def goes_on(self, stamp: Stamp, tier_period_s: float, source: Chunk) -> bool:
        """Whether a row belongs to it: the same stretch of time, no gap, nobody gone."""
        held = self.stamp
        return held is None or (
            held.begin // tier_period_s == stamp.begin // tier_period_s
            and stamp.begin - held.end <= GAP_PERIODS * stamp.period_s
            and (
                source.entities[: len(self.entities)] == self.entities
                or source.columns.keys() >= set(self.entities)
            )
            and source.fields.keys() >= set(self.keys)
        )

    def fits(self, source: Chunk) -> bool:
        """Whether it has just the keys and entities of a chunk."""
        return self.keys == source.shape.keys and self.entities == source.entities

    def add(self, chunk: Chunk, row: int) -> None:
        """Add a row of a chunk that holds the bucket's keys and entities, these first."""
        stamp = chunk.stamp(row)
        held = self.stamp
        self.stamp = stamp
        if held is not None:
            samples = held.samples + stamp.samples
            self.stamp = Stamp(held.begin, stamp.end, stamp.period_s, samples)
        if chunk is not self._source or row != self._end:
            self._add_up()
            self._source, self._first = chunk, row
        self._end = row + 1
        if (self._end - self._first) * self._counts.size >= _AT_ONCE:
            self._add_up()

    def _add_up(self) -> None:
        """Add the rows that wait, all at once."""
        chunk, self._source = self._source, None
        if chunk is None:
            return
        rows, width, means = slice(self._first, self._end), len(self.entities), self._means
        values = chunk.values[rows, :, :width]
        is_known = ~np.isnan(values)
        known_means = np.where(is_known[:, :means], values[:, :means], 0)
        if chunk.counts is None:
            self._counts += is_known.sum(0, np.int32)
            self._sums += known_means.sum(0, np.float64)
            low = high = values
        else:
            counts = chunk.counts[rows, :, :width]
            self._counts += counts.sum(0, np.int32)
            self._sums += (known_means.astype(np.float64) * counts[:, :means]).sum(0)
            low, high = chunk.low[rows, :, :width], chunk.high[rows, :, :width]
        np.fmin(self._low, np.fmin.reduce(low[:, :means]), out=self._low)
        np.fmax(self._high, np.fmax.reduce(high[:, :means]), out=self._high)
        if means < len(self.keys):
            for row, known in zip(values[:, means:], is_known[:, means:], strict=True):
                np.copyto(self._last, row, where=known)
        if means < self._spread:
            self._add_masks(low, high, is_known)

    def _add_masks(
        self, low: NDArray[np.float32], high: NDArray[np.float32], is_known: NDArray[np.bool_]
    ) -> None:
        masks = slice(self._means, self._spread)
        known = is_known[:, masks]
        always = np.where(known, low[:, masks], _ALL_BITS).astype(np.int32)
        self._always &= np.bitwise_and.reduce(always)
        ever = np.where(known, high[:, masks], 0).astype(np.int32)
        self._ever |= np.bitwise_or.reduce(ever)

    def write(self, chunk: Chunk, period_s: float) -> None:
        """Write the next row of a coarse chunk, which has the keys and all entities.

        Raises:
            ValueError: Nothing is in the bucket, or the chunk is one of single ticks.
        """
        if self.stamp is None or chunk.counts is None:
            raise ValueError("an empty bucket, or a chunk of single ticks")
        self._add_up()
        row, means, spread = chunk.rows, self._means, self._spread
        for plane in (chunk.values[row], chunk.low[row], chunk.high[row]):
            plane.fill(np.nan)
        chunk.counts[row] = 0
        fields = [chunk.fields[key] for key in self.keys]
        columns = neighbours([chunk.columns[name] for name in self.entities])
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = self._sums / self._counts[:means]
        _put(chunk.values[row], fields[:means], columns, mean)
        _put(chunk.values[row], fields[means:], columns, self._last)
        _put(chunk.low[row], fields[:means], columns, self._low)
        _put(chunk.high[row], fields[:means], columns, self._high)
        if means < spread:
            is_known = self._counts[means:spread] > 0
            bits = fields[means:spread]
            _put(chunk.low[row], bits, columns, np.where(is_known, self._always, np.nan))
            _put(chunk.high[row], bits, columns, np.where(is_known, self._ever, np.nan))
        _put(chunk.counts[row], fields, columns, np.minimum(self._counts, _MOST))
        chunk.close_row(self.stamp._replace(period_s=period_s))

    def widened(self, keys: tuple[str, ...], entities: Sequence[str]) -> Bucket:
        """The same with further keys and entities."""
        self._add_up()
        wide = Bucket(keys, entities)
        wide.stamp = self.stamp
        places = {name: column for column, name in enumerate(wide.entities)}
        columns = neighbours([places[name] for name in self.entities])
        fields = [keys.index(key) for key in self.keys]
        means, wide_means = self._means, wide._means
        _put(wide._sums, fields[:means], columns, self._sums)
        _put(wide._low, fields[:means], columns, self._low)
        _put(wide._high, fields[:means], columns, self._high)
        bits = [field - wide_means for field in fields[means : self._spread]]
        _put(wide._always, bits, columns, self._always)
        _put(wide._ever, bits, columns, self._ever)
        _put(wide._last, [field - wide_means for field in fields[means:]], columns, self._last)
        _put(wide._counts, fields, columns, self._counts)
        return wide


def _put(
    target: NDArray[np.generic],
    fields: list[int],
    columns: slice | list[int],
    values: NDArray[np.generic],
) -> None:
    """Assign a table to some rows and columns of another."""
    if not fields or columns == []:
        return
    rows = neighbours(fields)
    if isinstance(rows, list) and isinstance(columns, list):
        target[np.ix_(rows, columns)] = values
    else:
        target[rows, columns] = values
