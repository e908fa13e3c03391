"""Every key of the registry does what its help says, and is found where it is promised."""

from __future__ import annotations

import pytest

from gpumon.tui.actions import ACTIONS, ROOTS, actions_of, bindings_of, footer_of, keys_markdown
from gpumon.tui.screens.commands import CommandsView
from gpumon.tui.screens.curves import CurvesScreen
from gpumon.tui.screens.ended import EndedView
from gpumon.tui.screens.findings import FindingScreen, FindingsView
from gpumon.tui.screens.fleet import HeatView
from gpumon.tui.screens.gpu import GpuScreen
from gpumon.tui.screens.gpus import GpusView
from gpumon.tui.screens.groups import AccountsView, UsersView
from gpumon.tui.screens.job import JobScreen
from gpumon.tui.screens.jobs import JobsView
from gpumon.tui.screens.node import NodeScreen
from gpumon.tui.screens.nodes import NodesView
from gpumon.tui.screens.page import Page
from gpumon.tui.screens.partitions import PartitionsView
from gpumon.tui.screens.pending import PendingView
from gpumon.tui.screens.ranks import RanksScreen
from gpumon.tui.screens.reservations import ReservationsView
from gpumon.tui.themes import THEMES
from tests.machines import machine
from tests.ticks import fleet, job_with_gpus, tick

VIEWS = {
    "jobs": JobsView,
    "gpus": GpusView,
    "nodes": NodesView,
    "pending": PendingView,
    "ended": EndedView,
    "users": UsersView,
    "accounts": AccountsView,
    "partitions": PartitionsView,
    "reservations": ReservationsView,
    "fleet": HeatView,
    "job": JobScreen,
    "gpu": GpuScreen,
    "node": NodeScreen,
    "page": Page,
    "findings": FindingsView,
    "finding": FindingScreen,
    "curves": CurvesScreen,
    "commands": CommandsView,
    "ranks": RanksScreen,
}
KEYS = {name: keys for name, keys, *_ in ACTIONS}


def test_names_and_keys_are_unique_in_every_view():
    assert len({action.name for action in ACTIONS}) == len(ACTIONS)
    for view in VIEWS:
        keys = [key for action in actions_of(view) for key in action.keys]
        assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("view", VIEWS)
def test_every_action_of_a_view_has_its_method_and_its_bindings(view):
    for action in actions_of(view):
        assert hasattr(VIEWS[view], f"action_{action.name}"), action.name
    bound = {(b.key, b.action) for b in bindings_of(view)}
    assert bound == {
        (key, f"{a.name}({key!r})" if a.is_told_key else a.name)
        for a in actions_of(view)
        for key in a.keys
    }
    assert bindings_of(view) == VIEWS[view].BINDINGS


@pytest.mark.parametrize("view", VIEWS)
def test_the_footer_names_every_labelled_action_and_begins_with_the_way_out(view):
    named = footer_of(view)
    assert [action.name for action in named[:2]] == ["quit", "help"]
    assert set(named) == {action for action in actions_of(view) if action.label}


def test_the_table_of_keys_has_every_action():
    text = keys_markdown()
    assert text.count("\n") == len(ACTIONS) + 2
    for action in ACTIONS:
        assert action.doc in text


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
        assert s.cursor_line().startswith(" 4690")


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
        first = s.lines[2]
        await s.press(key)
        assert "JOBID▲" in s.lines[1]
        ids = [line.split()[0] for line in s.lines[2:7]]
        assert ids == ["4690", "4702", "4711", "4730", "4720_3"]
        for _ in range(20):
            await s.press(key)
            if "▲" not in s.lines[1] and "▼" not in s.lines[1]:
                break
        assert s.lines[2] == first


async def test_sorting_puts_missing_values_last_both_ways(stage):
    async with stage(fleet()) as s:
        while "SM%▲" not in s.lines[1]:
            await s.press("s")
        order = [line.split()[0] for line in s.lines[2:7]]
        assert order[:2] == ["4711", "4690"]
        await s.press("S")
        assert "SM%▼" in s.lines[1]
        assert [line.split()[0] for line in s.lines[2:4]] == ["4690", "4711"]


async def test_reverse_and_default_sort(stage):
    async with stage(fleet()) as s:
        await s.press("S")
        assert s.lines[2].startswith(" 4730")
        await s.press("0")
        assert s.lines[2].startswith(" 4711")


