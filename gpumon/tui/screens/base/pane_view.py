"""A table of the fleet, and beside or below it what is known of the row under the cursor."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from gpumon.tui.screens.base.fleet_view import FleetView
from gpumon.tui.widgets.table.split import Pane, Split

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from gpumon.report.text.cells import Line

R = TypeVar("R")


class PaneView(FleetView[R], Generic[R]):
    """A table that gives its rows' page a part of a large screen."""

    def __init__(self) -> None:
        super().__init__()
        self.pane = Pane()
        self.split = Split(self.grid, self.pane)

    @abstractmethod
    def share(self) -> None:
        """Give the pane its place, or none."""

    @abstractmethod
    def pane_lines(self, width: int, height: int) -> Sequence[Line] | None:
        """What the pane shows in its room; None: what it shows still holds."""

    def parts(self) -> ComposeResult:
        """The table, and the pane."""
        for part in super().parts():
            yield self.split if part is self.grid else part

    def draw(self) -> None:
        """The rows, then the one under the cursor."""
        self.share()
        super().draw()
        self._draw_pane()

    def on_grid_settled(self) -> None:
        """Also the one under the cursor; textual calls what the table does for it by itself."""
        self._draw_pane()

    def on_moved(self) -> None:
        """The cursor is on another row."""
        self._draw_pane()

    def on_pane_resized(self) -> None:
        """There is room now, or other room."""
        self._draw_pane()

    def _draw_pane(self) -> None:
        width, height = self.pane.room
        if not height:
            return
        lines = self.pane_lines(width, height)
        if lines is not None:
            self.pane.show_lines(lines)
