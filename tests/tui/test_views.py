"""Every view in every state, at the sizes people have."""

from __future__ import annotations

import pytest

from gpumon.model.fault import SourceError
from gpumon.model.records.cluster import Node
from gpumon.model.records.tick import TargetState
from gpumon.sources.source import Wish
from tests.worlds.node import event, machine
from tests.worlds.tick import AT, failed, finding, fleet, gpu, job_with_gpus, tick, uuid_of

SIZES = [(80, 24), (120, 40), (200, 60)]


async def test_paints_before_the_feed_starts(stage):
    async with stage() as s:
        assert s.feed.painted_before_start is not None
        assert "Waiting for the first sample" in s.feed.painted_before_start


@pytest.mark.parametrize("size", SIZES)
async def test_jobs_with_data(stage, size):
    async with stage(fleet(), size) as s:
        row = s.line_with("4711")
        for words in ("grace", " 8 ", "!◐ 3 of 8 GPUs", "finetune"):
            assert words in row
        assert [line.split()[1] for line in s.below[2:7]] == [
            "4711", "4690", "4702", "4720_3", "4730",
        ]  # fmt: skip
        assert "stale 42s" in s.line_with("4702")
        assert "– unknown" in s.line_with("4720_3")
        assert "waits: Resources" in s.line_with("4730")
        assert "✓ live " in s.lines[-2]
        assert "5 jobs" in s.lines[0]


async def test_wide_terminals_show_what_narrow_ones_drop(stage):
    async with stage(fleet(), (80, 24)) as s:
        assert "NEXT" not in s.below[1]
        assert "LAST 2H" not in s.below[1]
    async with stage(fleet(), (200, 60)) as s:
        for title in ("LAST 2H SM%", "NEXT"):
            assert title in s.below[1]
        assert "hypothesis" not in s.text
        assert "some GPUs unused: supported" in s.text


async def test_jobs_empty_queue(stage):
    async with stage(tick()) as s:
        assert "The queue lists no jobs." in s.text
        assert "Tab shows the other views" in s.text


async def test_jobs_failed(stage):
    async with stage(failed()) as s:
        assert "The queue could not be read." in s.text
        assert "slurm: squeue: command not found" in s.text
        assert "load the slurm module" in s.text
        assert "1 of 1 targets fail" in s.lines[-2]


async def test_jobs_stale_queue(stage):
    async with stage(fleet(queue_at=AT - 140)) as s:
        assert "stale 2m: the queue has not answered since" in s.text
        assert "4711" in s.text


@pytest.mark.parametrize("size", SIZES)
async def test_job_with_data(stage, size):
    async with stage(fleet(), size) as s:
        await s.press("enter")
        assert "jobs › 4711 finetune" in s.lines[0]
        assert "2:14:00 of 1-00:00:00" in s.text
        assert "! some GPUs unused: supported" in s.text
        assert "3 of 8 GPUs ran nothing" in s.text
        assert "→ Ask for 5 GPUs: sbatch --gpus=5" in s.text
        assert s.text.count("no process") == 3
        assert "5 ranks, 8 GPUs" in s.lines[0]


async def test_job_asks_for_a_closer_look_and_lets_go(stage):
    async with stage(fleet()) as s:
        await s.press("enter")
        (wish,) = s.feed.wishes
        assert wish.zoom_nodes == ("gpu01",)
        assert len(set(wish.zoom_gpus)) == 8
        await s.press("escape")
        assert s.feed.wishes[1:] == [Wish()]


async def test_the_sources_know_whether_processes_are_on_screen(stage):
    async with stage(fleet()) as s:
        assert s.feed.processes == [False]
        await s.press("enter")
        assert s.feed.processes == [False, True]
        await s.press("escape")
        await s.press("tab")
        assert s.feed.processes == [False, True, False]
        s.app.go("processes")
        await s.give(fleet())
        assert s.feed.processes == [False, True, False, True]


async def test_a_machine_below_its_gpus_shows_processes_where_there_is_room(stage):
    alone = fleet()._replace(jobs=(), queue_at=None, targets=())
    async with stage(alone, (120, 50)) as s:
        assert s.feed.processes == []
    async with stage(alone, (120, 14)) as s:
        assert s.feed.processes == [False]


