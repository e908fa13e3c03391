"""The ranks of a job: each over time beside its peers, or all of them as a map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from gpumon.report.facts.rank_groups import rank_groups
from gpumon.report.filter.bind import row_filter
from gpumon.report.filter.tree import FilterError
from gpumon.report.lists.subjects import of_row
from gpumon.report.rank_map.legend import (
    amount_words,
    faulty_words,
    number_words,
    rank_legend,
    rank_numbers,
    rank_words,
)
from gpumon.report.rank_map.map import RankMap
from gpumon.report.rank_map.marks import (
    MAP_FIELDS,
    STRIP_FIELDS,
    faulty_rank,
    finding_signs,
    first_field,
    first_slot_s,
    onset_of,
    rank_marks,
)
from gpumon.report.rank_map.slots import SLOTS_S, RankSlots
from gpumon.report.rank_map.strips import RankStrips, slot_count, time_row
from gpumon.report.tables.gpu import RANK_COLUMNS, rank_search_text
from gpumon.report.text import units
from gpumon.report.text.cells import Cell, Tone, paragraph
from gpumon.report.wording.empty_states import (
    gone_job_words,
    no_gpus_words,
    nothing_lines,
    stale_job_lines,
)
from gpumon.report.wording.paragraphs import finding_lines, first_lines
from gpumon.tui.actions.registry import bindings_of, footer_of
from gpumon.tui.look.theme import look_of
from gpumon.tui.screens.base.column_filter import ColumnFiltered
from gpumon.tui.screens.base.rank_view import RankView
from gpumon.tui.widgets.map.glyphs import GlyphLines
from gpumon.tui.widgets.map.rank_chart import RankChart
from gpumon.tui.widgets.text.lines import KeyBar, Lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult

    from gpumon.model.records.cluster import JobView
    from gpumon.report.facts.columns import Column
    from gpumon.report.facts.rank_groups import RankGroup
    from gpumon.report.facts.tick_index import Digest, RankRow
    from gpumon.report.fleet_map.marks import MapField
    from gpumon.report.next_steps.commands import Subject
    from gpumon.report.text.cells import Line


_OVER_TIME: Final = frozenset({"sort", "closer", "span"})
"""Actions of the drawing over time alone."""


class RanksScreen(RankView, ColumnFiltered):
    """A finding, the drawing with its times and signs, and what the cursor is on."""

    view = "ranks"
    BINDINGS = bindings_of("ranks")

    def __init__(self, job_id: str, label: str, trail: tuple[str, ...]) -> None:
        super().__init__()
        self.job_id = job_id
        self.label = label
        self._trail = trail
        self.mode: Literal["strips", "map"] = "strips"
        self.field: MapField | None = None
        self.slot_s: float | None = None
        self.is_by_distance = False
        self.is_whole = True
        self.head = Lines(id="head")
        self.chart = RankChart(self._drawing)
        self.axis = GlyphLines()
        self.legend = GlyphLines()
        self.details = Lines(is_bar=True, id="details")
        self._slots = RankSlots()
        self._needle = ""
        self._trouble: FilterError | None = None
        self._passes: Callable[[Digest, RankRow], bool] = lambda _digest, _row: True

    def body(self) -> RankChart:
        """The drawing."""
        return self.chart

    def parts(self) -> ComposeResult:
        """The finding, the times, the drawing, its signs, the rank under the cursor."""
        yield self.head
        yield self.axis
        yield from super().parts()
        yield self.legend
        yield self.details

    def _job(self) -> JobView | None:
        return self.digest.tick.job(self.job_id) if self.digest else None

    def trail(self) -> tuple[str, ...]:
        """Where one came from, then what is drawn."""
        title = self.field.title if self.field else "ranks"
        return (*self._trail, f"{title} of ranks" if self.mode == "map" else f"{title} over time")

    def amount(self) -> str:
        """How many ranks, what a character and a line mean, and the order."""
        drawing = self.chart.drawing
        if drawing is None:
            return ""
        parts = [amount_words(drawing.rows)]
        if isinstance(drawing, RankStrips):
            parts.append(f"{units.short_duration(drawing.slots.slot_s)} a cell")
            if self.is_by_distance:
                parts.append("by distance")
        elif drawing.shape.width > 1 and self.field is not None:
            parts.append(number_words(self.field))
        return ", ".join(parts) + " "

    # Drawing

    def draw(self) -> None:
        """Hand the drawing of the tick to the widgets."""
        width = max(20, self.size.width - 2)
        view = self._job()
        lines: list[Line] = []
        if self.digest is not None and view is not None:
            self.field = self.field or first_field(self.digest, view)
            verdict = self.digest.verdict(view)
            if verdict is not None:
                whom = faulty_words(self.digest, view, verdict)
                lines = finding_lines(self.digest.tick, verdict, width, is_full=False, whom=whom)
                self.chart.begin_at(faulty_rank(self.digest, view, verdict))
            lines = stale_job_lines(self.digest, view, width) + lines
        self.head.show_lines(_indented(first_lines(lines, max(1, self.size.height // 12), width)))
        self.chart.update_drawing(self._notice(width))
        self._explain()

    def _drawing(self, size: tuple[int, int]) -> RankStrips | RankMap | None:
        """The drawing for so many cells and lines."""
        digest, view, groups = self.digest, self._job(), self._groups()
        if digest is None or view is None or self.field is None or not groups:
            return None
        passing = self._passing(digest, groups)
        if passing is not None and not passing:
            return None
        if self.mode == "map":
            marks = rank_marks(digest, groups, self.field)
            return RankMap(groups, marks, size, passing, rank_numbers(groups, self.field))
        count = slot_count(groups, size[0])
        slot_s = self.slot_s or first_slot_s(digest, view, count)
        return RankStrips(
            groups,
            self._slots.read(digest, self.job_id, groups, self.field, slot_s, count),
            self.field,
            size,
            is_by_distance=self.is_by_distance,
            is_whole=self.is_whole,
            onset=onset_of(digest, view),
            signs=finding_signs(digest, groups),
            chosen=passing,
            has_areas=look_of(self.chart).map.has_areas,
        )

    def _groups(self) -> tuple[RankGroup, ...]:
        """The ranks by peers; none where there is nothing to draw, whatever the filter."""
        digest, view = self.digest, self._job()
        groups = () if digest is None or view is None else rank_groups(digest, view)
        return groups if any(group.rows for group in groups) else ()

    def _passing(self, digest: Digest, groups: tuple[RankGroup, ...]) -> frozenset[int] | None:
        if not self._needle:
            return None
        rows = [row for group in groups for row in group.rows]
        return frozenset(at for at, row in enumerate(rows) if self._passes(digest, row))

    def _explain(self) -> None:
        """Write the times, the signs, and the line about the rank under the cursor."""
        digest, view, drawing = self.digest, self._job(), self.chart.drawing
        is_over_time = isinstance(drawing, RankStrips)
        # Its line is taken before the first layout, which sets how large the drawing may be.
        is_to_come = not self.chart.size and self.mode == "strips" and bool(self._groups())
        self.axis.display = is_over_time or is_to_come
        if digest is None or view is None or drawing is None or self.field is None:
            self.legend.show_row(())
            self.axis.show_row(())
            self.details.show_lines([()])
            return
        width = self.size.width
        if isinstance(drawing, RankStrips):
            self.axis.show_row(time_row(drawing, onset_of(digest, view)))
        has_colour = look_of(self.chart).map.has_areas
        seen = None if is_over_time else frozenset(rank_marks(digest, drawing.groups, self.field))
        self.legend.show_row(rank_legend(self.field, seen, width, has_colour))
        row = self.chart.current
        words = "" if row is None else rank_words(digest, row, self.field, drawing, self.chart.back)
        self.details.show_lines([(Cell(f" {words}", Tone.PLAIN),)])

    def _notice(self, width: int) -> list[Line]:
        """Why there is no drawing."""
        if self.digest is None:
            return [(), *_indented(paragraph("Waiting for the first sample …", width, Tone.DIM))]
        view = self._job()
        if view is None:
            return nothing_lines(
                self.digest, gone_job_words(self.digest, self.label, self.job_id), width
            )
        if self._needle:
            text = f"No rank passes “{self._needle}”. Esc clears the filter."
        else:
            text = no_gpus_words(self.digest, view)[0]
        return [(), *_indented(paragraph(text, width, Tone.STRONG))]

    def on_rank_chart_moved(self) -> None:
        """Explain another rank."""
        self._explain()
        self.draw_frame()

    # Filter

    def filter_columns(self) -> Sequence[Column[RankRow]]:
        """Those of the job's table."""
        return RANK_COLUMNS

    def needle(self) -> str:
        """The filter at work, of which the columns of the job's table are the words."""
        return self._needle

    def filter_trouble(self) -> FilterError | None:
        """What is wrong with the filter that was typed last."""
        return self._trouble

    def apply_needle(self, needle: str) -> None:
        """Show only ranks that pass; what is wrong leaves them as they are."""
        try:
            self._passes = row_filter(needle, RANK_COLUMNS, rank_search_text)
        except FilterError as error:
            self._trouble = error
            return
        self._needle, self._trouble = needle.strip(), None
        self.draw()

    def finding_scope(self) -> str | None:
        """The job."""
        return f"job:{self.job_id}"

    def subject_here(self) -> Subject | None:
        """The rank under the cursor."""
        row = self.chart.current
        found = None if row is None or self.digest is None else of_row(self.digest, row)
        return found or super().subject_here()

    # Actions

    def _redraw(self) -> None:
        self.draw()
        self.draw_frame()

    def action_ranks(self) -> None:
        """To the map, then back to the table."""
        if self.mode == "map":
            self.app.pop_screen()
            return
        self.mode = "map"
        self.field = MAP_FIELDS[0]
        actions = footer_of(self.view)
        self.query_one(KeyBar).offer(a for a in actions if a.name not in _OVER_TIME)
        if self.axis.display:
            # The map is drawn into the room that the times leave it.
            self.axis.display = False
            self.draw_frame()
        else:
            self._redraw()

    def action_open_cell(self) -> None:
        """Open the rank's GPU."""
        row = self.chart.current
        if row is None:
            self.report(self.none_here)
        else:
            self.open_rank(row)

    def current_rank(self) -> RankRow | None:
        """The rank under the cursor."""
        return self.chart.current

    def job_trail(self) -> tuple[str, ...]:
        """Where one came from."""
        return self._trail

    def on_rank_chart_opened(self) -> None:
        """A click on the cursor opens."""
        self.action_open_cell()

    def action_leave(self) -> None:
        """Clear the filter, else go back one level."""
        self.action_back()

    def action_field(self) -> None:
        """Draw the next field."""
        self._show_field(1)

    def action_field_back(self) -> None:
        """Draw the previous field."""
        self._show_field(-1)

    def _show_field(self, steps: int) -> None:
        fields = MAP_FIELDS if self.mode == "map" else STRIP_FIELDS
        if self.field is not None:
            self.field = fields[(fields.index(self.field) + steps) % len(fields)]
            self._redraw()

    def _is_map(self) -> bool:
        """Whether a map is shown, which has no lines and no past; says so."""
        if self.mode == "map":
            self.report("the map shows this instant, by number: Tab goes on to the table")
        return self.mode == "map"

    def action_sort(self) -> None:
        """By number, or by distance from the peers."""
        if self._is_map():
            return
        self.is_by_distance = not self.is_by_distance
        self._redraw()

    def action_closer(self) -> None:
        """A line for every rank, or all in sight."""
        if self._is_map():
            return
        height = self.chart.virtual_size.height
        self.is_whole = not self.is_whole
        self._redraw()
        if self.chart.drawing is not None and self.chart.virtual_size.height == height:
            self.report("every rank already has its own line")

    def action_span(self) -> None:
        """More of the past; after the most, the least."""
        if self._is_map():
            return
        drawing = self.chart.drawing
        if isinstance(drawing, RankStrips) and self.digest is not None:
            longer = [slot for slot in SLOTS_S if slot > drawing.slots.slot_s]
            least = [slot for slot in SLOTS_S if slot >= self.digest.tick.period_s]
            self.slot_s = (longer or least or list(SLOTS_S))[0]
            self._redraw()

    def action_cell_left(self) -> None:
        """One slot back, or to the cell on the left."""
        self.chart.go(-1, 0)

    def action_cell_right(self) -> None:
        """One slot on, or to the cell on the right."""
        self.chart.go(1, 0)

    def action_down(self) -> None:
        """Down one line."""
        self.chart.go(0, 1)

    def action_up(self) -> None:
        """Up one line."""
        self.chart.go(0, -1)

    def action_page_down(self) -> None:
        """Move the cursor as many ranks down as are on screen."""
        self.chart.go(0, self.chart.page)

    def action_page_up(self) -> None:
        """Move the cursor as many ranks up as are on screen."""
        self.chart.go(0, -self.chart.page)

    def action_top(self) -> None:
        """To the first rank."""
        self.chart.go_to_end(is_last=False)

    def action_bottom(self) -> None:
        """To the last rank."""
        self.chart.go_to_end(is_last=True)


def _indented(lines: list[Line]) -> list[Line]:
    return [(Cell(" "), *line) for line in lines]
