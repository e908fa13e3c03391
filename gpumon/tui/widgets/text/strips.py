"""Lines of toned cells as strips. Text is drawn as it is: markup has no meaning here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.strip import Strip

from gpumon.report.text.cells import Cell, safe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.style import Style

    from gpumon.report.text.cells import Line
    from gpumon.tui.look.theme import Look


def line_strip(line: Line, width: int, look: Look, extra: Style | None = None) -> Strip:
    """A line cut or filled to `width` cells; `extra` lies over every tone."""
    base = look.base if extra is None else look.base + extra
    segments = [Segment(safe(cell.text), look.over_ground(cell.tone, extra)) for cell in line]
    return Strip(segments).adjust_cell_length(width, base)


def merged(cells: Iterable[Cell]) -> Line:
    """The cells with neighbours of one tone joined; blanks take any tone.

    Every change of style costs some forty bytes on the wire, ten times what a number does.
    """
    runs: list[Cell] = []
    for cell in cells:
        if runs and (cell.tone is runs[-1].tone or cell.text.isspace()):
            runs[-1] = Cell(runs[-1].text + cell.text, runs[-1].tone)
        elif runs and runs[-1].text.isspace():
            runs[-1] = Cell(runs[-1].text + cell.text, cell.tone)
        else:
            runs.append(cell)
    return tuple(runs)
