"""A job with many alike ranks on the screen."""

from __future__ import annotations

from gpumon.model.finding import Severity
from tests.worlds.tick import finding, job_with_gpus, tick


def large():
    """Twenty-four ranks, one of which is named."""
    view, gpus = job_with_gpus("31", {"n1": 8, "n2": 8, "n3": 8})
    named = finding("job:31/rank:13", severity=Severity.CRITICAL, summary="rank 13 waits")
    return tick((view,), gpus, findings=(named,))


async def test_who_matters_is_on_top_of_peers_in_one_line(stage):
    async with stage(large(), (120, 40)) as s:
        await s.press("enter")
        assert s.cursor_line().split()[0] == "13"
        assert "0…23" in s.line_with("22 more like it: z shows each")
        assert "24 ranks, 24 GPUs" in s.lines[0]


async def test_z_and_enter_tell_each_and_z_folds_again(stage):
    async with stage(large(), (120, 60)) as s:
        await s.press("enter", "z")
        assert "more like it" not in s.text
        assert s.line_with(" n3 ").split()[0] == "16"
        await s.press("z")
        assert "22 more like it" in s.text
        await s.press("G", "enter")
        assert "more like it" not in s.text


async def test_a_filter_looks_through_those_that_are_folded(stage):
    async with stage(large(), (120, 40)) as s:
        await s.press("enter", "slash", *"node=n3", "enter")
        assert "8 of 24" in s.lines[0]
        await s.press("escape")
        assert "22 more like it" in s.text
