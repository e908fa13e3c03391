"""A text to scroll through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gpumon.tui.look.theme import look_of
from gpumon.tui.widgets.text.strips import changed_cells, line_strip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.report.text.cells import Line


class Reader(ScrollView, inherit_bindings=False):
    """Lines of text, of which only the visible ones are drawn."""

    DEFAULT_CSS = """
    Reader { height: 1fr; width: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }
    """
    can_focus = True

    def __init__(self) -> None:
        super().__init__()
        self._lines: Sequence[Line] = ()

    def on_unmount(self) -> None:
        """Let go of the text, charts are drawn from curves: a dead widget stays for a while."""
        self._lines = ()

    def show_lines(self, lines: Sequence[Line]) -> None:
        """Show this text from now on."""
        if lines == self._lines:
            return
        before, self._lines = self._lines, lines
        if len(before) != len(lines):
            self.virtual_size = Size(0, len(lines))
            self.refresh()
            return
        top = self.scroll_offset.y
        for index in range(top, min(len(lines), top + self.size.height)):
            first, end = changed_cells(before[index], lines[index])
            if end > first:
                self.refresh(Region(first, index - top, end - first, 1))

    def render_line(self, y: int) -> Strip:
        """One line of the text."""
        look = look_of(self)
        index = self.scroll_offset.y + y
        if index >= len(self._lines):
            return Strip.blank(self.size.width, look.base)
        return line_strip(self._lines[index], self.size.width, look)

    def scroll_lines(self, lines: int) -> None:
        """Scroll down, up for negative numbers."""
        self.scroll_to(y=self.scroll_offset.y + lines, animate=False)
