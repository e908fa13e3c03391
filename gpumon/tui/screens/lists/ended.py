"""The jobs that have ended, asked of the accounting when somebody opens the view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.report.pages.ended import ended_lines
from gpumon.report.tables.ended import ENDED_COLUMNS, ended_order, ended_search_text
from gpumon.report.text import units
from gpumon.report.text.cells import Tone, paragraph
from gpumon.report.wording.ended import ended_title, window_words
from gpumon.sources.source import Wish
from gpumon.tui.actions.registry import bindings_of
from gpumon.tui.screens.base.fleet_view import FleetView
from gpumon.tui.widgets.table.grid import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.model.records.accounting import EndedJob
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Line

WINDOW_S: Final = 86_400.0
"""How far back the accounting is asked: a day is what people remember, and a bounded answer."""


class EndedView(FleetView["EndedJob"]):
    """One line per run that has ended."""

    view = "ended"
    BINDINGS = bindings_of("ended")
    noun = "ended jobs"
    plan = Plan(
        ENDED_COLUMNS,
        lambda ended: ended.run_key,
        ended_order,
        ended_search_text,
        led_by="ended",
        is_rising=True,
    )

    def __init__(self) -> None:
        super().__init__()
        self._is_asked = False

    def on_mount(self) -> None:
        """Ask the accounting, once there is a tick whose time is known."""
        self._ask_once()

    def show(self, digest: Digest | None) -> None:
        """Show a tick; ask with the first one."""
        super().show(digest)
        self._ask_once()

    def _ask_once(self, *, is_by_hand: bool = False) -> None:
        if self._is_asked or self.digest is None:
            return
        self._is_asked = True
        since = self.digest.tick.at - WINDOW_S
        self.gpumon.wish(Wish(ended_since=since, is_by_hand=is_by_hand))

    def rows(self, digest: Digest) -> Sequence[EndedJob]:
        """What the accounting answered."""
        return digest.tick.ended.jobs if digest.tick.ended else ()

    def head_lines(self, digest: Digest, width: int) -> list[Line]:
        """How many ended, since when, and how old the answer is."""
        lines = super().head_lines(digest, width)
        found = digest.tick.ended
        if found is None:
            return lines
        age = units.short_duration(digest.tick.at - found.at)
        text = f"{ended_title(found)}; asked {age} ago, r asks again"
        return [*lines, *paragraph(text, width, Tone.DIM)]

    def amount(self) -> str:
        """How many ended; nothing before the first answer, as nobody knows yet."""
        has_answer = self.digest is not None and self.digest.tick.ended is not None
        return super().amount() if has_answer else ""

    def empty_words(self, digest: Digest) -> tuple[str, ...]:
        """No queue, no answer yet, or nothing ended."""
        if words := self.no_queue_words(digest):
            return words
        found = digest.tick.ended
        if found is None and self.gpumon.travel.is_recorded:
            return (
                "A recording has no answers of the accounting, so ended jobs are not known.",
                "B shows what became of the GPU time of all jobs that it saw.",
            )
        if found is None:
            window = units.span(WINDOW_S)
            return (
                f"No answer yet: the accounting is asked for the jobs of the last {window}.",
                "e shows why, if it cannot be read.",
            )
        return (f"No job has ended {window_words(found)}.", "r asks again.")

    def action_refresh(self) -> None:
        """Ask the accounting again."""
        self._is_asked = False
        self._ask_once(is_by_hand=True)
        super().action_refresh()

    def open_row(self, row: EndedJob) -> None:
        """All that the accounting reports of the job."""

        def entries(digest: Digest | None, width: int) -> list[list[Line]]:
            return ended_lines(digest, row, width)

        heading = f"{row.job.label} {row.job.name}"
        self.app.push_screen(self.gpumon.views.page(heading, self.trail(), entries))
