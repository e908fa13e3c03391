"""Adds up the books on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.model.records.ledger import NO_PRICES, NOTHING, Added, Sums, in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gpumon.fleet.ledger.journal_reader import Entry
    from gpumon.model.records.ledger import Prices


class Adding:
    """Totals of entries, whole and by a name that each of them has, while they are read."""

    def __init__(self, name_of: Callable[[Entry], str], prices: Prices = NO_PRICES) -> None:
        """Nothing yet."""
        self._name_of = name_of
        self._prices = prices
        self._whole = Sums(prices)
        self._parts: dict[str, Sums] = {}
        self._end: float | None = None

    def add(self, entry: Entry) -> None:
        """Count one more."""
        self._end = entry.end if self._end is None else max(self._end, entry.end)
        part = self._parts.setdefault(self._name_of(entry), Sums(self._prices))
        for sums in (self._whole, part):
            sums.add(
                entry.gpu,
                entry.seconds,
                min(entry.start, entry.end),
                entry.observed_since,
                entry.energy_j,
                entry.energy_s,
            )

    def added(self) -> Added:
        """What they came to."""
        totals = {name: sums.total() for name, sums in self._parts.items()}
        return Added(self._whole.total() if totals else NOTHING, in_order(totals), self._end)


def add_up(
    entries: Iterable[Entry], name_of: Callable[[Entry], str], prices: Prices = NO_PRICES
) -> Added:
    """Totals of entries, whole and by a name that each of them has."""
    adding = Adding(name_of, prices)
    for entry in entries:
        adding.add(entry)
    return adding.added()
