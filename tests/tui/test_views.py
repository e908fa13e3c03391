"""Every view in every state, at the sizes people have."""

from __future__ import annotations

import pytest

from gpumon.model.cluster import Node
from gpumon.model.frame import SourceError
from gpumon.model.missing import Reason
from gpumon.model.tick import TargetState
from gpumon.report.gpu_layout import COUNTERS
from gpumon.sources.source import Wish
from tests.machines import WHOLE, block, event, links, machine
from tests.ticks import AT, GIB, failed, finding, fleet, gpu, job_with_gpus, tick, uuid_of

SIZES = [(80, 24), (120, 40), (200, 60)]


async def test_paints_before_the_feed_starts(stage):
    async with stage() as s:
        assert s.feed.painted_before_start is not None
        assert "Waiting for the first sample" in s.feed.painted_before_start


@pytest.mark.parametrize("size", SIZES)
async def test_jobs_with_data(stage, size):
    async with stage(fleet(), size) as s:
        row = s.line_with("4711")
        for words in ("grace", " 8 ", "2h14m", " R ", " 52 ", "! some GPUs unused", "finetune"):
            assert words in row
        assert [line.split()[0] for line in s.lines[2:7]] == [
            "4711", "4690", "4702", "4720_3", "4730",
        ]  # fmt: skip
        assert "stale 42s" in s.line_with("4702")
        assert "– unknown" in s.line_with("4720_3")
        assert "waits: Resources" in s.line_with("4730")
        assert "queue 12s old" in s.lines[-2]
        assert "5 jobs" in s.lines[0]


async def test_wide_terminals_show_what_narrow_ones_drop(stage):
    async with stage(fleet(), (80, 24)) as s:
        assert "DRAM%" not in s.lines[1]
    async with stage(fleet(), (200, 60)) as s:
        for title in ("PART", "NODES", "DRAM%", "PWR W/cap", "MEM GiB", "UTIL%", "CONF"):
            assert title in s.lines[1]
        assert "supported" in s.line_with("4711")


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


@pytest.mark.parametrize("size", SIZES)
async def test_gpu_with_data(stage, size):
    async with stage(fleet(), size) as s:
        await s.press("enter", "enter")
        assert "jobs › 4711 finetune › gpu01:0" in s.lines[0]
        assert "H100 80GB HBM3" in s.text
        assert "held by job 4711 of grace" in s.text
        row = s.line_with("SM active")
        assert "84 %" in row
        assert "▂▅" in row
        await s.press("7")
        row = s.line_with("4000 python")
        for words in ("4711.0", "0/8", "60"):
            assert words in row


async def test_gpu_groups_what_is_missing_by_its_reason(stage):
    async with stage(fleet(), (80, 50)) as s:
        await s.press("enter", "enter")
        row = s.line_with("video encoder")
        assert row.startswith("  – not offered by GPU or driver: ")
        assert "video decoder" in s.text


async def test_gpu_compares_with_the_data_sheet(stage):
    async with stage(machine()) as s:
        await s.press("enter", "enter")
        assert "≤465/989 TFLOPS bf16" in s.line_with("tensor pipes")
        assert "1.21 of 3.35 TB/s" in s.line_with("DRAM bandwidth")
        assert "H100 SXM data sheet" in s.text


async def test_gpu_without_a_data_sheet_says_so(stage):
    async with stage(tick((), [gpu("n", 0, name="NVIDIA Prototype")])) as s:
        await s.press("tab", "enter")
        assert "unknown GPU: no data sheet" in s.text
        assert "TFLOPS" not in s.text


async def test_gpu_section_without_values_is_one_line(stage):
    none = dict.fromkeys(("pcie_gen", "pcie_width", "pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s"))
    counters = dict.fromkeys(COUNTERS["PCIe"])
    async with stage(machine({**WHOLE, **none, **counters}), (80, 60)) as s:
        await s.press("enter", "enter")
        assert s.line_with("4 PCIe").rstrip() == " 4 PCIe  – not offered by GPU or driver"


