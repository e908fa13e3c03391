"""The instances of a GPU in MIG mode in the list of GPUs."""

from __future__ import annotations

from gpumon.sources.own_login import own_login
from tests.worlds.mig import contexts, on_cut, picture
from tests.worlds.node import block


async def test_they_are_below_their_gpu_and_enter_opens_it(stage):
    async with stage(picture(), (80, 24)) as s:
        await s.press("2")
        assert "3 GPUs on 1 node" in s.lines[0]
        shown = [line.split()[1] for line in s.lines if line.startswith(" n1")]
        assert shown == ["0", "1", "1:1/0", "1:5/0", "1:5/1", "2"]
        assert "9.0/20 MIG 3g.40gb" in s.line_with("1:1/0")
        await s.press("j", "j", "enter")
        assert "gpus › n1:1" in s.lines[0]


async def test_a_filter_and_a_sorting_go_by_their_own_values(stage):
    async with stage(picture(), (80, 24)) as s:
        await s.press("2", "slash", *"sm<20", "enter")
        assert "1 of 6 lines" in s.lines[0]
        assert "1:1/0" in s.text
        await s.press("escape", "slash", *"sm>0", "enter")
        while "SM%▼" not in s.text:
            await s.press("greater_than_sign")
        shown = [line.split()[1] for line in s.lines if line.startswith(" n1")]
        assert shown == ["0", "2", "1:5/1", "1:1/0"]


async def test_the_head_counts_gpus_where_only_ones_own_are_shown(stage):
    mine = (on_cut(71, own_login()), on_cut(72, "noether"))
    made = picture({"context": contexts({71: (1, 0), 72: (5, 1)})}, mine, queue_at=None)
    async with stage(made, (120, 24)) as s:
        await s.press("2", "u")
        assert "1 of 3 GPUs" in s.lines[0]
        shown = [line.split()[1] for line in s.lines if line.startswith(" n1")]
        assert shown == ["1", "1:1/0"]


async def test_the_column_is_as_wide_as_before_once_none_is_left(stage):
    async with stage(picture({"mig": block("mig", {})}), (80, 24)) as s:
        await s.press("2")
        before = next(line for line in s.lines if "MEM GiB" in line)
        await s.give(picture())
        assert next(line for line in s.lines if "MEM GiB" in line) != before
        await s.give(picture({"mig": block("mig", {})}))
        assert next(line for line in s.lines if "MEM GiB" in line) == before
