"""No view draws more than eight columns before somebody chooses, however wide the terminal is."""

from __future__ import annotations

import pytest

from gpumon.report.tables.process import MACHINE_PROCESS_COLUMNS
from gpumon.tui.actions.action import ROOTS
from gpumon.tui.widgets.table.grid import Grid
from tests.unit.report.headline.test_lines import fleet_tick
from tests.worlds.tick import finding

MOST = 8

OF_A_MACHINE = len(MACHINE_PROCESS_COLUMNS)
"""The one exception: what a machine without a queue shows below its GPUs is no table to work in,
without cursor, order or choice. Who comes from a tool for one machine looks there for what that
one shows: GPU, PID, program, kind, user, memory, SM, cores, host memory and time."""


@pytest.mark.parametrize("width", [80, 120, 160, 200])
async def test_no_view_draws_more_than_eight_columns(stage, width):
    drawn = {}
    async with stage(fleet_tick(findings=(finding("job:1"),)), (width, 50)) as s:

        def check(name):
            grids = s.app.screen.query(Grid)
            drawn[name] = max((len(grid._placed) for grid in grids), default=0)

        for root in ROOTS:
            await s.press(":", *root, "enter")
            check(root)
        for name, keys in {"job": "enter", "findings": "f"}.items():
            await s.press(":", *"jobs", "enter", keys)
            check(name)
            await s.press("escape")
    assert {name: count for name, count in drawn.items() if count > MOST} == {}
    assert drawn["jobs"] == (MOST if width >= 120 else drawn["jobs"])
    assert sum(count > 0 for count in drawn.values()) >= 5


def test_the_processes_of_a_machine_are_the_exception_and_no_more_than_ten():
    assert MOST < OF_A_MACHINE <= 10
