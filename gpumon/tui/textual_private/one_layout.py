"""A screen that opens is painted once.

Textual lays a new screen out as it comes to the top, again as it hears of its size, and again as
its widgets are mounted, and each time it paints every line. A key that opens a page waits for that.

None of it is what textual promises: another of its versions calls these by other names, or not at
all, and then paints as often as it likes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from textual.reactive import Reactive
from textual.screen import Screen

if TYPE_CHECKING:
    from textual.events import ScreenResume
    from textual.geometry import Region, Size
    from textual.widget import Widget


def draw_afresh(screen: Screen[Any]) -> None:
    """Have all of a screen laid out and painted: a terminal may have lost what it showed."""
    screen.refresh(layout=True)
    screen.refresh()


class PaintedOnce(Screen[None]):
    """A screen that draws nothing itself: its widgets cover all of it."""

    BLANK = True
    """Textual makes its lines all the same, below the widgets: empty ones take no style apart."""

    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    """Both widgets that are concerned paint themselves."""

    def refresh(
        self,
        *regions: Region,
        repaint: bool = True,
        layout: bool = False,
        recompose: bool = False,
    ) -> Self:
        """Paint these regions, or everything; of a new layout what it moves, shows or hides."""
        is_whole = repaint and (not layout or bool(regions))
        return super().refresh(*regions, repaint=is_whole, layout=layout, recompose=recompose)

    def _screen_resized(self, size: Size) -> None:
        """Nothing to do in the size for which it is laid out."""
        if getattr(getattr(self, "_compositor", None), "size", None) != size:
            super()._screen_resized(size)

    def _on_screen_resume(self, event: ScreenResume) -> None:
        """Come to the top; what is laid out there for the first time is painted with that."""
        is_new = self.outer_size != self.app.size
        if is_new:
            # Each of its widgets has read its styles as it was mounted, a moment ago.
            event.refresh_styles = False
        resume = getattr(super(), "_on_screen_resume", None)
        if resume is not None:
            event.prevent_default()
            resume(event)
            if is_new:
                self._repaint_required = False

    def _compositor_refresh(self) -> None:
        """Paint, unless another screen covers all of this one: that would be painted instead."""
        if self is self.app.screen:
            super()._compositor_refresh()
