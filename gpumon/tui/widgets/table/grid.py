"""The one table of the terminal: it draws the rows that are visible and nothing else."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from gpumon.report.facts.columns import Sorting, chosen_of, widened
from gpumon.tui.look.theme import look_of
from gpumon.tui.textual_private.repaint import announce
from gpumon.tui.widgets.table import column_layout
from gpumon.tui.widgets.table.column_layout import followed_steps
from gpumon.tui.widgets.table.release import release
from gpumon.tui.widgets.table.row_steps import Asked, Desk, needle_of
from gpumon.tui.widgets.table.row_strips import RowStrips
from gpumon.tui.widgets.table.sortable_list import SortableList
from gpumon.tui.widgets.table.table_spec import Moved, Plan
from gpumon.tui.widgets.table.titles import MARGIN, title_strip
from gpumon.tui.widgets.text.strips import line_strip
from gpumon.tui.widgets.text.time_slices import Slices, last_input, last_key

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from textual.events import Click

    from gpumon.report.facts.columns import Column, Placed
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.filter.tree import FilterError
    from gpumon.report.text.cells import Cell, Line

__all__ = ["MARGIN", "Grid", "Plan"]

R = TypeVar("R")


class Grid(SortableList[R], Generic[R], inherit_bindings=False):
    """Rows and columns with a cursor that keeps to its row while the order changes."""

    can_focus = True

    class Opened(Message):
        """A row was clicked on while the cursor was on it."""

    class SortChanged(Message):
        """The user sorts by another column."""

    class Settled(Message):
        """Rows that took longer than a key may wait are there."""

    def __init__(self, planned: Callable[[], Plan[R]]) -> None:
        """Nothing is looked up before there is a tick: `planned` is called for the first."""
        super().__init__()
        self._planned = planned
        self.sorting = Sorting()
        self.needle = ""
        """The row filter that is at work."""
        self.trouble: FilterError | None = None
        """What is wrong with the filter that was asked for last; then the one before goes on."""
        self.notice: Sequence[Line] = ()
        """Drawn in place of rows while there are none."""
        self.is_counting = False
        """Whether the rows that were asked for are not all there yet."""
        self.is_back = False
        """Whether the table was covered and is not painted yet, which comes before all else."""
        self.slices = Slices(self.set_timer, typed_s=last_key(self), heard_s=last_input(self))
        self._passes: Callable[[Digest, R], bool] | None = None
        self._chosen: Collection[str] | None = None
        """Keys of the columns that the user chose."""
        self._widths: Mapping[str, int] = {}
        """Cells that columns need at least for the rows that are shown."""
        self._digest: Digest | None = None
        self._all: Sequence[R] = ()
        self._asked: Asked[R] | None = None
        self._found: list[R] = []
        """The first rows that pass, while others are still tried."""
        self._first: list[R] = []
        """The same object once they are shown without being a screenful."""
        self._under_way: Asked[R] | None = None
        """What is being arranged, as long as none of it is shown."""
        self._is_late = False
        self._rows: Sequence[R] = ()
        self._cursor = 0
        self._cursor_key: str | None = None
        self._is_from_top = False
        """Whether a filter came and the cursor was not moved since: its finds begin on top."""
        self._placed: tuple[Placed[R], ...] = ()
        self._strips: RowStrips[R] = RowStrips()

    @cached_property
    def plan(self) -> Plan[R]:
        """What the table shows of its rows."""
        return self._planned()

    @cached_property
    def _desk(self) -> Desk[R]:
        return Desk(self.plan)

    @cached_property
    def _columns(self) -> Sequence[Column[R]]:
        """The chosen ones."""
        return chosen_of(self.plan.columns, self._chosen)

    def on_unmount(self) -> None:
        """Let go of the fleet: a dead widget stays for a while."""
        self.slices.drop()
        desk: Desk[R] | None = vars(self).pop("_desk", None)
        release(self.app, list(self._all), *(desk.cleared() if desk else ()))
        self._digest = self._asked = self._under_way = self._passes = None
        self._all, self._rows, self._found = (), (), []
        self._strips.clear()

    # What is shown

    def show(
        self,
        digest: Digest,
        rows: Sequence[R] | Callable[[], Sequence[R]],
        prepare: Callable[[Digest], Iterable[None]] = lambda _digest: (),
        *,
        is_large: bool = False,
    ) -> None:
        """Show these rows of this tick.

        Args:
            digest: The tick.
            rows: Its rows, or what makes them.
            prepare: Steps that make them cheap to make.
            is_large: Whether the frame should be painted before they are arranged.
        """
        before = self._asked
        self._asked = Asked(digest, rows if callable(rows) else lambda: rows, prepare)
        if before is None:
            self._replace()
        # What is under way goes on, else ticks would keep slow work from ever coming to an end.
        if self.slices.is_busy:
            return
        self.is_counting = self._digest is None
        if is_large and (self.is_back or not self.is_running):
            self._is_late = True
            self.slices.hold(self._steps(), self._show_part)
        elif is_large and before is not None and before.digest is not digest:
            self.slices.run_later(self._steps(), self._show_part)
        else:
            self._arrange()

    def uncover(self) -> None:
        """Go on with what was put off, once the table is painted as it was."""
        self.is_back = False
        if self.size:
            self.call_after_refresh(self.slices.begin)

    def cover(self) -> None:
        """Put off what is under way: what lies above is opened sooner."""
        self.is_back = True
        self.slices.pause()

    def set_needle(self, needle: str) -> None:
        """Show only rows that pass this filter; of one that is wrong, what comes before that."""
        found = needle_of(needle, self.plan.columns, self._desk.search)
        self.trouble = found.trouble
        # Of what is no whole the rows stay as they are.
        if found.text is not None:
            self._is_from_top = bool(found.text) and (
                self._is_from_top or found.text != self.needle
            )
            self.needle, self._passes = found.text, found.passes
        self.is_counting = True
        self._arrange(is_answer=True)

    def renew(self) -> None:
        """Filter and sort the same tick again: beside it, what its rows show has changed."""
        self._desk.renew()

    def choose(self, keys: Collection[str] | None) -> None:
        """Show only columns with these keys, as far as they fit; None: those shown at first."""
        if keys != self._chosen:
            self._chosen = keys
            vars(self).pop("_columns", None)
            self._replace()

    def set_notice(self, notice: Sequence[Line]) -> None:
        """Show this text while there are no rows."""
        if notice != self.notice:
            self.notice = notice
            if not self._rows:
                self.refresh()

    @property
    def current(self) -> R | None:
        """The row under the cursor."""
        return self._rows[self._cursor] if self._cursor < len(self._rows) else None

    @property
    def cursor(self) -> int:
        """The number of the row under the cursor."""
        return self._cursor

    @property
    def shown(self) -> tuple[int, int]:
        """How many rows pass the filter, and how many there are."""
        return len(self._rows), len(self._all)

    @property
    def rows(self) -> Sequence[R]:
        """The rows that pass the filter, as they are shown."""
        return self._rows

    @property
    def table(self) -> tuple[Sequence[Column[R]], Sequence[R]]:
        """The columns for a file, and the rows that pass, in order.

        Those that were chosen; else all that have something, as a file is not short of room.
        """
        self.slices.finish()
        columns = self.plan.columns if self._chosen is None else self._shown_columns
        return [column for column in columns if not column.is_drawn], self._rows

    @property
    def _shown_columns(self) -> Sequence[Column[R]]:
        """The chosen columns, and the one that rows are sorted by."""
        chosen = column_layout.with_sorted(self.plan.columns, self._columns, self.sorting.key)
        # What the user chose is shown also where it is empty.
        shown = {c.key for c in chosen} if self._chosen is not None else {self.sorting.key}
        return widened(chosen, {k: w for k, w in self._widths.items() if w or k not in shown})

    def _arrange(self, *, is_answer: bool = False) -> None:
        """Filter and sort, at once where that is quick."""
        if self._asked is None:
            self.is_counting = False
        else:
            self.slices.run(self._steps(), self._show_part, is_answer=is_answer)
            release(self.app, *self._desk.left())

    def _steps(self) -> Iterator[bool]:
        """Filter and sort until the newest tick is shown; true where there is a part to show."""
        ready = self._desk.ready
        if self.is_counting and ready is not None and ready is not self._asked:
            # A key is answered with the tick at hand, before a newer one is put in order.
            yield from self._arranged(ready)
            yield True
        shown: Asked[R] | None = None
        while (asked := self._asked) is not None and asked is not shown:
            yield from self._arranged(asked)
            shown = asked

    def _arranged(self, asked: Asked[R]) -> Iterator[bool]:
        """Filter, sort and show one tick."""
        self._under_way, self._found = asked, []
        work = self._desk.steps(asked, self.sorting, self._passes, self._found)
        rows: Sequence[R] | None = None
        while rows is None:
            try:
                next(work)
            except StopIteration as end:
                rows = end.value
            yield rows is None and self._has_part
        near = self._cursor
        if not self._is_from_top:
            near = yield from followed_steps(rows, self.plan.key, near, self._cursor_key)
        self._under_way, self.is_counting = None, False
        self._take(asked.digest, rows, near)
        if self._is_late:
            self._is_late = False
            self.post_message(self.Settled())

    @property
    def _has_part(self) -> bool:
        """Whether a screenful of what a key asked for is there, none of which is shown yet."""
        # Any less would move the cursor or scroll, only to go back in the end.
        below = max(self.scroll_offset.y + self._page, self._cursor + 1)
        needed = self._page if self._is_from_top else below
        return self.is_counting and self._under_way is not None and len(self._found) >= needed

    def _show_part(self) -> None:
        """Show a screenful of what a key asked for; of a filter's finds the first before that."""
        self._is_late = True
        if (asked := self._under_way) is None:
            return
        if self._has_part:
            self._under_way = None
            self._take(asked.digest, list(self._found))
        elif self._found and self._found is not self._first and self._is_free(asked.digest):
            self._first = self._found
            self._take(asked.digest, list(self._found))

    def _is_free(self, digest: Digest) -> bool:
        """Whether the cursor need not go from the first of a few finds to its row among others."""
        if not (self.is_counting and self._is_from_top and digest is self._digest):
            return False
        row, passes = self.current, self._passes
        if row is None or passes is None or self.plan.key(row) != self._cursor_key:
            return True
        return not passes(digest, row)

    def _take(self, digest: Digest, rows: Sequence[R], near: int | None = None) -> None:
        """Show these rows, keep the cursor on its row, which is `near`, redraw what changed."""
        if self._all is not self._desk.all:
            release(self.app, list(self._all), *self._desk.left())
        self._digest, self._all = digest, self._desk.all
        count = len(self._rows)
        was_in_view, cursor = self._is_in_view, self._cursor
        self._rows = rows
        # Who typed a filter sees what it finds from the first on, wherever the cursor was: to look
        # for that row among eighty thousand takes longer than a key may.
        at = cursor if near is None else near
        among, at = (rows[: self._page], 0) if self._is_from_top else (rows, at)
        self._cursor = column_layout.followed(among, self.plan.key, at, self._cursor_key)
        # A few finds come alone for a moment: for them the scrollbar is not taken away.
        if len(rows) >= self._page or not self.is_counting:
            self.virtual_size = Size(0, len(rows) + 1)
        if len(rows) != count:
            self._redraw_rows(*range(len(rows), min(count, self.scroll_offset.y + self._page)))
        if not rows or not count:
            self.refresh()
        if (widths := self.plan.widths(digest)) != self._widths:
            self._widths = widths
            self._replace()
        before = self._strips.renew()
        # Who has scrolled away from the cursor with the wheel is not pulled back.
        if self._is_from_top and self.scroll_offset.y > self._cursor:
            was_in_view = True
        if was_in_view and self._scroll_to_cursor():
            self.refresh()
        else:
            self._redraw_changed(before)
            if self._cursor != cursor:
                self._redraw_rows(cursor, self._cursor)
        announce(self)

    # Drawing

    def on_resize(self) -> None:
        """Share the new width among the columns; by the first layout the frame is painted."""
        self._replace()
        self.call_later(self.slices.begin)

    def watch_show_vertical_scrollbar(self) -> None:
        """Give the scrollbar its cell, or take it back."""
        self._replace()

    def _replace(self) -> None:
        if self._asked is None:
            return  # What columns there are is looked up for the first rows.
        room = self.scrollable_content_region.width - MARGIN
        before, self._placed = (
            self._placed,
            column_layout.placed(self._shown_columns, self.sorting.key, room),
        )
        if column_layout.shape_of(before) == column_layout.shape_of(self._placed):
            self.refresh(Region(0, 0, self.size.width, 1))
        else:
            self._strips.clear()
            self.refresh()
        self._scroll_to_cursor()
        announce(self)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Forget the strips of rows that were scrolled away."""
        self._strips.clear()
        super().watch_scroll_y(old_value, new_value)

    def _image(self, index: int) -> tuple[Cell, ...]:
        """The cells of one row, made once per tick."""
        assert self._digest is not None
        return self._strips.cells(index, self._placed, self._digest, self._rows[index])

    def _redraw_changed(self, before: dict[int, tuple[Cell, ...]]) -> None:
        """Redraw, of each visible row, the stretch of columns that differs from `before`."""
        if not self._placed:
            return
        top, width = self.scroll_offset.y, self.size.width
        regions: list[Region] = []
        for index in range(top, min(len(self._rows), top + self._page)):
            cells, old = self._image(index), before.get(index)
            changed = column_layout.stretch(self._placed, old, cells)
            if changed is None:
                regions.append(Region(0, index - top + 1, width, 1))
            elif changed[1]:
                regions.append(Region(changed[0] + MARGIN, index - top + 1, changed[1], 1))
            else:
                self._strips.reuse(index, old or cells)
        # Without any it would be all.
        if regions:
            self.repaint(*regions)

    def _redraw_rows(self, *indices: int) -> None:
        top, width = self.scroll_offset.y, self.size.width
        if indices:
            self.repaint(*(Region(0, index - top + 1, width, 1) for index in indices))

    def render_line(self, y: int) -> Strip:
        """The titles, a row, or a line of the notice."""
        width = self.line_width
        look = look_of(self)
        if y == 0:
            return title_strip(self._placed, self._shown_sorting, width, look)
        if not self._rows:
            line = self.notice[y - 1] if y <= len(self.notice) else ()
            return line_strip(line, width, look)
        index = self.scroll_offset.y + y - 1
        if index >= len(self._rows):
            return Strip.blank(width, look.base)
        mark = look.cursor if index == self._cursor else None
        self._image(index)
        return self._strips.line(index, self._placed, width, look, mark)

    # Cursor

    @property
    def _page(self) -> int:
        return max(1, self.size.height - 1)

    def move_by(self, lines: int) -> None:
        """Move the cursor down, up for negative numbers."""
        self.move_to(self._cursor + lines)

    def move_page(self, pages: int) -> None:
        """Move the cursor by whole pages."""
        self.move_by(pages * self._page)

    def move_to(self, index: int) -> None:
        """Put the cursor on a row, from then on it keeps to it; -1 is the last."""
        if not self._rows:
            return
        last = len(self._rows) - 1
        index = max(0, min(last, index))
        old, self._cursor = self._cursor, index
        self.post_message(Moved())
        self._cursor_key = self.plan.key(self._rows[index])
        self._is_from_top = False
        self._scroll_to_cursor()
        self._redraw_rows(old, index)

    def move_to_end(self) -> None:
        """Put the cursor on the last row."""
        self.slices.finish()
        self.move_to(len(self._rows) - 1)

    @property
    def _is_in_view(self) -> bool:
        return 0 <= self._cursor - self.scroll_offset.y < self._page

    def _scroll_to_cursor(self) -> bool:
        """Whether the table had to be scrolled to keep the cursor in sight."""
        return self.bring_into_view(self._cursor, self._page)

    # Sorting

    def _set_sorting(self, sorting: Sorting) -> None:
        self.sorting = sorting
        self._replace()
        self._arrange()
        self.post_message(self.SortChanged())

    # Mouse

    def on_click(self, event: Click) -> None:
        """A title sorts, a row takes the cursor, the row with the cursor opens."""
        if event.y == 0:
            column = column_layout.column_at(self._placed, event.x - MARGIN)
            if column is not None and column.order is not None:
                self.sort_by(column.key)
            return
        index = self.scroll_offset.y + event.y - 1
        if index >= len(self._rows):
            return
        if index == self._cursor and self._cursor_key is not None:
            self.post_message(self.Opened())
        else:
            self.move_to(index)
