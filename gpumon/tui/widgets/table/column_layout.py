"""Where things of a table are: its columns on screen, and the row that the cursor keeps to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from gpumon.base.steps import result_of
from gpumon.report.facts.columns import GAP, place

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from gpumon.report.facts.columns import Column, Placed
    from gpumon.report.text.cells import Cell

R = TypeVar("R")

FOLLOWED: Final = 4_000
"""Rows among which the cursor's own is looked for in one step."""


def with_sorted(
    columns: Sequence[Column[R]], chosen: Sequence[Column[R]], sorted_by: str | None
) -> Sequence[Column[R]]:
    """The chosen columns, in their places among them the one that rows are sorted by."""
    mine = {column.key: column for column in chosen}
    if sorted_by is None or sorted_by in mine:
        return chosen
    return [mine.get(c.key, c) for c in columns if c.key == sorted_by or c.key in mine]


def placed(columns: Sequence[Column[R]], sorted_by: str | None, room: int) -> tuple[Placed[R], ...]:
    """Those that fit; the column that rows are sorted by is never dropped."""
    return place([c._replace(priority=0) if c.key == sorted_by else c for c in columns], room)


def shape_of(places: Iterable[Placed[Any]]) -> list[tuple[str, int, int]]:
    """Which column begins where, and how wide it is."""
    return [(placed.column.key, placed.x, placed.width) for placed in places]


def column_at(places: Iterable[Placed[Any]], x: int) -> Column[Any] | None:
    """The column at a cell of the line of titles."""
    found = (one.column for one in places if one.x <= x < one.x + one.width + GAP)
    return next(found, None)


def stretch(
    places: Sequence[Placed[Any]], old: Sequence[Cell] | None, new: Sequence[Cell]
) -> tuple[int, int] | None:
    """Where the cells of a row that changed begin, and how wide they are together.

    None: the row has to be drawn as a whole.
    """
    if old is None or len(old) != len(new):
        return None
    changed = [one for one, a, b in zip(places, old, new, strict=True) if a != b]
    if not changed:
        return 0, 0
    first, last = changed[0], changed[-1]
    return first.x, last.x + last.width - first.x


def _ordered(places: Iterable[Placed[Any]]) -> list[str]:
    """Keys of the columns that rows can be sorted by."""
    return [placed.column.key for placed in places if placed.column.order is not None]


def key_after(places: Iterable[Placed[Any]], key: str | None) -> str | None:
    """The column to sort by next; None: in the end, as at first."""
    keys = _ordered(places)
    position = keys.index(key) + 1 if key in keys else 0
    return keys[position] if position < len(keys) else None


def key_aside(places: Iterable[Placed[Any]], key: str | None, steps: int) -> str | None:
    """The column so many to the right, the last followed by the first; None: there is none."""
    keys = _ordered(places)
    if not keys:
        return None
    if key in keys:
        return keys[(keys.index(key) + steps) % len(keys)]
    return keys[0 if steps > 0 else -1]


def followed(
    rows: Sequence[R], key: Callable[[R], str], cursor: int, cursor_key: str | None
) -> int:
    """Where the cursor is among other rows: on its row, else where it was.

    Args:
        rows: The rows that are shown now.
        key: Names a row over time.
        cursor: Where it was.
        cursor_key: The row that it keeps to; None: it has not been moved yet.
    """
    return result_of(followed_steps(rows, key, cursor, cursor_key))


def followed_steps(
    rows: Sequence[R], key: Callable[[R], str], cursor: int, cursor_key: str | None
) -> Generator[bool, None, int]:
    """The same, some thousand rows in a step: a row may have gone to the end of all."""
    at = min(cursor, max(0, len(rows) - 1))
    if cursor_key is None or (rows and key(rows[at]) == cursor_key):
        return at
    for start in range(0, len(rows), FOLLOWED):
        for index, row in enumerate(rows[start : start + FOLLOWED], start):
            if key(row) == cursor_key:
                return index
        yield False
    return at
