"""Characters with inks as strips, and lines of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from gpumon.report.fleet_map.marks import Ink
from gpumon.tui.look.theme import look_of
from gpumon.tui.textual_private.repaint import PlainLines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.report.fleet_map.lines import Glyph
    from gpumon.tui.look.map_look import MapLook

_MARKED: Final = Style(reverse=True, bold=True)

_NEAR: Final = 8
"""Unchanged characters between two changed ones that are drawn again with them: fewer than a
move of the terminal's cursor and a change of style cost."""


def glyph_strip(
    row: Sequence[Glyph], width: int, look: MapLook, base: Style, marked: range = range(0)
) -> Strip:
    """A line cut or filled to `width` cells; those at `marked` are shown reversed.

    All of these in one ink: a cell in its own colours would be hard to find among many.
    """
    segments: list[Segment] = []
    text = ""
    kind: tuple[Ink, Ink | None] = (Ink.TEXT, None)
    for x, glyph in enumerate(row[:width]):
        key = (glyph.ink, glyph.ground)
        if x in marked:
            segments.append(Segment(text, look.style(*kind)))
            segments.append(Segment(glyph.char, look.style(Ink.STRONG, None) + _MARKED))
            text = ""
        elif key == kind or (glyph.char == " " and glyph.ground is None and kind[1] is None):
            # A blank takes any ink: every change of style costs forty bytes on the wire.
            text += glyph.char
        else:
            segments.append(Segment(text, look.style(*kind)))
            text, kind = glyph.char, key
    segments.append(Segment(text, look.style(*kind)))
    return Strip([part for part in segments if part.text]).adjust_cell_length(width, base)


def changed_stretches(old: Sequence[Glyph], new: Sequence[Glyph]) -> list[tuple[int, int]]:
    """First and last position of what differs; stretches that are near become one."""
    found: list[tuple[int, int]] = []
    for x, (before, now) in enumerate(zip(old, new, strict=True)):
        if before != now:
            if found and x - found[-1][1] <= _NEAR:
                found[-1] = (found[-1][0], x)
            else:
                found.append((x, x))
    return found


class GlyphLines(PlainLines, Widget):
    """One line of characters with inks."""

    DEFAULT_CSS = """
    GlyphLines { height: 1; width: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._row: tuple[Glyph, ...] = ()

    def show_row(self, row: tuple[Glyph, ...]) -> None:
        """Draw this line from now on."""
        if row != self._row:
            self._row = row
            self.refresh()

    def render_line(self, _y: int) -> Strip:
        """Its only line, in the colours of the theme."""
        look = look_of(self)
        return glyph_strip(self._row, self.size.width, look.map, look.base)
