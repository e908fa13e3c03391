"""What is chosen in one terminal is found again in the next."""

from __future__ import annotations

import pytest

from gpumon.model.records.tick import TargetState
from gpumon.report.fleet_map.marks import FIELDS
from gpumon.report.lists.filter_tables import understood
from gpumon.tui.look.saved_choices import Habits, habits_of
from gpumon.tui.look.themes import SHORT_NAMES
from gpumon.tui.screens.lists.fleet import MapView
from gpumon.tui.screens.lists.jobs import JobsView
from gpumon.tui.screens.open import first_view
from tests.worlds.tick import fleet, job_with_gpus, tick


class Drawer:
    """Keeps what was written last."""

    stored = None
    trouble = ""

    def read(self):
        return self.stored

    def write(self, notes):
        self.stored = notes

    def close(self):
        """Nothing to wait for."""


async def test_theme_columns_order_and_map_come_back(stage):
    drawer = Drawer()
    async with stage(fleet(), shelf=drawer) as s:
        await s.press("t", "s", "s", "S")
        sorting = s.app.screen.grid.sorting
        await s.press("c", "j", "enter", "escape", "colon", *"fleet", "enter", "c", "b", "Z")
        drawn = s.app.screen.map
        field, grouping, density = drawn.field, drawn.grouping, drawn.density
        await s.press("colon", *"ascii", "enter")
        theme, columns = s.app.theme, dict(s.app.chosen_columns)
    habits = habits_of(drawer.stored)
    assert field is FIELDS[1]
    assert columns
    assert density is not None
    assert habits.view == "fleet"
    async with stage(fleet(), habits=habits) as s:
        assert isinstance(s.app.screen, MapView)
        drawn = s.app.screen.map
        assert (drawn.field, drawn.grouping, drawn.density) == (field, grouping, density)
        await s.press("0", "escape")
        assert s.app.screen.grid.sorting == sorting
        assert s.app.chosen_columns == columns
        assert s.app.theme == theme
        assert s.text.isascii()
        await s.press("colon", *"fleet", "enter")
        assert s.app.screen.map.density is None


async def test_what_was_not_chosen_here_is_not_stored_as_chosen(stage):
    """A terminal on a white ground, or one that was given --ascii, says nothing of the next one."""
    drawer = Drawer()
    habits = Habits("blind", theme_at_first="light", is_ascii_at_first=True)
    async with stage(fleet(), shelf=drawer, habits=habits) as s:
        assert s.app.theme == SHORT_NAMES["light"]
        assert s.text.isascii()
        await s.press("tab")
        stored = habits_of(drawer.stored)
        assert (stored.theme, stored.is_ascii, stored.view) == ("blind", None, "gpus")
        await s.press("t", "colon", *"ascii", "enter")
        stored = habits_of(drawer.stored)
        assert (stored.theme, stored.is_ascii) == ("contrast", False)


async def test_columns_and_fields_that_are_no_more_change_nothing(stage):
    habits = habits_of({"columns": {"jobs": ["nope"]}, "sort": {"jobs": ["nope", True]},
                        "map_field": "nope", "map_grouping": "nope",
                        "map_density": "nope", "view": "nope"})  # fmt: skip
    async with stage(fleet(), habits=habits) as s:
        assert "4711" in s.text
        await s.press("colon", *"fleet", "enter")
        assert s.app.screen.map.field is FIELDS[0]
        assert s.app.screen.map.density is None


async def test_nothing_is_written_before_something_is_chosen(stage):
    drawer = Drawer()
    async with stage(fleet(), shelf=drawer) as s:
        await s.press("j", "enter", "escape", "question_mark")
    assert drawer.stored is None
    assert habits_of(drawer.stored) == Habits()


async def test_the_view_that_was_shown_last_comes_first(stage):
    drawer = Drawer()
    async with stage(fleet(), shelf=drawer) as s:
        await s.press("tab")
        assert habits_of(drawer.stored).view == "gpus"
        await s.press("escape")
        assert habits_of(drawer.stored).view == "jobs"
        await s.press("colon", *"pending", "enter", "enter")
    habits = habits_of(drawer.stored)
    assert habits.view == "pending"
    async with stage(fleet(), habits=habits) as s:
        assert "› pending" in s.lines[0]
        await s.press("escape")
        assert isinstance(s.app.screen, JobsView)


def crowd(nodes, users):
    """One node each for jobs of so many users."""
    made = [job_with_gpus(str(n), {f"n{n:03}": 1}, user=f"u{n % users}") for n in range(nodes)]
    return tick(tuple(view for view, _ in made), [gpus[0] for _, gpus in made])


SILENT = tick(queue_at=None, targets=(TargetState("ssh://gpu01", False, None, None),))
GPUS_ONLY = tick((), job_with_gpus("1", {"n": 2})[1], queue_at=None, targets=())


@pytest.mark.parametrize(
    ("shown", "last", "typed", "expected"),
    [
        (crowd(5, 2), None, None, "jobs"),
        (crowd(40, 2), None, None, "fleet"),
        (crowd(40, 1), None, None, "jobs"),
        (crowd(40, 2), "jobs", None, "jobs"),
        (crowd(5, 2), "users", None, "users"),
        (crowd(5, 2), "nope", None, "jobs"),
        (crowd(40, 2), "users", "user==u1", "jobs"),
        (crowd(5, 2), "users", "uuid~GPU", "gpus"),
        (crowd(5, 2), "users", "pid>1 & user==u1", "processes"),
        (GPUS_ONLY, None, "pid==3", "processes"),
        (GPUS_ONLY, None, "age>2h", "processes"),
        (GPUS_ONLY, None, "user==u1", "gpus"),
        (crowd(5, 2), "users", "age>2h", "jobs"),
        (GPUS_ONLY, None, None, "gpus"),
        (GPUS_ONLY, "jobs", None, "gpus"),
        (GPUS_ONLY, "pending", None, "gpus"),
        (GPUS_ONLY, "fleet", None, "fleet"),
        (tick(queue_at=None, targets=()), None, None, "jobs"),
        (SILENT, None, None, "gpus"),
    ],
)
def test_what_a_terminal_begins_with(shown, last, typed, expected):
    assert first_view(shown, last, understood(typed) if typed else None) == expected
