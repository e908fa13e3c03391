"""Every key of the registry does what its help says, and is found where it is promised."""

from __future__ import annotations

import pytest

from gpumon.tui.actions.action import ROOTS
from gpumon.tui.actions.registry import ACTIONS, actions_of
from gpumon.tui.look.themes import THEMES
from gpumon.tui.screens.base.page import Page
from gpumon.tui.screens.lists.jobs import JobsView
from gpumon.tui.screens.pages.gpu import GpuScreen
from gpumon.tui.screens.pages.job import JobScreen
from tests.tui.test_registry import VIEWS
from tests.worlds.tick import fleet, job_with_gpus, tick

KEYS = {name: keys for name, keys, *_ in ACTIONS}


async def test_the_footer_fits_and_can_be_clicked(stage):
    async with stage(fleet()) as s:
        assert len(s.lines[-1]) <= 80
        x = s.lines[-1].index("? help") + 1
        await s.pilot.click(offset=(x, 23))
        await s.pilot.pause()
        assert isinstance(s.app.screen, Page)


async def test_what_asks_can_be_clicked_in_the_footer_as_well(stage):
    async with stage(fleet()) as s:
        await s.pilot.click(offset=(s.lines[-1].index("/ filter") + 1, 23))
        await s.pilot.pause()
        await s.press(*"grace")
        assert "/grace" in s.lines[0]


@pytest.mark.parametrize("key", KEYS["quit"])
async def test_quit(stage, key):
    async with stage(fleet()) as s:
        await s.pilot.press(key)
    assert s.app.return_value == 0


@pytest.mark.parametrize("key", KEYS["open"])
async def test_open_leads_from_jobs_to_the_gpu_and_back_to_its_job(stage, key):
    async with stage(fleet()) as s:
        await s.press(key)
        assert isinstance(s.app.screen, JobScreen)
        await s.press(key)
        assert isinstance(s.app.screen, GpuScreen)
        await s.press(key)
        assert isinstance(s.app.screen, JobScreen)
        assert len(s.app.screen_stack) == 2


async def test_open_on_a_gpu_of_the_fleet_opens_the_job_that_holds_it(stage):
    async with stage(fleet()) as s:
        await s.press("tab", "enter", "enter")
        assert isinstance(s.app.screen, JobScreen)
        assert "4711 finetune" in s.lines[0]


async def test_open_on_nothing_does_nothing(stage):
    async with stage() as s:
        await s.press("enter")
        await s.give(tick())
        await s.press("enter", "j", "G", "s")
        assert isinstance(s.app.screen, JobsView)


@pytest.mark.parametrize("key", KEYS["back"])
async def test_back_goes_up_one_level_and_stays_at_the_root(stage, key):
    async with stage(fleet()) as s:
        await s.press("enter", "enter", key)
        assert isinstance(s.app.screen, JobScreen)
        await s.press(key, key)
        assert isinstance(s.app.screen, JobsView)


@pytest.mark.parametrize("key", KEYS["switch"])
async def test_switch_goes_through_all_views_and_back_to_the_jobs(stage, key):
    async with stage(fleet()) as s:
        await s.press("j")
        for view in (*ROOTS[1:], ROOTS[0]):
            await s.press(key)
            assert type(s.app.screen) is VIEWS[view]
            assert len(s.app.screen_stack) == (1 if view == "jobs" else 2)
        assert s.cursor_line().split()[1] == "4690"


@pytest.mark.parametrize("key", KEYS["switch_back"])
async def test_switch_back_goes_the_other_way_round(stage, key):
    async with stage(fleet()) as s:
        for view in reversed(ROOTS):
            await s.press(key)
            assert type(s.app.screen) is VIEWS[view]


@pytest.mark.parametrize(("key", "view"), list(zip(KEYS["view"], ROOTS, strict=False)))
async def test_a_digit_goes_to_its_view(stage, key, view):
    async with stage(fleet()) as s:
        await s.press("tab", key)
        assert type(s.app.screen) is VIEWS[view]
        assert s.lines[0].split()[2] == view


async def test_filter_as_one_types(stage):
    async with stage(fleet()) as s:
        await s.press("slash", *"ADA")
        assert "2 of 5 jobs" in s.lines[0]
        assert "/ADA" in s.lines[0]
        await s.press("enter")
        assert "4711" not in s.text
        await s.press("enter")
        assert isinstance(s.app.screen, JobScreen)
        await s.press("escape")
        assert "2 of 5 jobs" in s.lines[0]
        await s.press("escape")
        assert "5 jobs" in s.lines[0]
        assert "of 5" not in s.lines[0]


async def test_escape_in_the_prompt_drops_the_filter(stage):
    async with stage(fleet()) as s:
        await s.press("slash", *"zzz")
        assert "None of 5 jobs contains “zzz”" in s.text
        await s.press("escape")
        assert "4711" in s.text
        assert isinstance(s.app.screen, JobsView)


async def test_keys_typed_into_the_prompt_are_text(stage):
    async with stage(fleet()) as s:
        await s.press("slash", *"qqp")
        assert "/qqp" in s.lines[0]
        assert "PAUSED" not in s.text


@pytest.mark.parametrize("key", KEYS["sort"])
async def test_sort_goes_through_the_columns_and_ends_at_first_order(stage, key):
    async with stage(fleet()) as s:
        first = s.below[2]
        await s.press(key)
        assert "JOBID▲" in s.below[1]
        ids = [line.split()[1] for line in s.below[2:7]]
        assert ids == ["4690", "4702", "4711", "4730", "4720_3"]
        for _ in range(20):
            await s.press(key)
            if "LOST/H▼" in s.below[1]:
                break
        assert s.below[2] == first


