"""How the rows on the screen look, made once for what they show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from gpumon.tui.widgets.table.titles import row_strip

if TYPE_CHECKING:
    from rich.style import Style
    from textual.strip import Strip

    from gpumon.report.facts.columns import Placed
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Cell
    from gpumon.tui.look.theme import ThemeStyles

R = TypeVar("R")


class _Drawn(NamedTuple):
    """A line, and what it was drawn of."""

    cells: tuple[Cell, ...]
    width: int
    look: ThemeStyles
    mark: Style | None
    line: Strip


class RowStrips(Generic[R]):
    """Cells and strips by the number of the row, as long as the table is not scrolled."""

    def __init__(self) -> None:
        self._cells: dict[int, tuple[Cell, ...]] = {}
        self._drawn: dict[int, _Drawn] = {}

    def clear(self) -> None:
        """Forget everything: other columns, other rows in sight."""
        self._cells, self._drawn = {}, {}

    def renew(self) -> dict[int, tuple[Cell, ...]]:
        """Make cells again from now on, for another tick; those made so far."""
        before, self._cells = self._cells, {}
        return before

    def reuse(self, number: int, cells: tuple[Cell, ...]) -> None:
        """Go on with the cells of the tick before, which are the same: so is the line."""
        self._cells[number] = cells

    def cells(
        self, number: int, places: tuple[Placed[R], ...], digest: Digest, row: R
    ) -> tuple[Cell, ...]:
        """What a row has in each column, made once for a tick."""
        made = self._cells.get(number)
        if made is None:
            made = tuple(placed.column.cell(digest, row) for placed in places)
            self._cells[number] = made
        return made

    def line(
        self,
        number: int,
        places: tuple[Placed[Any], ...],
        width: int,
        look: ThemeStyles,
        mark: Style | None,
    ) -> Strip:
        """A row whose cells are made, drawn."""
        cells, known = self._cells[number], self._drawn.get(number)
        if (
            known is None
            or known.cells is not cells
            or known.width != width
            or known.look is not look
            or known.mark is not mark
        ):
            line = row_strip(places, cells, width, look, mark)
            known = self._drawn[number] = _Drawn(
                cells=cells, width=width, look=look, mark=mark, line=line
            )
        return known.line
