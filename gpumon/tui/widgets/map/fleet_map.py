"""The map of the fleet: draws the lines in sight, and of them only the stretches that changed."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gpumon.report.fleet_map.density import allowed, marked_cells
from gpumon.report.fleet_map.groups import GROUPINGS
from gpumon.report.fleet_map.layout import MapLayout, fitting
from gpumon.report.fleet_map.lines import glyphs, redraw_node
from gpumon.report.fleet_map.marks import FIELDS
from gpumon.tui.look.theme import look_of
from gpumon.tui.textual_private.repaint import PlainLines
from gpumon.tui.widgets.map.glyphs import changed_stretches, glyph_strip
from gpumon.tui.widgets.map.map_steps import Arranged, Asked, MapDesk
from gpumon.tui.widgets.text.strips import line_strip
from gpumon.tui.widgets.text.time_slices import Slices, last_input, last_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from textual.events import Click, MouseMove, Resize

    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.fleet_map.all_nodes import FleetMarks
    from gpumon.report.fleet_map.density import DensityName, Spot
    from gpumon.report.fleet_map.groups import Cluster
    from gpumon.report.fleet_map.lines import Glyph
    from gpumon.report.fleet_map.map import Unit
    from gpumon.report.fleet_map.marks import MapField
    from gpumon.report.text.cells import Line


class FleetMap(PlainLines, ScrollView, inherit_bindings=False):
    """Every GPU of the fleet, with a cursor that keeps to its GPU."""

    DEFAULT_CSS = """
    FleetMap { height: 1fr; width: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }
    """
    can_focus = True

    class Opened(Message):
        """A cell was clicked on while the cursor was on it."""

    class Moved(Message):
        """The cursor or the mouse is on another cell."""

    def __init__(
        self,
        on_shown: Callable[[], None] = lambda: None,
        prepare: Callable[[Digest], Iterable[None]] = lambda _digest: (),
    ) -> None:
        """Begin with nothing to draw.

        Args:
            on_shown: Called with every tick that is drawn.
            prepare: Steps that make it quick to call.
        """
        super().__init__()
        self._on_shown, self._prepare = on_shown, prepare
        self.slices = Slices(self.set_timer, typed_s=last_key(self), heard_s=last_input(self))
        self.field: MapField = FIELDS[0]
        self.grouping = GROUPINGS[0]
        self.is_mean = False
        self.density: DensityName | None = None
        """What the user chose; None: the closest look that fits."""
        self.notice: Sequence[Line] = ()
        """Drawn in place of the map while there is nothing to draw."""
        self.marks: FleetMarks | None = None
        self.layout_now: MapLayout | None = None
        self.hovered: Spot | None = None
        self._desk = MapDesk()
        self._asked: Asked | None = None
        self._clusters: tuple[Cluster, ...] = ()
        self._place: tuple[object, ...] = ()
        self._cursor: tuple[str, int] | None = None
        self._images: dict[int, list[Glyph]] = {}
        self._coming: set[int] = set()
        """Lines that are made again, but not yet."""

    def on_unmount(self) -> None:
        """Let go of the fleet: a dead widget stays for a while."""
        self.slices.drop()
        self.marks, self.layout_now, self._asked = None, None, None
        self._desk, self._clusters, self._images = MapDesk(), (), {}

    # What is shown

    def show(
        self,
        digest: Digest,
        passes: Callable[[Digest, Unit], bool] | None,
        *,
        is_large: bool = False,
    ) -> None:
        """Show this tick, of it the nodes that `passes` lets through; a large one in slices."""
        old = self._asked
        is_new_choice = old is None or old.digest is digest or old.passes is not passes
        self._asked = Asked(digest, passes, is_large)
        # What is under way goes on, else ticks would keep slow work from ever coming to an end.
        if is_large and not is_new_choice and not self.slices.is_busy:
            self.slices.run_later(self._steps(), lambda: None)
        elif is_new_choice or not self.slices.is_busy:
            self._begin(self._asked)

    def _begin(self, asked: Asked) -> None:
        self.slices.run(self._steps(), lambda: None)
        if not asked.is_large:
            self.slices.finish()

    def _steps(self) -> Iterator[None]:
        """Make ticks ready until the newest is shown."""
        shown: Asked | None = None
        while (asked := self._asked) is not None and asked is not shown:
            made = yield from self._desk.steps(asked, self.field, self.grouping)
            shown = asked
            yield from self._prepare(asked.digest)
            yield from self._take(made)

    def _take(self, made: Arranged) -> Iterator[None]:
        """Draw a tick that is ready, line by line where much of it is new."""
        before, self.marks = self.marks, made.marks
        self._clusters = made.clusters
        is_new = self._arrange()
        if is_new and self.layout_now is not None:
            yield from self._redraw_lines(self._in_sight(), self._on_shown)
            return
        self._on_shown()
        if not is_new:
            yield from self._redraw_changed(before)

    def set_notice(self, notice: Sequence[Line]) -> None:
        """Show this text while there is nothing to draw."""
        if notice != self.notice:
            self.notice = notice
            if not self._clusters:
                self.refresh()

    def _arrange(self) -> bool:
        """Place the groups on the screen, and keep the cursor on its GPU; whether all is new."""
        if not self._clusters:
            if self.layout_now is not None:
                self.layout_now, self._images, self._place = None, {}, ()
                self.virtual_size = Size(0, 0)
                self.refresh()
            return True
        width, height = self.size.width, self.size.height
        if not width or not height:
            # Before the first layout: placing ten thousand nodes would be for nothing.
            return True
        has_colour = look_of(self).map.has_areas
        place = (id(self._clusters), width, height, self.density, has_colour)
        if place == self._place:
            return False
        self._place = place
        like = self.layout_now
        if self.density is None:
            made = fitting(self._clusters, width, height, has_colour=has_colour, like=like)
        else:
            made = MapLayout(self._clusters, width, self.density, like=like)
        if made.height > height:
            made = MapLayout(self._clusters, width - 1, made.density, like=made)
        self.layout_now = made
        self.virtual_size = Size(0, made.height)
        self._images = {}
        self.hovered = None
        if self._cursor is None or made.find(*self._cursor) is None:
            self._cursor = (self._clusters[0].units[0].name, 0)
        self._scroll_to_cursor()
        self.refresh()
        return True

    def on_resize(self, _event: Resize) -> None:
        """Place everything for the new size, and report the cells that it has room for."""
        if self.marks is not None and self._arrange():
            self.post_message(self.Moved())

    # Drawing

    def _image(self, line: int) -> list[Glyph]:
        made = self._images.get(line)
        if made is None:
            assert self.marks is not None
            assert self.layout_now is not None
            layout = self.layout_now
            made = self._images[line] = list(
                glyphs(
                    self.marks,
                    layout,
                    layout.line(line),
                    is_mean=self.is_mean,
                    has_colour=look_of(self).map.has_areas,
                )
            )
        return made

    def _in_sight(self) -> range:
        """Numbers of the lines that can be seen."""
        assert self.layout_now is not None
        top = self.scroll_offset.y
        return range(top, min(len(self.layout_now.lines), top + self.size.height))

    def _redraw_changed(self, before: FleetMarks | None = None) -> Iterator[None]:
        """Redraw what differs in sight, a line a step; only the tick differs from `before`."""
        layout, marks = self.layout_now, self.marks
        if layout is None or marks is None:
            self._images = {}
            return
        lines = self._in_sight()
        old = {line: image for line, image in self._images.items() if line in lines}
        self._images = old
        nodes = None
        if before is not None and len(old) == len(lines) and layout.density != "numbers":
            nodes = marks.changed_since(before, is_by_node=layout.is_by_node, is_mean=self.is_mean)
        if nodes is not None:
            self._redraw_nodes(marks.roster.units[node] for node in nodes)
            # They show what their groups lose, which changes without any node.
            headings = [n for n in lines if not (at := layout.line(n)).blocks and not at.is_gap]
            yield from self._redraw_lines(headings)
        else:
            yield from self._redraw_lines(lines)

    def _redraw_lines(
        self, lines: Sequence[int], first: Callable[[], None] | None = None
    ) -> Iterator[None]:
        """Make these lines again, one a step; until then each stays as it was, or empty.

        Args:
            lines: Their numbers.
            first: What is done before, in a step of its own.
        """
        self._coming = set(lines)
        try:
            if first is not None:
                yield
                first()
                yield
            for line in lines:
                was = self._images.pop(line, None)
                self._coming.discard(line)
                now = self._image(line)
                if was is not None and len(was) == len(now):
                    self._redraw_stretches(line, changed_stretches(was, now))
                elif line in (in_sight := self._in_sight()):
                    self.refresh(Region(0, line - in_sight.start, self.size.width, 1))
                yield
        finally:
            # Who leaves off here has drawn these of another tick.
            for line in self._coming:
                self._images.pop(line, None)
            self._coming = set()

    def _redraw_nodes(self, changed: Iterable[Unit]) -> None:
        """Draw these nodes again, as far as they are in sight: most lines stay as they are."""
        layout, marks, lines = self.layout_now, self.marks, self._in_sight()
        assert layout is not None
        assert marks is not None
        has_colour = look_of(self).map.has_areas
        old: dict[int, list[Glyph]] = {}
        for unit in changed:
            number = layout.line_of(unit.name)
            if number is None or number not in lines:
                continue
            row = self._image(number)
            old.setdefault(number, list(row))
            block = layout.block(unit.name)
            assert block is not None
            redraw_node(
                row, marks, layout, layout.line(number), block, is_mean=self.is_mean,
                has_colour=has_colour,
            )  # fmt: skip
        for number, was in old.items():
            self._redraw_stretches(number, changed_stretches(was, self._images[number]))

    def _redraw_stretches(self, line: int, stretches: list[tuple[int, int]]) -> None:
        for first, last in stretches:
            y = line - self.scroll_offset.y
            self.refresh(Region(first, y, last - first + 1, 1))

    def render_line(self, y: int) -> Strip:
        """One line of the map, or of the notice."""
        look, width = look_of(self), self.size.width
        if self.layout_now is None or self.marks is None:
            return line_strip(self.notice[y] if y < len(self.notice) else (), width, look)
        line = self.scroll_offset.y + y
        is_coming = line in self._coming and line not in self._images
        if is_coming or line >= len(self.layout_now.lines):
            return Strip.blank(width, look.base)
        found = self._found()
        marked = range(0)
        if found is not None and found[0] == line:
            marked = marked_cells(self.layout_now.density, found[1].x)
        return glyph_strip(self._image(line), width, look.map, look.base, marked)

    # Cursor

    def _found(self) -> tuple[int, Spot] | None:
        if self.layout_now is None or self._cursor is None:
            return None
        return self.layout_now.find(*self._cursor)

    @property
    def current(self) -> Spot | None:
        """What the cursor is on."""
        found = self._found()
        return found[1] if found else None

    @property
    def page(self) -> int:
        """Lines in sight."""
        return max(1, self.size.height)

    def go_beside(self, steps: int) -> None:
        """Move the cursor to the right, to the left for negative numbers."""
        if self.layout_now is not None and self._cursor is not None:
            self._go(self.layout_now.beside(*self._cursor, steps))

    def go_below(self, steps: int) -> None:
        """Move the cursor down, up for negative numbers."""
        if self.layout_now is not None and self._cursor is not None:
            self._go(self.layout_now.below(*self._cursor, steps))

    def go_to_end(self, *, is_last: bool) -> None:
        """Put the cursor on the first or on the last cell."""
        if self._clusters:
            unit = self._clusters[-1].units[-1] if is_last else self._clusters[0].units[0]
            slot = unit.size - 1 if is_last and not self._is_by_node else 0
            self._put(unit.name, slot)

    @property
    def _is_by_node(self) -> bool:
        return self.layout_now is not None and self.layout_now.is_by_node

    def _go(self, found: tuple[int, Spot] | None) -> None:
        if found is not None:
            self._put(found[1].unit.name, found[1].slot)

    def _put(self, name: str, slot: int) -> None:
        self._redraw_cursor()
        self._cursor = (name, slot)
        self.hovered = None
        self._scroll_to_cursor()
        self._redraw_cursor()
        self.post_message(self.Moved())

    def _redraw_cursor(self) -> None:
        found = self._found()
        if found is not None:
            self.refresh(Region(0, found[0] - self.scroll_offset.y, self.size.width, 1))

    def _scroll_to_cursor(self) -> None:
        found = self._found()
        if found is None:
            return
        top, line = self.scroll_offset.y, found[0]
        # The heading above a group's first line comes into sight with it.
        wanted = min(max(0, line - 1) if line <= top else top, line)
        wanted = max(wanted, line - self.page + 1)
        if wanted != top:
            self.scroll_to(y=wanted, animate=False, force=True)

    # What is shown, and how close

    def redraw(self) -> None:
        """Draw what was chosen again: field, grouping, density."""
        if (asked := self._asked) is None:
            return
        if asked.is_large:
            # The line on top says at once what was chosen.
            self.slices.hold(self._steps(), lambda: None)
            self.call_after_refresh(self.slices.begin)
        else:
            self._begin(asked)
        self.post_message(self.Moved())

    def redraw_closer(self) -> None:
        """Draw what is shown by another density, or by another value of a node."""
        if self.marks is not None and not self._arrange():
            deque(self._redraw_changed(), 0)
        self.post_message(self.Moved())

    def zoom(self, steps: int) -> None:
        """Closer, or wider for negative numbers, and keep it so."""
        if self.layout_now is None:
            return
        names = allowed(has_colour=look_of(self).map.has_areas)
        at = names.index(self.layout_now.density) - steps
        self.density = names[max(0, min(len(names) - 1, at))]
        self.redraw_closer()

    # Mouse

    def _under(self, x: int, y: int) -> Spot | None:
        layout = self.layout_now
        return layout.at(x, self.scroll_offset.y + y) if layout is not None else None

    def on_mouse_move(self, event: MouseMove) -> None:
        """Report the cell under the mouse."""
        spot = self._under(event.x, event.y)
        if spot != self.hovered:
            self.hovered = spot
            self.post_message(self.Moved())

    def on_leave(self) -> None:
        """Report the cursor's cell again."""
        if self.hovered is not None:
            self.hovered = None
            self.post_message(self.Moved())

    def on_click(self, event: Click) -> None:
        """A cell takes the cursor; the cell with the cursor opens."""
        spot = self._under(event.x, event.y)
        if spot is None:
            return
        if self._cursor == (spot.unit.name, spot.slot):
            self.post_message(self.Opened())
        else:
            self._put(spot.unit.name, spot.slot)
