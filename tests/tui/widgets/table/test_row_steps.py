"""What a key needs of a table is at hand: nothing is put in order twice for one tick."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.report.facts.columns import Column, Sorting
from gpumon.report.facts.tick_index import Digest
from gpumon.report.text.cells import Cell
from gpumon.tui.widgets.table.arranging import EACH
from gpumon.tui.widgets.table.row_steps import Asked, Desk
from gpumon.tui.widgets.table.table_spec import Plan
from tests.worlds.steps import outcome
from tests.worlds.tick import tick

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.report.facts.columns import SortKey

MANY = 20 * EACH
DOWN, LAST_DIGIT = Sorting("number", True), Sorting("digit")


class Numbers:
    """A desk of numbers in the order of their size, with a count of the questions for an order."""

    def __init__(self) -> None:
        self.asked = 0
        columns = (self._column("number", lambda n: n), self._column("digit", lambda n: n % 10))
        plan = Plan(columns, str, lambda _d, number: (number,), lambda _d, number: str(number))
        self.desk: Desk[int] = Desk(plan)

    def _column(self, key: str, value: Callable[[int], float]) -> Column[int]:
        def order(_digest: Digest, number: int) -> SortKey:
            self.asked += 1
            return (float(value(number)),)

        cell = lambda _digest, number: Cell(str(number))  # noqa: E731
        return Column(key, key, 4, "right", 0, cell, order, "")

    def arranged(
        self, asked: Asked[int], sorting: Sorting, passes: Callable[[Digest, int], bool] | None
    ) -> list[int]:
        """All steps at once."""
        return list(outcome(self.desk.steps(asked, sorting, passes, [])))


def asked_tick() -> Asked[int]:
    numbers = range(MANY)
    return Asked(Digest(tick()), lambda: numbers, lambda _digest: ())


def odd(_digest: Digest, number: int) -> bool:
    return number % 2 == 1


def test_another_filter_finds_the_rows_of_a_newer_tick_in_order_already() -> None:
    numbers, newer = Numbers(), asked_tick()
    numbers.arranged(asked_tick(), DOWN, odd)
    numbers.arranged(newer, DOWN, odd)
    numbers.asked = 0
    found: list[int] = []
    next(numbers.desk.steps(newer, DOWN, lambda _digest, number: number % 4 == 0, found))
    assert found[:3] == [MANY - 4, MANY - 8, MANY - 12]
    assert numbers.asked == 0


def test_a_tick_that_is_not_yet_in_order_leaves_the_one_before_at_hand() -> None:
    numbers, first, newer = Numbers(), asked_tick(), asked_tick()
    numbers.arranged(first, DOWN, odd)
    work = numbers.desk.steps(newer, DOWN, odd, [])
    while numbers.asked <= MANY:
        next(work)
    assert numbers.desk.ready is first
    numbers.asked = 0
    assert numbers.arranged(first, DOWN, None) == list(range(MANY))[::-1]
    assert numbers.asked == 0


def test_another_column_orders_only_the_rows_that_pass() -> None:
    numbers, asked = Numbers(), asked_tick()
    numbers.arranged(asked, DOWN, odd)
    numbers.asked = 0
    found = numbers.arranged(asked, LAST_DIGIT, odd)
    assert numbers.asked == MANY // 2
    # Those that are alike are in the order at first, not in the one that was chosen before.
    assert found == sorted(range(1, MANY, 2), key=lambda number: number % 10)
