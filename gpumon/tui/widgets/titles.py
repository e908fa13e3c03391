"""The lines of a table: titles above, rows below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.segment import Segment
from textual.strip import Strip

from gpumon.report.columns import GAP, Cell, fit
from gpumon.tui.widgets.strips import line_strip, merged

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.style import Style

    from gpumon.report.columns import Placed
    from gpumon.tui.theme import Look
    from gpumon.tui.widgets.plan import Sorting

MARGIN: Final = 1
"""Blank cells left of the first column, in line with the bars above and below."""


def title_strip(places: Iterable[Placed[Any]], sorting: Sorting, width: int, look: Look) -> Strip:
    """The titles of columns in their places; a sign shows what the rows are sorted by."""
    segments = [Segment(" " * MARGIN, look.title)]
    for placed in places:
        column = placed.column
        title, style = column.title, look.title
        if sorting.key == column.key:
            # The sign takes the gap beside the title, so that no title has to be cut.
            title += "▼" if sorting.is_descending else "▲"
            style = look.sorted_title
        wide = placed.width + GAP
        text = fit(title, wide if len(title) > placed.width else placed.width, column.align)
        segments.append(Segment(text.ljust(wide), style))
    return Strip(segments).adjust_cell_length(width, look.title)


def row_strip(
    places: Iterable[Placed[Any]],
    image: Iterable[Cell],
    width: int,
    look: Look,
    mark: Style | None,
) -> Strip:
    """The cells of a row in their places; `mark` lies over the row with the cursor."""
    cells = [Cell(" " * MARGIN)]
    for placed, cell in zip(places, image, strict=True):
        text = fit(cell.text, placed.width, placed.column.align)
        cells.append(Cell(text + " " * GAP, cell.tone))
    return line_strip(merged(cells), width, look, mark)
