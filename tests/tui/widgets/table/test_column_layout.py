"""Where the cursor's row is among other rows: found in steps, as at once."""

from __future__ import annotations

import pytest

from gpumon.report.facts.tick_index import Digest
from gpumon.tui.widgets.table import grid as grids
from gpumon.tui.widgets.table.column_layout import FOLLOWED, followed, followed_steps
from tests.tui.widgets.table.test_grid import GridApp, rows
from tests.worlds.tick import tick


def ended(steps):
    """How many steps there were, and what came of them."""
    number = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return number, end.value
        number += 1


@pytest.mark.parametrize(
    ("at", "steps"), [(0, 0), (FOLLOWED - 1, 0), (FOLLOWED, 1), (2 * FOLLOWED + 700, 2)]
)
def test_a_row_is_found_where_it_is_some_thousand_rows_a_step(at, steps):
    names = [f"r{number}" for number in range(3 * FOLLOWED)]
    assert ended(followed_steps(names, str, 17, names[at])) == (steps, at)
    assert followed(names, str, 17, names[at]) == at


@pytest.mark.parametrize(("count", "cursor", "row"), [(9_100, 40, 40), (3, 40, 2), (0, 4, 0)])
def test_a_row_that_is_gone_leaves_the_cursor_where_it_was(count, cursor, row):
    names = [f"r{number}" for number in range(count)]
    assert ended(followed_steps(names, str, cursor, "gone")) == (-(-count // FOLLOWED), row)
    assert ended(followed_steps(names, str, cursor, None)) == (0, row)


async def test_a_table_looks_for_its_row_before_it_takes_the_rows(monkeypatch):
    """What is done when they are there is no step, and a key waits for all of it."""
    asked = []

    def counted(rows, key, cursor, cursor_key):
        return followed(rows, lambda row: asked.append(row) or key(row), cursor, cursor_key)

    async with GridApp().run_test(size=(40, 12)) as pilot:
        table = pilot.app.grid
        many = rows(2 * FOLLOWED + 31)
        table.show(Digest(tick()), many)
        table.move_to(5)
        await pilot.pause()
        row = table.current.key
        monkeypatch.setattr(grids.column_layout, "followed", counted)
        table.show(Digest(tick()), rows(len(many), offset=FOLLOWED + 777))
        await pilot.pause()
        assert table.current.key == row
        assert table.cursor > FOLLOWED
        assert len(asked) <= 1