@pytest.mark.parametrize("size", SIZES)
async def test_gpu_links_and_health(stage, size):
    uuid = uuid_of("n1", 0)
    picture = machine(more={"event": event(uuid, 79), "link": links(uuid, 4, down=1)})
    async with stage(picture, size) as s:
        await s.press("tab", "enter")
        assert "‼ Xid 79: GPU has fallen off the bus" in s.text
        await s.press("5")
        assert "3 of 4 links active" in s.text
        row = s.line_with("   3 inactive")
        assert "switch 0000:85:00.0" in row
        assert "! replay 7" in s.line_with("   0 active")
        await s.press("8")
        assert "→ drain the node and power-cycle it" in s.text
        assert "1 of 4 NVLinks are inactive" in s.text


@pytest.mark.parametrize("size", SIZES)
async def test_node_with_data(stage, size):
    uuid = uuid_of("n1", 0)
    async with stage(machine(more={"event": event(uuid, 31)}), size) as s:
        await s.press("tab", "N")
        assert "Slurm mixed" in s.text
        assert "550.54.15" in s.text
        assert "37 %" in s.line_with("CPU busy")
        assert "not offered here: swap free" in s.text
        await s.press("1")
        assert "! Xid 31" in s.text
        await s.press("4")
        port = s.line_with("mlx5_0/1")
        assert "12G" in port
        assert "! link dow" in port
        assert "down, pol" in s.line_with("mlx5_1/1")
        await s.press("5")
        assert "4.2 ms" in s.line_with("/data")
        await s.press("6")
        assert "11.4/16" in s.line_with("ada train")
        await s.press("7")
        assert "GPU 0 Xid 31: GPU memory page fault" in s.text


async def test_mig_instances_are_listed(stage):
    uuid = uuid_of("n1", 0)
    row = {"mig_gpu_instance": 2, "mig_compute_instance": 0, "mig_sm_active_ratio": 0.61}
    row |= {"mig_mem_used_bytes": 9.0 * GIB, "mig_mem_total_bytes": 20.0 * GIB}
    labels = {"parent": (uuid,), "profile": ("2g.20gb",)}
    slices = block("mig", {"MIG-0a1b2c3d-0000-4000-8000-000000000000": row}, labels)
    async with stage(machine({**WHOLE, "mig_mode": 1}, {"mig": slices})) as s:
        await s.press("tab", "enter", "6")
        line = s.line_with("0a1b2c3d")
        for words in ("2g.20gb", " 2 ", " 0 ", "9.0/20", "61"):
            assert words in line


async def test_node_without_blocks_says_what_is_not_read(stage):
    async with stage(fleet(), (80, 40)) as s:
        await s.press("tab", "N")
        assert s.text.count("not read on this node") == 4
        assert "Topology" not in s.text


async def test_node_stale_and_gone(stage):
    async with stage(fleet()) as s:
        await s.press("j", "j", "enter", "N")
        assert "stale 42s: the node no longer answers" in s.text
        await s.give(tick())
        assert "Node gpu04 is not listed at this instant" in s.text


async def test_gpus_say_health_in_a_word(stage):
    uuid = uuid_of("n1", 0)
    async with stage(machine(more={"event": event(uuid, 79)}), (200, 40)) as s:
        await s.press("tab")
        assert "‼ Xid 79" in s.lines[2]
        assert " ok " in s.lines[3]


async def test_a_gpu_that_cannot_be_read_says_why(stage):
    lost = dict.fromkeys(WHOLE)
    picture = machine(lost)
    uuid = uuid_of("n1", 0)
    board = picture.gpus[uuid]
    missing = {(key, 0): Reason.FAILED for key in WHOLE}
    board = board._replace(block=board.block._replace(missing=missing))
    other = SourceError(f"n1 GPU 1 {uuid_of('n1', 1)}", "nvmlOther has not returned for 8 s")
    error = SourceError(f"n1 GPU 0 {uuid}", "nvmlDeviceGetPower has not returned for 9 s")
    node = picture.nodes["n1"]._replace(errors=(other, error))
    picture = picture._replace(gpus={**picture.gpus, uuid: board}, nodes={"n1": node})
    async with stage(picture, (160, 40)) as s:
        await s.press("tab")
        assert "‼ nvmlDeviceGet" in s.text
        assert "‼ no answer" in s.text
        await s.press("enter")
        assert "‼ nvmlDeviceGetPower has not returned for 9 s" in s.text


