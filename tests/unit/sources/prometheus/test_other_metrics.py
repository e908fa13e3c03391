"""What a server holds besides DCGM's metrics: GPUs of other exporters, and their hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumon.sources.source import Wish
from tests.unit.sources.prometheus.conftest import once
from tests.unit.sources.prometheus.engine import labels
from tests.worlds.probe import eventually

if TYPE_CHECKING:
    from tests.unit.sources.prometheus.conftest import Open
    from tests.unit.sources.prometheus.engine import Engine

BARE = "df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"


@pytest.mark.parametrize("is_beside", [False, True])
def test_gpus_of_other_exporters_are_read_and_are_the_same_as_dcgms(
    engine: Engine, opened: Open, is_beside: bool
) -> None:
    if not is_beside:
        engine.series.clear()
    bare = {"uuid": BARE, "instance": "gpu01:9835", "job": "smi"}
    info = {**bare, "name": "NVIDIA A10", "driver_version": "550.54.15"}
    engine.series["nvidia_smi_gpu_info"] = [(info, 1.0)]
    engine.series["nvidia_smi_utilization_gpu_ratio"] = [(bare, 0.5)]
    engine.series["nvidia_smi_pstate"] = [(bare, 2.0)]
    own = {"uuid": "GPU-9", "instance": "gpu03:9445", "ordinal": "1", "name": "NVIDIA A30"}
    engine.series["nvidia_gpu_duty_cycle"] = [(own, 30.0)]
    if is_beside:
        engine.series["nvidia_smi_utilization_gpu_ratio"] += [({**bare, "uuid": "GPU-0"}, 0.1)]
    frames = {frame.node: frame for frame in once(opened, engine)}
    gpus = frames["gpu01"].block("gpu")
    row = gpus.keys.index(f"GPU-{BARE}")
    assert (gpus.value("gpu_util_ratio", row), gpus.value("perf_state", row)) == (0.5, 2)
    assert gpus.label("name", row) == "NVIDIA A10"
    driver = None if is_beside else "550.54.15"
    assert frames["gpu01"].block("node").label("driver_version", 0) == driver
    other = frames["gpu03"].block("gpu")
    assert other.keys == ("GPU-9",)
    assert (other.value("gpu_util_ratio", 0), other.value("index", 0)) == (0.3, 1)
    assert other.label("name", 0) == "NVIDIA A30"
    if is_beside:
        assert set(gpus.keys) == {"GPU-0", "GPU-1", f"GPU-{BARE}"}
        # One board by two roads: what DCGM says counts, as on a page.
        assert gpus.value("gpu_util_ratio", gpus.keys.index("GPU-0")) == 0.97


def test_counters_that_a_collector_has_renamed_are_read(engine: Engine, opened: Open) -> None:
    held = engine.series.pop("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION")
    engine.series["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION_total"] = held
    frames = {frame.node: frame for frame in once(opened, engine)}
    assert frames["gpu01"].block("gpu").value("energy_j", 0) == 5000.0


@pytest.mark.parametrize("label", ["kubernetes_node", "node", "node_name", "k8s_node_name"])
def test_a_node_is_not_called_as_the_pod_of_its_exporter(
    engine: Engine, opened: Open, label: str
) -> None:
    engine.series.clear()
    rows = []
    for number, pod in enumerate(("nvidia-dcgm-exporter-cwbcm", "dcgm-exporter-x7q2p")):
        own = labels(f"GPU-{number}", pod, instance=f"10.1.2.{number}:9400")
        rows.append(({**own, label: f"gpu0{number}"}, 50.0 + number))
    engine.hold("DEV_GPU_UTIL", *rows)
    frames = {frame.node: frame for frame in once(opened, engine)}
    assert set(frames) == {"gpu00", "gpu01"}
    assert frames["gpu01"].block("gpu").value("gpu_util_ratio", 0) == 0.51


def test_the_pod_of_an_exporter_names_a_node_that_nothing_else_names(
    engine: Engine, opened: Open
) -> None:
    engine.series.clear()
    engine.hold("DEV_GPU_UTIL", (labels("GPU-0", "dcgm-exporter-x7q2p"), 50.0))
    assert [frame.node for frame in once(opened, engine)] == ["dcgm-exporter-x7q2p"]


def test_instances_with_uuids_of_their_own_are_parts_of_their_gpus(
    engine: Engine, opened: Open
) -> None:
    engine.series.clear()
    board = {"uuid": "GPU-9", "instance": "gpu03:9445", "ordinal": "1", "name": "NVIDIA A30"}
    parts = [{**board, "uuid": f"MIG-{n}", "GPU_I_ID": f"{n}"} for n in (1, 2)]
    engine.series["nvidia_gpu_power_usage_milliwatts"] = [
        (one, 200_000.0) for one in (board, *parts)
    ]
    engine.series["nvidia_gpu_memory_used_bytes"] = [
        (one, float(2**30 * n)) for n, one in enumerate((board, *parts), 1)
    ]
    (frame,) = once(opened, engine)
    gpus, migs = frame.block("gpu"), frame.block("mig")
    assert (gpus.keys, gpus.value("power_w", 0)) == (("GPU-9",), 200.0)
    assert [migs.label("parent", row) for row in (0, 1)] == ["GPU-9", "GPU-9"]
    assert [migs.value("mig_mem_used_bytes", row) for row in (0, 1)] == [2 * 2**30, 3 * 2**30]
    assert gpus.value("mem_used_bytes", 0) == 2**30


HOST = {"instance": "gpu01.site:9100", "job": "node"}


def test_a_node_has_what_the_server_holds_of_its_host(engine: Engine, opened: Open) -> None:
    engine.series["node_load1"] = [(HOST, 3.5), ({"instance": "login1:9100"}, 9.0)]
    first, second = once(opened, engine)
    node = first.block("node")
    assert (node.keys, node.value("load_1m", 0), node.label("host_name", 0)) == (
        ("gpu01",),
        3.5,
        "gpu01",
    )
    assert second.block("node").columns == {}
    assert first.errors == second.errors == ()


def test_hosts_are_asked_about_the_instant_of_their_gpus(engine: Engine, opened: Open) -> None:
    engine.now_s = lambda: 1000.0
    engine.gap_s = 1.25
    engine.series["node_load1"] = [(HOST, 3.5)]

    def instants(name: str) -> list[float]:
        asked = [params for path, params in engine.asked if path == "query"]
        return [float(one["time"]) for one in asked if one["query"].endswith(f"({name})")]

    source, _ = opened(engine.target + "?history=0")

    def is_polled_twice() -> bool:
        source.wish(Wish(is_by_hand=True))
        return len(instants("node_load1")) >= 2

    eventually(is_polled_twice, "it has looked twice")
    assert instants("node_load1")[:2] == instants("DCGM_FI_DEV_FB_USED")[:2] == [998.0, 998.75]


def test_gpus_are_shown_where_nothing_is_said_of_hosts(engine: Engine, opened: Open) -> None:
    engine.series["node_load1"] = [(HOST, 3.5)]
    engine.refused = "node_load1"
    first, _ = once(opened, engine)
    assert first.block("gpu").keys == ("GPU-0", "GPU-1")
    assert first.errors[0].message.startswith("reports nothing about hosts: ")
