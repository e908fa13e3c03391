"""The views of one node and one GPU in every state, at the sizes people have."""

from __future__ import annotations

import pytest

from gpumon.model.fault import SourceError
from gpumon.model.missing import Reason
from gpumon.report.pages.gpu_layout import COUNTERS
from tests.worlds.node import WHOLE, block, event, links, machine
from tests.worlds.tick import GIB, fleet, gpu, tick, uuid_of

SIZES = [(80, 24), (120, 40), (200, 60)]


@pytest.mark.parametrize("size", SIZES)
async def test_gpu_with_data(stage, size):
    async with stage(fleet(), size) as s:
        # On the smallest screen alike ranks share a line, and the odd one is above them.
        await s.press("enter", *("z" for _ in range(size == SIZES[0])), "enter")
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
    seen = machine(more={"event": event(uuid, 79), "link": links(uuid, 4, down=1)})
    async with stage(seen, size) as s:
        await s.press("tab", "enter")
        assert "‼ Xid 79: GPU has fallen off the bus" in s.text
        await s.press("5")
        assert "3 of 4 links active" in s.text
        row = s.line_with("   3 inactive")
        assert "switch 0000:85:00.0" in row
        assert "! replay 7" in s.line_with("   0 active")
        await s.press("8")
        assert "→ free the node and power-cycle it" in s.text
        assert "1 of 4 NVLinks are inactive" in s.text


@pytest.mark.parametrize("size", SIZES)
async def test_node_with_data(stage, size):
    uuid = uuid_of("n1", 0)
    async with stage(machine(more={"event": event(uuid, 31)}), size) as s:
        await s.press("tab", "o")
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
        for words in ("2g.20gb", " 2/0 ", "9.0/20", "61"):
            assert words in line


async def test_node_without_blocks_says_what_is_not_read(stage):
    async with stage(fleet(), (80, 40)) as s:
        await s.press("tab", "o")
        assert s.text.count("not read on this node") == 5
        assert "Topology" not in s.text


async def test_node_stale_and_gone(stage):
    async with stage(fleet()) as s:
        await s.press("j", "j", "enter", "o")
        assert "stale 42s: the node no longer answers" in s.text
        await s.give(tick())
        assert "Node gpu04 is not listed at this instant" in s.text


async def test_a_gpu_that_cannot_be_read_says_why(stage):
    lost = dict.fromkeys(WHOLE)
    seen = machine(lost)
    uuid = uuid_of("n1", 0)
    board = seen.gpus[uuid]
    missing = {(key, 0): Reason.FAILED for key in WHOLE}
    board = board._replace(block=board.block._replace(missing=missing))
    other = SourceError(f"n1 GPU 1 {uuid_of('n1', 1)}", "nvmlOther has not returned for 8 s")
    error = SourceError(f"n1 GPU 0 {uuid}", "nvmlDeviceGetPower has not returned for 9 s")
    node = seen.nodes["n1"]._replace(errors=(other, error))
    seen = seen._replace(gpus={**seen.gpus, uuid: board}, nodes={"n1": node})
    async with stage(seen, (160, 40)) as s:
        await s.press("tab")
        assert "‼ nvmlDeviceGet" in s.text
        await s.press("c", "slash", *"health", "enter", "enter", "escape", "escape")
        assert "‼ no answer" in s.text
        await s.press("enter")
        assert "‼ nvmlDeviceGetPower has not returned for 9 s" in s.text


async def test_gpu_stale_and_gone(stage):
    async with stage(fleet()) as s:
        await s.press("j", "j", "enter", "enter")
        assert "stale 42s: the node no longer answers" in s.text
        await s.give(tick())
        assert "is not listed at this instant" in s.text
