"""Sections leave out what is empty, say why, and compare only with what is known."""

from __future__ import annotations

import pytest

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.gpu.pcie import pcie_bytes_per_s
from gpumon.model.missing import Reason
from gpumon.model.records.block import column_for
from gpumon.report.facts.reference_values import of_text, sheet_of, sheet_words
from gpumon.report.facts.tick_index import Digest
from gpumon.report.pages.gpu_layout import BESIDE, COUNTERS, PLACED, SECTIONS
from gpumon.report.pages.gpu_sections import gpu_sections
from gpumon.report.pages.node_sections import node_sections
from gpumon.report.pages.topology import nvlinks
from gpumon.report.tables.host import HOST, HOST_BESIDE
from gpumon.report.tables.sections import missing_lines
from gpumon.report.text.field_names import spoken
from tests.worlds.node import WHOLE, block, links, machine
from tests.worlds.tick import BUSY, GIB, gpu, uuid_of


def text(section):
    return ["".join(cell.text for cell in entry.line).strip() for entry in section.entries]


def by_title(sections):
    return {section.title: section for section in sections}


def test_the_layout_names_only_fields_of_the_catalogue_and_each_once():
    known = {key for key, field in CATALOGUE.items() if field.block == "gpu"}
    placed = [key for section in SECTIONS.values() for key in section]
    placed += [key for counters in COUNTERS.values() for key in counters]
    assert len(placed) == len(set(placed))
    assert set(placed) | BESIDE == PLACED
    assert known >= PLACED
    assert {key for key, field in CATALOGUE.items() if field.block == "node"} >= {
        *HOST,
        *HOST_BESIDE,
    }


def test_every_field_of_a_gpu_is_shown_or_named_as_missing():
    tick = machine()
    board = next(iter(tick.gpus.values()))
    shown = "\n".join(line for s in gpu_sections(Digest(tick), board, 400) for line in text(s))
    beside = {*BESIDE, "clock_event_reasons"}
    labels = {key: name for section in SECTIONS.values() for key, name in section.items()}
    labels |= {key: name for counters in COUNTERS.values() for key, name in counters.items()}
    for key, field in CATALOGUE.items():
        is_raw = field.unit == "bytes" and key.endswith("x_bytes")
        is_time = f"{key.removesuffix('_us')}_ratio" in CATALOGUE and key.endswith("_us")
        if field.block == "gpu" and key not in beside and not is_raw and not is_time:
            assert labels.get(key, spoken(key)) in shown, key


def test_a_stale_gpu_shows_reasons_and_no_values():
    board = gpu("n1", 0, WHOLE, stale_s=42)
    tick = machine()
    tick = tick._replace(gpus={board.uuid: board})
    for section in gpu_sections(Digest(tick), board, 78):
        assert section.entries == ()
        assert "stale" in section.note or "no longer answers" in section.note


def test_missing_values_are_grouped_by_reason():
    lines = missing_lines(
        [("a", Reason.NOT_SAMPLED), ("b", Reason.FAILED), ("c", Reason.NOT_SAMPLED)], 80
    )
    assert [line[0].text for line in lines] == [
        "– no sample yet: a, c",
        "– reading failed, see errors (e): b",
    ]


@pytest.mark.parametrize("width", [40, 78, 158])
def test_no_line_of_a_section_is_wider_than_the_view(width):
    tick = machine()
    digest = Digest(tick)
    for board in tick.gpus.values():
        found = gpu_sections(digest, board, width)
        found += node_sections(digest, tick.nodes["n1"], width)
        for section in found:
            for line in text(section):
                assert len(line) <= max(width, 60), line


def test_what_a_value_is_compared_with():
    board = gpu("n1", 0, WHOLE)
    sheet = sheet_of(board)
    assert of_text(board, "mem_used_bytes", sheet) == "of 80 GiB"
    assert of_text(board, "power_limit_w", sheet) == "default 700, 200-700 W"
    assert of_text(board, "pcie_tx_bytes_per_s", sheet) == "of 63 GB/s as linked"
    assert of_text(board, "nvlink_tx_bytes_per_s", sheet) == "of 450 GB/s"
    assert of_text(board, "process_count", sheet) == ""
    assert "794 (80 %) achievable, now at most 59 % of that" in sheet_words(board, sheet)


def test_an_unknown_gpu_is_compared_with_itself_only():
    board = gpu("n1", 0, {**BUSY, "mem_total_bytes": 40.0 * GIB})
    assert sheet_of(board) is None
    assert of_text(board, "tensor_active_ratio", None) == ""
    assert of_text(board, "mem_used_bytes", None) == "of 40 GiB"
    assert sheet_words(board, None).startswith("unknown GPU: no data sheet")


def test_a_pcie_link_of_an_unknown_generation_has_no_peak():
    assert pcie_bytes_per_s(9.0, 16.0) is None
    assert pcie_bytes_per_s(None, 16.0) is None
    assert pcie_bytes_per_s(4.0, 16.0) == pytest.approx(31.5e9, rel=0.001)