async def test_sorting_puts_missing_values_last_both_ways(stage):
    async with stage(fleet(), (120, 24)) as s:
        for _ in range(12):
            await s.press("s")
            if "SM%▲" in s.below[1]:
                break
        order = [line.split()[1] for line in s.below[2:7]]
        assert order[:2] == ["4711", "4690"]
        await s.press("S")
        assert "SM%▼" in s.below[1]
        assert [line.split()[1] for line in s.below[2:4]] == ["4690", "4711"]


async def test_reverse_and_default_sort(stage):
    async with stage(fleet()) as s:
        await s.press("S")
        assert s.below[2].split()[1] == "4730"
        await s.press("0")
        assert s.below[2].split()[1] == "4711"


@pytest.mark.parametrize(("name", "words"), [("findings", "SAYS"), ("errors", "Targets")])
async def test_pages_open_and_close(stage, name, words):
    async with stage(fleet()) as s:
        await s.press(*KEYS[name])
        assert words in s.text
        await s.press("escape")
        assert isinstance(s.app.screen, JobsView)


@pytest.mark.parametrize("key", KEYS["refresh"])
async def test_refresh_draws_again(stage, key):
    async with stage(fleet()) as s:
        before = s.text
        await s.press(key)
        assert s.text == before


async def test_theme_switches_to_light_and_back(stage):
    async with stage(fleet()) as s:
        dark = s.style_of("3 of 8 GPUs")
        await s.press(*KEYS["theme"])
        light = s.style_of("3 of 8 GPUs")
        assert light.color != dark.color
        assert light.bgcolor != dark.bgcolor
        await s.press(*(KEYS["theme"] * (len(THEMES) - 1)))
        assert s.style_of("3 of 8 GPUs") == dark


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (["j"], "4690"),
        (["down", "down"], "4702"),
        (["j", "j", "k"], "4690"),
        (["G"], "4730"),
        (["end", "up"], "4720_3"),
        (["G", "g"], "4711"),
        (["G", "home"], "4711"),
        (["pagedown"], "4730"),
        (["ctrl+f", "ctrl+b"], "4711"),
        (["G", "pageup"], "4711"),
    ],
)
async def test_the_cursor_moves(stage, keys, line):
    async with stage(fleet()) as s:
        await s.press(*keys)
        assert s.cursor_line().split()[1] == line


async def test_keys_scroll_a_page_of_text(stage):
    view, gpus = job_with_gpus("1", {"n": 1})
    async with stage(tick((view,), gpus), (60, 12)) as s:
        await s.press("question_mark")
        assert s.lines[2].startswith("  Move")
        await s.press("j")
        assert s.lines[1].startswith("  Move")
        await s.press("k", "G")
        bottom = s.text
        assert "A narrow terminal drops" in bottom
        await s.press("pageup", "pagedown")
        assert s.text == bottom
        await s.press("g")
        assert s.lines[2].startswith("  Move")


async def test_help_explains_this_view_and_can_be_searched(stage):
    async with stage(fleet(), (100, 92)) as s:
        await s.press("question_mark")
        assert "jobs › help" in s.lines[0]
        for action in actions_of("jobs"):
            assert action.shown in s.text
        await s.press("slash", *"tensor", "enter")
        assert "TENSOR%" in s.text
        assert "Pause the screen" not in s.text
        await s.press("escape")
        assert "Pause the screen" in s.text
        await s.press("escape", "enter", "question_mark")
        assert "Global rank within its world" in s.text


SEVERAL_MEANINGS = {
    frozenset({"open", "open_cell", "toggle_column", "copy_command"}): (
        "Enter does with a line what the list is for"
    ),
    frozenset({"open", "cell_right"}): "to the right is on: into a line, or to the next cell",
    frozenset({"back", "cell_left"}): "to the left is back: out of a line, or to the cell before",
    frozenset({"back", "leave"}): "one way back; in cells without the arrow",
    frozenset({"view", "section"}): "a digit goes to what has this number on the screen",
    frozenset({"switch", "ranks", "roofline"}): "Tab goes to the next way to look",
    frozenset({"columns", "field"}): "c chooses what is shown: columns of a table, or of cells",
    frozenset({"pause", "toggle_column"}): "Space ticks in every list of boxes",
}
"""Actions that share a key, and the idea that they share."""


def test_a_key_means_one_thing_everywhere():
    by_key = {}
    for action in ACTIONS:
        for key in action.keys:
            by_key.setdefault(key, set()).add(action.name)
    several = {frozenset(names) for names in by_key.values() if len(names) > 1}
    assert several == set(SEVERAL_MEANINGS)


async def test_space_ticks_a_column_and_does_not_pause(stage):
    async with stage(fleet()) as s:
        await s.press("c", "j", "j")
        assert "[x]" in s.cursor_line()
        await s.press("space")
        assert "[ ]" in s.cursor_line()
        assert "PAUSED" not in s.text
        await s.press("space", "x")
        assert "[x]" in s.cursor_line()
        assert "x works only in" in s.lines[-2]


async def test_a_digit_goes_to_a_section_or_says_that_there_is_none(stage):
    async with stage(fleet(), (100, 30)) as s:
        await s.press("2", "o", "9")
        assert "there is no section 9 here: 8 have numbers" in s.lines[-2]


async def test_a_digit_of_the_view_at_hand_leaves_it_as_it_is(stage):
    async with stage(fleet(), (100, 30)) as s:
        await s.press("9", "l")
        before = s.app.screen
        await s.press("9")
        assert s.app.screen is before
