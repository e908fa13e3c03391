"""How far back which resolution reaches, from the memory that history may take."""

from __future__ import annotations

from typing import Final, NamedTuple

DEFAULT_MAX_BYTES: Final = 2**30
"""Most memory of all history. Small fleets stay far below: their spans end before."""

DEFAULT_SPAN_S: Final = 24 * 3600.0
"""The longest look back, where memory allows."""

FINE_SPAN_S: Final = 3600.0
"""Every sample is kept for so long at most."""

COARSE_SPAN_S: Final = 1.5 * 3600.0
"""The middle resolution reaches back so far at most."""

SURE_SPAN_S: Final = 3600.0
"""The middle resolution is chosen so that this span fits."""

LONG_PERIOD_S: Final = 300.0
"""Resolution of the oldest past."""

_PERIODS_S: Final = (10.0, 30.0, 60.0, 120.0, LONG_PERIOD_S)

_BLOCK_SHARES: Final = {
    "gpu": 0.73,
    "link": 0.1,
    "mig": 0.01,
    "cgroup": 0.045,
    "nic": 0.04,
    "node": 0.015,
    "filesystem": 0.02,
    "local_filesystem": 0.01,
    "process": 0.02,
    "context": 0.01,
}
"""Part of the memory that each kind of entity gets: GPUs decide, and links are many."""

_SHORT: Final = frozenset({"link", "mig", "process", "context", "local_filesystem"})
"""Kinds of entities without an oldest past: too many for what it would tell, or soon gone."""

_FINE_SHARE: Final = 0.45
_COARSE_SHARE: Final = 0.45
_LONG_SHARE: Final = 0.1
"""Parts of the memory for the fine, the coarse and the oldest values: these are few (a choice)."""

_GPU_CHUNKS: Final = 9
_NEAR_CHUNKS: Final = 4
_FAR_CHUNKS: Final = 3
"""Most chunks of a tier: 75 in all, each a descriptor here and one in transit to the worker."""

_SPARE: Final = {_GPU_CHUNKS: 2, _NEAR_CHUNKS: 1, _FAR_CHUNKS: 1}
"""Entities and keys that come may begin a chunk early; so many more fit until the oldest goes."""


class RowBytes(NamedTuple):
    """What one row of a block takes."""

    fine: int
    coarse: int


class TierPlan(NamedTuple):
    """One resolution of one block."""

    period_s: float
    """Length of its buckets; 0 for a row of every tick."""
    span_s: float
    max_bytes: int
    max_chunks: int
    """The oldest is dropped as a whole, so a tier is made of several."""

    @property
    def parts(self) -> int:
        """Full chunks that the memory is meant for."""
        return self.max_chunks - _SPARE[self.max_chunks]

    def capacity(self, row_bytes: int, period_s: float) -> int:
        """Rows of one chunk."""
        wanted = int(self.span_s / max(self.period_s, period_s, 1e-3)) + 1
        return max(1, min(self.max_bytes // row_bytes, wanted) // self.parts)


def tier_plans(
    block: str, row: RowBytes, period_s: float, max_bytes: int, span_s: float
) -> tuple[TierPlan, ...]:
    """Resolutions of a block, the finest first.

    Args:
        block: Kind of entity.
        row: Memory of one row of all its entities.
        period_s: Period of the ticks.
        max_bytes: Memory of all history, of which the block gets its share.
        span_s: Longest look back that is wanted.
    """
    share = int(max_bytes * _BLOCK_SHARES[block])
    if block != "gpu":
        return _other_plans(block, row, share, span_s)
    fine = TierPlan(0.0, min(FINE_SPAN_S, span_s), int(share * _FINE_SHARE), _GPU_CHUNKS)
    if fine.span_s >= span_s and row.fine * span_s / max(period_s, 1e-3) <= fine.max_bytes:
        return (fine,)
    coarse_bytes = int(share * _COARSE_SHARE)
    tier_period_s = _shortest_period_s(row.coarse, coarse_bytes)
    coarse = TierPlan(tier_period_s, min(COARSE_SPAN_S, span_s), coarse_bytes, _GPU_CHUNKS)
    if coarse.span_s >= span_s:
        return fine, coarse
    return fine, coarse, TierPlan(LONG_PERIOD_S, span_s, int(share * _LONG_SHARE), _GPU_CHUNKS)


def _other_plans(block: str, row: RowBytes, share: int, span_s: float) -> tuple[TierPlan, ...]:
    """A row every ten seconds or more, and the oldest past of what is few."""
    is_long = block not in _SHORT and span_s > COARSE_SPAN_S
    near_bytes = int(share * (1 - _LONG_SHARE)) if is_long else share
    tier_period_s = _shortest_period_s(row.fine, near_bytes)
    near = TierPlan(tier_period_s, min(COARSE_SPAN_S, span_s), near_bytes, _NEAR_CHUNKS)
    if not is_long:
        return (near,)
    return near, TierPlan(LONG_PERIOD_S, span_s, share - near_bytes, _FAR_CHUNKS)


def _shortest_period_s(row_bytes: int, max_bytes: int) -> float:
    """Shortest beat at which `SURE_SPAN_S` fits beside the part of a chunk that is being filled."""
    for tier_period_s in _PERIODS_S:
        if SURE_SPAN_S / tier_period_s * row_bytes * 1.15 <= max_bytes:
            return tier_period_s
    return _PERIODS_S[-1]
