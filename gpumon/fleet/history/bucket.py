"""Rows added up, one by one, into the one row of a coarser tier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.fleet.history.chunk import Stamp
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


class Bucket:
    """The rows since the last coarse one, as sums, bounds, last values and counts.

    Every row costs one pass over its values when it comes, so that no tick pays for many.
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

    def goes_on(self, stamp: Stamp, beat_s: float, source: Chunk) -> bool:
        """Whether a row belongs to it: the same stretch of time, no gap, nobody gone."""
        held = self.stamp
        return held is None or (
            held.begin // beat_s == stamp.begin // beat_s
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
        width, means = len(self.entities), self._means
        values = chunk.values[row, :, :width]
        is_known = ~np.isnan(values)
        known_means = np.where(is_known[:means], values[:means], 0)
        if chunk.counts is None:
            self._counts += is_known
            self._sums += known_means
            low = high = values
        else:
            counts = chunk.counts[row, :, :width]
            self._counts += counts
            self._sums += known_means.astype(np.float64) * counts[:means]
            low, high = chunk.low[row, :, :width], chunk.high[row, :, :width]
        np.fmin(self._low, low[:means], out=self._low)
        np.fmax(self._high, high[:means], out=self._high)
        if means < len(self.keys):
            np.copyto(self._last, values[means:], where=is_known[means:])
        if means < self._spread:
            self._add_masks(low, high, is_known)

    def _add_masks(
        self, low: NDArray[np.float32], high: NDArray[np.float32], is_known: NDArray[np.bool_]
    ) -> None:
        masks = slice(self._means, self._spread)
        known = is_known[masks]
        self._always &= np.where(known, low[masks], _ALL_BITS).astype(np.int32)
        self._ever |= np.where(known, high[masks], 0).astype(np.int32)

    def write(self, chunk: Chunk, period_s: float) -> None:
        """Write the next row of a coarse chunk, which has the keys and all entities.

        Raises:
            ValueError: Nothing is in the bucket, or the chunk is one of single ticks.
        """
        if self.stamp is None or chunk.counts is None:
            raise ValueError("an empty bucket, or a chunk of single ticks")
        row, means, spread = chunk.rows, self._means, self._spread
        for plane in (chunk.values[row], chunk.low[row], chunk.high[row]):
            plane.fill(np.nan)
        chunk.counts[row] = 0
        fields = [chunk.fields[key] for key in self.keys]
        columns = [chunk.columns[name] for name in self.entities]
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = self._sums / self._counts[:means]
        _put(chunk.values[row], fields[:means], columns, mean)
        _put(chunk.values[row], fields[means:], columns, self._last)
        _put(chunk.low[row], fields[:means], columns, self._low)
        _put(chunk.high[row], fields[:means], columns, self._high)
        is_known = self._counts[means:spread] > 0
        bits = fields[means:spread]
        _put(chunk.low[row], bits, columns, np.where(is_known, self._always, np.nan))
        _put(chunk.high[row], bits, columns, np.where(is_known, self._ever, np.nan))
        _put(chunk.counts[row], fields, columns, np.minimum(self._counts, _MOST))
        chunk.close_row(self.stamp._replace(period_s=period_s))

    def widened(self, keys: tuple[str, ...], entities: Sequence[str]) -> Bucket:
        """The same with further keys and entities."""
        wide = Bucket(keys, entities)
        wide.stamp = self.stamp
        places = {name: column for column, name in enumerate(wide.entities)}
        columns = [places[name] for name in self.entities]
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
    fields: Sequence[int],
    columns: Sequence[int],
    values: NDArray[np.generic],
) -> None:
    """Assign a table to some rows and columns of another."""
    if not fields or not columns:
        return
    wide = list(range(columns[0], columns[0] + len(columns)))
    if list(columns) == wide and list(fields) == list(range(fields[0], fields[0] + len(fields))):
        rows = slice(fields[0], fields[0] + len(fields))
        target[rows, columns[0] : columns[0] + len(columns)] = values
    else:
        target[np.ix_(fields, columns)] = values