def test_nvlinks_between_gpus_are_counted_by_their_other_end():
    one, two = uuid_of("n1", 0), uuid_of("n1", 1)
    rows = {
        f"{one}/0": {"link_state": 1},
        f"{one}/1": {"link_state": 1},
        f"{one}/2": {"link_state": 0},
        f"{two}/0": {"link_state": 1},
    }
    buses = ("00000000:02:00.0", "0000:02:00.0", "00000000:02:00.0", None)
    made = block("link", rows, {"remote_type": ("gpu",) * 4, "remote": buses})
    tick = machine(more={"link": made})
    found = nvlinks(Digest(tick), tuple(tick.gpus.values()))
    assert found == {(one, two): 2}


def test_gpus_at_switches_share_the_fewer_links():
    one, two = uuid_of("n1", 0), uuid_of("n1", 1)
    both = [links(one, 4), links(two, 3)]
    keys = {key: {"link_state": 1} for made in both for key in made.keys}
    made = block("link", keys, {"remote_type": ("switch",) * 7, "remote": (None,) * 7})
    tick = machine(more={"link": made})
    found = nvlinks(Digest(tick), tuple(tick.gpus.values()))
    assert found == {(one, two): 3, (two, one): 3}
    topology = by_title(node_sections(Digest(tick), tick.nodes["n1"], 78))["Topology"]
    assert text(topology)[:2] == ["0 151G  NV3 sw 12G", "1  NV3 151G"]


def with_rates(tick, **values):
    """Both GPUs of the machine with these values."""
    gpus = {}
    for uuid, board in tick.gpus.items():
        columns = {key: column_for(False, [value]) for key, value in values.items()}
        made = board.block._replace(columns={**board.block.columns, **columns})
        gpus[uuid] = board._replace(block=made)
    return tick._replace(gpus=gpus)


def test_the_matrix_shows_what_goes_where_now():
    one, two = uuid_of("n1", 0), uuid_of("n1", 1)
    rows = {
        f"{one}/0": {"link_state": 1, "link_tx_bytes_per_s": 4e9},
        f"{one}/1": {"link_state": 1, "link_tx_bytes_per_s": 2.5e9},
        f"{two}/0": {"link_state": 1, "link_tx_bytes_per_s": None},
    }
    buses = ("0000:02:00.0", "0000:02:00.0", "0000:01:00.0")
    link = block("link", rows, {"remote_type": ("gpu",) * 3, "remote": buses})
    ports = {
        "mlx5_0/1": {"nic_tx_bytes_per_s": 1e9, "nic_rx_bytes_per_s": 3e9},
        "mlx5_1/1": {"nic_tx_bytes_per_s": None, "nic_rx_bytes_per_s": None},
    }
    nic = block("nic", ports, {"nearest_gpus": (one, two), "nearest_by": ("switch", "numa")})
    tick = with_rates(machine(more={"link": link, "nic": nic}), nvlink_tx_bytes_per_s=6.5e9)
    topology = by_title(node_sections(Digest(tick), tick.nodes["n1"], 78))["Topology"]
    lines = [line.split() for line in text(topology)]
    assert lines[0] == ["0", "6.5G", "NV2", "6.5G", "sw", "3.0G"]
    assert lines[1] == ["1", "NV1", "6.5G", "numa"]
    assert text(topology)[2].startswith("diagonal: sent over all NVLinks of the GPU; ports:")
    quiet = with_rates(machine(more={"link": link}), nvlink_tx_bytes_per_s=None)
    topology = by_title(node_sections(Digest(quiet), quiet.nodes["n1"], 78))["Topology"]
    assert not any("diagonal" in line for line in text(topology))


def test_a_long_text_runs_on_over_empty_columns_and_no_further():
    tick = machine({**WHOLE, "recovery_action": 5})
    board = tick.gpus[uuid_of("n1", 0)]
    health = by_title(gpu_sections(Digest(tick), board, 78))["Health"]
    line = next(line for line in text(health) if line.startswith("driver asks for"))
    assert line.endswith("recover the IMEX domain")


def test_a_mount_that_tells_nothing_says_why():
    made = block("filesystem", {"/lustre": {"fs_read_bytes_per_s": None}})
    made = made._replace(missing={("fs_read_bytes_per_s", 0): Reason.NO_PERMISSION})
    tick = machine(more={"filesystem": made})
    found = by_title(node_sections(Digest(tick), tick.nodes["n1"], 78))
    assert "this user may not read it" in text(found["File systems"])[0]


def test_what_gpus_share_on_pcie_stands_where_no_nvlink_joins_them():
    one, two = uuid_of("n1", 0), uuid_of("n1", 1)
    tick = machine(more={"link": block("link", {}), "nic": block("nic", {})})
    gpus = {}
    for board, other in ((tick.gpus[one], two), (tick.gpus[two], one)):
        labels = {**board.block.labels, "common_ancestors": (f"{other}=PXB,garbage,=x",)}
        gpus[board.uuid] = board._replace(block=board.block._replace(labels=labels))
    tick = with_rates(tick._replace(gpus=gpus), nvlink_tx_bytes_per_s=None)
    topology = by_title(node_sections(Digest(tick), tick.nodes["n1"], 78))["Topology"]
    assert text(topology) == ["0    X  PXB", "1  PXB    X"]
