"""Which columns of a table are shown: one line each, Enter switches it on or off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpumon.report.facts.columns import Column, usual
from gpumon.report.filter.names import typable
from gpumon.report.text.cells import Cell, Tone, paragraph
from gpumon.tui.actions.registry import bindings_of
from gpumon.tui.screens.base.table_view import TableView
from gpumon.tui.widgets.table.grid import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.report.facts.columns import SortKey
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Line
    from gpumon.tui.actions.action import ViewName


class Choice(NamedTuple):
    """One column of the table that is asked about."""

    column: Column[Any]
    number: int
    """Its place in the table."""
    typed: str
    """Its name in filters."""
    is_on: bool


def _order(_digest: Digest, choice: Choice) -> SortKey:
    """What a narrow terminal keeps longest comes first."""
    return (float(choice.column.priority), float(choice.number))


def _search(_digest: Digest, choice: Choice) -> str:
    column = choice.column
    return f"{column.title}\n{column.key}\n{choice.typed}\n{column.doc}".lower()


_COLUMNS: Final[tuple[Column[Choice], ...]] = (
    Column(
        "on", "ON", 3, "left", priority=0,
        cell=lambda _d, c: Cell("[x]") if c.is_on else Cell("[ ]", Tone.DIM),
        order=lambda _d, c: (0.0 if c.is_on else 1.0,), doc="Whether the column is shown.",
    ),
    Column(
        "column", "COLUMN", 10, "left", priority=0,
        cell=lambda _d, c: Cell(c.column.title, Tone.STRONG if c.is_on else Tone.DIM),
        order=lambda _d, c: (c.column.title,), doc="Its title.", max_width=18,
    ),
    Column(
        "name", "IN FILTERS", 12, "left", priority=1,
        cell=lambda _d, c: Cell(c.typed), order=lambda _d, c: (c.typed,),
        doc="Its name in filters.", max_width=20,
    ),
    Column(
        "width", "WIDTH", 5, "right", priority=2,
        cell=lambda _d, c: Cell(str(c.column.width), Tone.DIM),
        order=lambda _d, c: (float(c.column.width),), doc="Its smallest width in cells.",
        max_width=0, is_descending=True, unit="",
    ),
    Column(
        "meaning", "MEANING", 30, "left", priority=1,
        cell=lambda _d, c: Cell(c.column.doc, Tone.DIM), order=None, doc="What it shows.",
        max_width=120,
    ),
)  # fmt: skip


class ColumnView(TableView["Choice"]):
    """The columns of one kind of table; what is chosen holds for every view of that kind."""

    view = "columns"
    BINDINGS = bindings_of("columns")
    noun = "columns"
    plan = Plan(_COLUMNS, lambda choice: choice.column.key, _order, _search)

    def __init__(
        self, table: ViewName, columns: Sequence[Column[Any]], came_from: tuple[str, ...]
    ) -> None:
        super().__init__()
        self._table = table
        self._columns = columns
        self._came_from = came_from

    def trail(self) -> tuple[str, ...]:
        """Where one came from, then this one."""
        return (*self._came_from, "columns")

    def _chosen(self) -> tuple[str, ...]:
        chosen = self.gpumon.chosen_columns.get(self._table)
        return tuple(c.key for c in usual(self._columns)) if chosen is None else chosen

    def rows(self, _digest: Digest) -> Sequence[Choice]:
        """Every column."""
        chosen = self._chosen()
        typed = typable(self._columns)
        return [
            Choice(column, number, name, column.key in chosen)
            for number, (column, name) in enumerate(zip(self._columns, typed, strict=True))
        ]

    def head_lines(self, _digest: Digest, width: int) -> list[Line]:
        """What the list is, and what decides where there is little room."""
        text = (
            "Enter or Space switches a column on or off, 0 restores the original ones. In a narrow "
            "terminal, the last of this list are dropped first."
        )
        return paragraph(text, width, Tone.DIM)

    def empty_words(self, _digest: Digest) -> tuple[str, ...]:
        """Never: every table has columns."""
        return ("This table has no columns.",)

    def action_toggle_column(self) -> None:
        """Switch the column on or off; the last one that is on stays."""
        row = self.grid.current
        if row is None:
            return
        chosen = set(self._chosen()) ^ {row.column.key}
        if chosen:
            self._choose(tuple(c.key for c in self._columns if c.key in chosen))

    def on_grid_opened(self) -> None:
        """A click on the cursor switches."""
        self.action_toggle_column()

    def action_as_at_first(self) -> None:
        """Show the columns of the beginning again."""
        self._choose(None)

    def _choose(self, keys: tuple[str, ...] | None) -> None:
        if keys is None:
            self.gpumon.chosen_columns.pop(self._table, None)
        else:
            self.gpumon.chosen_columns[self._table] = keys
        self.gpumon.save_habits()
        self.show(self.digest)
