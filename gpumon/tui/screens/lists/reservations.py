"""The reservations: what is set aside when and for whom, and whose jobs run into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.report.facts.reservations import reservation_rows
from gpumon.report.tables.reservation import (
    RESERVATION_COLUMNS,
    reservation_order,
    reservation_search,
    when_words,
)
from gpumon.report.text import units
from gpumon.report.text.cells import Tone, paragraph
from gpumon.tui.actions.registry import bindings_of
from gpumon.tui.screens.base.fleet_view import FleetView
from gpumon.tui.widgets.table.grid import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.report.facts.reservations import ReservationRow
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Line


class ReservationsView(FleetView["ReservationRow"]):
    """One line per reservation that is not over."""

    view = "reservations"
    BINDINGS = bindings_of("reservations")
    noun = "reservations"
    plan = Plan(
        RESERVATION_COLUMNS,
        lambda row: row.reservation.name,
        reservation_order,
        reservation_search,
        led_by="when",
        is_rising=True,
    )

    def rows(self, digest: Digest) -> Sequence[ReservationRow]:
        """Every reservation that is not over."""
        return reservation_rows(digest)

    def head_lines(self, digest: Digest, width: int) -> list[Line]:
        """Maintenance that is to come or goes on."""
        lines = super().head_lines(digest, width)
        for row in sorted(reservation_rows(digest), key=lambda r: r.reservation.start_at or 0.0):
            what = row.reservation
            if what.is_maintenance:
                text = f"maintenance {when_words(digest, what)} ({what.name})"
                count = len(row.crossing)
                if count:
                    text += f": {units.counted(count, 'job')} would run into it"
                lines += paragraph(text, width, Tone.WARN, "! ", "  ")
        return lines

    def empty_words(self, digest: Digest) -> tuple[str, ...]:
        """No queue, or nothing is set aside."""
        words = self.no_queue_words(digest)
        return words or ("The queue has no reservation.", "Tab shows the other views.")

    def open_row(self, row: ReservationRow) -> None:
        """The jobs that ask for it or cross its start."""
        self.open_group("reservation", row.reservation.name)
