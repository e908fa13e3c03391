"""Below the list of GPUs the machine is shown where no queue is asked."""

from __future__ import annotations

import pytest

from tests.worlds.node import without_gpus
from tests.worlds.tick import AT, BUSY, finding, fleet, gpu, tick


def workstation(count=8):
    return tick((), [gpu("desk", place, BUSY) for place in range(count)], queue_at=None)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_a_workstation_shows_its_host_and_its_processes_at_first_sight(stage, size):
    async with stage(workstation(), size) as s:
        await s.press("2")
        assert "host desk" in s.text
        assert "No process is on its GPUs." in s.text
        assert ("GPU 7 " in s.text) is (size[1] > 24)
        assert all(len(line) <= size[0] for line in s.lines)


async def test_where_a_queue_says_whose_gpus_are_there_is_none(stage):
    async with stage(fleet(), (120, 40)) as s:
        await s.press("2")
        assert "host gpu01" not in s.text


async def test_a_table_that_fills_the_screen_keeps_it(stage):
    async with stage(workstation(40), (120, 40)) as s:
        await s.press("2")
        assert "host desk" not in s.text


async def test_the_machine_under_the_cursor_is_shown(stage):
    gpus = [gpu(name, place, BUSY) for name in ("a", "b") for place in range(2)]
    async with stage(tick((), gpus, queue_at=None), (120, 40)) as s:
        await s.press("2")
        assert "host a" in s.text
        await s.press("G")
        assert "host b" in s.text
        assert "host a" not in s.text


async def test_the_machine_is_shown_again_every_other_second(stage):
    def at(second, load):
        made = workstation()
        gpus = {
            uuid: gpu("desk", place, {**BUSY, "sm_active_ratio": load})
            for place, uuid in enumerate(made.gpus)
        }
        return made._replace(at=AT + second, gpus=gpus, number=second + 1)

    async with stage(at(0, 0.2), (120, 40)) as s:
        await s.press("2")
        assert "20 %  MEM" in s.text
        await s.give(at(1, 0.9))
        assert "20 %  MEM" in s.text
        await s.give(at(2, 0.9))
        assert "90 %  MEM" in s.text
        assert "20 %  MEM" not in s.text
        await s.press("comma", "comma", "full_stop")
        assert "90 %  MEM" in s.text
        await s.press("comma")
        assert "20 %  MEM" in s.text


async def test_a_machine_whose_gpus_cannot_be_read_shows_its_host_all_the_same(stage):
    async with stage(without_gpus("desk"), (120, 40)) as s:
        await s.press("2")
        (line,) = [line for line in s.lines if "host desk" in line]
        assert "CPU 37 % of 64 CPUs" in line
        assert "process" not in s.text.partition("host desk")[2].partition("quit")[0]


async def test_a_machine_of_which_nothing_is_known_has_no_pane(stage):
    made = without_gpus("desk")
    nodes = {"desk": made.nodes["desk"]._replace(blocks={}, taken_at=None)}
    async with stage(made._replace(nodes=nodes), (120, 40)) as s:
        await s.press("2")
        assert "host desk" not in s.text


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_the_verdict_of_the_gpu_under_the_cursor_is_shown_with_what_to_do(stage, size):
    made = workstation(3)
    hot = list(made.gpus)[1]
    claim = finding(f"gpu:{hot}", summary="desk GPU 1 is hot", advice=("Clean its filter.",))
    async with stage(made._replace(findings=(claim,)), size) as s:
        await s.press("2", "g")
        seen = {}
        for _ in made.gpus:
            uuid = s.app.screen.grid.current.gpu.uuid
            seen[uuid] = "→ Clean its filter." in s.text
            assert ("desk GPU 1 is hot" in s.text) is seen[uuid]
            await s.press("j")
        assert seen == {uuid: uuid == hot for uuid in made.gpus}
