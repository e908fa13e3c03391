"""Row filters and the choice of columns, as one types them."""

from __future__ import annotations

import pytest

from gpumon.report.lists.filter_tables import understood
from gpumon.tui.app import GpumonApp
from tests.tui.conftest import HandFeed, text_of
from tests.worlds.tick import fleet


async def test_an_expression_keeps_what_passes(stage):
    async with stage(fleet()) as s:
        await s.press("slash", *"user==ada&gpus<32", "enter")
        assert "1 of 5 jobs" in s.lines[0]
        assert "4690" in s.text
        await s.press("escape")
        assert "5 jobs" in s.lines[0]


async def test_an_error_is_below_its_place_and_leaves_the_rows(stage):
    async with stage(fleet(), size=(120, 30)) as s:
        await s.press("slash", *"grace")
        assert "1 of 5 jobs" in s.lines[0]
        await s.press(*" | usr==x")
        assert "4711" in s.text
        assert "4690" not in s.text
        prompt = next(i for i, line in enumerate(s.lines) if "usr==x" in line and "›" not in line)
        below = s.lines[prompt + 1]
        assert "no column 'usr' here; did you mean user?" in below
        assert below.index("^") == s.lines[prompt].index("usr")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("gpus>=16 & usr==x", "/gpus>=16  2 of 5 jobs"),
        ("gpus>=16 sm<fast", "5 jobs"),
        ("sm<", "5 jobs"),
        ("(gpus>=16 | (", "5 jobs"),
    ],
)
async def test_of_a_wrong_filter_what_comes_before_goes_on(stage, text, shown):
    async with stage(fleet()) as s:
        await s.press("slash", *text)
        assert s.lines[0].endswith(shown)


async def test_enter_keeps_an_error_open_and_escape_drops_it(stage):
    async with stage(fleet()) as s:
        await s.press("slash", *"sm<fast", "enter")
        assert "sm takes percent" in s.text
        await s.press("escape")
        assert "5 jobs" in s.lines[0]
        assert "sm takes percent" not in s.text


async def test_tab_completes_a_column(stage):
    async with stage(fleet()) as s:
        await s.press("slash", *"par", "tab", *"==h100", "enter")
        assert "/part==h100" in s.lines[0]


@pytest.mark.parametrize(
    ("digit", "text", "shown"),
    [("2", "sm<10", "3 of 28 lines"), ("6", "gpus>=16", "1 of 4 users"), ("4", "gpus<8", "0 of 1")],
)
async def test_every_table_has_its_own_columns(stage, digit, text, shown):
    async with stage(fleet()) as s:
        await s.press(digit, "slash", *text)
        assert shown in s.lines[0]


async def test_columns_are_switched_and_stay(stage):
    async with stage(fleet(), size=(160, 30)) as s:
        assert "USER" in s.line_with("JOBID")
        await s.press("c")
        assert "Enter or Space switches a column" in s.text
        await s.press("slash", *"name==user", "enter", "enter")
        assert "[ ]" in s.line_with("USER")
        await s.press("escape", "escape")
        assert "USER" not in s.line_with("JOBID")
        assert s.app.chosen_columns["jobs"] == tuple(
            c.key for c in s.app.screen.grid.plan.columns if not c.is_hidden and c.key != "user"
        )
        await s.press("2", "1")
        assert "USER" not in s.line_with("JOBID")
        await s.press("c", "0", "escape")
        assert "USER" in s.line_with("JOBID")
        assert s.app.chosen_columns == {}


async def test_a_column_that_is_hidden_at_first_can_be_chosen(stage):
    async with stage(fleet(), size=(160, 30)) as s:
        assert "ACCOUNT" not in s.line_with("JOBID")
        await s.press("c", "slash", *"account", "enter", "enter", "escape", "escape")
        assert "ACCOUNT" in s.line_with("JOBID")


async def test_the_last_column_cannot_be_switched_off(stage):
    async with stage(fleet()) as s:
        s.app.chosen_columns["jobs"] = ("user",)
        await s.press("c", "slash", *"user", "enter", "enter")
        assert s.app.chosen_columns["jobs"] == ("user",)


async def test_angle_brackets_move_the_sorted_column(stage):
    async with stage(fleet()) as s:
        await s.press("greater_than_sign")
        assert "JOBID▲" in s.line_with("JOBID")
        await s.press("greater_than_sign")
        assert "NAME▲" in s.line_with("JOBID")
        await s.press(*["less_than_sign"] * 3)
        assert "VERDICT▲" in s.line_with("JOBID")


async def test_help_explains_the_language_in_ten_lines(stage):
    async with stage(fleet(), size=(120, 90)) as s:
        await s.press("question_mark")
        start = next(i for i, line in enumerate(s.lines) if "Filter (/)" in line)
        assert "alice" in s.lines[start + 1]
        assert "Tab" in s.lines[start + 10]


@pytest.mark.parametrize(
    ("text", "root", "shown"),
    [
        ("user==ada", "jobs", "2 of 5 jobs"),
        ("uuid? | c<40", "gpus", "3 of 28 lines"),
        ("pid==4002", "processes", "3 of 25 processes"),
    ],
)
async def test_a_terminal_may_begin_with_a_filter(text, root, shown):
    feed = HandFeed()
    app = GpumonApp(feed, monotonic=lambda: 0.0, passes=understood(text))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        feed.on_tick(fleet())
        await pilot.pause()
        first = text_of(app).split("\n")[0]
        assert f"› {root}" in first
        assert shown in first
