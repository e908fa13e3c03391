"""The rows of a table on their way to the screen: in first order, filtered, sorted, in steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from gpumon.tui.widgets.table.arranging import RUN, containing_steps, passing_steps, sorted_steps
from gpumon.tui.widgets.table.table_spec import Plan, RowShelf

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from gpumon.report.facts.columns import Column, Sorting
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.filter.tree import FilterError
    from gpumon.tui.widgets.table.release import Held

R = TypeVar("R")


class Needle(NamedTuple, Generic[R]):
    """A filter as far as it can be understood."""

    text: str | None
    """The filter to be at work; None: the one before."""
    passes: Callable[[Digest, R], bool] | None
    """Whether a row passes; None: every row does."""
    trouble: FilterError | None
    """What is wrong with the filter that was typed."""


def needle_of(
    typed: str, columns: Sequence[Column[R]], search: Callable[[Digest, R], str]
) -> Needle[R]:
    """The filter; of one that is wrong, what comes before that."""
    if not typed.strip():
        return Needle("", None, None)
    # Imported for the first filter, not for the first screen.
    from gpumon.report.filter.tree import FilterError

    try:
        return _whole(typed, columns, search, None)
    except FilterError as error:
        head = typed[: max(typed.rfind(sign, 0, error.at) for sign in "&|") + 1]
        try:
            return _whole(head.rstrip("&| "), columns, search, error)
        except FilterError:
            return Needle(None, None, error)


def _whole(
    text: str,
    columns: Sequence[Column[R]],
    search: Callable[[Digest, R], str],
    trouble: FilterError | None,
) -> Needle[R]:
    from gpumon.report.filter.bind import row_filter

    passes = row_filter(text, columns, search)
    text = text.strip()
    return Needle(text, passes if text else None, trouble)


class Asked(NamedTuple, Generic[R]):
    """A tick that is to be shown."""

    digest: Digest
    rows: Callable[[], Sequence[R]]
    prepare: Callable[[Digest], Iterable[None]]
    """Steps that make `rows` cheap to call."""


class Desk(Generic[R]):
    """Arranges rows, and remembers what the next key may need again of the same tick."""

    def __init__(self, plan: Plan[R]) -> None:
        self.ready: Asked[R] | None = None
        """The newest tick whose rows are in their first order."""
        self._given: Sequence[R] = ()
        self.all: Sequence[R] = ()
        """Every row of that tick, in its first order."""
        self._sorted: tuple[Sorting, Sequence[R]] | None = None
        self._passing: tuple[Callable[[Digest, R], bool] | None, Sequence[R]] = (None, ())
        """A filter, and which of `all` pass it."""
        self._texts: tuple[Sequence[R], list[str]] = ((), [])
        """Rows in the order in which a word was looked for last, and the texts of the first."""
        self._shelf: RowShelf[R] = RowShelf(plan)
        self.search = self._shelf.search
        self._orders = {c.key: c.order for c in plan.columns if c.order is not None}

    def cleared(self) -> tuple[Held, ...]:
        """What it holds of every row, to be let go of."""
        return *self._shelf.cleared(), *self.left()

    def left(self) -> tuple[Held, ...]:
        """What is needed no more since this was asked last, to be let go of."""
        held = tuple(self._shelf.left)
        self._shelf.left.clear()
        return held

    def renew(self) -> None:
        """Begin again with the same tick: its rows show something else now."""
        self.ready = None
        self._shelf.renew()

    def steps(
        self,
        asked: Asked[R],
        sorting: Sorting,
        passes: Callable[[Digest, R], bool] | None,
        found: list[R],
    ) -> Generator[None, None, Sequence[R]]:
        """The rows that pass, in order.

        Args:
            asked: The tick.
            sorting: By which column.
            passes: Whether a row passes; None: all do.
            found: Takes those at the top as soon as they are known to be there.
        """
        if asked is not self.ready:
            try:
                yield from self._take(asked, sorting)
            finally:
                if asked is not self.ready:
                    # It was broken off, and may be the last to hold this tick's rows.
                    self._shelf.left.append(list(asked.digest.rows_by_node))
        whole = self._whole(sorting)
        if whole is None:
            if passes is not None and passes is self._passing[0]:
                return (yield from self._sorted_again(sorting))
            whole = yield from self._in_order(asked.digest, self.all, sorting)
            self._sorted = (sorting, whole)
        if passes is None:
            return whole
        # A filter that there is has imported it; a terminal that starts has none.
        from gpumon.report.filter.bind import Wanted

        digest = asked.digest
        # In order first: what is on top is known to be there long before all rows are tried.
        if isinstance(passes, Wanted):
            if self._texts[0] is not whole:
                self._texts = (whole, [])
            texts = self._texts[1]
            yield from containing_steps(
                whole, texts, lambda row: self.search(digest, row), passes.word, found
            )
        else:
            yield from passing_steps(whole, lambda row: passes(digest, row), found)
        self._passing = (passes, found)
        return found

    def _take(self, asked: Asked[R], sorting: Sorting) -> Generator[None, None, None]:
        """Put the rows of another tick in order.

        Until they all are, what was ready stays: keys that come meanwhile are answered with it.
        """
        yield from asked.prepare(asked.digest)
        rows, before = asked.rows(), self.ready
        if len(rows) > RUN:
            yield
        if before is None or before.digest is not asked.digest or rows is not self._given:
            every = yield from self._shelf.in_first_order(asked.digest, rows)
            in_order: tuple[Sorting, Sequence[R]] | None = None
            if sorting.key in self._orders:
                in_order = (sorting, (yield from self._in_order(asked.digest, every, sorting)))
            self.all, self._given, self._sorted = every, rows, in_order
            self._passing, self._texts = (None, ()), ((), [])
        self.ready = asked
        self._shelf.drop_others(asked.digest)

    def _in_order(
        self, digest: Digest, rows: Sequence[R], sorting: Sorting
    ) -> Generator[None, None, list[R]]:
        order = self._orders[sorting.key or ""]
        return (
            yield from sorted_steps(
                rows, lambda row: order(digest, row), sorting.is_descending, self._shelf.left
            )
        )

    def _sorted_again(self, sorting: Sorting) -> Generator[None, None, list[R]]:
        """The rows that passed already, by another column: mostly these are few."""
        assert self.ready is not None
        passing = set(map(id, self._passing[1]))
        # Rows that are alike in that column keep their first order.
        rows = [row for row in self.all if id(row) in passing]
        yield
        return (yield from self._in_order(self.ready.digest, rows, sorting))

    def _whole(self, sorting: Sorting) -> Sequence[R] | None:
        """All rows in an order that need not be found any more."""
        if sorting.key not in self._orders:
            return self.all[::-1] if sorting.is_descending else self.all
        known = self._sorted
        return known[1] if known is not None and known[0] == sorting else None
