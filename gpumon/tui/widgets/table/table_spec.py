"""What a table shows of rows of one kind, and what it need not find again with every tick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from textual.message import Message

from gpumon.tui.widgets.table.arranging import RUN, sorted_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from gpumon.report.facts.columns import Column, SortKey
    from gpumon.report.facts.tick_index import Digest
    from gpumon.tui.widgets.table.release import Held

R = TypeVar("R")

STEADY_TICKS: Final = 30
"""Ticks after which also a steady order is made again."""


class Moved(Message):
    """The cursor of a table was moved."""


class Plan(NamedTuple, Generic[R]):
    """What a table shows of rows of one kind."""

    columns: Sequence[Column[R]]
    key: Callable[[R], str]
    """Names a row over time: the cursor follows it."""
    order: Callable[[Digest, R], SortKey]
    """The order at first."""
    search: Callable[[Digest, R], str]
    """Lower-case text in which a row filter's bare words are looked for."""
    is_steady: bool = False
    """Whether the order at first hardly ever changes while the keys and what it rests on stay the
    same, such as that of GPUs: it is checked again every `STEADY_TICKS` only."""
    led_by: str | None = None
    """Key of the column that leads the order at first, whose title shows it; None: none does."""
    is_rising: bool = False
    """Whether the order at first has the smallest of that column on top."""
    rests_on: Callable[[Digest], object] = lambda _digest: None
    """What a steady order is made of beside the keys: where that changed it is made again."""
    widths: Callable[[Digest], Mapping[str, int]] = lambda _digest: {}
    """Cells that columns with these keys need at least for the rows of a tick; 0: it has nothing
    there, and is left out unless the user chose it."""
    stamp: Callable[[Digest, R], object] | None = None
    """What the text to search is made of: while it is the same, so is the text of a row, also in
    another tick. None: every tick has texts of its own."""


class RowShelf(Generic[R]):
    """Rows in their first order, and the texts in which bare words are looked for."""

    def __init__(self, plan: Plan[R]) -> None:
        self._plan = plan
        self._age = 0
        self._keys: list[str] = []
        self._basis: object = None
        """What the steady order rests on."""
        self._places: list[int] = []
        """Of a steady order, where the rows with these keys went to."""
        self._texts: dict[str, tuple[object, str]] = {}
        """By key: the stamp of a text, and the text."""
        self._searched: Digest | None = None
        self._read: dict[str, str] = {}
        """By key: the texts of the tick that was searched last."""
        self.left: list[Held] = []
        """What is needed no more, to be let go of some at a time."""

    def in_first_order(
        self, digest: Digest, rows: Sequence[R]
    ) -> Generator[None, None, Sequence[R]]:
        """The rows of another tick; their order is found again only where it may be another."""
        if len(self._texts) > 2 * len(rows):
            self._texts = {}
        order, key = self._plan.order, self._plan.key
        if not self._plan.is_steady:
            return (yield from sorted_steps(rows, lambda row: order(digest, row), left=self.left))
        keys: list[str] = []
        for start in range(0, len(rows), RUN):
            keys += map(key, rows[start : start + RUN])
            if start + RUN < len(rows):
                yield
        self._age += 1
        if len(rows) > RUN:
            yield
        basis = self._plan.rests_on(digest)
        if len(rows) > RUN:
            yield
        if keys != self._keys or basis != self._basis or self._age >= STEADY_TICKS:
            every = range(len(rows))
            self._places = yield from sorted_steps(
                every, lambda at: order(digest, rows[at]), left=self.left
            )
            self._keys, self._basis, self._age = keys, basis, 0
        found: list[R] = []
        places = self._places
        for start in range(0, len(places), RUN):
            found += map(rows.__getitem__, places[start : start + RUN])
            if start + RUN < len(places):
                yield
        return found

    def search(self, digest: Digest, row: R) -> str:
        """The text of a row, made once: each key typed looks through those of all rows."""
        self._search_in(digest)
        key = self._plan.key(row)
        text = self._read.get(key)
        if text is None:
            text = self._read[key] = self._text(key, digest, row)
        return text

    def _text(self, key: str, digest: Digest, row: R) -> str:
        plan = self._plan
        if plan.stamp is None:
            return plan.search(digest, row)
        made_of = plan.stamp(digest, row)
        found = self._texts.get(key)
        if found is None or found[0] != made_of:
            found = self._texts[key] = (made_of, plan.search(digest, row))
        return found[1]

    def cleared(self) -> tuple[Held, ...]:
        """Its keys and texts, one for each row, of which it holds none any more."""
        held = self._keys, self._texts, self._read
        self._keys, self._texts, self._read = [], {}, {}
        return held

    def renew(self) -> None:
        """Let go of all texts: rows of the same tick show something else now."""
        self._search_in(None)
        self._texts = {}

    def drop_others(self, digest: Digest) -> None:
        """Let go of any other tick: whole fleets hang on it."""
        if self._searched is not digest:
            self._search_in(None)

    def _search_in(self, digest: Digest | None) -> None:
        """Begin with the texts of another tick."""
        if digest is not self._searched:
            self.left += [self._read] if self._read else []
            self._searched, self._read = digest, {}
