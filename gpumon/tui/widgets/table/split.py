"""A table, and beside or below it what is known of the row under the cursor, if there is room."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gpumon.report.text.cells import Cell, Tone
from gpumon.tui.look.theme import look_of
from gpumon.tui.textual_private.repaint import PlainLines, announce
from gpumon.tui.widgets.text.strips import changed_cells, line_strip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.geometry import Size

    from gpumon.report.text.cells import Line

WIDE: Final = 160
"""Cells of a screen from which on the row's page lies beside the table."""

TALL: Final = 50
"""Lines of a screen from which on it lies below: there no name or sentence is cut for it."""

BESIDE: Final = 60
"""Cells that it takes beside the table, which keeps a hundred at least."""

_BELOW: Final = 0.45
"""Share of the screen's lines that it takes below: of the fewest enough for a job's curve."""

SMALL: Final = 24
"""Lines of a screen from which on the row is at least written out below, without a rule."""

_WRITTEN: Final = 2
"""Lines for that."""

_MIDDLE: Final = 32
"""Lines of a screen from which on it is written out whole, below a rule."""

_WHOLE: Final = 5
"""Lines for that, with the rule."""


class Pane(PlainLines, Widget):
    """Lines about the row under the cursor; those that changed are drawn again."""

    DEFAULT_CSS = """
    Pane { display: none; }
    """

    class Resized(Message):
        """It has got room, or other room."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: tuple[Line, ...] = ()
        self.is_below = False
        self.has_rule = True

    def on_resize(self) -> None:
        """What it shows is made for its size."""
        self.post_message(self.Resized())

    def show_lines(self, lines: Sequence[Line]) -> None:
        """Draw these lines from now on."""
        old, self._lines = self._lines, tuple(lines)
        pairs = enumerate(zip_longest(old, self._lines, fillvalue=()))
        x, top = len(self._edge), self._first
        found = ((y, *changed_cells(before, now)) for y, (before, now) in pairs)
        regions = [Region(x + a, top + y, end - a, 1) for y, a, end in found if end > a]
        if regions:
            self.repaint(*regions)
        announce(self)

    @property
    def room(self) -> tuple[int, int]:
        """Cells and lines for what it shows; 0 where it is not shown."""
        if not self.display:
            return 0, 0
        width, height = self.size
        return max(0, width - (1 if self.is_below else 2)), max(0, height - self._first)

    @property
    def _first(self) -> int:
        """Lines of its frame above the text."""
        return 1 if self.is_below and self.has_rule else 0

    @property
    def _edge(self) -> str:
        """What parts it from the table, where that is beside it."""
        return " " if self.is_below else "│ "

    def render_line(self, y: int) -> Strip:
        """A line, with the rule that parts it from the table."""
        look, width = look_of(self), self.line_width
        if y < self._first:
            return line_strip((Cell("─" * width, Tone.DIM),), width, look)
        place = y - self._first
        line = self._lines[place] if place < len(self._lines) else ()
        tone = Tone.PLAIN if self.is_below else Tone.DIM
        return line_strip((Cell(self._edge, tone), *line), width, look)


class Split(PlainLines, Widget):
    """The table takes what the pane leaves."""

    DEFAULT_CSS = """
    Split { layout: horizontal; width: 1fr; height: 1fr; }
    """

    def __init__(self, table: Widget, pane: Pane) -> None:
        super().__init__()
        self._table, self._pane = table, pane
        self._below: int | None = None
        """Lines that the pane was given below the table; None: it lies elsewhere."""

    def compose(self) -> ComposeResult:
        """The table first: it has the focus."""
        yield self._table
        yield self._pane

    def render_line(self, _y: int) -> Strip:
        """Nothing of its own: the table and the pane lie over it."""
        return Strip.blank(self.size.width, look_of(self).base)

    def share_below(self, lines: int) -> None:
        """Give the pane so many lines below the table; none: it is not shown."""
        if lines == self._below:
            return
        self._below, pane = lines, self._pane
        pane.is_below = pane.display = lines > 0
        self.styles.layout = "vertical"
        pane.styles.width, pane.styles.height = "1fr", max(1, lines)

    def share(self, screen: Size) -> None:
        """Give the pane its place on a screen of this size, or none."""
        self._below, pane = None, self._pane
        is_beside = screen.width >= WIDE and screen.height < TALL
        lines = 0 if is_beside else _lines_below(screen.height)
        pane.is_below, pane.has_rule = lines > 0, lines != _WRITTEN
        pane.display = is_beside or pane.is_below
        self.styles.layout = "vertical" if pane.is_below else "horizontal"
        pane.styles.width = BESIDE if is_beside else "1fr"
        pane.styles.height = "1fr" if is_beside else max(1, lines)


def _lines_below(height: int) -> int:
    """Lines for the row under the cursor on a screen of so many: its page, or its cells whole."""
    if height >= TALL:
        return int(height * _BELOW)
    if height < SMALL:
        return 0
    return _WHOLE if height >= _MIDDLE else _WRITTEN
