"""Adds up the books on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.model.records.ledger import NO_PRICES, NOTHING, Added, Sums, in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gpumon.fleet.ledger.journal_reader import Entry
    from gpumon.model.records.ledger import Prices


def add_up(
    entries: Iterable[Entry], name_of: Callable[[Entry], str], prices: Prices = NO_PRICES
) -> Added:
    """Totals of entries, whole and by a name that each of them has."""
    whole = Sums(prices)
    parts: dict[str, Sums] = {}
    end: float | None = None
    for entry in entries:
        end = entry.end if end is None else max(end, entry.end)
        part = parts.setdefault(name_of(entry), Sums(prices))
        for sums in (whole, part):
            sums.add(
                entry.gpu,
                entry.seconds,
                min(entry.start, entry.end),
                entry.observed_since,
                entry.energy_j,
                entry.energy_s,
            )
    totals = {name: sums.total() for name, sums in parts.items()}
    return Added(whole.total() if parts else NOTHING, in_order(totals), end)
