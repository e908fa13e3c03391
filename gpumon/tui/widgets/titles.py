"""The line of titles above a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.segment import Segment
from textual.strip import Strip

from gpumon.report.columns import GAP, fit

if TYPE_CHECKING:
    from collections.abc import Iterable

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
