"""Textual's own table with any number of rows, one value in twenty made anew every second."""

from __future__ import annotations

import os
import random
import sys
from typing import TYPE_CHECKING, ClassVar

from tests.bench.session import READY

os.write(1, READY)

# What came before is not measured, as it is not of the terminal either.
from textual.app import App  # noqa: E402
from textual.widgets import DataTable  # noqa: E402

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

COLUMNS = 12
SHARE = 0.05


class TableApp(App[None]):
    """A DataTable with a cursor on rows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("q", "quit", "Quit"), ("j", "down"), ("k", "up"), ("s", "sort"),
    ]  # fmt: skip

    def __init__(self, rows: int) -> None:
        super().__init__()
        self._rows = rows
        self._chance = random.Random(1)
        self._is_reverse = False
        self._table: DataTable[str] = DataTable(cursor_type="row")

    def compose(self) -> ComposeResult:
        yield self._table

    def on_mount(self) -> None:
        """Fill the table, then change it every second."""
        for number in range(COLUMNS):
            self._table.add_column(f"COL{number}", key=str(number), width=8)
        for row in range(self._rows):
            values = (str(self._chance.randrange(1000)) for _ in range(COLUMNS - 1))
            self._table.add_row(str(100_000 + row), *values, key=str(row))
        self.set_interval(1.0, self._change)

    def _change(self) -> None:
        for _ in range(int(SHARE * self._rows * COLUMNS)):
            row, column = self._chance.randrange(self._rows), self._chance.randrange(1, COLUMNS)
            self._table.update_cell(str(row), str(column), str(self._chance.randrange(1000)))

    def action_down(self) -> None:
        """The next row."""
        self._table.action_cursor_down()

    def action_up(self) -> None:
        """The row before."""
        self._table.action_cursor_up()

    def action_sort(self) -> None:
        """The other way round."""
        self._is_reverse = not self._is_reverse
        self._table.sort("0", reverse=self._is_reverse)


if __name__ == "__main__":
    TableApp(int(sys.argv[1])).run()
