"""What is wrong with a GPU is shown in a word and a sentence, and nothing is called ok unread."""

from __future__ import annotations

import pytest

from gpumon.model.fault import SourceError
from gpumon.model.missing import Reason
from gpumon.report.facts.tick_index import Digest
from gpumon.report.tables.gpu import fleet_why
from gpumon.report.tables.node import NODE_COLUMNS, node_rows
from gpumon.report.text.cells import Tone
from gpumon.report.wording.health import (
    MOST_EVENTS,
    PARTLY_READ,
    gpu_health_lines,
    health_cell,
    troubles,
)
from tests.worlds.node import WHOLE, block, event, links, machine
from tests.worlds.tick import gpu, tick, uuid_of

UUID = uuid_of("n1", 0)


def of(given_tick):
    """Digest and first GPU of a tick."""
    return Digest(given_tick), given_tick.gpus[UUID]


def text(lines):
    return ["".join(cell.text for cell in line) for line in lines]


@pytest.mark.parametrize(
    ("values", "word", "tone"),
    [
        ({}, "ok", Tone.DIM),
        ({"ecc_uncorrected_volatile_count": 2}, "‼ ECC 2", Tone.BAD),
        ({"ecc_corrected_volatile_count": 900}, "ok", Tone.DIM),
        ({"remap_failure": 1}, "‼ remap failed", Tone.BAD),
        ({"remap_pending": 1}, "! remap waits", Tone.WARN),
        ({"retired_pages_pending": 1}, "! page waits", Tone.WARN),
        ({"recovery_action": 1}, "‼ recovery", Tone.BAD),
        ({"clock_event_reasons": 0x40}, "! hw thermal", Tone.WARN),
        ({"clock_event_reasons": 0x4}, "ok", Tone.DIM),
        # Of several reasons the gravest, with any bit.
        ({"clock_event_reasons": 0x60}, "! hw thermal", Tone.WARN),
        ({"clock_event_reasons": 0x28}, "! hw slowdown", Tone.WARN),
        ({"clock_event_reasons": 0xA0}, "! power brake", Tone.WARN),
        ({"temp_c": 97.0, "temp_slowdown_c": 92.0, "temp_shutdown_c": 98.0}, "! 97 °C", Tone.WARN),
        ({"temp_c": 93.0, "temp_slowdown_c": 87.0}, "‼ 93 °C", Tone.BAD),
        ({"temp_c": 91.0, "temp_slowdown_c": None, "temp_shutdown_c": None}, "ok", Tone.DIM),
        ({"temp_margin_c": -4.0}, "! margin -4 °C", Tone.WARN),
        ({"mem_temp_c": 96.0, "mem_temp_max_c": 95.0}, "! mem 96 °C", Tone.WARN),
        ({"mem_temp_c": 95.0, "mem_temp_max_c": 95.0}, "ok", Tone.DIM),
        ({"sm_clock_mhz": 345.0, "gpu_util_ratio": 0.9}, "! 345 MHz", Tone.WARN),
        ({"sm_clock_mhz": 345.0, "gpu_util_ratio": 0.02}, "ok", Tone.DIM),
        ({"sm_clock_mhz": 345.0, "clock_event_reasons": 0x2}, "ok", Tone.DIM),
        ({"sm_clock_mhz": 990.0, "gpu_util_ratio": 0.9}, "ok", Tone.DIM),
        ({"pcie_width": 8.0}, "! PCIe x8", Tone.WARN),
        ({"pcie_gen": 1.0}, "ok", Tone.DIM),
        ({"fabric_health": 2}, "‼ fabric", Tone.BAD),
        ({"remap_pending": 1, "remap_failure": 1}, "‼ remap failed +1", Tone.BAD),
    ],
)
def test_health_in_a_word(values, word, tone):
    digest, board = of(machine({**WHOLE, **values}))
    assert health_cell(digest, board) == (word, tone)


def test_a_gpu_of_which_nothing_was_read_is_not_called_ok():
    board = gpu("n1", 0, {"index": 0})
    assert health_cell(Digest(tick((), [board])), board).text == "–"


def test_nothing_is_said_of_a_stale_gpu():
    board = gpu("n1", 0, {**WHOLE, "remap_pending": 1}, stale_s=30)
    assert troubles(Digest(tick((), [board])), board) == ()


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        (Reason.LOST, "‼ lost"),
        (Reason.FAILED, "‼ no answer"),
        (Reason.NO_PERMISSION, "! no access"),
        (Reason.NOT_SAMPLED, "–"),
    ],
)
def test_why_a_gpu_cannot_be_read(reason, word):
    given_tick = machine({"index": 0})
    board = given_tick.gpus[UUID]
    missing = {(key, 0): reason for key in WHOLE}
    board = board._replace(block=board.block._replace(missing=missing))
    blocks = {"event": block("event", {})}
    node = given_tick.nodes["n1"]._replace(blocks=blocks)
    given_tick = given_tick._replace(gpus={UUID: board}, nodes={"n1": node})
    assert health_cell(Digest(given_tick), board).text == word


