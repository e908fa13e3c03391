"""This machine as a target: one child, one report or a beat of them."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from gpumon.sources.probes.local import local_endpoint, local_source
from gpumon.sources.source import SystemClock
from tests.worlds.probe import Probe, children, eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.frame import Frame
    from tests.lab.standin.driver import Standin

    Start = Callable[..., Standin]


def test_a_single_look_is_one_frame_of_this_machine(standin: Start) -> None:
    node = standin("h100", gpus=3)
    before = children()
    source = local_source(1.0, SystemClock(), once=True)
    source.start(lambda: None)
    try:
        eventually(lambda: not source.pending(), "it reports")
        (frame,) = source.poll()
        eventually(lambda: children() <= before, "the child has gone by itself")
        assert source.poll() == []
    finally:
        source.close()
    assert (frame.origin, frame.node) == ("local", socket.gethostname())
    assert frame.block("gpu").keys == tuple(node.state.values[f"gpu.{i}.uuid"] for i in range(3))
    assert frame.errors == ()


def test_the_beat_goes_on_until_it_is_closed(standin: Start) -> None:
    standin("h100", gpus=1)
    source = local_source(0.12, SystemClock())
    seen: list[Frame] = []
    source.start(lambda: None)
    try:
        eventually(lambda: seen.extend(source.poll()) or len(seen) >= 3, "three frames arrive")
    finally:
        source.close()
    times = [frame.taken_at for frame in seen]
    assert times == sorted(times)


def test_a_queue_s_name_of_this_node_wins_over_its_own(standin: Start) -> None:
    standin("h100", gpus=1)
    with Probe(local_endpoint("gpu03")) as probe:
        frame = probe.frame()
    assert frame.node == "gpu03"
    assert frame.host_names == (socket.gethostname(),)


def test_an_end_without_words_says_so() -> None:
    explain = local_endpoint().explain
    assert explain(-9, "")[0] == "the probe ended (-9): no reason given"
    assert explain(1, "Traceback\nKeyError: 'x'")[0] == "the probe ended (1): KeyError: 'x'"
