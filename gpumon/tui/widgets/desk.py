"""The rows of a table on their way to the screen: in first order, filtered, sorted, in steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from gpumon.tui.widgets.arranging import kept_steps, sorted_steps
from gpumon.tui.widgets.plan import Plan, RowShelf, Sorting

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from gpumon.report.digest import Digest

R = TypeVar("R")


class Asked(NamedTuple, Generic[R]):
    """A picture that is to be shown."""

    digest: Digest
    rows: Callable[[], Sequence[R]]
    prepare: Callable[[Digest], Iterable[None]]
    """Steps that make `rows` cheap to call."""


class Desk(Generic[R]):
    """Arranges rows, and keeps what the next key may need again of the same picture."""

    def __init__(self, plan: Plan[R]) -> None:
        self.ready: Asked[R] | None = None
        """The newest picture whose rows are in their first order."""
        self._given: Sequence[R] = ()
        self.all: Sequence[R] = ()
        """Every row of that picture, in its first order."""
        self._sorted: tuple[Sorting, Sequence[R]] | None = None
        self._shelf: RowShelf[R] = RowShelf(plan)
        self.search = self._shelf.search
        self._orders = {c.key: c.order for c in plan.columns if c.order is not None}

    def steps(
        self,
        asked: Asked[R],
        sorting: Sorting,
        keeps: Callable[[Digest, R], bool] | None,
        found: list[R],
    ) -> Generator[None, None, Sequence[R]]:
        """The rows that pass, in order.

        Args:
            asked: The picture.
            sorting: By which column.
            keeps: Whether a row passes; None: all do.
            found: Takes those at the top as soon as they are known to be there.
        """
        if asked is not self.ready:
            yield from self._take(asked)
        digest = asked.digest
        whole = self._whole(sorting)
        if whole is not None:
            if keeps is None:
                return whole
            yield from kept_steps(whole, lambda row: keeps(digest, row), found)
            return found
        rows = self.all
        if keeps is not None:
            passing: list[R] = []
            yield from kept_steps(rows, lambda row: keeps(digest, row), passing)
            rows = passing
        order = self._orders[sorting.key or ""]
        rows = yield from sorted_steps(rows, lambda row: order(digest, row), sorting.is_descending)
        if keeps is None:
            self._sorted = (sorting, rows)
        return rows

    def _take(self, asked: Asked[R]) -> Generator[None, None, None]:
        """Put the rows of another picture in their first order."""
        yield from asked.prepare(asked.digest)
        rows = asked.rows()
        before = self.ready
        if before is None or before.digest is not asked.digest or rows is not self._given:
            self.all = yield from self._shelf.in_first_order(asked.digest, rows)
            self._given, self._sorted = rows, None
        self.ready = asked

    def _whole(self, sorting: Sorting) -> Sequence[R] | None:
        """All rows in an order that need not be found any more."""
        if sorting.key not in self._orders:
            return self.all[::-1] if sorting.is_descending else self.all
        kept = self._sorted
        return kept[1] if kept is not None and kept[0] == sorting else None