@pytest.mark.parametrize(("name", "words"), [("findings", "CONF"), ("errors", "Targets")])
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
        dark = s.style_of("some GPUs unused")
        await s.press(*KEYS["theme"])
        light = s.style_of("some GPUs unused")
        assert light.color != dark.color
        assert light.bgcolor != dark.bgcolor
        await s.press(*(KEYS["theme"] * (len(THEMES) - 1)))
        assert s.style_of("some GPUs unused") == dark


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
        assert s.cursor_line().startswith(f" {line}")


async def test_keys_scroll_a_page_of_text(stage):
    view, gpus = job_with_gpus("1", {"n": 1})
    async with stage(tick((view,), gpus), (60, 12)) as s:
        await s.press("question_mark")
        assert s.lines[2].startswith("  Keys")
        await s.press("j")
        assert s.lines[1].startswith("  Keys")
        await s.press("k", "G")
        bottom = s.text
        assert "A narrow terminal drops" in bottom
        await s.press("pageup", "pagedown")
        assert s.text == bottom
        await s.press("g")
        assert s.lines[2].startswith("  Keys")


async def test_help_explains_this_view_and_can_be_searched(stage):
    async with stage(fleet(), (100, 90)) as s:
        await s.press("question_mark")
        assert "jobs › help" in s.lines[0]
        for action in actions_of("jobs"):
            assert action.shown in s.text
        await s.press("slash", *"tensor", "enter")
        assert "TENS%" in s.text
        assert "Freeze the picture" not in s.text
        await s.press("escape")
        assert "Freeze the picture" in s.text
        await s.press("escape", "enter", "question_mark")
        assert "LRANK" in s.text


@pytest.mark.parametrize("view", ["gpus", "job", "gpu"])
async def test_the_node_of_the_cursor_opens_and_closes(stage, view):
    keys = {"gpus": ["tab"], "job": ["enter"], "gpu": ["enter", "enter"]}[view]
    async with stage(machine()) as s:
        await s.press(*keys)
        before = s.text
        await s.press(*KEYS["node"])
        assert isinstance(s.app.screen, NodeScreen)
        assert "node n1" in s.lines[0]
        await s.press("escape")
        assert s.text == before


async def test_a_gpu_and_its_node_do_not_pile_up(stage):
    async with stage(machine()) as s:
        await s.press("tab", "N", "1", "enter")
        assert isinstance(s.app.screen, GpuScreen)
        await s.press("N")
        assert isinstance(s.app.screen, NodeScreen)
        assert len(s.app.screen_stack) == 3


async def test_sections_are_gone_to_by_number_and_one_by_one(stage):
    async with stage(machine()) as s:
        await s.press("enter", "enter")
        assert "1 Use" in s.text
        await s.press("5")
        assert s.lines[1].startswith(" 5 NVLink")
        await s.press("right_square_bracket")
        assert " 6 MIG instances" in s.text
        assert "1 Use" not in s.text
        await s.press("left_square_bracket", "left_square_bracket")
        assert s.lines[1].startswith(" 4 PCIe")
        await s.press("g")
        assert "H100 80GB HBM3" in s.lines[1]
        await s.press("G")
        assert "9 Other" in s.text


async def test_the_cursor_walks_through_sections_and_pages(stage):
    async with stage(machine()) as s:
        await s.press("enter", "enter")
        assert s.cursor_line().startswith("  SM active")
        await s.press("j", "down", "k")
        assert s.cursor_line().startswith("  SM occupancy")
        await s.press("pagedown")
        assert "SM active" not in s.text
        await s.press("pageup", "pageup")
        assert s.cursor_line().startswith("  SM active")


async def test_lines_are_found_by_label_key_and_section(stage):
    async with stage(machine()) as s:
        await s.press("enter", "enter", "slash", *"power_limit_w")
        assert "power limit" in s.text
        assert "SM occupancy" not in s.text
        await s.press("escape", "slash", *"NVLink", "enter")
        assert "got by all links" in s.text
        assert "1 Use" not in s.text
        await s.press("escape", "slash", *"zzz")
        assert "No line contains “zzz”" in s.text


async def test_a_process_opens_its_job(stage):
    async with stage(machine()) as s:
        await s.press("tab", "enter", "7", "enter")
        assert isinstance(s.app.screen, JobScreen)
        assert "7 train" in s.lines[0]


async def test_a_click_moves_the_cursor_and_a_second_opens(stage):
    async with stage(machine()) as s:
        await s.press("tab", "N", "1")
        y = next(i for i, line in enumerate(s.lines) if line.startswith("    1  "))
        await s.pilot.click(offset=(5, y))
        await s.pilot.pause()
        assert isinstance(s.app.screen, NodeScreen)
        await s.pilot.click(offset=(5, y))
        await s.pilot.pause()
        assert isinstance(s.app.screen, GpuScreen)
        assert "n1:1" in s.lines[0]
