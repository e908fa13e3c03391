"""What a column is, and how columns share a width."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final, Generic, Literal, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Cell

Row = TypeVar("Row", contravariant=True)  # a column over any GPU row serves every kind of them
SortKey = tuple[float | str, ...]


class Column(NamedTuple, Generic[Row]):
    """One column of a table over rows of one kind."""

    key: str
    title: str
    width: int
    """Cells it takes at least."""
    align: Literal["left", "right"]
    priority: int
    """0 is never dropped; on a narrow terminal the highest goes first."""
    cell: Callable[[Digest, Row], Cell]
    order: Callable[[Digest, Row], SortKey | None] | None
    """Ascending sort key, None for rows without a value, which come last in both directions.
    No function: the column has no order."""
    doc: str
    """One sentence for the help: meaning and unit."""
    max_width: int = 0
    """Cells it may grow to where there is room; 0: it does not grow."""
    is_descending: bool = False
    """Whether the first sort shows the largest first."""
    unit: str | None = None
    """Unit of the numbers that filters compare, one of `filter_units.SCALES`; None: that of the
    catalogue's field of this key, or a column of text."""
    value: Callable[[Digest, Row], float | str | None] | None = None
    """What filters compare, None where it is missing: a number in `unit`, or a text that counts
    beside the one shown. No function: the first part of the sort key, or the text shown."""
    words: Callable[[Digest, Row], tuple[str, ...]] | None = None
    """Every text that filters compare, where a cell is of several; of these one is enough."""
    is_hidden: bool = False
    """Whether it is drawn only where the user chose it; filters know it anyway."""
    is_drawn: bool = False
    """Whether it is drawn from what other columns show: no file that is written holds it."""


class Sorting(NamedTuple):
    """By which column, and which way; no key: the order at first."""

    key: str | None = None
    is_descending: bool = False


def usual(columns: Sequence[Column[Row]]) -> list[Column[Row]]:
    """The columns that are drawn unless the user chose others."""
    return [column for column in columns if not column.is_hidden]


def chosen_of(columns: Sequence[Column[Row]], keys: Collection[str] | None) -> list[Column[Row]]:
    """The columns with these keys; those shown at first where it is None, or no key is known.

    Those that the user had to choose stay longer on a narrow terminal than most.
    """
    if keys is None:
        return usual(columns)
    chosen = [
        c._replace(priority=min(c.priority, 1)) if c.is_hidden else c
        for c in columns
        if c.key in keys
    ]
    return chosen or usual(columns)


def shown_first(keys: Sequence[str], columns: Sequence[Column[Row]]) -> tuple[Column[Row], ...]:
    """The columns that a table shows at first, in this order, and the others, hidden.

    Those are before the last one, which is mostly a sentence that takes what room is left.
    """
    by_key = {column.key: column for column in columns}
    hidden = [
        c if c.is_hidden else c._replace(is_hidden=True, doc=f"{c.doc[:-1]}; {_CHOSEN}")
        for c in columns
        if c.key not in keys
    ]
    return (*(by_key[key] for key in keys[:-1]), *hidden, by_key[keys[-1]])


_CHOSEN: Final = "shown where chosen with c."


def widened(columns: Sequence[Column[Row]], widths: Mapping[str, int]) -> Sequence[Column[Row]]:
    """The columns, those with these keys as wide at least as what a tick has in them.

    A column of width 0 has nothing in this tick, and is left out.
    """
    if not widths:
        return columns
    shown = (c for c in columns if widths.get(c.key) != 0)
    return [c._replace(width=max(c.width, widths.get(c.key, 0))) for c in shown]


def arranged(
    rows: Iterable[Row], order: Callable[[Row], SortKey | None], is_descending: bool = False
) -> list[Row]:
    """The rows in order, those without a key last whichever way the order runs."""
    keyed = [(order(row), row) for row in rows]
    known = [(key, row) for key, row in keyed if key is not None]
    known.sort(key=itemgetter(0), reverse=is_descending)
    return [row for _, row in known] + [row for key, row in keyed if key is None]


class Placed(NamedTuple, Generic[Row]):
    """A column with its place on the line."""

    column: Column[Row]
    x: int
    width: int


GAP: Final = 1
"""Blank cells between two columns."""

_FEWEST: Final = 8
"""Cells to which a column of words shrinks on the smallest screens: most titles fit."""


def place(columns: Sequence[Column[Row]], width: int) -> tuple[Placed[Row], ...]:
    """The columns that fit into `width` cells: the least important are dropped, the rest grow."""
    left = list(columns)
    while len(left) > 1 and sum(c.width + GAP for c in left) - GAP > width:
        # Of equal priority the rightmost goes, so that lines stay comparable while resizing.
        drop = max(range(len(left)), key=lambda i: (left[i].priority, i))
        if left[drop].priority == 0:
            break
        del left[drop]
    placed: list[Placed[Row]] = []
    x = 0
    for column, wide in zip(left, _widths(left, width), strict=True):
        placed.append(Placed(column, x, wide))
        x += wide + GAP
    return tuple(placed)


def _widths(columns: Sequence[Column[Row]], width: int) -> list[int]:
    """Each column's width; spare cells go round among those that may still grow.

    Where even those that are never dropped are too wide, words give way: half a number is none.
    """
    widths = [column.width for column in columns]
    spare = width - (sum(widths) + GAP * (len(widths) - 1))
    while spare < 0:
        words = [i for i, c in enumerate(columns) if c.align == "left" and widths[i] > _FEWEST]
        if not words:
            break
        widths[max(words, key=widths.__getitem__)] -= 1
        spare += 1
    while spare > 0:
        growing = [i for i, column in enumerate(columns) if widths[i] < column.max_width]
        if not growing:
            break
        for i in growing[:spare]:
            widths[i] += 1
        spare -= min(spare, len(growing))
    return widths
