"""What the tables of the whole fleet share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from gpumon.tui.screens.base.root_view import RootView, stale_queue_lines
from gpumon.tui.screens.base.table_view import TableView

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Line

R = TypeVar("R")


class FleetView(RootView, TableView[R], Generic[R]):
    """A table that belongs to the cycle of Tab."""

    @property
    def _is_whole(self) -> bool:
        """Whether it lists the whole fleet's."""
        return self.trail() == (self.root,)

    def steps_before(self, digest: Digest) -> Iterable[None]:
        """Nothing where there is no headline."""
        return super().steps_before(digest) if self._is_whole else ()

    def head_lines(self, digest: Digest, width: int) -> list[Line]:
        """The headline; of a part of the fleet only what is wrong with the tick as a whole."""
        if not self._is_whole:
            return stale_queue_lines(digest, width)
        return self.headline_lines(digest, width)

    def no_queue_words(self, digest: Digest) -> tuple[str, ...]:
        """Why no queue reports anything; empty where one has answered."""
        tick = digest.tick
        if tick.queue_at is not None:
            return ()
        if any("slurm" in target.url for target in tick.targets):
            from gpumon.report.wording.paragraphs import all_errors

            why = "could not be read" if all_errors(tick) else "has not answered yet"
            return (f"The queue {why}.", "Tab shows the other views.")
        return (
            f"No {self.noun}: none of the targets is a queue.",
            "Tab shows the other views.",
            "gpumon slurm reads a Slurm cluster, gpumon demo shows a simulated one.",
        )
