"""Filtering and sorting rows step by step, with the same result as at once."""

from __future__ import annotations

import heapq
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from gpumon.report.facts.columns import SortKey

R = TypeVar("R")

EACH: Final = 250
"""Rows that are tried in one step: a few milliseconds where each needs some thought."""

RUN: Final = 4_000
"""Rows that are sorted in one step; such runs are merged then."""

MERGED: Final = 1_000
"""Rows that are merged in one step."""


def sorted_steps(
    rows: Sequence[R], order: Callable[[R], SortKey | None], is_descending: bool = False
) -> Generator[None, None, list[R]]:
    """The rows in order, those without a key last, as `columns.arranged` has them."""
    runs: list[list[tuple[SortKey, R]]] = []
    unknown: list[R] = []
    run: list[tuple[SortKey, R]] = []
    for start in range(0, len(rows), EACH):
        for row in rows[start : start + EACH]:
            key = order(row)
            if key is None:
                unknown.append(row)
            else:
                run.append((key, row))
        if len(rows) > EACH:
            yield
        if len(run) >= RUN:
            run.sort(key=itemgetter(0), reverse=is_descending)
            runs.append(run)
            run = []
            yield
    run.sort(key=itemgetter(0), reverse=is_descending)
    found: list[R] = []
    # Rows with the same key stay in their order, those of an earlier run first, as in one sort.
    spent = map(_spent, (*runs, run))
    for number, (_, row) in enumerate(
        heapq.merge(*spent, key=itemgetter(0), reverse=is_descending), 1
    ):
        found.append(row)
        if number % MERGED == 0:
            yield
    found += unknown
    return found


def _spent(run: list[tuple[SortKey, R]]) -> Iterator[tuple[SortKey, R]]:
    """What a run holds, each let go of as it is taken: to free all at once would take a while."""
    run.reverse()
    while run:
        yield run.pop()


def passing_steps(
    rows: Sequence[R], passes: Callable[[R], bool], found: list[R]
) -> Generator[None, None, None]:
    """Put the rows that pass into `found`, in their order."""
    for start in range(0, len(rows), EACH):
        found += [row for row in rows[start : start + EACH] if passes(row)]
        if start + EACH < len(rows):
            yield
