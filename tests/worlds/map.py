"""What the map of a fleet is made of, found at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.report.facts.tick_index import Digest
from gpumon.report.fleet_map.all_nodes import FleetMarks
from gpumon.report.fleet_map.columns import FleetColumns
from gpumon.report.fleet_map.groups import clusters
from gpumon.report.fleet_map.layout import fitting
from gpumon.report.fleet_map.lines import glyphs
from gpumon.report.fleet_map.map import MapMarks, units
from gpumon.report.fleet_map.marks import FIELDS
from gpumon.report.fleet_map.numbered_nodes import roster_of
from tests.worlds.steps import outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.model.records.tick import Tick
    from gpumon.report.fleet_map.lines import Glyph
    from gpumon.report.fleet_map.marks import MapField

FIELD = {field.key: field for field in FIELDS}


def columns_of(digest: Digest, before: FleetColumns | None = None) -> FleetColumns:
    roster = outcome(roster_of(digest, before.roster if before else None))
    return outcome(FleetColumns(digest, roster).complete(before))


def fleet_marks(digest: Digest, field: MapField, before: FleetMarks | None = None) -> FleetMarks:
    columns = columns_of(digest, before.columns if before else None)
    return outcome(FleetMarks(columns, field).complete())


def text(row: Sequence[Glyph]) -> str:
    """A line of the map as it reads without colours."""
    return "".join(glyph.char for glyph in row).rstrip()


def drawn(
    tick: Tick,
    field: str = "verdict",
    width: int = 80,
    height: int = 15,
    *,
    is_mean: bool = False,
    has_colour: bool = True,
) -> list[str]:
    """The lines of the map of a tick by partition, as they read without colours."""
    digest = Digest(tick)
    marks = MapMarks(digest, FIELD[field])
    grouped = clusters(digest, units(digest), "partition")
    layout = fitting(grouped, width, height, has_colour=has_colour)
    return [
        text(glyphs(marks, layout, line, is_mean=is_mean, has_colour=has_colour))
        for line in layout.lines
    ]
