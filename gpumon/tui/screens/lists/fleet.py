"""The whole fleet on one screen: a cell per GPU or per node, above it the headline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.report.facts.rows import GpuRow
from gpumon.report.filter.bind import row_filter
from gpumon.report.filter.tree import FilterError
from gpumon.report.fleet_map.density import allowed
from gpumon.report.fleet_map.groups import GROUPINGS, following
from gpumon.report.fleet_map.legend import density_words, legend, legend_glyphs, spot_words, untold
from gpumon.report.fleet_map.marks import FIELDS, STATES
from gpumon.report.lists.subjects import of_scope
from gpumon.report.tables.gpu import FLEET_COLUMNS, fleet_search_text
from gpumon.report.text.cells import Cell, Tone, fit, paragraph
from gpumon.report.wording.paragraphs import all_errors, error_lines
from gpumon.tui.actions.registry import bindings_of
from gpumon.tui.look.theme import look_of
from gpumon.tui.screens.base.column_filter import ColumnFiltered
from gpumon.tui.screens.base.root_view import RootView
from gpumon.tui.widgets.map.fleet_map import FleetMap
from gpumon.tui.widgets.map.glyphs import GlyphLines
from gpumon.tui.widgets.text.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult

    from gpumon.report.facts.columns import Column
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.fleet_map.density import DensityName
    from gpumon.report.fleet_map.map import Unit
    from gpumon.report.next_steps.commands import Subject
    from gpumon.report.text.cells import Line


LARGE: Final = 2_000
"""Nodes from which on a map takes longer to draw than a key may: its frame is painted first."""


_LARGE_PERIOD_S: Final = 1.9
"""Such a map is drawn every other second at most: each time hundreds of its cells have changed."""


class MapView(RootView, ColumnFiltered):
    """The headline, the map, what its signs mean, and what the cursor is on."""

    view = "fleet"
    BINDINGS = bindings_of("fleet")

    def __init__(self) -> None:
        super().__init__()
        self.map = FleetMap(self._write_around, self.steps_before)
        self.head = Lines(id="head")
        self.legend = GlyphLines()
        self.details = Lines(is_bar=True, id="details")
        self._is_framed = False
        self._needle = ""
        self._trouble: FilterError | None = None
        self._unit_filter: Callable[[Digest, Unit], bool] | None = None
        self._passes: Callable[[Digest, GpuRow], bool] = lambda _digest, _row: True
        self._shown: object = None
        """What the map was drawn for, beside the tick."""

    def body(self) -> FleetMap:
        """The cells; above and below them are lines of text."""
        return self.map

    def parts(self) -> ComposeResult:
        """The headline, the map, its legend, the cell under the cursor."""
        self._draw_as_before()
        yield self.head
        yield from super().parts()
        yield self.legend
        yield self.details

    def _draw_as_before(self) -> None:
        """Take the field, the grouping and the size of cells that were chosen last."""
        app, drawn = self.gpumon, self.map
        drawn.field = next((f for f in FIELDS if f.key == app.map_field), drawn.field)
        drawn.grouping = next((g for g in GROUPINGS if g == app.map_grouping), drawn.grouping)
        names = allowed(has_colour=app.look.map.has_areas)
        drawn.density = next((name for name in names if name == app.map_density), None)
        drawn.redraw()

    def _save_drawing(self) -> None:
        self.gpumon.map_field, self.gpumon.map_grouping = self.map.field.key, self.map.grouping
        self.gpumon.map_density = self.map.density
        self.gpumon.save_habits()

    def trail(self) -> tuple[str, ...]:
        """What is drawn, and by what it is put together."""
        return ("fleet", f"{self.map.field.title} by {self.map.grouping}")

    def amount(self) -> str:
        """How much a cell is."""
        layout = self.map.layout_now
        if layout is None:
            return ""
        return f"{density_words(layout, self.map.field, is_mean=self.map.is_mean)} "

    def help_columns(self) -> Sequence[tuple[str, str]]:
        """What each field says, and its signs."""
        signs = [(mark.sign, mark.words) for mark in STATES]
        return [*signs, *((field.title, field.doc) for field in FIELDS)]

    # Drawing

    def draw(self) -> None:
        """Hand the tick to the map."""
        width = max(20, self.size.width - 2)
        digest = self.digest
        if digest is None:
            self.head.show_lines([])
            self.details.show_lines([()])
            text = "Waiting for the first sample"
            if self.gpumon.watched:
                text += f" of {self.gpumon.watched}"
            self.map.set_notice([(), *_indented(paragraph(f"{text} …", width, Tone.DIM))])
            return
        if not self._is_framed and len(digest.tick.nodes) >= LARGE:
            text = f"Drawing {len(digest.tick.nodes):,} nodes …"
            self.map.set_notice([(), *_indented(paragraph(text, width, Tone.DIM))])
            return
        is_large = len(digest.tick.nodes) >= LARGE
        if is_large and self._is_fresh(digest):
            return
        self._shown = (self._passes, self.size)
        self.map.show(digest, self._unit_filter, is_large=is_large)

    def _is_fresh(self, digest: Digest) -> bool:
        """Whether what is drawn is hardly older than a tick of the present, and all else is."""
        marks = self.map.marks
        is_same = self._shown == (self._passes, self.size)
        if marks is None or not is_same or not self.gpumon.travel.is_live:
            return False
        return 0.0 <= digest.tick.at - marks.digest.tick.at < _LARGE_PERIOD_S

    def _write_around(self) -> None:
        """Write around the map what goes with the tick that it has drawn."""
        marks = self.map.marks
        if marks is None:
            return
        digest, width = marks.digest, max(20, self.size.width - 2)
        lines = self.headline_lines(digest, width)
        self.head.show_lines(_indented(lines[: max(2, self.size.height // 5)]))
        if self.map.layout_now is None:
            self.map.set_notice(self._notice(digest, width))
        self._explain()

    def on_mount(self) -> None:
        """Draw a large map once its frame is on the screen."""
        self.call_after_refresh(self._fill)

    def _fill(self) -> None:
        self._is_framed = True
        if self.map.marks is None:
            self.show(self.gpumon.digest)

    def _explain(self) -> None:
        """Write the legend and the line about the cell under the mouse or the cursor."""
        marks, layout = self.map.marks, self.map.layout_now
        spot = self.map.hovered or self.map.current
        if marks is None or layout is None or spot is None:
            self.legend.show_row(())
            self.details.show_lines([()])
            return
        width = self.size.width
        signs = legend(marks.digest, marks.field, marks.seen())
        has_colour = look_of(self.map).map.has_areas
        more = untold(marks.digest, marks.field)
        self.legend.show_row(legend_glyphs(signs, width, has_colour=has_colour, untold=more))
        words = spot_words(marks, layout, spot, is_mean=self.map.is_mean)
        self.details.show_lines([(Cell(fit(f" {words}", width), Tone.PLAIN),)])

    def _notice(self, digest: Digest, width: int) -> list[Line]:
        """Why there is no map."""
        if self._needle:
            text = f"No GPU passes “{self._needle}”. Esc clears the filter."
            return [(), *_indented(paragraph(text, width))]
        lines: list[Line] = [(), *_indented(paragraph("No GPU is known.", width, Tone.STRONG))]
        for words in (
            "e shows what the targets report; gpumon doctor checks this machine.",
            "gpumon slurm reads a Slurm cluster, gpumon demo shows a simulated one.",
        ):
            lines += _indented(paragraph(words, width, Tone.PLAIN, "→ ", "  "))
        errors = all_errors(digest.tick)
        if errors:
            lines += [(), *_indented(error_lines(errors, width, most=5))]
        return lines

    def on_fleet_map_moved(self) -> None:
        """Explain another cell."""
        self._explain()
        self.draw_frame()

    # Filter

    def filter_columns(self) -> Sequence[Column[GpuRow]]:
        """Those of the GPUs of all nodes."""
        return FLEET_COLUMNS

    def needle(self) -> str:
        """The filter at work, of which the columns of the GPUs are the words."""
        return self._needle

    def filter_trouble(self) -> FilterError | None:
        """What is wrong with the filter that was typed last."""
        return self._trouble

    def apply_needle(self, needle: str) -> None:
        """Show only nodes with a GPU that passes; what is wrong leaves them as they are."""
        try:
            self._passes = row_filter(needle, FLEET_COLUMNS, fleet_search_text)
        except FilterError as error:
            self._trouble = error
            return
        self._needle, self._trouble = needle, None
        # A new function with every filter: that is how the map knows it for another one.
        self._unit_filter = (lambda *given: self._unit_passes(*given)) if needle else None
        self.draw()

    def _unit_passes(self, digest: Digest, unit: Unit) -> bool:
        """Whether one of a node's GPUs, or the node that shows none, passes the filter."""
        node = digest.tick.nodes[unit.name]
        known = [digest.tick.gpus.get(uuid) for uuid in node.gpu_uuids] or [None]
        return any(self._passes(digest, GpuRow(node, gpu)) for gpu in known)

    # Actions

    def subject_here(self) -> Subject | None:
        """The GPU of the cell, or its node."""
        spot, layout, marks = self.map.current, self.map.layout_now, self.map.marks
        if spot is None or layout is None or marks is None:
            return None
        digest = marks.digest
        uuids = digest.tick.nodes[spot.unit.name].gpu_uuids
        if layout.is_by_node or spot.slot >= len(uuids):
            return of_scope(digest, f"node:{spot.unit.name}")
        return of_scope(digest, f"gpu:{uuids[spot.slot]}")

    def action_open_cell(self) -> None:
        """Open the GPU, or the node where a cell is a node or telemetry names no GPU."""
        spot, layout, marks = self.map.current, self.map.layout_now, self.map.marks
        if spot is None or layout is None or marks is None:
            return
        node = marks.digest.tick.nodes[spot.unit.name]
        if layout.is_by_node or spot.slot >= len(node.gpu_uuids):
            self.open_node(node.name)
        else:
            self.open_gpu(node.gpu_uuids[spot.slot])

    def on_fleet_map_opened(self) -> None:
        """A click on the cursor opens."""
        self.action_open_cell()

    def action_node(self) -> None:
        """The node of the cell."""
        spot = self.map.current
        if spot is not None:
            self.open_node(spot.unit.name)

    def action_leave(self) -> None:
        """Clear the filter, else go back one level."""
        self.action_back()

    def action_cell_left(self) -> None:
        """Move the cursor to the GPU on the left."""
        self.map.go_beside(-1)

    def action_cell_right(self) -> None:
        """Move the cursor to the GPU on the right."""
        self.map.go_beside(1)

    def action_down(self) -> None:
        """One cell down."""
        self.map.go_below(1)

    def action_up(self) -> None:
        """One cell up."""
        self.map.go_below(-1)

    def action_page_down(self) -> None:
        """Move the cursor as many lines of cells down as are on screen."""
        self.map.go_below(self.map.page)

    def action_page_up(self) -> None:
        """Move the cursor as many lines of cells up as are on screen."""
        self.map.go_below(-self.map.page)

    def action_top(self) -> None:
        """To the first cell."""
        self.map.go_to_end(is_last=False)

    def action_bottom(self) -> None:
        """To the last cell."""
        self.map.go_to_end(is_last=True)

    def action_field(self) -> None:
        """Draw the next field."""
        self._show_field(1)

    def action_field_back(self) -> None:
        """Draw the previous field."""
        self._show_field(-1)

    def _show_field(self, steps: int) -> None:
        at = FIELDS.index(self.map.field) + steps
        self.map.field = FIELDS[at % len(FIELDS)]
        self._redraw()

    def _redraw(self) -> None:
        """Draw what was chosen, and say so in the frame that comes before a large map."""
        self.map.redraw()
        self.draw_frame()
        self._save_drawing()

    def action_grouping(self) -> None:
        """Put the nodes together by something else."""
        marks = self.map.marks
        if marks is not None:
            # The nodes as they are numbered for the map: no other tick has them listed again.
            units, may_have_domain = marks.roster.units, marks.columns.may_have_domain
            self.map.grouping = following(marks.digest, units, self.map.grouping, may_have_domain)
        self._redraw()

    def action_mean(self) -> None:
        """The worst of a node's GPUs, or their mean."""
        layout = self.map.layout_now
        if layout is not None and not layout.is_by_node:
            self.report("a cell is a GPU: Z makes it a node")
            return
        self.map.is_mean = not self.map.is_mean
        self.map.redraw_closer()

    def action_closer(self) -> None:
        """Larger cells."""
        self._zoom(1, "the cells are as large as they get")

    def action_wider(self) -> None:
        """Smaller cells."""
        self._zoom(-1, "the cells are as small as they get")

    def _zoom(self, steps: int, why_not: str) -> None:
        before = self._density()
        self.map.zoom(steps)
        if before is not None and self._density() == before:
            self.report(why_not)
        self._save_drawing()

    def _density(self) -> DensityName | None:
        layout = self.map.layout_now
        return None if layout is None else layout.density

    def action_as_at_first(self) -> None:
        """The closest look that fits."""
        if self.map.density is None:
            self.report("these are already the largest cells that show everything")
        self.map.density = None
        self.map.redraw_closer()
        self._save_drawing()


def _indented(lines: Sequence[Line]) -> list[Line]:
    return [(Cell(" "), *line) for line in lines]
