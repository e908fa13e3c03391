"""A few lines of text that follow the tick, redrawn only where they changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.geometry import Region
from textual.message import Message
from textual.widget import Widget

from gpumon.report.text.cells import Cell, Line, Tone, text_width
from gpumon.tui.look.theme import look_of
from gpumon.tui.textual_private.repaint import PlainLines, announce
from gpumon.tui.widgets.text.strips import changed_cells, line_strip

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.events import Click
    from textual.strip import Strip

    from gpumon.tui.actions.registry import Action


class Lines(PlainLines, Widget):
    """Fixed lines; as high as it has lines."""

    DEFAULT_CSS = """
    Lines { height: 1; width: 1fr; }
    """

    def __init__(self, is_bar: bool = False, id: str | None = None) -> None:  # noqa: A002
        """A bar has the colour of the frame around the tables."""
        super().__init__(id=id)
        self._lines: tuple[Line, ...] = ()
        self._is_bar = is_bar
        self.display = is_bar

    def show_lines(self, lines: Sequence[Line]) -> None:
        """Draw these lines from now on."""
        old, self._lines = self._lines, tuple(lines)
        if len(old) != len(self._lines):
            self.styles.height = len(self._lines)
            self.display = bool(self._lines)
            self.refresh()
            return
        pairs = enumerate(zip(old, self._lines, strict=True))
        found = ((y, *changed_cells(before, now)) for y, (before, now) in pairs)
        regions = [Region(first, y, end - first, 1) for y, first, end in found if end > first]
        if regions:
            self.repaint(*regions)
        announce(self)

    @property
    def text(self) -> str:
        """What is drawn, without tones."""
        return "\n".join("".join(cell.text for cell in line) for line in self._lines)

    def render_line(self, y: int) -> Strip:
        """One line of the widget."""
        look = look_of(self)
        line = self._lines[y] if y < len(self._lines) else ()
        return line_strip(line, self.line_width, look, look.bar if self._is_bar else None)


class KeyBar(Lines):
    """The keys that work now; a click does what the key does."""

    class Picked(Message):
        """A key of the bar was clicked."""

        def __init__(self, action: Action) -> None:
            self.action = action
            super().__init__()

    def __init__(self, actions: Sequence[Action]) -> None:
        super().__init__(is_bar=True)
        self._actions = tuple(actions)
        self._ends: tuple[int, ...] = ()

    def relabel(self, name: str, label: str) -> None:
        """Call an action by another word: what its key does hangs on the row."""
        self.offer(a._replace(label=label) if a.name == name else a for a in self._actions)

    def offer(self, actions: Iterable[Action]) -> None:
        """Name these from now on."""
        offered = tuple(actions)
        if offered != self._actions:
            self._actions = offered
            self.fill(self.size.width)

    def on_resize(self) -> None:
        """Name the keys that fit into the new width."""
        self.fill(self.size.width)

    def fill(self, width: int) -> None:
        """Name as many keys as fit; before the first layout, so that they are painted with it."""
        cells: list[Cell] = []
        ends: list[int] = []
        x = 0
        for action in self._actions:
            key, label = f" {action.shown} ", f"{action.label} "
            taken = text_width(key) + text_width(label)
            if x + taken > width:
                break
            x += taken
            ends.append(x)
            cells += [Cell(key, Tone.INFO), Cell(label, Tone.DIM)]
        self._ends = tuple(ends)
        self.show_lines([tuple(cells)])

    def on_click(self, event: Click) -> None:
        """Do what was clicked."""
        for action, end in zip(self._actions, self._ends, strict=False):
            if event.x < end:
                self.post_message(self.Picked(action))
                return
