"""The lines of a table: titles above, rows below."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

from rich.segment import Segment
from textual.strip import Strip

from gpumon.report.facts.columns import GAP
from gpumon.report.text.cells import Tone, fit
from gpumon.tui.textual_private.cropping import cropped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.style import Style

    from gpumon.report.facts.columns import Placed, Sorting
    from gpumon.report.text.cells import Cell
    from gpumon.tui.look.theme import ThemeStyles

MARGIN: Final = 1
"""Blank cells left of the first column, in line with the bars above and below."""


def title_strip(
    places: Iterable[Placed[Any]], sorting: Sorting, width: int, look: ThemeStyles
) -> Strip:
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


@lru_cache(2048)
def _fitted(text: str, width: int, align: Literal["left", "right"]) -> str:
    """A cell's text with the gap behind it: most are those of the tick before."""
    return fit(text, width, align) + " " * GAP


def row_strip(
    places: Iterable[Placed[Any]],
    image: Iterable[Cell],
    width: int,
    look: ThemeStyles,
    mark: Style | None,
) -> Strip:
    """The cells of a row in their places; `mark` lies over the row with the cursor.

    Neighbours of one tone are joined, and blanks take any tone: every change of style costs some
    forty bytes on the wire, ten times what a number does.
    """
    segments: list[Segment] = []
    text, tone, taken = " " * MARGIN, Tone.PLAIN, MARGIN
    is_blank = True
    for (column, _, wide), cell in zip(places, image, strict=True):
        part = _fitted(cell.text, wide, column.align)
        taken += wide + GAP
        if cell.tone is tone or part.isspace():
            text += part
        elif is_blank:
            text, tone = text + part, cell.tone
        else:
            segments.append(Segment(text, look.over_ground(tone, mark)))
            text, tone = part, cell.tone
        is_blank = is_blank and text.isspace()
    segments.append(Segment(text, look.over_ground(tone, mark)))
    if taken < width:
        base = look.base if mark is None else look.base + mark
        segments.append(Segment(" " * (width - taken), base))
    line = Strip(segments, max(taken, width))
    return cropped(line, 0, width)
