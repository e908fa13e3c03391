"""Jobs that talk through one far port, and those that have reason to."""

from __future__ import annotations

import pytest

from gpumon.detect.scene import Scene, working
from gpumon_detectors.placement.nic_misplaced import NicMisplaced

GB = 1e9


def played(
    rates,
    *,
    period_s=10.0,
    seconds=900.0,
    nodes=2,
    gpus=4,
    per_port=1,
    sent_share=1.0,
    ports=None,
    held=None,
    neighbour=False,
    idle=(),
    **also,
):
    """A job on some nodes whose ports carry so many GB/s each, and what is claimed of it."""
    scene = Scene(period_s)
    uuids = [uuid for number in range(nodes) for uuid in scene.node(f"n{number}", gpus)]
    mine = [uuid for uuid in uuids if int(uuid[-1]) < (held or gpus)]
    scene.job("42", mine)
    if neighbour:
        scene.job("43", [uuids[gpus - 1]])
    for number in range(nodes):
        of_node = uuids[number * gpus : (number + 1) * gpus]
        for port, rate in enumerate(rates):
            near = of_node[port * per_port : (port + 1) * per_port]
            told = {
                "state": "ACTIVE",
                "link_layer": "InfiniBand",
                "nic_speed_gbps": 400.0,
                "nearest_by": "switch",
                "nearest_gpus": ",".join(near),
                "nic_rx_bytes_per_s": None if rate is None else rate * GB,
                "nic_tx_bytes_per_s": None if rate is None else rate * GB * sent_share,
                **(ports or {}).get(port, {}),
            }
            scene.nic(f"n{number}", f"mlx5_{port}/1", **told)
    values = working(mine, **also)
    for place in idle:
        values |= working([f"GPU-n{number}-{place}" for number in range(nodes)], gpu_util_ratio=0.0)
    scene.run(seconds, values)
    return list(NicMisplaced().evaluate(scene.view()))


@pytest.mark.parametrize("period_s", [1.0, 10.0, 30.0, 60.0])
@pytest.mark.parametrize("busy", [0, 2])
def test_one_port_that_carries_all_is_named(busy, period_s):
    rates = [0.004] * 4
    rates[busy] = 17.0
    (finding,) = played(rates, period_s=period_s)
    assert finding.finding_class == "nic_misplaced"
    assert (finding.confidence, finding.severity) == ("supported", "warning")
    assert finding.summary == (
        f"6 ranks of 8 talk through mlx5_{busy}/1, far from their GPUs; nearer ports are silent"
    )
    text = finding.evidence[0].text
    assert text.startswith(f"n0: port mlx5_{busy}/1 carries 17.0 GB/s each way, 34 % of what it")


def test_it_grows_surer():
    found = {s: played([17.0, 0.0, 0.0, 0.0], seconds=s) for s in (400.0, 700.0, 1900.0)}
    assert [f.confidence for (f,) in found.values()] == ["hypothesis", "supported", "established"]


def test_a_port_with_room_is_a_remark():
    (finding,) = played([4.0, 0.0, 0.0, 0.0], seconds=3000.0)
    assert (finding.confidence, finding.severity) == ("hypothesis", "info")
    assert finding.gpu_seconds is None


# What it costs


@pytest.mark.parametrize("period_s", [1.0, 10.0, 60.0])
def test_what_all_ports_would_save_is_lost(period_s):
    (finding,) = played([12.0, 0.0, 0.0, 0.0], period_s=period_s, sm_active_ratio=0.4)
    # Busy for 12 of 40 GB/s, and for a quarter of that over four ports.
    lasts = finding.window.end - finding.window.start
    assert finding.gpu_seconds == pytest.approx(0.3 * 0.75 * 8 * lasts, rel=0.01)
    assert finding.evidence[-1].text == ("using all 4 ports of a node would save 22 % of the time")