def test_an_xid_of_a_program_is_a_warning_one_of_the_machine_is_grave():
    digest, board = of(machine(more={"event": event(UUID, 31)}))
    assert health_cell(digest, board) == ("! Xid 31", Tone.WARN)
    digest, board = of(machine(more={"event": event(UUID, 79)}))
    assert health_cell(digest, board) == ("‼ Xid 79", Tone.BAD)
    row = next(row for row in digest.gpu_rows if row.gpu is board)
    assert fleet_why(digest, row).text == "‼ Xid 79: GPU has fallen off the bus"


def test_an_xid_that_may_be_ignored_is_told_as_an_event_and_is_no_trouble():
    for number in (63, 121, 157):
        digest, board = of(machine(more={"event": event(UUID, number)}))
        assert health_cell(digest, board).text == "ok"
        lines = text(gpu_health_lines(digest, board, 90))
        assert f"Xid {number}: " in lines[0]
        assert "nothing to do now" in lines[1]


def test_an_unknown_xid_is_said_to_be_unknown():
    digest, board = of(machine(more={"event": event(UUID, 9999)}))
    lines = text(gpu_health_lines(digest, board, 90))
    assert "Xid 9999: not in the catalogue" in lines[0]
    assert "look it up" in lines[1]


def test_the_event_of_another_gpu_does_not_count():
    digest, board = of(machine(more={"event": event(uuid_of("n1", 1), 79)}))
    assert health_cell(digest, board).text == "ok"


def test_a_storm_of_events_is_cut_and_counted():
    rows = {
        f"{UUID}/31/{number}": {"xid": 31, "event_type": 0x8, "event_age_s": float(number)}
        for number in range(40)
    }
    digest, board = of(machine(more={"event": block("event", rows)}))
    lines = text(gpu_health_lines(digest, board, 90))
    assert sum("Xid 31" in line for line in lines) == MOST_EVENTS
    assert "and 35 events before" in lines[-1]
    assert health_cell(digest, board).text == "! Xid 31"


def test_links_count_as_down_only_beside_links_that_work():
    digest, board = of(machine(more={"link": links(UUID, 4, down=1)}))
    assert health_cell(digest, board).text == "! 1 NVL down"
    digest, board = of(machine(more={"link": links(UUID, 4, down=4)}))
    assert health_cell(digest, board).text == "! no NVLink"


@pytest.mark.parametrize(
    ("name", "beside"), [("NVIDIA H100 PCIe", True), ("NVIDIA H100 80GB HBM3", False)]
)
def test_links_that_nothing_is_joined_to_are_no_trouble(name, beside):
    """Of a board that only a bridge would join, and of one that is alone on its node."""
    given_tick = machine(more={"link": links(UUID, 4, down=4)})
    board = given_tick.gpus[UUID]
    block = board.block._replace(labels={**board.block.labels, "name": (name,) * 9})
    board = board._replace(block=block)
    node = given_tick.nodes["n1"]
    node = node._replace(gpu_uuids=node.gpu_uuids if beside else (UUID,))
    given_tick = given_tick._replace(gpus={**given_tick.gpus, UUID: board}, nodes={"n1": node})
    assert health_cell(Digest(given_tick), board).text == "ok"


@pytest.mark.parametrize(
    ("where", "word", "why", "of_whole"),
    [
        (f"n1 GPU 0 {UUID}", PARTLY_READ, "? nvmlX: Unknown Error", PARTLY_READ),
        (f"n1 GPU 1 {uuid_of('n1', 1)}", "ok", "power cap", PARTLY_READ),
        ("n1 NVML", "ok", "power cap", "ok"),
    ],
)
def test_a_gpu_of_which_a_reading_fails_is_not_called_ok(where, word, why, of_whole):
    given_tick = machine(WHOLE)
    node = given_tick.nodes["n1"]._replace(errors=(SourceError(where, "nvmlX: Unknown Error"),))
    digest, board = of(given_tick._replace(nodes={"n1": node}))
    assert health_cell(digest, board).text == word
    # It raises no alarm: some drivers answer so for ever.
    assert troubles(digest, board) == ()
    row = next(row for row in digest.gpu_rows if row.gpu is board)
    assert fleet_why(digest, row).text == why
    (of_node,) = node_rows(digest)
    health = next(column for column in NODE_COLUMNS if column.key == "health")
    assert health.cell(digest, of_node).text == of_whole


@pytest.mark.parametrize(("code", "word"), [(4.0, "ok"), (999.0, "‼ not open")])
def test_a_gpu_that_a_user_may_not_open_is_no_broken_one(code, word):
    digest, board = of(machine({**WHOLE, "open_error": code}))
    assert health_cell(digest, board).text == word
