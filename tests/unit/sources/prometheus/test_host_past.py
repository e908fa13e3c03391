"""The past of hosts: as their pages were then, in bounded questions, and never in the GPUs' way."""

from __future__ import annotations

import time
from array import array
from math import nan
from typing import TYPE_CHECKING

import pytest

from gpumon.sources.prometheus import recall
from gpumon.sources.prometheus.host_past import HostColumns, HostPast, KnownHosts
from gpumon.sources.prometheus.recall import FAR_STEP_S
from tests.worlds.probe import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpumon.model.fault import SourceError
    from gpumon.model.records.block import Block
    from gpumon.sources.prometheus.server import PrometheusServer
    from gpumon.sources.source import PastFrames
    from tests.unit.sources.prometheus.conftest import Open
    from tests.unit.sources.prometheus.engine import Engine

AT = 1_800_000_000.0
INSTANCE = "gpu01:9100"
KNOWN = KnownHosts({INSTANCE: "gpu01"}, {"node_load1": 1}, {INSTANCE: 4}, {"node_": "node_load1"})
LOAD = (("instance", INSTANCE),)
BYTES = (("device", "eth0"), ("instance", INSTANCE))


def part(begin: float, step_s: float, ages_s: list[float], **values: list[float]) -> HostColumns:
    times = array("d", (begin + n * step_s - age_s for n, age_s in enumerate(ages_s)))
    series = {"node_load1": LOAD, "node_network_receive_bytes_total": BYTES}
    columns = {name: {series[name]: array("d", some)} for name, some in values.items()}
    return HostColumns(begin, step_s, len(ages_s), {(INSTANCE, "node_"): times}, columns)


def node_at(past: HostPast, *times: float) -> list[Block | None]:
    walk = past.walk()
    return [walk.at(at).get("gpu01", {}).get("node") for at in times]


def test_a_step_holds_until_the_next_and_nothing_is_known_outside() -> None:
    past = HostPast(KNOWN, [part(AT, 60.0, [1.0, 1.0], node_load1=[3.5, 4.5])], 30.0)
    found = node_at(past, AT - 15.0, AT, AT + 45.0, AT + 60.0, AT + 119.0, AT + 120.0)
    loads = [one and one.value("load_1m", 0) for one in found]
    assert loads == [None, 3.5, 3.5, 4.5, 4.5, None]
    assert found[1] is not None
    assert found[1].value("cpu_count", 0) == 4


def test_counters_are_divided_by_the_time_between_their_samples_over_all_stretches() -> None:
    name = "node_network_receive_bytes_total"
    far = part(AT - 300.0, 300.0, [10.0], **{name: [1000.0]})
    # The second sample is the first one still: what it grew by holds.
    near = part(AT, 15.0, [0.0, 15.0, 0.0], **{name: [4100.0, 4100.0, 4400.0]})
    found = node_at(HostPast(KNOWN, [far, near], 60.0), AT - 300.0, AT, AT + 15.0, AT + 30.0)
    rates = [one and one.value("net_rx_bytes_per_s", 0) for one in found]
    assert rates == [None, pytest.approx(10.0), pytest.approx(10.0), pytest.approx(10.0)]


def test_what_was_old_or_missing_then_is_no_value() -> None:
    past = HostPast(KNOWN, [part(AT, 60.0, [1.0, 45.0, nan, 1.0], node_load1=[1, 2, 3, nan])], 30.0)
    first, old, missing, last = node_at(past, *(AT + n * 60.0 for n in range(4)))
    assert first is not None
    assert (old, missing) == (None, None)
    assert last is not None
    assert last.value("load_1m", 0) is None


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "REST_PER_ANSWER", 0.0)


@pytest.fixture
def with_hosts(engine: Engine) -> Engine:
    engine.gap_s = 15.0
    host = {"instance": INSTANCE}
    engine.series["node_load1"] = [(host, 3.5), ({"instance": "login1:9100"}, 9.0)]
    engine.series["node_network_receive_bytes_total"] = [({**host, "device": "eth0"}, 0.0)]
    # One that stands still would be a driver that hangs.
    del engine.series["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"]
    engine.grows_by["node_network_receive_bytes_total"] = 7.0
    return engine


