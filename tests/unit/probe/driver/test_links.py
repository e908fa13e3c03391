"""NVLinks: which exist, what they carry, what goes wrong on them, and who is at the other end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumon.model.missing import Reason
from tests.worlds.probe import Probe

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.block import Block
    from gpumon.model.records.frame import Frame
    from tests.lab.standin.driver import Standin

    Start = Callable[..., Standin]


def links(frame: Frame) -> Block:
    return frame.block("link")


def row_of(frame: Frame, gpu: int, link: int) -> int:
    return links(frame).keys.index(f"{frame.block('gpu').keys[gpu]}/{link}")


def test_only_links_that_exist_are_told(standin: Start) -> None:
    node = standin("a100", gpus=2)
    node.state.gpu(1, nvlink_count=4)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame()
    first, second = frame.block("gpu").keys
    assert links(frame).keys == tuple(
        f"{uuid}/{link}" for uuid, count in ((first, 12), (second, 4)) for link in range(count)
    )


def test_a_link_s_values_have_the_units_of_their_names(standin: Start) -> None:
    node = standin("h100", gpus=1)
    node.state.set(counters_live=0)
    node.state.link(0, 3, tx_bytes=3 << 20, rx_bytes=5 << 20, replays=7, recoveries=2, crc_flit=9)
    node.state.link(0, 4, state=0)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame()
    third, fourth = row_of(frame, 0, 3), row_of(frame, 0, 4)
    found = {key: links(frame).value(key, third) for key in links(frame).columns}
    assert found == {
        "link_state": 1,
        "link_speed_bytes_per_s": 26_562_000_000,
        "link_version": 6,
        "link_tx_bytes": 3 << 20,
        "link_rx_bytes": 5 << 20,
        "link_replay_count": 7,
        "link_recovery_count": 2,
        "link_crc_count": 9,
        "link_tx_bytes_per_s": None,
        "link_rx_bytes_per_s": None,
    }
    assert links(frame).value("link_state", fourth) == 0
    assert links(frame).value("link_speed_bytes_per_s", fourth) == 0
    assert links(frame).reason("link_symbol_ber", third) is Reason.NOT_SUPPORTED


def test_the_newer_generation_s_errors_come_from_its_own_fields(standin: Start) -> None:
    node = standin("b200", gpus=1)
    for field, count in (
        (208, 11),
        (212, 12),
        (213, 13),
        (214, 14),
        (215, 15),
        (219, 16),
        (221, 17),
    ):
        node.state.field(0, field, count, scope=5)
    # The overrides of one link must come before those of all.
    mine = {key: value for key, value in node.state.values.items() if key.endswith(".5")}
    node.state.values = {**mine, **node.state.values}
    node.state.write()
    with Probe() as probe:
        frame = probe.frame()
    row = row_of(frame, 0, 5)
    assert [
        links(frame).value(key, row)
        for key in (
            "link_receive_error_count",
            "link_transmit_discard_count",
            "link_recovery_success_count",
            "link_recovery_failed_count",
            "link_recovery_event_count",
            "link_effective_error_count",
            "link_symbol_error_count",
        )
    ] == [11, 12, 13, 14, 15, 16, 17]
    assert links(frame).value("link_symbol_error_count", row_of(frame, 0, 6)) == 0
    assert links(frame).reason("link_replay_count", row) is Reason.NOT_SUPPORTED


def test_the_newer_byte_counters_stand_in_for_the_older(standin: Start) -> None:
    node = standin("b200", gpus=1)
    node.state.set(counters_live=0)
    node.state.field_error(0, 138, 3)
    node.state.field(0, 202, 4096)
    node.state.link(0, 0, rx_bytes=1 << 20)
    node.state.field(0, 204, 77)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame()
    assert links(frame).value("link_tx_bytes", 0) == 4096
    assert links(frame).value("link_rx_bytes", 0) == 1 << 20


def test_links_under_zoom_are_counted_at_every_beat(standin: Start) -> None:
    node = standin("h100", gpus=2)
    node.state.gpu(0, nvlink_tx_bytes_per_s=18 * 10**9)
    node.state.gpu(1, nvlink_tx_bytes_per_s=18 * 10**9)
    node.state.write()
    with Probe() as probe:
        uuids = probe.frame().block("gpu").keys
        probe.stream.send(f"zoom {uuids[1]}")
        frame = probe.frame(
            lambda frame: (
                links(frame).value("link_tx_bytes_per_s", row_of(frame, 1, 17)) is not None
            )
        )
        calm, watched = row_of(frame, 0, 17), row_of(frame, 1, 17)
        rate = links(frame).value("link_tx_bytes_per_s", watched)
        assert rate == pytest.approx(10**9, rel=0.3)
        assert links(frame).reason("link_tx_bytes_per_s", calm) is Reason.NOT_SAMPLED


def test_the_other_ends_are_learned_a_few_at_a_time(standin: Start) -> None:
    node = standin("h100", gpus=1)
    for link in range(18):
        node.state.link(0, link, remote_pci="00000000:07:00.0", remote_type=2)
    node.state.link(0, 2, remote_pci="00000000:C3:00.0", remote_type=0)
    node.state.link(0, 17, state=0)
    node.state.write()
    with Probe() as probe:
        first = probe.frame()
        last = probe.frame(lambda frame: links(frame).label("remote", 16) is not None)
    assert links(first).labels["remote"][:4].count(None) == 0
    assert links(first).reason("remote", 16) is Reason.NOT_SAMPLED
    assert links(last).label("remote_type", 0) == "switch"
    assert links(last).label("remote_type", 2) == "gpu"
    assert links(last).label("remote", 2) == "00000000:C3:00.0"
    assert links(last).reason("remote", 17) is Reason.NOT_SUPPORTED
    assert node.counts()["nvmlDeviceGetNvLinkRemotePciInfo_v2"].total == 17


def test_a_lost_gpu_s_links_have_no_values(standin: Start) -> None:
    node = standin("h100", gpus=2)
    with Probe() as probe:
        probe.frame()
        node.state.lose(0)
        node.state.write()
        frame = probe.next_frame(
            lambda frame: frame.block("gpu").reason("temp_c", 0) is Reason.LOST
        )
        assert links(frame).reason("link_state", 0) is Reason.LOST
        assert links(frame).value("link_state", row_of(frame, 1, 0)) == 1
        node.state.heal()
        node.state.write()
        frame = probe.frame(lambda frame: links(frame).value("link_state", 0) == 1)
    assert links(frame).label("remote_type", 0) == "switch"


def test_a_number_of_links_that_cannot_be_is_none(standin: Start) -> None:
    node = standin("h100", gpus=1)
    node.state.field(0, 91, 2**31)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame()
    assert links(frame).keys == ()
    (error,) = frame.errors
    assert (
        error.message == f"the driver counts {2**31} NVLinks, more than any GPU has: none is read"
    )
    assert frame.block("gpu").keys[0] in error.where
    assert error.hint
