"""The ranks of a job over time or as a map: draws lines in sight, and of them what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gpumon.report.rank_map.map import RankMap
from gpumon.report.rank_map.strips import RankStrips
from gpumon.tui.look.theme import look_of
from gpumon.tui.widgets.map.glyphs import changed_stretches, glyph_strip
from gpumon.tui.widgets.text.strips import line_strip

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.events import Click, Resize

    from gpumon.report.facts.tick_index import RankRow
    from gpumon.report.fleet_map.lines import Glyph
    from gpumon.report.text.cells import Line

    Maker = Callable[[tuple[int, int]], RankStrips | RankMap | None]


class RankChart(ScrollView, inherit_bindings=False):
    """A drawing of ranks with a cursor that keeps to its rank."""

    DEFAULT_CSS = """
    RankChart { height: 1fr; width: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }
    """
    can_focus = True

    class Opened(Message):
        """A cell was clicked on while the cursor was on it."""

    class Moved(Message):
        """The cursor is on another cell."""

    def __init__(self, make: Maker) -> None:
        """`make` makes the drawing for so many cells and lines; None: there is nothing."""
        super().__init__()
        self.drawing: RankStrips | RankMap | None = None
        self.notice: Sequence[Line] = ()
        """Shown in place of the drawing while there is none."""
        self.back = 0
        """Slots between the newest and the one that the cursor is on."""
        self._make = make
        self._key: str | None = None
        self._images: dict[int, tuple[Glyph, ...]] = {}
        self._placed: tuple[int, str | None, int] | None = None
        """Of which drawing and key the position is known, and what it is."""

    def on_unmount(self) -> None:
        """Let go of the job's ranks: a dead widget stays for a while."""
        self.drawing, self._placed, self._images = None, None, {}

    # What is shown

    def update_drawing(self, notice: Sequence[Line]) -> None:
        """Draw again and repaint what differs; without a drawing the text is shown."""
        self.notice = notice
        if not self.size:
            # Before the first layout: placing thousands of ranks would be for nothing.
            return
        size = (max(1, self.size.width - 1), self.size.height)
        had, self.drawing = self.drawing, self._make(size)
        self._placed = None
        if self.drawing is None or had is None:
            self._images = {}
            self.refresh()
        height = 0 if self.drawing is None else self.drawing.height
        if height != self.virtual_size.height:
            self.virtual_size = Size(0, height)
            self.refresh()
        self._scroll_to_cursor()
        self._redraw_changed()

    def on_resize(self, _event: Resize) -> None:
        """Make the drawing for the new size."""
        self.update_drawing(self.notice)
        self.post_message(self.Moved())

    @property
    def rank(self) -> int:
        """Position of the rank that the cursor is on; the first where a filter hides its own."""
        drawing, key = self.drawing, self._key
        if self._placed is None or self._placed[:2] != (id(drawing), key):
            # Every line in sight asks, and thousands of ranks are gone through for the answer.
            self._placed = (id(drawing), key, _place(drawing, key))
        return self._placed[2]

    @property
    def current(self) -> RankRow | None:
        """The rank that the cursor is on; of those that share a line the one that it shows."""
        drawing, rank = self.drawing, self.rank
        if drawing is None or self._spot() is None:
            return None
        if isinstance(drawing, RankStrips):
            rank = drawing.shown(rank, self.back)
        return drawing.rows[rank]

    def _spot(self) -> tuple[int, int] | None:
        drawing = self.drawing
        if isinstance(drawing, RankStrips):
            return drawing.spot(self.rank, self.back)
        return None if drawing is None else drawing.spot(self.rank)

    @property
    def _cell_height(self) -> int:
        """Lines of one rank."""
        return self.drawing.shape.height if isinstance(self.drawing, RankMap) else 1

    @property
    def _reach(self) -> tuple[int, int]:
        """What the cursor reverses, from the start of a cell on."""
        if not isinstance(self.drawing, RankMap):
            return 0, 1
        shape = self.drawing.shape
        # A single character is seen by the blanks around it.
        return (-1, 2) if shape.width == 1 and shape.step > 1 else (0, shape.width)

    # Drawing

    def _image(self, line: int) -> tuple[Glyph, ...]:
        made = self._images.get(line)
        if made is None:
            drawing = self.drawing
            assert drawing is not None
            if isinstance(drawing, RankStrips):
                made = drawing.line(line, self.rank)
            else:
                styles = look_of(self).map
                made = drawing.line(
                    line, self.rank, has_colour=styles.has_grounds, has_areas=styles.has_areas
                )
            self._images[line] = made
        return made

    def _redraw_changed(self) -> None:
        before, self._images = self._images, {}
        if self.drawing is None:
            return
        top = self.scroll_offset.y
        for line in range(top, min(self.drawing.height, top + self.size.height)):
            new, old = self._image(line), before.get(line)
            if old is None or len(old) != len(new):
                self.refresh(Region(0, line - top, self.size.width, 1))
            elif new != old:
                for first, last in changed_stretches(old, new):
                    self.refresh(Region(first, line - top, last - first + 1, 1))

    def render_line(self, y: int) -> Strip:
        """One line of the drawing, or of the text in its place."""
        look, width = look_of(self), self.size.width
        if self.drawing is None:
            return line_strip(self.notice[y] if y < len(self.notice) else (), width, look)
        line = self.scroll_offset.y + y
        if line >= self.drawing.height:
            return Strip.blank(width, look.base)
        spot, marked = self._spot(), range(0)
        if spot is not None and spot[0] <= line < spot[0] + self._cell_height:
            before, after = self._reach
            marked = range(spot[1] + before, spot[1] + after)
        return glyph_strip(self._image(line), width, look.map, look.base, marked)

    # Cursor

    def begin_at(self, row: RankRow | None) -> None:
        """Put the cursor on this rank unless it is on one already."""
        if self._key is None and row is not None:
            self._key = row.key

    @property
    def page(self) -> int:
        """Lines in sight."""
        return max(1, self.size.height)

    def go(self, across: int, down: int) -> None:
        """Move the cursor to the right and down, the other way for negative numbers."""
        drawing = self.drawing
        if isinstance(drawing, RankStrips):
            most = len(drawing.slots.columns) - 1
            self._put(drawing.moved(self.rank, down), max(0, min(most, self.back - across)))
        elif drawing is not None:
            self._put(drawing.moved(self.rank, across, down), self.back)

    def go_to_end(self, *, is_last: bool) -> None:
        """Put the cursor on the first or the last rank."""
        ranks = self.drawing.ranks if self.drawing is not None else ()
        if ranks:
            self._put(ranks[-1 if is_last else 0], self.back)

    def _put(self, rank: int, back: int) -> None:
        before = self._spot()
        if self.drawing is not None and rank < len(self.drawing.rows):
            self._key = self.drawing.rows[rank].key
        self.back = back
        self._scroll_to_cursor()
        for spot in (before, self._spot()):
            if spot is not None:
                self._images.pop(spot[0], None)
                top, height = spot[0] - self.scroll_offset.y, self._cell_height
                self.refresh(Region(0, top, self.size.width, height))
        self.post_message(self.Moved())

    def _scroll_to_cursor(self) -> None:
        spot = self._spot()
        if spot is None:
            return
        top, line = self.scroll_offset.y, spot[0]
        # The heading and the peers' band above the first rank come into sight with it.
        above = 0 if line <= self.page // 2 else line
        wanted = max(min(top, above if line < top or above == 0 else top), line - self.page + 1)
        if wanted != top:
            self._images = {}
            self.scroll_to(y=wanted, animate=False, force=True)

    # Mouse

    def on_click(self, event: Click) -> None:
        """A cell takes the cursor; the cell with the cursor opens."""
        drawing, line = self.drawing, self.scroll_offset.y + event.y
        if isinstance(drawing, RankStrips):
            found = drawing.under(line, event.x)
        else:
            rank = drawing.under(line, event.x) if drawing is not None else None
            found = None if rank is None else (rank, self.back)
        if found is None:
            return
        # A click means the line, of which the cursor's rank need not be the first.
        if isinstance(drawing, RankStrips):
            is_here = drawing.spot(*found) == self._spot()
        else:
            is_here = found[0] == self.rank
        if is_here:
            self.post_message(self.Opened())
        else:
            self._put(*found)


def _place(drawing: RankStrips | RankMap | None, key: str | None) -> int:
    """Position of the rank with this key; the first one where it is not shown."""
    if drawing is None:
        return 0
    own = (at for at, row in enumerate(drawing.rows) if row.key == key)
    at = None if key is None else next(own, None)
    if at is not None:
        # Of ranks that share a line each is on it.
        if isinstance(drawing, RankStrips):
            is_shown = drawing.spot(at, 0) is not None
        else:
            is_shown = at in drawing.ranks
        if is_shown:
            return at
    return next(iter(drawing.ranks), 0)
