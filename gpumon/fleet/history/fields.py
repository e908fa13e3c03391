"""Which fields history keeps of which kind of entity, and in which order a chunk holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.model.catalogue.field import Kind
from gpumon.model.catalogue.fields import CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

HISTORY_BLOCKS: Final = (
    *("gpu", "mig", "link", "node", "nic", "filesystem", "cgroup"),
    *("process", "context", "local_filesystem"),
)
"""Kinds of entities with a past; events come and go too fast for it."""

FLEETING: Final = frozenset({"process", "context"})
"""Kinds of which entities come and go all the time: columns are kept free for the next ones."""

_RANKS: Final = {Kind.GAUGE: 0, Kind.RATE: 0, Kind.MASK: 1, Kind.COUNTER: 2, Kind.ID: 2}


def _rank(key: str) -> int:
    return _RANKS[CATALOGUE[key].kind]


def in_order(keys: Collection[str]) -> tuple[str, ...]:
    """Keys as a chunk holds them: what has a mean, then masks, then counters and ids."""
    return tuple(key for rank in range(3) for key in _SORTED[rank] if key in keys)


def mean_count(keys: Sequence[str]) -> int:
    """How many of ordered keys have a mean, a smallest and a largest value."""
    return len(_HAVE_MEANS.intersection(keys))


def spread_count(keys: Sequence[str]) -> int:
    """How many of ordered keys have a lower and an upper bound: those with a mean, and masks."""
    return len(_HAVE_SPREAD.intersection(keys))


def stored_keys(block: str) -> tuple[str, ...]:
    """Keys of a block that are kept over time, in order."""
    return _STORED[block]


_SORTED: Final = tuple(tuple(key for key in CATALOGUE if _rank(key) == rank) for rank in range(3))

_HAVE_MEANS: Final = frozenset(_SORTED[0])

_HAVE_SPREAD: Final = _HAVE_MEANS.union(_SORTED[1])

_STORED: Final = {
    block: in_order(
        {key for key, field in CATALOGUE.items() if field.block == block and field.is_kept}
    )
    for block in HISTORY_BLOCKS
}

HISTORY_KEYS: Final = _STORED["gpu"]
"""Fields of a GPU that are kept over time."""
