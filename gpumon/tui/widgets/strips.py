"""Lines of toned cells as strips. Text is drawn as it is: markup has no meaning here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.strip import Strip

from gpumon.report.columns import safe

if TYPE_CHECKING:
    from rich.style import Style

    from gpumon.report.columns import Line
    from gpumon.tui.theme import Look


def line_strip(line: Line, width: int, look: Look, extra: Style | None = None) -> Strip:
    """A line cut or filled to `width` cells; `extra` lies over every tone."""
    base = look.base if extra is None else look.base + extra
    segments = []
    for cell in line:
        style = look.base + look.tones[cell.tone]
        segments.append(Segment(safe(cell.text), style if extra is None else style + extra))
    return Strip(segments).adjust_cell_length(width, base)