async def test_what_failed_on_a_machine_without_gpus_is_said_once_beside_no_processes(stage):
    error = SourceError("NVML", "the library is older than the driver", "reboot it")
    alone = tick()._replace(nodes={"ws3": Node("ws3", (), None, False, None, (error,))})
    async with stage(alone) as s:
        s.app.go("processes")
        await s.give(alone)
        assert "No GPU is known, so no process either." in s.text
        above_the_last_lines = "\n".join(s.text.splitlines()[:-3])
        assert above_the_last_lines.count("the library is older than the driver") == 1
        assert above_the_last_lines.count("reboot it") == 1


async def test_job_that_has_left_the_queue(stage):
    async with stage(fleet()) as s:
        await s.press("enter")
        await s.give(tick())
        assert "Job 4711 is not in the queue at this instant." in s.text
        assert "sacct -j 4711" in s.text


async def test_job_stale(stage):
    async with stage(fleet()) as s:
        await s.press("j", "j", "enter")
        assert "stale 42s: none of its nodes answers any more" in s.text
        assert s.text.count("stale 42s") == 5


async def test_job_whose_nodes_fail(stage):
    broken = fleet()
    error = SourceError("gpu05", "ssh: permission denied", "add a key")
    node = Node("gpu05", (), None, False, "mixed", (error,))
    broken = broken._replace(nodes={**broken.nodes, "gpu05": node})
    async with stage(broken) as s:
        await s.press("j", "j", "j", "enter")
        assert "4 GPUs unknown: no telemetry from gpu05 (ssh: permission denied)" in s.text
        assert "No telemetry names the job's GPUs yet" in s.text
        assert "add a key" in s.text


async def test_contradictions_are_shown(stage):
    view, gpus = job_with_gpus("1", {"gpu01": 1})
    view = view._replace(contradictions=("Slurm says GPU 0, but pid 4000 runs on GPU 3",))
    async with stage(tick((view,), gpus)) as s:
        await s.press("enter")
        assert "≠ Slurm says GPU 0, but pid 4000 runs on GPU 3" in s.text


async def test_gpus_say_health_in_a_word(stage):
    uuid = uuid_of("n1", 0)
    async with stage(machine(more={"event": event(uuid, 79)}), (200, 40)) as s:
        await s.press("tab")
        assert "‼ Xid 79" in s.below[2]
        await s.press("c", "slash", *"health", "enter", "enter", "escape", "escape")
        assert "‼ Xid 79" in s.below[2]
        assert " ok " in s.below[3]


async def test_what_gpumon_costs_is_on_the_page_of_errors_unless_it_is_much(stage):
    async with stage(fleet(lateness_s=0.2), (160, 40)) as s:
        s.app.mood = s.app.mood._replace(own_cpu_ratio=0.034, own_rss_bytes=150 * 2**20)
        await s.give(fleet(number=2, lateness_s=0.2))
        assert "MiB" not in s.lines[-2]
        await s.press("e")
        assert "gpumon itself uses 3 % of a core, 150 MiB" in s.text
        assert "a tick every 1 s, the newest came 0.2 s late" in s.text
        assert "the queue answered 12s ago" in s.text
        await s.press("escape")
        s.app.mood = s.app.mood._replace(own_cpu_ratio=1.4)
        await s.give(fleet(number=3))
        assert "! gpumon itself uses 140 % of a core, 150 MiB" in s.lines[-2]


async def test_the_cost_is_measured_only_after_the_first_tick(stage):
    async with stage() as s:
        s.app.measure_footprint()
        assert s.app.mood.own_rss_bytes is None
        await s.give(fleet())
        s.app.measure_footprint()
        assert s.app.mood.own_rss_bytes > 0


async def test_gpus_by_node(stage):
    async with stage(fleet(), (120, 40)) as s:
        await s.press("tab")
        assert "28 GPUs on 4 nodes" in s.lines[0]
        assert "stale: 1 node no longer answers: gpu04" in s.text
        row = s.line_with("no process")
        assert "4711" in row


async def test_gpus_silent_node_shows_its_reason(stage):
    error = SourceError("gpu09", "connection refused", "")
    node = Node("gpu09", (), None, False, None, (error,))
    async with stage(tick((), [], nodes={"gpu09": node}, queue_at=None)) as s:
        await s.press("tab")
        assert "connection" in s.line_with("gpu09")
        await s.press("enter")
        assert "node gpu09" in s.lines[0]
        assert "gpu09: connection refused" in s.text


async def test_gpus_empty_and_failed(stage):
    async with stage(failed()) as s:
        await s.press("tab")
        assert "No GPU is known." in s.text
        assert "squeue: command not found" in s.text


