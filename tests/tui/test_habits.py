"""What is chosen in one terminal is found again in the next."""

from __future__ import annotations

from gpumon.report.heat_marks import FIELDS
from gpumon.tui.habits import Habits, habits_of
from tests.ticks import fleet


class Drawer:
    """Keeps what was written last."""

    kept = None

    def read(self):
        return self.kept

    def write(self, notes):
        self.kept = notes

    def close(self):
        """Nothing to wait for."""


async def test_theme_columns_order_and_map_come_back(stage):
    drawer = Drawer()
    async with stage(fleet(), shelf=drawer) as s:
        await s.press("t", "s", "s", "S")
        sorting = s.app.screen.grid.sorting
        await s.press("c", "j", "enter", "escape", "9", "v", "o")
        drawn = s.app.screen.map
        field, grouping = drawn.field, drawn.grouping
        await s.press("colon", *"ascii", "enter")
        theme, columns = s.app.theme, dict(s.app.chosen_columns)
    habits = habits_of(drawer.kept)
    assert field is FIELDS[1]
    assert columns
    async with stage(fleet(), habits=habits) as s:
        assert s.app.screen.grid.sorting == sorting
        assert s.app.chosen_columns == columns
        assert s.app.theme == theme
        assert s.text.isascii()
        await s.press("9")
        assert (s.app.screen.map.field, s.app.screen.map.grouping) == (field, grouping)


async def test_columns_and_fields_that_are_no_more_change_nothing(stage):
    habits = habits_of({"columns": {"jobs": ["nope"]}, "sort": {"jobs": ["nope", True]},
                        "map_field": "nope", "map_grouping": "nope"})  # fmt: skip
    async with stage(fleet(), habits=habits) as s:
        assert "4711" in s.text
        await s.press("9")
        assert s.app.screen.map.field is FIELDS[0]


async def test_nothing_is_written_before_something_is_chosen(stage):
    drawer = Drawer()
    async with stage(fleet(), shelf=drawer) as s:
        await s.press("j", "enter", "escape", "9", "question_mark")
    assert drawer.kept is None
    assert habits_of(drawer.kept) == Habits()
