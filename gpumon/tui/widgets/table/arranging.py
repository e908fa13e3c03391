"""Filtering and sorting rows step by step, with the same result as at once."""

from __future__ import annotations

import heapq
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from gpumon.report.facts.columns import SortKey
    from gpumon.tui.widgets.table.release import Held

R = TypeVar("R")

EACH: Final = 250
"""Rows that are tried in one step: a few milliseconds where each needs some thought."""

RUN: Final = 4_000
"""Rows that are sorted in one step; such runs are merged then."""

MERGED: Final = 1_000
"""Rows that are merged in one step."""


def sorted_steps(
    rows: Sequence[R],
    order: Callable[[R], SortKey | None],
    is_descending: bool = False,
    left: list[Held] | None = None,
) -> Generator[None, None, list[R]]:
    """The rows in order, those without a key last, as `columns.arranged` has them.

    Args:
        rows: The rows.
        order: The key of one; None: it has none.
        is_descending: Whether the greatest key comes first.
        left: Takes what is there already of an order that is broken off.
    """
    runs: list[list[tuple[SortKey, R]]] = []
    try:
        return (yield from _merged(rows, order, is_descending, runs))
    finally:
        if left is not None:
            left += [run for run in runs if run]


def _merged(
    rows: Sequence[R],
    order: Callable[[R], SortKey | None],
    is_descending: bool,
    runs: list[list[tuple[SortKey, R]]],
) -> Generator[None, None, list[R]]:
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
    runs.append(run)
    found: list[R] = []
    # Rows with the same key stay in their order, those of an earlier run first, as in one sort.
    spent = map(_spent, tuple(runs))
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


def containing_steps(
    rows: Sequence[R],
    texts: list[str],
    text_of: Callable[[R], str],
    word: str,
    found: list[R],
) -> Generator[None, None, None]:
    """The same for rows whose texts contain a word.

    Args:
        rows: The rows.
        texts: Those of the first rows; the others are added.
        text_of: Makes the text of a row.
        word: What a text contains.
        found: Takes the rows that pass.
    """
    at = 0
    while at < len(rows):
        if at < len(texts):
            end = min(len(texts), at + RUN)
        else:
            end = at + EACH
            texts += map(text_of, rows[at:end])
        found += [
            row for row, text in zip(rows[at:end], texts[at:end], strict=True) if word in text
        ]
        at = end
        if at < len(rows):
            yield
