"""Typing `:` and a name leads anywhere, shows what there is, and says why it leads nowhere."""

from __future__ import annotations

from gpumon.tui.screens.lists.jobs import JobsView
from gpumon.tui.screens.pages.gpu import GpuScreen
from tests.worlds.tick import fleet


async def test_a_command_goes_anywhere_and_back_returns(stage):
    async with stage(fleet()) as s:
        await s.press("colon", *"pend", "enter")
        assert "› pending" in s.lines[0]
        await s.press("colon", *"node gpu02", "enter")
        assert "pending › node gpu02" in s.lines[0]
        await s.press("escape", "colon", *"job 4711", "enter")
        assert "pending › 4711 finetune" in s.lines[0]
        await s.press("colon", *"edsger", "enter")
        assert "users › edsger" in s.lines[0]
        await s.press("colon", *"gpu gpu01:3", "enter")
        assert isinstance(s.app.screen, GpuScreen)
        await s.press("colon", *"jobs", "enter")
        assert len(s.app.screen_stack) == 1
        await s.press("colon", *"findings", "enter")
        assert "LOST" in s.text


async def test_a_command_is_completed_and_its_choices_are_shown(stage):
    async with stage(fleet()) as s:
        await s.press("colon")
        assert s.lines[-2].split()[:3] == ["jobs", "gpus", "nodes"]
        await s.press(*"us", "tab")
        assert s.lines[-2].split() == ["users", "user"]
        await s.press("space")
        assert s.lines[-2].split()[:4] == ["user", "ada", "user", "barbara"]
        await s.press(*"gr", "tab", "enter")
        assert "users › grace" in s.lines[0]
        assert "4711" in s.text
        assert "4690" not in s.text


async def test_a_command_that_leads_nowhere_says_why_and_escape_leaves_it(stage):
    async with stage(fleet()) as s:
        await s.press("colon", *"node zzz", "enter")
        assert "✗ no node is called “zzz”" in s.lines[-2]
        await s.press("backspace")
        assert "✗" not in s.lines[-2]
        await s.press("escape")
        assert isinstance(s.app.screen, JobsView)
        assert "✓ live " in s.lines[-2]
        await s.press("colon", "enter")
        assert "nothing typed" in s.lines[-2]
