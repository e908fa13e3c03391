"""The ranks of a job on the screen: over time and as a map, in the four states, with its keys."""

from __future__ import annotations

import pytest

from gpumon.fleet.history.history import History
from gpumon.model.records.block import Block, column_for
from gpumon.tui.screens.pages.curves import CurvesScreen
from gpumon.tui.screens.pages.gpu import GpuScreen
from gpumon.tui.screens.pages.job import JobScreen
from gpumon.tui.screens.pages.node import NodeScreen
from gpumon.tui.screens.pages.ranks import RanksScreen
from tests.worlds.tick import AT, BUSY, failed, finding, gpu, job_with_gpus, tick

JOB = "7"
STEPS = 60


def at(number, history, ranks=16, **changes):
    """One tick in which rank 5 has lagged for half a minute."""
    nodes = {f"n{i:03}": 8 for i in range(-(-ranks // 8))}
    view, gpus = job_with_gpus(JOB, nodes, name="pretrain")
    lag = 0.3 if number >= STEPS - 30 else 0.85
    now = [
        gpu(one.node, rank % 8, {**BUSY, "sm_active_ratio": lag if rank == 5 else 0.85})
        for rank, one in enumerate(gpus)
    ]
    odd = finding(f"job:{JOB}/rank:5", onset=AT - 30)
    fields = {"number": number, "findings": (odd,), "observed_since": AT - STEPS, **changes}
    made = tick((view,), now, at=AT - STEPS + 1 + number, **fields)
    history.append(made)
    return made._replace(history=history.reader())


def lagging(ranks=16, **changes):
    history = History()
    made = [at(number, history, ranks, **changes) for number in range(STEPS)]
    return made[-1]


def line_of(stage, name):
    return next(line for line in stage.lines if line[1:].startswith(name))


@pytest.mark.parametrize("size", [(80, 24), (160, 50), (200, 60)])
async def test_a_straggler_is_seen_at_a_glance(stage, size):
    async with stage(lagging(), size) as s:
        await s.press("enter", "tab")
        assert isinstance(s.app.screen, RanksScreen)
        await s.press("z")
        marked = [line for line in s.lines if line.count("▼") > 5]
        assert len(marked) == 1
        assert " 5 " in marked[0]
        assert marked[0][1] == "!"
        assert "world n000:29500 · python · 16 ranks" in s.text
        assert "p90" in s.text
        assert "p10" in s.text
        assert "onset" in s.text
        assert "▲ far above" in s.text


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_commands_are_about_the_rank_under_the_cursor(stage, size):
    async with stage(lagging(), size) as s:
        await s.press("enter", "tab", "s", "x")
        assert "owner sbatch --gpus=5" in s.cursor_line()
        await s.press("j")
        assert "py-spy dump --pid" in s.cursor_line()
        assert "ssh n000 py-spy" in s.text


async def test_the_furthest_first_its_value_beside_its_peers_and_its_gpu(stage):
    async with stage(lagging(), (160, 40)) as s:
        await s.press("enter", "tab", "s", "g")
        assert "rank 5 · n000:5 · " in s.text
        assert "SM active 30 % · peers 85 (85 to 85) · ! some GPUs unused" in s.text
        await s.press(*["left"] * 45)
        assert "SM active 85 % · peers 85 (85 to 85)" in s.text
        await s.press("enter")
        assert isinstance(s.app.screen, GpuScreen)
        await s.press("escape", "o")
        assert isinstance(s.app.screen, NodeScreen)


@pytest.mark.parametrize(
    "keys", [(), *(pytest.param(("tab",) * n, marks=pytest.mark.slow) for n in (1, 2))]
)
async def test_a_job_opens_with_the_rank_at_fault_under_the_cursor_and_named(stage, keys):
    async with stage(lagging(ranks=64), (80, 24)) as s:
        await s.press("enter", *keys)
        screen = s.app.screen
        row = screen.chart.current if isinstance(screen, RanksScreen) else screen.grid.current
        assert row.rank.rank == 5
        assert "! some GPUs unused: rank 5, supported" in s.text
        # In the table it is on top: there is nothing to go to but what is below.
        await s.press("g" if isinstance(screen, RanksScreen) else "G")
        await s.give(lagging(ranks=64)._replace(number=STEPS + 1, at=AT + 1))
        row = screen.chart.current if isinstance(screen, RanksScreen) else screen.grid.current
        if isinstance(screen, RanksScreen):
            assert row.rank.rank == 0
        else:
            assert len(row.folded) == 62


async def test_a_rank_at_fault_that_is_in_sight_anyway_does_not_scroll_the_table(stage):
    async with stage(lagging(), (80, 24)) as s:
        await s.press("enter")
        assert s.app.screen.grid.current.rank.rank == 5
        assert s.app.screen.grid.scroll_offset.y == 0


async def test_a_filter_that_hides_the_rank_under_the_cursor_puts_it_on_the_first_that_passes(
    stage,
):
    async with stage(lagging(), (100, 30)) as s:
        await s.press("enter", "tab", "slash", *"node==n001", "enter")
        assert s.app.screen.chart.current.rank.rank == 8
        await s.press("escape")
        assert s.app.screen.chart.current.rank.rank == 5


async def test_a_finding_that_is_cut_says_so(stage):
    async with stage(lagging(), (80, 24)) as s:
        await s.press("enter", "tab")
        assert len(s.app.screen.head.text.splitlines()) == 2
        assert s.app.screen.head.text.endswith(" …")


async def test_tab_goes_from_the_table_to_time_to_the_map_and_back(stage):
    async with stage(lagging(), (100, 30)) as s:
        await s.press("enter")
        assert isinstance(s.app.screen, JobScreen)
        await s.press("tab")
        assert "SM active over time" in s.lines[0]
        await s.press("tab")
        assert "verdict of ranks" in s.lines[0]
        assert "rank 5 · n000:5" in s.text
        await s.press("l", "j")
        assert "rank 14 · n001:6" in s.text or "rank 6 · n000:6" in s.text
        await s.press("tab")
        assert isinstance(s.app.screen, JobScreen)


async def test_fields_spans_filter_and_every_key(stage):
    async with stage(lagging(), (100, 30)) as s:
        await s.press("enter", "tab", "c")
        assert "duty cycle over time" in s.lines[0]
        await s.press("C", "w")
        assert "2s a cell" in s.lines[0]
        await s.press("slash", *"n001", "enter")
        assert "n001:0" in s.text
        assert "n000:0" not in s.text
        await s.press("slash", *"zz", "enter")
        assert "No rank passes “n001zz”" in s.text or "No rank passes" in s.text
        await s.press("escape")
        assert "n000:5" in s.text
        await s.press("G", "pagedown", "pageup", "g", "down", "up", "h", "l", "z", "s", "0")
        assert isinstance(s.app.screen, RanksScreen)


async def test_the_filter_completes_the_names_of_columns(stage):
    async with stage(lagging(), (100, 30)) as s:
        await s.press("enter", "tab", "slash", *"no", "tab")
        assert s.app.screen.prompt.value == "node"
        await s.press(*"==n001", "enter")
        assert "n001:0" in s.text
        assert "n000:0" not in s.text


async def test_a_job_that_is_gone_waits_or_is_unknown_says_so(stage):
    async with stage(lagging(), (80, 24)) as s:
        await s.press("enter", "tab")
        await s.give(tick()._replace(at=AT + 5))
        assert f"Job {JOB} is not in the queue at this instant" in s.text
        await s.press("j", "l", "c", "s", "z", "w", "enter", "o", "G")
        await s.give(failed()._replace(at=AT + 6))
        assert "The queue could not be read: whether job 7 is in it" in s.text
        await s.give(lagging()._replace(at=AT + 7))
        assert "world n000:29500" in s.text


async def test_it_can_be_drawn_in_any_size(stage):
    async with stage(lagging(), (200, 60)) as s:
        await s.press("enter", "tab")
        for size in ((20, 5), (1, 1), (12, 3), (200, 60), (80, 24)):
            await s.resize(*size)
        assert "▼▼▼▼" in s.text


async def test_stale_ranks_are_missing_and_not_zero(stage):
    view, gpus = job_with_gpus(JOB, {"a": 8}, stale_s=40.0)
    history = History()
    made = tick((view,), gpus)
    history.append(made)
    async with stage(made._replace(history=history.reader()), (100, 30)) as s:
        await s.press("enter", "tab")
        assert "duty cycle –" in s.text
        assert "– %" not in s.text
        await s.press("tab")
        assert "stale" in s.text


async def test_the_newest_slot_follows_the_ticks_and_the_cursor_keeps_its_rank(stage):
    history = History()
    made = [at(number, history) for number in range(STEPS)]
    async with stage(made[-2], (160, 40)) as s:
        await s.press("enter", "tab", "j", "j")
        assert "rank 7 · n000:7" in s.text
        before = s.text
        await s.give(made[-1])
        assert "rank 7 · n000:7" in s.text
        assert s.text != before


async def test_without_colours_the_drawing_is_the_same_signs(stage, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    async with stage(lagging(), (80, 40)) as s:
        await s.press("enter", "tab")
        assert "█████" in s.text
        assert "▼▼▼▼▼" in s.text


async def test_many_ranks_share_lines_until_every_one_gets_its_own(stage):
    async with stage(lagging(ranks=64), (80, 24)) as s:
        await s.press("enter", "tab")
        assert "a line is the worst of" in s.text
        assert any(line.count("▼") > 5 for line in s.lines)
        await s.press("z")
        assert "a line is the worst of" not in s.text
        await s.press("G")
        assert "rank 63" in s.text


async def test_everything_around_a_rank_is_on_one_time_axis(stage):
    made = lagging()
    name = "n000"
    uuid = made.nodes[name].gpu_uuids[0]
    rates = {f"link_{way}_bytes_per_s": column_for(False, [1e9, 2e9]) for way in ("rx", "tx")}
    link = Block((f"{uuid}/0", f"{uuid}/1"), rates, {}, {})
    mount = Block(("/scratch",), {"fs_read_bytes_per_s": column_for(False, [5e8])}, {}, {})
    blocks = {"link": link, "filesystem": mount}
    history = History()
    for number in range(30):
        nodes = {**made.nodes, name: made.nodes[name]._replace(blocks=blocks)}
        shown = made._replace(nodes=nodes, at=AT + number, number=STEPS + number)
        history.append(shown)
    async with stage(shown._replace(history=history.reader()), (120, 60)) as s:
        await s.press("enter", "tab", "g", "i")
        assert isinstance(s.app.screen, CurvesScreen)
        assert "rank 0 › curves" in s.lines[0]
        assert "SM active" in s.text
        assert "NVLink 0 received" in s.text
        assert "NVLink 1 received" in s.text
        assert "/scratch read" in s.text
        assert "port" not in s.text
        await s.press("f", "escape", "escape")
        assert isinstance(s.app.screen, RanksScreen)


async def test_i_draws_what_is_around_a_rank_from_the_table_and_from_its_gpu_too(stage):
    async with stage(lagging(), (120, 40)) as s:
        await s.press("enter", "z", "g", "j", "j", "j", "i")
        assert isinstance(s.app.screen, CurvesScreen)
        assert "7 pretrain › rank 2 › curves" in s.lines[0]
        assert s.app.screen.subject.endswith("/4002")
        await s.press("escape", "enter")
        assert isinstance(s.app.screen, GpuScreen)
        await s.press("i")
        assert isinstance(s.app.screen, CurvesScreen)
        assert "n000:2 › curves" in s.lines[0]


@pytest.mark.parametrize(
    "keys", [("tab", "down", "down"), ("tab", "tab", "down", "right"), ("j", "j")]
)
async def test_what_is_copied_and_the_commands_are_of_the_rank_under_the_cursor(stage, keys):
    async with stage(lagging(), (120, 40)) as s:
        await s.press("enter", *keys)
        screen = s.app.screen
        row = screen.chart.current if isinstance(screen, RanksScreen) else screen.grid.current
        assert row.rank.rank > 0
        await s.press("y")
        assert s.app.clipboard == row.uuid
        await s.press("x")
        assert f"py-spy dump --pid {row.rank.pid}" in s.text
        await s.press("escape")
        if isinstance(screen, RanksScreen):
            await s.press("i", "x")
            assert f"py-spy dump --pid {row.rank.pid}" in s.text
            await s.press("escape", "escape")
        await s.press("o")
        assert isinstance(s.app.screen, NodeScreen)
        assert s.app.screen.node_name == row.gpu.node
