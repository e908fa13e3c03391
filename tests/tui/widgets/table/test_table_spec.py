"""What a table remembers from one tick to the next is never older than what it shows."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from gpumon.report.facts.tick_index import Digest
from gpumon.tui.widgets.table.arranging import RUN
from gpumon.tui.widgets.table.table_spec import STEADY_TICKS, Plan, RowShelf
from tests.worlds.steps import outcome
from tests.worlds.tick import tick

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.report.facts.columns import SortKey


class Rows:
    """Rows `name place`, with a count of the questions for their order."""

    def __init__(self) -> None:
        self.asked = 0

    def order(self, _digest: Digest, row: str) -> SortKey:
        self.asked += 1
        return (row.split()[1],)

    def shelf(self, *, is_steady: bool) -> RowShelf[str]:
        plan = Plan((), _name, self.order, lambda _digest, row: row, is_steady)
        return RowShelf(plan)


def first_order(shelf: RowShelf[str], rows: Sequence[str]) -> Sequence[str]:
    return outcome(shelf.in_first_order(DIGEST, rows))


def _name(row: str) -> str:
    return row.split()[0]


DIGEST = Digest(tick())


def test_a_steady_order_is_not_made_again_while_the_keys_stay() -> None:
    rows = Rows()
    shelf = rows.shelf(is_steady=True)
    assert first_order(shelf, ["a 2", "b 1"]) == ["b 1", "a 2"]
    assert first_order(shelf, ["a 2 new", "b 1 new"]) == ["b 1 new", "a 2 new"]
    assert rows.asked == 2


def test_the_keys_of_many_rows_are_looked_at_step_by_step() -> None:
    shelf = Rows().shelf(is_steady=True)
    rows = [f"{number} {number:05d}" for number in range(3 * RUN)]
    first_order(shelf, rows)
    asked = sum(1 for _ in shelf.in_first_order(DIGEST, rows))
    # Two between three parts of the keys, two around what the order rests on, two of the rows.
    assert asked == 6
    assert len(first_order(shelf, rows)) == 3 * RUN


def test_another_key_makes_the_order_again() -> None:
    shelf = Rows().shelf(is_steady=True)
    first_order(shelf, ["a 2", "b 1"])
    assert first_order(shelf, ["a 2", "c 3", "b 1"]) == ["b 1", "a 2", "c 3"]


def test_a_place_that_changed_is_seen_before_long() -> None:
    shelf = Rows().shelf(is_steady=True)
    first_order(shelf, ["a 2", "b 1"])
    seen = [first_order(shelf, ["a 0", "b 1"]) for _ in range(STEADY_TICKS)]
    assert seen[-1] == ["a 0", "b 1"]


def test_a_steady_order_is_made_again_as_soon_as_what_it_rests_on_changes() -> None:
    rows = Rows()
    basis = ["calm"]
    plan = Plan(
        (), _name, rows.order, lambda _d, row: row, is_steady=True, rests_on=lambda _d: basis[0]
    )
    shelf = RowShelf(plan)
    assert first_order(shelf, ["a 2", "b 4"]) == ["a 2", "b 4"]
    assert first_order(shelf, ["a 5", "b 4"]) == ["a 5", "b 4"]
    basis[0] = "a loses"
    assert first_order(shelf, ["a 5", "b 4"]) == ["b 4", "a 5"]


def test_any_other_order_follows_every_tick() -> None:
    shelf = Rows().shelf(is_steady=False)
    first_order(shelf, ["a 2", "b 1"])
    assert first_order(shelf, ["a 0", "b 1"]) == ["a 0", "b 1"]


def test_texts_are_those_of_the_tick() -> None:
    shelf = Rows().shelf(is_steady=True)
    first_order(shelf, ["a 2"])
    assert shelf.search(DIGEST, "a 2") == "a 2"
    assert shelf.search(Digest(tick()), "a 3") == "a 3"


def test_no_text_keeps_a_tick_that_is_gone() -> None:
    shelf = Rows().shelf(is_steady=True)
    gone = Digest(tick())
    still = weakref.ref(gone)
    shelf.search(gone, "a 2")
    del gone
    shelf.drop_others(DIGEST)
    assert still() is None


def test_a_text_is_made_again_only_when_what_it_is_made_of_changes() -> None:
    made: list[str] = []

    def text(_digest: Digest, row: str) -> str:
        made.append(row)
        return row.split()[1]

    plan = Plan((), _name, lambda _d, row: (row,), text, stamp=lambda _d, row: row.split()[1])
    shelf = RowShelf(plan)
    for row, digest in (("a 2 x", DIGEST), ("a 2 y", Digest(tick())), ("a 3 y", DIGEST)):
        first_order(shelf, [row])
        assert shelf.search(digest, row) == row.split()[1]
    assert made == ["a 2 x", "a 3 y"]
