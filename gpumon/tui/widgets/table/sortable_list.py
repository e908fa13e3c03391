"""By which column the rows of a table are in order, and which one the next key sorts by."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from gpumon.report.facts.columns import Sorting
from gpumon.tui.textual_private.repaint import LongList
from gpumon.tui.widgets.table import column_layout

if TYPE_CHECKING:
    from gpumon.report.facts.columns import Placed
    from gpumon.tui.widgets.table.table_spec import Plan

R = TypeVar("R")


class SortableList(LongList, Generic[R], inherit_bindings=False):
    """Lines in the order of a column."""

    sorting: Sorting
    _placed: tuple[Placed[R], ...]

    @property
    @abstractmethod
    def plan(self) -> Plan[R]:
        """What the table shows of its rows."""

    @abstractmethod
    def _arrange(self) -> None:
        """Put the rows in order."""

    @abstractmethod
    def _set_sorting(self, sorting: Sorting) -> None:
        """Sort as the user wants."""

    @property
    def _shown_sorting(self) -> Sorting:
        """What the titles say: at first the column that leads the order then."""
        sorting = self.sorting
        if sorting.key is not None or not self._placed:
            return sorting
        plan = self.plan
        return Sorting(plan.led_by, sorting.is_descending == plan.is_rising)

    def sort_as_before(self, sorting: Sorting) -> None:
        """Sort as the user chose earlier, unless the table no longer has that column."""
        if sorting == self.sorting:
            return
        keys = {None} | {c.key for c in self.plan.columns if c.order is not None}
        if sorting.key in keys:
            self.sorting = sorting
            self._arrange()

    def sort_next(self) -> None:
        """Sort by the next column that is on screen and has an order, in the end as at first."""
        self.sort_by(column_layout.key_after(self._placed, self._sorted_by_now))

    @property
    def _sorted_by_now(self) -> str | None:
        """The column by which rows are in order: at first its own where it is the leftmost."""
        if self.sorting.key is not None:
            return self.sorting.key
        first = column_layout.key_after(self._placed, None)
        return first if first == self.plan.led_by else None

    def sort_aside(self, steps: int) -> None:
        """Sort by the column so many to the right on screen, the last followed by the first."""
        key = column_layout.key_aside(self._placed, self._sorted_by_now, steps)
        if key is not None:
            self.sort_by(key)

    def sort_by(self, key: str | None) -> None:
        """Sort by a column, the second time the other way; None: as at first."""
        if key is not None and key == self.sorting.key:
            self.reverse()
            return
        column = next((c for c in self.plan.columns if c.key == key), None)
        self._set_sorting(Sorting(key, column.is_descending if column else False))

    def reverse(self) -> None:
        """Reverse the order."""
        self._set_sorting(Sorting(self.sorting.key, not self.sorting.is_descending))
