"""What a key changes is painted in one frame, without the screen being laid out anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.geometry import Size
from textual.reactive import Reactive
from textual.scroll_view import ScrollView

if TYPE_CHECKING:
    from textual.widget import Widget


def announce(widget: Widget) -> None:
    """Tell the screen now that a widget is to be painted.

    Textual tells it once the widget has nothing else to do. By then a frame with the rest of what
    the key changed may be on its way, and the next one comes a sixtieth of a second later.
    """
    widget._check_refresh()


class LongList(ScrollView, inherit_bindings=False):
    """Draws its own lines; that there are more or fewer concerns nothing but its scrollbar.

    Textual's own lays out the whole screen for that, which takes longer than to paint the lines.
    """

    DEFAULT_CSS = """
    LongList { height: 1fr; width: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }
    """

    virtual_size: Reactive[Size] = Reactive(Size(0, 0), layout=False)

    def watch_virtual_size(self, size: Size) -> None:
        """Have the scrollbar follow; where it comes or goes, the screen is laid out."""
        if self.container_size:
            self._scroll_update(size)

    def bring_into_view(self, line: int, page: int) -> bool:
        """Scroll as little as it takes to show a line among `page` others; whether it took any."""
        top = self.scroll_offset.y
        wanted = min(line, max(top, line - page + 1))
        if wanted == top:
            return False
        # Forced: right after the rows grew the scrollbar that would allow it is not there yet.
        self.scroll_to(y=wanted, animate=False, force=True)
        return True
