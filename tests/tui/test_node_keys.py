"""Keys in the views of one node and one GPU: their sections, lines and the way between them."""

from __future__ import annotations

import pytest

from gpumon.tui.actions.registry import ACTIONS
from gpumon.tui.screens.pages.gpu import GpuScreen
from gpumon.tui.screens.pages.job import JobScreen
from gpumon.tui.screens.pages.node import NodeScreen
from tests.worlds.node import machine

KEYS = {name: keys for name, keys, *_ in ACTIONS}


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
        await s.press("tab", "o", "1", "enter")
        assert isinstance(s.app.screen, GpuScreen)
        await s.press("o")
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
        await s.press("tab", "o", "1")
        y = next(i for i, line in enumerate(s.lines) if line.startswith("    1  "))
        await s.pilot.click(offset=(5, y))
        await s.pilot.pause()
        assert isinstance(s.app.screen, NodeScreen)
        await s.pilot.click(offset=(5, y))
        await s.pilot.pause()
        assert isinstance(s.app.screen, GpuScreen)
        assert "n1:1" in s.lines[0]