async def test_the_status_line_tells_what_gpumon_costs(stage):
    async with stage(fleet(), (160, 40)) as s:
        assert "MiB" not in s.lines[-2]
        s.app.mood = s.app.mood._replace(own_cpu_ratio=0.034, own_rss_bytes=150 * 2**20)
        await s.give(fleet(number=2))
        assert "gpumon 3 % CPU 150 MiB" in s.lines[-2]


async def test_the_cost_is_measured_only_after_the_first_tick(stage):
    async with stage() as s:
        s.app.measure_footprint()
        assert s.app.mood.own_rss_bytes is None
        await s.give(fleet())
        s.app.measure_footprint()
        assert s.app.mood.own_rss_bytes > 0


async def test_gpu_stale_and_gone(stage):
    async with stage(fleet()) as s:
        await s.press("j", "j", "enter", "enter")
        assert "stale 42s: the node no longer answers" in s.text
        await s.give(tick())
        assert "is not listed at this instant" in s.text


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
        assert "here" in s.line_with("612/700")


async def test_findings_page_has_evidence_and_coverage(stage):
    async with stage(fleet()) as s:
        await s.press("f", "f")
        assert "gpu01:5 to gpu01:7 had 0 % SM activity" in s.text
        assert "→ Check CUDA_VISIBLE_DEVICES in the script." in s.text
        assert "partial_gpus_idle: ok, judged 1" in s.text


async def test_findings_of_a_gpu_count_for_its_job(stage):
    view, gpus = job_with_gpus("1", {"gpu01": 1})
    async with stage(tick((view,), gpus, findings=(finding(f"gpu:{gpus[0].uuid}"),))) as s:
        assert "! some GPUs unused" in s.line_with("train-")
        await s.press("enter", "enter", "f", "f")
        assert "3 of 8 GPUs ran nothing" in s.text


async def test_silence_is_told(stage):
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


async def test_late_sampler_and_errors_are_told(stage):
    errors = (SourceError("gpu07", "timed out"),)
    async with stage(fleet(lateness_s=1.4, errors=errors), (120, 40)) as s:
        assert "late 1.4s" in s.lines[-2]
        assert "1 error" in s.lines[-2]


async def test_resize_keeps_the_cursor_and_redraws(stage):
    async with stage(fleet(), (200, 60)) as s:
        await s.press("j", "j")
        await s.resize(80, 24)
        assert s.cursor_line().startswith(" 4702")
        assert "DRAM%" not in s.lines[1]
        assert len(s.lines) == 24
        await s.resize(40, 8)
        assert "some GPUs" in s.text


async def test_the_status_says_how_often_the_job_on_screen_is_looked_at(stage):
    async with stage(fleet(), (100, 24)) as s:
        await s.press("enter")
        assert "zoom" not in s.lines[-2]
        await s.give(fleet()._replace(at=AT + 1, zoom_period_s=0.5))
        assert "every 1s · zoom 0.5s" in s.lines[-2]
        await s.press("p")
        assert "zoom" not in s.lines[-2]


async def test_back_from_one_job_to_another_looks_closer_at_that_one_again(stage):
    async with stage(fleet()) as s:
        await s.press("enter")
        await s.press("colon", *"job 4690", "enter")
        assert s.feed.wishes[-1].zoom_nodes == ("gpu02", "gpu03")
        await s.press("escape")
        assert s.feed.wishes[-1].zoom_nodes == ("gpu01",)
        await s.press("escape")
        assert s.feed.wishes[-1] == Wish()
