"""A long view in sections: a cursor, a jump to each section, and only visible lines are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gpumon.report.text.cells import Cell, Line, Tone
from gpumon.tui.look.theme import look_of
from gpumon.tui.widgets.text.strips import changed_cells, line_strip, merged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.events import Click

    from gpumon.report.tables.sections import Entry, Section


class _Drawn(NamedTuple):
    """One line on the screen."""

    line: Line
    section: int
    """Number of its section; 0: before the first."""
    entry: Entry | None = None
    """What the cursor can be on; None: a title or a blank."""
    is_title: bool = False


class Sections(ScrollView, inherit_bindings=False):
    """Sections one below the other."""

    DEFAULT_CSS = """
    Sections { height: 1fr; width: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }
    """
    can_focus = True

    class Opened(Message):
        """The line with the cursor was clicked."""

    def __init__(self) -> None:
        super().__init__()
        self.needle = ""
        self.notice: Sequence[Line] = ()
        """Drawn while there are no sections."""
        self._sections: Sequence[Section] = ()
        self._lines: list[_Drawn] = []
        self._cursor = 0
        self._cursor_key: str | None = None
        self._here = 1
        """Number of the section that was gone to last."""

    # What is shown

    def show(self, sections: Sequence[Section], notice: Sequence[Line] = ()) -> None:
        """Show these sections, or the notice where there are none."""
        self._sections, self.notice = sections, notice
        self._arrange()

    def set_needle(self, needle: str) -> None:
        """Show only lines that contain this text, in either case."""
        self.needle = needle.lower()
        self._arrange()

    def _arrange(self) -> None:
        before, cursor = self._lines, self._cursor
        self._lines = self._drawn()
        self._follow()
        if len(before) != len(self._lines) or not self._lines:
            self.virtual_size = Size(0, len(self._lines))
            self.refresh()
            return
        top, (width, height) = self.scroll_offset.y, self.size
        regions: list[Region] = []
        for index in range(top, min(len(self._lines), top + height)):
            moved = cursor != self._cursor and index in (cursor, self._cursor)
            old, new = before[index], self._lines[index]
            if moved or old.is_title != new.is_title:
                regions.append(Region(0, index - top, width, 1))
                continue
            first, end = changed_cells(old.line, new.line)
            if end > first:
                regions.append(Region(first, index - top, end - first, 1))
        if regions:
            self.refresh(*regions)

    def _drawn(self) -> list[_Drawn]:
        lines: list[_Drawn] = []
        number = 0
        for section in self._sections:
            if section.title:
                number += 1
            passing = section.filtered(self.needle)
            if passing is None:
                continue
            if section.title:
                if lines:
                    lines.append(_Drawn((), number))
                title = Cell(f" {number} {section.title}", Tone.STRONG)
                note = Cell(f"  {section.note}", section.note_tone)
                lines.append(_Drawn((title, note), number, None, is_title=True))
            if section.head and passing.entries:
                lines.append(_Drawn(section.head, number))
            lines += [
                _Drawn(merged(entry.line), number, entry if section.title else None)
                for entry in passing.entries
            ]
        return lines

    def _follow(self) -> None:
        """Keep the cursor on its entry, else on the nearest."""
        entries = self._stops()
        if not entries:
            self._cursor = 0
            return
        if self._cursor_key is None:
            self._cursor = entries[0]
            return
        at = next((i for i in entries if self._key(i) == self._cursor_key), None)
        self._cursor = min(entries, key=lambda i: abs(i - self._cursor)) if at is None else at

    def _stops(self) -> list[int]:
        """Lines that the cursor can be on."""
        return [index for index, drawn in enumerate(self._lines) if drawn.entry is not None]

    def _key(self, index: int) -> str:
        drawn = self._lines[index]
        return f"{drawn.section}/{drawn.entry.key}" if drawn.entry else ""

    @property
    def current(self) -> Entry | None:
        """What the cursor is on."""
        return self._lines[self._cursor].entry if self._cursor < len(self._lines) else None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to show."""
        return not self._lines

    # Drawing

    def render_line(self, y: int) -> Strip:
        """One line of the sections, or of the notice."""
        width, look = self.size.width, look_of(self)
        if not self._lines:
            line = self.notice[y] if y < len(self.notice) else ()
            return line_strip(line, width, look)
        index = self.scroll_offset.y + y
        if index >= len(self._lines):
            return Strip.blank(width, look.base)
        drawn = self._lines[index]
        has_cursor = index == self._cursor and drawn.entry is not None
        mark = look.cursor if has_cursor else look.bar if drawn.is_title else None
        return line_strip(drawn.line, width, look, mark)

    # Cursor

    def move_by(self, steps: int) -> None:
        """Move the cursor by entries, up for negative numbers."""
        entries = self._stops()
        if not entries:
            self.scroll_to(y=self.scroll_offset.y + steps, animate=False)
            return
        at = entries.index(self._cursor) if self._cursor in entries else 0
        self._put(entries[max(0, min(len(entries) - 1, at + steps))])

    def move_page(self, pages: int) -> None:
        """Move by whole screens, the cursor with it."""
        height = max(1, self.size.height - 1)
        entries = self._stops()
        if not entries:
            return
        wanted = self._cursor + pages * height
        self._put(min(entries, key=lambda index: abs(index - wanted)))

    def move_to_end(self, is_last: bool) -> None:
        """Put the cursor on the first or the last entry."""
        entries = self._stops()
        if entries:
            self._put(entries[-1 if is_last else 0])

    @property
    def count(self) -> int:
        """How many sections have a number, those that a filter leaves out as well."""
        return sum(1 for section in self._sections if section.title)

    def jump(self, number: int) -> bool:
        """Bring a section to the top; one that is not there leaves all as it is, and is False."""
        title = next(
            (i for i, d in enumerate(self._lines) if d.is_title and d.section == number), None
        )
        if title is None:
            return False
        inside = (i for i in self._stops() if self._lines[i].section == number)
        at = next(inside, None)
        if at is None:
            # Nothing in it for the cursor, which goes to the nearest line.
            at = min(self._stops(), key=lambda index: abs(index - title), default=None)
        if at is not None:
            self._put(at)
        self._here = number
        self.scroll_to(y=title, animate=False, force=True)
        return True

    def jump_by(self, steps: int) -> None:
        """To the next section, or back for negative numbers."""
        numbers = [drawn.section for drawn in self._lines if drawn.is_title]
        if not numbers:
            return
        here = self._here
        later = [number for number in numbers if number > here]
        earlier = [number for number in numbers if number < here]
        if steps > 0 and later:
            self.jump(later[0])
        elif steps < 0:
            self.jump(earlier[-1] if earlier else numbers[0])

    def _put(self, index: int) -> None:
        old, self._cursor = self._cursor, index
        self._cursor_key = self._key(index)
        self._here = self._lines[index].section
        top, height = self.scroll_offset.y, max(1, self.size.height)
        wanted = min(index, max(top, index - height + 1))
        if index == self._stops()[0]:
            # What is above the first entry would otherwise be out of reach.
            wanted = 0
        if wanted != top:
            self.scroll_to(y=wanted, animate=False, force=True)
        for line in (old, index):
            self.refresh(Region(0, line - self.scroll_offset.y, self.size.width, 1))

    def on_click(self, event: Click) -> None:
        """A click moves the cursor; on the cursor it opens."""
        index = self.scroll_offset.y + event.y
        if index >= len(self._lines) or self._lines[index].entry is None:
            return
        if index == self._cursor and self._cursor_key is not None:
            self.post_message(self.Opened())
        else:
            self._put(index)
