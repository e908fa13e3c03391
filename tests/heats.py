"""What the map of a fleet is made of, found at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from gpumon.report.heat_columns import FleetColumns
from gpumon.report.heat_fleet import FleetHeat
from gpumon.report.heat_roster import roster_of
from gpumon.report.heat_totals import heat_totals

if TYPE_CHECKING:
    from collections.abc import Generator

    from gpumon.report.digest import Digest
    from gpumon.report.heat_marks import HeatField
    from gpumon.report.heat_totals import HeatTotals

T = TypeVar("T")


def outcome(steps: Generator[None, None, T]) -> T:
    """What work in steps comes to."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def columns_of(digest: Digest, before: FleetColumns | None = None) -> FleetColumns:
    roster = outcome(roster_of(digest, before.roster if before else None))
    return FleetColumns(digest, roster, before)


def fleet_heat(digest: Digest, field: HeatField, before: FleetHeat | None = None) -> FleetHeat:
    columns = columns_of(digest, before.columns if before else None)
    return outcome(FleetHeat(columns, field).complete())


def totals_of(digest: Digest) -> HeatTotals:
    return heat_totals(digest, columns_of(digest))
