"""What the views with a table share: cursor, sorting, filter, and the states of a table."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

from gpumon.report.facts.columns import Sorting
from gpumon.report.text.cells import Cell, Tone, paragraph
from gpumon.tui.actions.action import JOBS
from gpumon.tui.screens.base.column_filter import ColumnFiltered
from gpumon.tui.status import progress_words
from gpumon.tui.widgets.table.grid import Grid, Plan
from gpumon.tui.widgets.text.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from textual.app import ComposeResult

    from gpumon.model.fault import SourceError
    from gpumon.report.facts.columns import Column
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.filter.tree import FilterError
    from gpumon.report.next_steps.commands import Subject
    from gpumon.report.text.cells import Line

R = TypeVar("R")

_FRAME: Final = 4
"""Lines that neither facts nor rows have: the bars above and below, and the titles of columns."""

LARGE: Final = 2_000
"""GPUs and jobs from which on a view is painted before its rows are arranged."""


class TableView(ColumnFiltered, Generic[R]):
    """Facts on top, a table below."""

    plan: ClassVar[Plan]  # type: ignore[type-arg]
    noun: ClassVar[str] = "rows"
    noun_of_one: ClassVar[str] = ""
    """What one of them is called; empty: the same without its last letter."""
    has_other_lines: ClassVar[bool] = False
    """Whether a line may be more or less than one of them: then lines are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.grid: Grid[R] = Grid(self.planned)
        self.head = Lines(id="head")
        self._is_of_own = False
        """Whether the rows at hand are only those of one's own jobs."""

    def planned(self) -> Plan[R]:
        """What the table shows of its rows; asked for the first time for the first rows."""
        return self.plan

    def body(self) -> Grid[R]:
        """What takes keys."""
        return self.grid

    def parts(self) -> ComposeResult:
        """Facts, then the table."""
        self.grid.choose(self.gpumon.chosen_columns.get(self.view))
        self.grid.sort_as_before(self.gpumon.sortings.get(self.view, Sorting()))
        yield self.head
        yield from super().parts()

    # To be given by each view

    @abstractmethod
    def rows(self, digest: Digest) -> Sequence[R]:
        """What there is a line for, in any order: the grid sorts and filters."""

    def wanted_rows(self, digest: Digest) -> Sequence[R]:
        """The rows to arrange: all, or those of one's own jobs."""
        rows = self.rows(digest)
        if not self.is_narrowed:
            return rows
        # Imported here, because it knows the rows of every table, and the first screen needs none.
        from gpumon.report.lists.own_rows import own_rows

        return own_rows(digest, rows, self.gpumon.own_user)

    @property
    def is_narrowed(self) -> bool:
        """Whether only rows of one's own jobs are shown."""
        return self.view in JOBS and self.gpumon.is_mine

    def row_steps(self, _digest: Digest) -> Iterable[None]:
        """Steps that make `rows` quick where it would keep keys waiting."""
        return ()

    @abstractmethod
    def head_lines(self, digest: Digest, width: int) -> list[Line]:
        """Facts above the table."""

    @abstractmethod
    def empty_words(self, digest: Digest) -> tuple[str, ...]:
        """Why there is nothing to show, and what to try."""

    def errors_behind(self, digest: Digest) -> Sequence[SourceError]:
        """What failed and may be why there is nothing to show."""
        from gpumon.report.wording.paragraphs import all_errors

        return all_errors(digest.tick)

    def help_columns(self) -> Sequence[tuple[str, str]]:
        """Those of the table."""
        return [(column.title, column.doc) for column in self.grid.plan.columns]

    # Drawing

    def draw(self) -> None:
        """Hand the tick's rows to the table."""
        width = max(20, self.size.width - 2)
        digest = self.digest
        if digest is None:
            self.head.show_lines([])
            self.grid.set_notice(self._waiting(width))
            return
        self.draw_head()
        self._is_of_own = self.is_narrowed
        self.grid.show(
            digest, lambda: self.wanted_rows(digest), self.row_steps, is_large=_is_large(digest)
        )
        self._note_absence(digest, width)

    def draw_head(self) -> None:
        """Write what is above the table."""
        if (digest := self.digest) is not None:
            lines = self.head_lines(digest, max(20, self.size.width - 2))
            self.head.show_lines(self._bounded(lines, digest))

    def rows_below(self, _digest: Digest) -> int | None:
        """Lines of a table that is known to be short; None: it takes what it gets."""
        return None

    def _bounded(self, lines: list[Line], digest: Digest) -> list[Line]:
        """At most two fifths of the screen, or what a short table leaves, for the facts."""
        most = max(4, self.size.height * 2 // 5)
        below = self.rows_below(digest)
        if below is not None:
            most = max(most, self.size.height - _FRAME - below)
        indented = [(Cell(" "), *line) for line in lines]
        if len(indented) <= most:
            return indented
        more = len(indented) - most + 1
        text = f" … {more} more lines: f shows the findings, a larger terminal shows all"
        return [*indented[: most - 1], (Cell(text, Tone.DIM),)]

    def _waiting(self, width: int) -> list[Line]:
        progress = self.gpumon.mood.progress
        if progress is not None:
            return [(), *_indented(paragraph(progress_words(progress), width, Tone.INFO))]
        text = "Waiting for the first sample"
        if self.gpumon.watched:
            text += f" of {self.gpumon.watched}"
        return [(), *_indented(paragraph(f"{text} …", width, Tone.DIM))]

    def _note_absence(self, digest: Digest, width: int) -> None:
        """Give the table what it says in place of rows, once it has none."""
        if not self.grid.shown[0]:
            self.grid.set_notice(self._notice(digest, width))

    def _notice(self, digest: Digest, width: int) -> list[Line]:
        """What to say in place of rows: filtered away, failed, or empty."""
        shown, known = self.grid.shown
        if self.grid.is_counting:
            return []
        if self.is_narrowed and not known and self.rows(digest):
            text = f"None of the {self.noun} here belongs to {self.gpumon.own_user}. u shows all."
            return [(), *_indented(paragraph(text, width))]
        if known and not shown:
            from gpumon.report.filter.parser import is_word

            verb = "contains" if is_word(self.needle()) else "passes"
            noun = "lines" if self.has_other_lines else self.noun
            text = f"None of {known} {noun} {verb} “{self.needle()}”. Esc clears the filter."
            return [(), *_indented(paragraph(text, width))]
        from gpumon.report.wording.empty_states import nothing_lines

        return nothing_lines(digest, self.empty_words(digest), width, self.errors_behind(digest))

    def amount(self) -> str:
        """`12 of 40 jobs`, and how they are sorted."""
        shown, known = self.grid.shown
        count = f"{shown} of {known}" if shown != known else str(known)
        if self.grid.is_counting:
            count = f"… of {known}" if known else "…"
        noun = (self.noun_of_one or self.noun.removesuffix("s")) if known == 1 else self.noun
        return f"{count} {noun} " if self.digest else ""

    # Filter

    def needle(self) -> str:
        """The row filter at work."""
        return self.grid.needle

    def filter_trouble(self) -> FilterError | None:
        """What is wrong with the filter that was typed last."""
        return self.grid.trouble

    def filter_columns(self) -> Sequence[Column[R]]:
        """All of the table, also those that are not shown."""
        return self.grid.plan.columns

    def apply_needle(self, needle: str) -> None:
        """Show only rows that pass this filter; one that is wrong leaves them as they are."""
        self.grid.set_needle(needle)
        if self.digest is not None:
            self._note_absence(self.digest, max(20, self.size.width - 2))

    def on_grid_settled(self) -> None:
        """Say how many rows there are, now that they are counted."""
        if self.digest is not None:
            self._note_absence(self.digest, max(20, self.size.width - 2))
        self.draw_frame()

    def on_screen_resume(self) -> None:
        """Catch up, also with columns that were chosen meanwhile."""
        self.grid.choose(self.gpumon.chosen_columns.get(self.view))
        super().on_screen_resume()
        self.grid.uncover()
        if self._is_of_own != self.is_narrowed:
            self.show(self.digest)

    def on_screen_suspend(self) -> None:
        """Leave the time to what lies above."""
        self.grid.cover()

    # Actions

    def subject_here(self) -> Subject | None:
        """What the row is about, else what the view is."""
        from gpumon.report.lists.subjects import of_row

        row, digest = self.grid.current, self.digest
        found = of_row(digest, row) if digest is not None and row is not None else None
        return found or super().subject_here()

    def table_maker(self, form: str) -> Callable[[], str] | None:
        """Writes the columns and rows that are in view, those below the edge included."""
        from gpumon.report.lists.export import as_csv, as_json

        digest = self.digest
        if digest is None:
            return None
        return partial(as_csv if form == "csv" else as_json, digest, *self.grid.table)

    def action_columns(self) -> None:
        """Choose columns."""
        views = self.gpumon.views
        self.app.push_screen(views.columns(self.view, self.grid.plan.columns, self.trail()))

    def action_open(self) -> None:
        """Open what the cursor is on."""
        row = self.grid.current
        if row is not None:
            self.open_row(row)

    def open_row(self, row: R) -> None:
        """Show what Enter opens on a row; nothing unless a view has something."""

    def on_grid_sort_changed(self) -> None:
        """Remember the order for the next table of this kind."""
        self.gpumon.sortings[self.view] = self.grid.sorting
        self.gpumon.save_habits()

    def on_grid_opened(self) -> None:
        """A click on the cursor opens."""
        self.action_open()

    def action_down(self) -> None:
        """Down one line."""
        self.grid.move_by(1)

    def action_up(self) -> None:
        """Up one line."""
        self.grid.move_by(-1)

    def action_page_down(self) -> None:
        """Move the cursor as many rows down as are on screen."""
        self.grid.move_page(1)

    def action_page_up(self) -> None:
        """Move the cursor as many rows up as are on screen."""
        self.grid.move_page(-1)

    def action_top(self) -> None:
        """To the first line."""
        self.grid.move_to(0)

    def action_bottom(self) -> None:
        """To the last line."""
        self.grid.move_to_end()

    def action_mine(self) -> None:
        """Only one's own jobs, or all again."""
        self.gpumon.is_mine = not self.gpumon.is_mine
        self.show(self.digest)

    def action_next_problem(self) -> None:
        """To the next row that needs attention."""
        self._go_to_problem(1)

    def action_previous_problem(self) -> None:
        """To the one before."""
        self._go_to_problem(-1)

    def _go_to_problem(self, steps: int) -> None:
        from gpumon.report.lists.problems import next_problem, problems_of

        digest, row = self.digest, self.grid.current
        if digest is None or row is None:
            self.report("no row here has a finding that warns")
            return
        met, rows = self.gpumon.met, self.grid.rows
        met |= {finding.identity for finding in problems_of(digest, row)}
        index = next_problem(digest, rows, self.grid.cursor, met, steps)
        if index is None:
            # A mark may also be of its node, or of what a finding is not yet made of.
            among = "of your rows" if self.is_narrowed else "row"
            self.report(f"no other {among} has a finding of its own that warns")
            return
        self.grid.move_to(index)
        met |= {finding.identity for finding in problems_of(digest, rows[index])}
        # What is no longer listed may come back, and is new then.
        met &= {finding.identity for finding in digest.tick.findings}

    def action_sort(self) -> None:
        """Sort by the next column."""
        self.grid.sort_next()

    def action_sort_left(self) -> None:
        """Sort by the column to the left."""
        self.grid.sort_aside(-1)

    def action_sort_right(self) -> None:
        """Sort by the column to the right."""
        self.grid.sort_aside(1)

    def action_reverse(self) -> None:
        """Reverse the order."""
        self.grid.reverse()

    def action_sort_waste(self) -> None:
        """Sort by what was wasted, the most on top, however it was sorted before."""
        wanted = Sorting("wasted_gpu_s", True)
        if self.grid.sorting != wanted:
            self.grid.sort_by(wanted.key)

    def action_as_at_first(self) -> None:
        """Sort as at first."""
        if self.grid.sorting == Sorting():
            self.report("already in the original order")
        self.grid.sort_by(None)


def _is_large(digest: Digest) -> bool:
    return len(digest.tick.gpus) + len(digest.tick.jobs) > LARGE


def _indented(lines: list[Line]) -> list[Line]:
    return [(Cell(" "), *line) for line in lines]
