"""The past of one kind of entity, in several resolutions."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from gpumon.fleet.history.bucket import Bucket
from gpumon.fleet.history.chunk import Chunk, ChunkShape, Stamp, row_bytes
from gpumon.fleet.history.fields import FLEETING, in_order, stored_keys
from gpumon.fleet.history.retention import RowBytes, tier_plans
from gpumon.fleet.history.rows import Gathering, Increases, part_of
from gpumon.model.catalogue.field import Kind
from gpumon.model.catalogue.fields import CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumon.fleet.history.retention import TierPlan
    from gpumon.fleet.history.rows import Part
    from gpumon.model.records.tick import Tick

_GROWTH: Final = 8
"""Columns left free at least once entities have come: jobs and GPUs come one by one."""

_FLEETING_GROWTH: Final = 64
"""The same where they come and go all the time: those that are gone leave with their chunk."""


class Tier:
    """Chunks of one resolution, the oldest first."""

    def __init__(self, block: str, position: int, numbers: Iterator[int]) -> None:
        self.chunks: deque[Chunk] = deque()
        self._block = block
        self._position = position
        self._numbers = numbers

    def chunk_for(
        self, plan: TierPlan, period_s: float, keys: Sequence[str], names: Sequence[str]
    ) -> Chunk:
        """The newest chunk, or a new one where it is full or has no room for these."""
        newest = self.chunks[-1] if self.chunks else None
        held: dict[str, int] = {} if newest is None else newest.columns
        new = [name for name in names if name not in held]
        if newest is not None and newest.takes(keys, new):
            newest.add(new)
            return newest
        # The same order as before keeps what is copied between chunks in one piece.
        wanted = set(names)
        entities = [*(name for name in held if name in wanted), *new]
        spare = len(names) // 32
        if newest is not None and not newest.is_full:
            # It came early because something is new: more of it will come.
            least = _FLEETING_GROWTH if self._block in FLEETING else _GROWTH
            spare = max(least, len(names) // 2)
            keys = in_order({*keys, *newest.shape.keys})
        width = len(entities) + spare
        size = row_bytes(keys, width, is_coarse=self._position > 0)
        shape = ChunkShape(
            number=next(self._numbers),
            block=self._block,
            tier=self._position,
            keys=tuple(keys),
            width=width,
            capacity=plan.capacity(size, period_s),
        )
        chunk = Chunk.create(shape, entities)
        self.chunks.append(chunk)
        return chunk

    def drop_old(self, plan: TierPlan, oldest_at: float) -> bool:
        """Drop chunks that are too old or too much; the newest stays. True: one was dropped."""
        used = sum(chunk.used_bytes for chunk in self.chunks)
        before = len(self.chunks)
        while len(self.chunks) > 1:
            chunk = self.chunks[0]
            is_past = chunk.times[chunk.rows - 1] < oldest_at
            if not is_past and used <= plan.max_bytes and len(self.chunks) <= plan.max_chunks:
                break
            used -= chunk.used_bytes
            self.chunks.popleft()
        return len(self.chunks) < before


class Track:
    """Takes in the ticks of one block; makes the coarse rows as the fine ones come."""

    def __init__(self, block: str, numbers: Iterator[int], max_bytes: int, span_s: float) -> None:
        self.tiers: list[Tier] = []
        self._block = block
        self._numbers = numbers
        self._max_bytes = max_bytes
        self._span_s = span_s
        self._plans: tuple[TierPlan, ...] = ()
        self._planned: tuple[int, Sequence[str], float] = (0, (), 0.0)
        """What the plans are for."""
        self._depth = 0
        self._buckets: dict[int, Bucket] = {}
        self._gathering: Gathering | None = None
        counters = [key for key in stored_keys(block) if CATALOGUE[key].kind is Kind.COUNTER]
        self._increases = Increases(counters)
        self._taken_at = float("-inf")

    def append(self, tick: Tick) -> None:
        """Take in a tick where the beat of the finest tier has come."""
        tier_period_s = self._plans[0].period_s if self._plans else 0.0
        part = None
        if _bucket_begin(tick.at, tier_period_s) != _bucket_begin(self._taken_at, tier_period_s):
            part = part_of(tick, self._block)
        if part is not None and part.names:
            keys = part.present(stored_keys(self._block))
            self._plan(len(part.names), keys, tick.period_s)
            self._taken_at = tick.at
            self._take(tick, part, keys)
        self._drop_old(tick.at)

    def _plan(self, count: int, keys: Sequence[str], period_s: float) -> None:
        if (count, keys, period_s) == self._planned:
            return
        self._planned = count, keys, period_s
        size = RowBytes(
            row_bytes(keys, count, is_coarse=False), row_bytes(keys, count, is_coarse=True)
        )
        plans = tier_plans(self._block, size, period_s, self._max_bytes, self._span_s)
        # A tier that is no longer planned keeps its rows until they are too old.
        self._plans = (*plans, *self._plans[len(plans) :])
        self._depth = len(plans)
        for position in range(len(self.tiers), len(plans)):
            self.tiers.append(Tier(self._block, position, self._numbers))

    def _take(self, tick: Tick, part: Part, keys: Sequence[str]) -> None:
        period_s = max(tick.period_s, self._plans[0].period_s)
        chunk = self.tiers[0].chunk_for(self._plans[0], period_s, keys, part.names)
        where = self._gathering
        if where is None or not where.is_for(part, chunk):
            where = self._gathering = Gathering(part, chunk, self._increases)
        where.fill(part.blocks, chunk.values[chunk.rows])
        chunk.close_row(Stamp(tick.at, tick.at, period_s, 1))
        self._coarsen(1, chunk)

    def _coarsen(self, position: int, source: Chunk) -> None:
        """Add the newest row of a chunk to the bucket of the next tier, and close it when due."""
        if position >= self._depth:
            return
        row = source.rows - 1
        stamp = source.stamp(row)
        tier_period_s = self._plans[position].period_s
        bucket = self._buckets.get(position)
        if bucket is not None and not bucket.goes_on(stamp, tier_period_s, source):
            self._close(position, bucket, tier_period_s)
            bucket = None
        if bucket is None or not bucket.fits(source):
            entities, keys = source.entities, source.shape.keys
            bucket = Bucket(keys, entities) if bucket is None else bucket.widened(keys, entities)
            self._buckets[position] = bucket
        bucket.add(source, row)

    def _close(self, position: int, bucket: Bucket, tier_period_s: float) -> None:
        """Write a bucket as a row of its tier."""
        if bucket.stamp is None:
            return
        period_s = max(tier_period_s, bucket.stamp.period_s)
        tier = self.tiers[position]
        chunk = tier.chunk_for(self._plans[position], period_s, bucket.keys, bucket.entities)
        bucket.write(chunk, period_s)
        self._coarsen(position + 1, chunk)

    def _drop_old(self, now: float) -> None:
        is_less = False
        for tier, plan in zip(self.tiers, self._plans, strict=True):
            if len(tier.chunks) > 1 and tier.drop_old(plan, now - plan.span_s):
                is_less = True
        if is_less:
            chunks = (chunk for tier in self.tiers for chunk in tier.chunks)
            self._increases.forget_all_but({name for chunk in chunks for name in chunk.columns})
            self._gathering = None


def _bucket_begin(at: float, tier_period_s: float) -> float:
    """Number of the stretch of time that an instant belongs to."""
    return at // tier_period_s if tier_period_s else at