async def test_without_a_queue_the_gpus_come_first(stage):
    local = (TargetState("local", True, None, 0.3),)
    async with stage(tick((), [gpu("here", 0)], queue_at=None, targets=local)) as s:
        assert "› gpus" in s.lines[0]
        assert "here" in s.line_with("61/80")


async def test_without_a_queue_the_way_back_leads_to_the_gpus(stage):
    local = (TargetState("local", True, None, 0.3),)
    async with stage(tick((), [gpu("here", 0)], queue_at=None, targets=local)) as s:
        await s.press("escape")
        assert s.app.screen.view == "gpus"
        await s.press("colon", *"nodes", "enter", "escape")
        assert s.app.screen.view == "gpus"
        assert s.app.root == "gpus"
        # Who asks for the jobs all the same sees why there are none, and gets away from there.
        await s.press("colon", *"jobs", "enter")
        assert s.app.screen.view == "jobs"
        await s.press("escape")
        assert s.app.screen.view == "gpus"


async def test_without_a_queue_the_digits_lead_to_what_there_is(stage):
    local = (TargetState("local", True, None, 0.3),)
    async with stage(tick((), [gpu("here", 0)], queue_at=None, targets=local), (80, 24)) as s:
        await s.press("3", "1")
        assert (s.app.screen.view, s.app.root) == ("gpus", "gpus")
        await s.press("1")
        assert s.app.screen.view == "gpus"
        await s.press("3", "4")
        assert (s.app.screen.view, s.app.root) == ("nodes", "nodes")
        assert "no queue answers here: key 4, pending, has nothing to show" in s.text
        # Below the list that is shown first there is nothing else.
        await s.press("colon", *"jobs", "enter", "1")
        assert s.app.screen.view == "gpus"


async def test_findings_page_has_evidence_and_coverage(stage):
    async with stage(fleet()) as s:
        await s.press("f", "f")
        assert "gpu01:5 to gpu01:7 had 0 % SM activity" in s.text
        assert "→ Check CUDA_VISIBLE_DEVICES in the script." in s.text
        assert "partial_gpus_idle: ok, judged 1" in s.text


async def test_findings_of_a_gpu_count_for_its_job(stage):
    view, gpus = job_with_gpus("1", {"gpu01": 1})
    async with stage(tick((view,), gpus, findings=(finding(f"gpu:{gpus[0].uuid}"),))) as s:
        assert "!◐ 3 of 8 GPUs" in s.line_with("train-")
        await s.press("enter", "enter", "f", "f")
        assert "3 of 8 GPUs ran nothing" in s.text


async def test_silence_is_shown(stage):
    async with stage(fleet()) as s:
        s.now[0] = 4.0
        s.app.check_silence()
        await s.pilot.pause()
        assert "no new sample" not in s.text
        s.now[0] = 37.0
        s.app.check_silence()
        await s.pilot.pause()
        assert "no new sample for 37s" in s.lines[-2]
        await s.give(fleet(number=2))
        assert "no new sample" not in s.text


async def test_late_sampler_and_errors_are_shown(stage):
    errors = (SourceError("gpu07", "timed out"),)
    async with stage(fleet(lateness_s=1.4, errors=errors), (120, 40)) as s:
        assert "! 1.4 s late" in s.lines[-2]
        assert "1 error" in s.lines[-2]


async def test_resize_keeps_the_cursor_and_redraws(stage):
    async with stage(fleet(), (200, 60)) as s:
        await s.press("j", "j")
        await s.resize(80, 24)
        assert s.cursor_line().split()[1] == "4702"
        assert "NEXT" not in s.below[1]
        assert len(s.lines) == 24
        await s.resize(40, 8)
        assert "!◐ 3 of" in s.text


async def test_the_status_says_how_often_the_job_on_screen_is_looked_at(stage):
    async with stage(fleet(), (100, 24)) as s:
        await s.press("enter")
        assert "every 1s" in s.lines[-2]
        await s.give(fleet()._replace(at=AT + 1, zoom_period_s=0.5))
        assert "this job every 0.5s" in s.lines[-2]
        await s.press("p")
        assert "this job" not in s.lines[-2]


async def test_back_from_one_job_to_another_looks_closer_at_that_one_again(stage):
    async with stage(fleet()) as s:
        await s.press("enter")
        await s.press("colon", *"job 4690", "enter")
        assert s.feed.wishes[-1].zoom_nodes == ("gpu02", "gpu03")
        await s.press("escape")
        assert s.feed.wishes[-1].zoom_nodes == ("gpu01",)
        await s.press("escape")
        assert s.feed.wishes[-1] == Wish()
