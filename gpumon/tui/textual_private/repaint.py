"""What a key changes is painted in one frame, without the screen being laid out again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.color import BLACK
from textual.dom import NoScreen
from textual.filter import ANSIToTruecolor
from textual.geometry import NULL_OFFSET, Size
from textual.reactive import Reactive
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.strip import Strip

from gpumon.tui.textual_private.cropping import cropped

if TYPE_CHECKING:
    from textual.geometry import Offset, Region
    from textual.widget import Widget

    _Mixin = Widget
else:
    # Textual takes over the style rules of the first base only that is a widget.
    _Mixin = object


def announce(widget: Widget) -> None:
    """Notify the screen now that a widget is to be painted.

    Textual does so once the widget has nothing else to do. By then a frame with the rest of what
    the key changed may be on its way, and the next one comes a sixtieth of a second later.
    """
    # Private to textual: another of its versions notifies the screen in its own time.
    check = getattr(widget, "_check_refresh", None)
    if check is not None:
        check()


def _marked_directly(widget: Widget, regions: tuple[Region, ...]) -> bool:
    """Whether the screen knows by now that these are to be painted, without a message."""
    try:
        screen = widget.screen
        if not widget.is_mounted or not widget.display or screen not in screen._compositor:
            return False
        widget._set_dirty(*regions)
        screen._dirty_widgets.add(widget)
    # Private to textual: in another of its versions the widget notifies it in its own time.
    except (AttributeError, NoScreen):
        return False
    screen.check_idle()
    return True


class PlainLines(_Mixin):
    """Its lines are finished as `render_line` gives them: no border, no padding, no opacity.

    Textual's own asks for some forty rules of style with every line, to find none of these.
    """

    @property
    def vertical_scrollbar(self) -> ScrollBar:
        """Its own: who types a filter has it painted, all of it, with every letter."""
        # Private to textual: another of its versions makes the one that it always makes.
        start = getattr(self.app, "_start_widget", None)
        if start is not None and vars(self).get("_vertical_scrollbar", self) is None:
            thickness = self.scrollbar_size_vertical
            made = PlainScrollBar(vertical=True, name="vertical", thickness=thickness)
            self._vertical_scrollbar = made
            made.display = False
            start(self, made)
        return super().vertical_scrollbar

    _width_now: int | None = None
    """While lines are drawn, how many cells each has."""

    @property
    def line_width(self) -> int:
        """Cells of a line: textual looks through the whole screen for a widget's size."""
        return self.size.width if self._width_now is None else self._width_now

    def repaint(self, *regions: Region) -> None:
        """Have stretches of these lines painted in the next frame.

        Textual's `refresh` wakes the widget up, so that it sends the screen a message: of what a
        tick a second costs, these messages were a tenth.
        """
        if not _marked_directly(self, regions):
            self.refresh(*regions)

    @property
    def content_offset(self) -> Offset:
        """Where the content begins: nothing lies around it."""
        return NULL_OFFSET

    def render_lines(self, crop: Region) -> list[Strip]:
        """These lines, or a stretch of each."""
        filters = self.get_line_filters()
        if getattr(getattr(self.app, "look", None), "has_true_colours", False):
            # It searches every piece of every line for colours of the terminal's own.
            filters = [one for one in filters if type(one) is not ANSIToTruecolor]
        ground = self.background_colors[1] if filters else BLACK
        first, end = crop.column_span
        self._width_now = self.size.width
        try:
            lines = [self.render_line(y) for y in crop.line_range]
        finally:
            is_whole = first == 0 and end >= self._width_now
            self._width_now = None
        for one in filters:
            lines = [line.apply_filter(one, ground) for line in lines]
        return lines if is_whole else [cropped(line, first, end) for line in lines]


class PlainScrollBar(PlainLines, ScrollBar):
    """Textual's own bar, of which each line is a finished one."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """The bar; blank where what it belongs to was removed, of which a last frame may come."""
        if self.parent is None:
            return [Strip.blank(crop.width)] * crop.height
        return super().render_lines(crop)


class LongList(PlainLines, ScrollView, inherit_bindings=False):
    """Draws its own lines; that there are more or fewer concerns nothing but its scrollbar.

    Textual's own lays out the whole screen for that, which takes longer than to paint the lines.
    """

    DEFAULT_CSS = """
    LongList { height: 1fr; width: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }
    """

    virtual_size: Reactive[Size] = Reactive(Size(0, 0), layout=False)

    def watch_virtual_size(self, size: Size) -> None:
        """Have the scrollbar follow; where it comes or goes, the screen is laid out."""
        if not self.container_size:
            return
        # Private to textual: another of its versions lays out the screen.
        update = getattr(self, "_scroll_update", None)
        if update is None:
            self.refresh(layout=True)
        else:
            update(size)

    def bring_into_view(self, line: int, page: int) -> bool:
        """Scroll as little as it takes to show a line among `page` others; whether it took any."""
        top = self.scroll_offset.y
        wanted = min(line, max(top, line - page + 1))
        if wanted == top:
            return False
        # Forced: right after the rows grew the scrollbar that would allow it is not there yet.
        self.scroll_to(y=wanted, animate=False, force=True)
        return True
