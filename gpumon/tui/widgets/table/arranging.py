"""Filtering and sorting rows step by step, with the same result as at once."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from gpumon.report.facts.columns import SortKey

R = TypeVar("R")

EACH: Final = 250
"""Rows that are looked at in one step: a few milliseconds where each needs some thought."""

RUN: Final = 4_000
"""Rows that are sorted in one step: sorting the whole then only merges these runs."""


def sorted_steps(
    rows: Sequence[R], order: Callable[[R], SortKey | None], is_descending: bool = False
) -> Generator[None, None, list[R]]:
    """The rows in order, those without a key last, as `columns.arranged` has them."""
    known: list[tuple[SortKey, R]] = []
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
            known += run
            run = []
            yield
    known += run
    known.sort(key=itemgetter(0), reverse=is_descending)
    if len(rows) > RUN:
        yield
    return [row for _, row in known] + unknown


def kept_steps(
    rows: Sequence[R], keeps: Callable[[R], bool], found: list[R]
) -> Generator[None, None, None]:
    """Put the rows that pass into `found`, in their order."""
    for start in range(0, len(rows), EACH):
        found += [row for row in rows[start : start + EACH] if keeps(row)]
        if start + EACH < len(rows):
            yield