def past_of(source: PrometheusServer) -> list[PastFrames]:
    found: list[PastFrames] = []

    def has_come() -> bool:
        past = source.recalled()
        found.extend(past() if past else ())
        return past is not None

    eventually(has_come, "its past has come")
    return [step for step in found if step.frames]


def values(past: list[PastFrames], key: str) -> Mapping[float, object]:
    blocks = [(step.at, step.frames[0].blocks.get("node")) for step in past]
    found = {at: block.value(key, 0) for at, block in blocks if block is not None}
    return {at: value for at, value in found.items() if value is not None}


def heard(source: PrometheusServer) -> list[SourceError]:
    return [error for frame in source.poll() for error in frame.errors]


def test_the_past_of_a_host_comes_with_that_of_its_gpus(with_hosts: Engine, opened: Open) -> None:
    source, _ = opened(with_hosts.target)
    past = past_of(source)
    loads = values(past, "load_1m")
    assert len(loads) > 240
    assert min(loads) < time.time() - 6500.0
    assert max(loads) > time.time() - 60.0
    rates = values(past, "net_rx_bytes_per_s")
    assert len(rates) > 240
    assert all(rate == pytest.approx(7.0, rel=0.1) for rate in rates.values())
    # Whoever has no GPU is not told of.
    assert all(frame.node != "login1" for step in past for frame in step.frames)
    second = past[-1].frames[1]
    assert "node" not in second.blocks or second.block("node").value("load_1m", 0) is None


def test_of_many_hosts_the_past_is_coarser_than_that_of_gpus(
    with_hosts: Engine, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recall, "MOST_OF_HOSTS", 300)
    past_of(opened(with_hosts.target)[0])
    asked = [
        (float(params["step"]), (float(params["end"]) - float(params["start"])))
        for path, params in with_hosts.asked
        if path == "query_range" and "(node_" in params["query"]
    ]
    assert min(step for step, _ in asked) > 15.0
    some = [length / step + 1 for step, length in asked]
    assert sum(some) <= 2 * 300
    assert max(step for step, _ in asked) == FAR_STEP_S


@pytest.mark.parametrize(
    ("refused", "text", "has_loads"),
    [
        ("(node_network_receive_bytes_total)", "has no past of node_network_receive_", True),
        ("timestamp(node_", "has no past of hosts", False),
    ],
)
def test_a_past_of_hosts_that_is_too_much_is_one_line_and_that_of_gpus_stands(
    refused: str,
    text: str,
    has_loads: bool,
    with_hosts: Engine,
    opened: Open,
    said: Callable[..., None],
) -> None:
    with_hosts.too_much_past = (refused,)
    source, arrived = opened(with_hosts.target)
    past = past_of(source)
    assert past[-1].frames[0].block("gpu").value("gpu_util_ratio", 0) == pytest.approx(
        0.97, abs=0.01
    )
    assert bool(values(past, "load_1m")) is has_loads

    def is_said() -> list[SourceError]:
        return [one for frame in arrived() for one in frame.errors if text in one.message]

    eventually(is_said, "it is said")
    said(is_said()[0].message, is_said()[0].hint)


def test_vanished_gpus_that_are_too_much_to_name_cost_no_past(
    with_hosts: Engine, opened: Open
) -> None:
    with_hosts.too_much = ("last_over_time",)
    source, arrived = opened(with_hosts.target)
    assert past_of(source)
    text = "does not name GPUs that vanished"
    eventually(
        lambda: any(text in one.message for frame in arrived() for one in frame.errors),
        "it is said",
    )


def test_times_of_the_past_that_are_too_much_are_those_of_its_steps(
    with_hosts: Engine, opened: Open
) -> None:
    with_hosts.too_much_past = ("timestamp(DCGM",)
    source, _ = opened(with_hosts.target)
    past = past_of(source)
    assert past[-1].frames[0].block("gpu").value("gpu_util_ratio", 0) is not None
    assert past[-1].frames[0].taken_at == pytest.approx(past[-1].at, abs=0.01)