def test_what_two_ports_save_is_half():
    (finding,) = played([0.001, 20.0], per_port=2, sm_active_ratio=0.3)
    lasts = finding.window.end - finding.window.start
    assert finding.gpu_seconds == pytest.approx(0.5 * 0.5 * 8 * lasts, rel=0.01)


def test_what_is_hidden_behind_the_computation_costs_nothing():
    (finding,) = played([20.0, 0.0, 0.0, 0.0], gpu_util_ratio=1.0, sm_active_ratio=0.75)
    lasts = finding.window.end - finding.window.start
    assert finding.gpu_seconds == pytest.approx(0.1 * 0.75 * 8 * lasts, rel=0.01)
    (finding,) = played([20.0, 0.0, 0.0, 0.0], gpu_util_ratio=1.0, sm_active_ratio=0.86)
    assert finding.gpu_seconds is None


def test_without_sm_activity_no_loss_is_told():
    (finding,) = played([20.0, 0.0, 0.0, 0.0], sm_active_ratio=None)
    assert (finding.confidence, finding.gpu_seconds) == ("supported", None)


def test_ports_that_two_gpus_share_are_silent_for_both():
    (finding,) = played([0.001, 20.0], per_port=2, gpus=4)
    assert finding.summary.startswith("4 ranks of 8 talk through mlx5_1/1")


LONE = [17.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param({"rates": [9.0, 9.0, 9.0, 9.0]}, id="each-its-own"),
        pytest.param({"rates": [9.0, 9.0, 0.0, 0.0]}, id="two-ports"),
        pytest.param({"rates": [0.5, 0.0, 0.0, 0.0]}, id="hardly-any"),
        pytest.param({"rates": [0.0, 0.0, 0.0, 0.0]}, id="none"),
        pytest.param({"rates": LONE, "sent_share": 0.02}, id="reads-files"),
        pytest.param({"rates": LONE, "nodes": 1}, id="one-node"),
        pytest.param({"rates": LONE, "neighbour": True, "held": 3}, id="shared"),
        pytest.param({"rates": LONE, "held": 1}, id="one-rank-a-node"),
        pytest.param({"rates": [17.0], "per_port": 4}, id="one-port-by-design"),
        pytest.param({"rates": LONE, "idle": (1, 2, 3)}, id="others-idle"),
        pytest.param({"rates": [17.0, None, None, None]}, id="unknown"),
        pytest.param(
            {"rates": LONE, "ports": {p: {"state": "DOWN"} for p in (1, 2, 3)}}, id="down"
        ),
        pytest.param(
            {"rates": LONE, "ports": {p: {"nic_speed_gbps": 100.0} for p in (1, 2, 3)}}, id="slow"
        ),
        pytest.param(
            {"rates": LONE, "ports": {p: {"nearest_by": "numa"} for p in range(4)}}, id="socket"
        ),
    ],
)
def test_what_looks_alike_is_not_claimed(case):
    assert played(**case, seconds=3000.0) == []


def test_a_port_for_storage_beside_them_is_no_nearer_one():
    storage = {"link_layer": "Ethernet", "nic_speed_gbps": 200.0, "nearest_by": "numa"}
    assert played([9.0, 9.0, 9.0, 9.0, 30.0], ports={4: storage}) == []


def test_one_node_that_does_well_clears_the_job():
    scene = Scene(10.0)
    uuids = [uuid for number in range(2) for uuid in scene.node(f"n{number}", 2)]
    scene.job("42", uuids)
    for number, rates in enumerate(((17.0, 0.0), (9.0, 9.0))):
        for port, rate in enumerate(rates):
            scene.nic(
                f"n{number}", f"mlx5_{port}/1", state="ACTIVE", nic_speed_gbps=400.0,
                nearest_by="root", nearest_gpus=f"GPU-n{number}-{port}",
                nic_rx_bytes_per_s=rate * GB, nic_tx_bytes_per_s=rate * GB,
            )  # fmt: skip
    scene.run(1000.0, working(uuids))
    assert list(NicMisplaced().evaluate(scene.view())) == []
