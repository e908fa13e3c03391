from __future__ import annotations

import pytest

from gpumon.detect.scene import START_AT, Scene, working
from gpumon_detectors.hardware.network_degraded import NetworkDegraded
from tests.worlds.advice import sends_away

UP = {
    "state": "ACTIVE",
    "phys_state": "LinkUp",
    "link_layer": "InfiniBand",
    "nic_speed_gbps": 400.0,
    "nic_rx_bytes_per_s": 1e9,
    "nic_tx_bytes_per_s": 1e9,
    "nic_link_downed": 0,
    "nic_symbol_error": 0,
}
DOWN = {
    "state": "DOWN",
    "phys_state": "Polling",
    "nic_speed_gbps": 10.0,
    "nic_rx_bytes_per_s": 0.0,
    "nic_tx_bytes_per_s": 0.0,
}


def fleet(nodes=4, **values):
    scene = Scene()
    uuids = []
    for number in range(1, nodes + 1):
        uuids += scene.node(f"n{number}", 2)
        for port in range(2):
            near = {"nearest_by": "switch", "nearest_gpus": f"GPU-n{number}-{port}"}
            scene.nic(f"n{number}", f"mlx5_{port}/1", **{**UP, **near, **values})
    scene.job("42", uuids)
    return scene, uuids


def findings(scene):
    return list(NetworkDegraded().evaluate(scene.view()))


@pytest.mark.parametrize("nodes", [1, 4])
def test_a_port_that_goes_down(nodes):
    scene, uuids = fleet(nodes)
    scene.run(300, working(uuids))
    down_at = scene.next_at
    scene.nic("n1", "mlx5_1/1", **DOWN, nic_link_downed=1)
    scene.run(310, working(uuids))
    (finding,) = findings(scene)
    assert (finding.finding_class, finding.subject) == ("fabric_degraded", "node:n1")
    assert (finding.onset, finding.severity) == (down_at, "critical")
    assert finding.confidence == "supported"
    assert (finding.gpu_seconds, finding.gpus) == (None, ("GPU-n1-1",))
    assert finding.summary == (
        "n1 (job 42): port mlx5_1/1 is DOWN (Polling), "
        "its link went down 1 time since the driver was loaded"
    )
    assert sends_away(finding)


def test_a_port_that_is_down_where_most_nodes_have_a_link():
    scene, uuids = fleet()
    scene.nic("n2", "mlx5_0/1", **DOWN)
    scene.run(700, working(uuids))
    (finding,) = findings(scene)
    assert finding.subject == "node:n2"
    assert (finding.onset, finding.confidence) == (START_AT, "established")


@pytest.mark.parametrize("nodes", [1, 4])
def test_a_port_that_becomes_slower(nodes):
    scene, uuids = fleet(nodes)
    scene.run(300, working(uuids))
    slow_at = scene.next_at
    scene.nic("n1", "mlx5_0/1", nic_speed_gbps=200.0)
    scene.run(310, working(uuids))
    (finding,) = findings(scene)
    assert (finding.onset, finding.severity) == (slow_at, "warning")
    assert "port mlx5_0/1 at 200 Gb/s" in finding.summary
    assert finding.summary.endswith("400 Gb/s")


def test_symbol_errors_that_go_on():
    scene, uuids = fleet()
    scene.run(300, working(uuids))
    bad_at = scene.next_at
    scene.nic("n1", "mlx5_0/1", nic_symbol_error=lambda s: (s + 30) // 30)
    scene.run(700, working(uuids))
    (finding,) = findings(scene)
    assert finding.onset == bad_at
    assert "symbol errors since" in finding.summary


def test_symbol_errors_of_a_few_minutes_are_a_hypothesis():
    scene, uuids = fleet()
    scene.nic("n1", "mlx5_0/1", nic_symbol_error=lambda s: s // 30)
    scene.run(400, working(uuids))
    assert findings(scene)[0].confidence == "hypothesis"


def test_a_link_that_goes_down_again_and_again():
    scene, uuids = fleet()
    scene.nic("n1", "mlx5_0/1", nic_link_downed=lambda s: s // 1000)
    scene.run(2500, working(uuids))
    (finding,) = findings(scene)
    assert "2 times without a link" in finding.summary


def test_all_that_is_wrong_with_a_node_is_one_finding():
    scene, uuids = fleet()
    scene.nic("n1", "mlx5_0/1", nic_speed_gbps=200.0)
    scene.nic("n1", "mlx5_1/1", **DOWN)
    scene.run(300, working(uuids))
    (finding,) = findings(scene)
    assert finding.severity == "critical"
    assert finding.summary.endswith("and 1 more sign of it")
    assert finding.gpus == ("GPU-n1-0", "GPU-n1-1")


# Look-alikes


def test_sound_ports():
    scene, uuids = fleet()
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_a_port_that_nobody_cabled_on_any_node():
    scene, uuids = fleet()
    for number in range(1, 5):
        scene.nic(f"n{number}", "mlx5_1/1", **DOWN)
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_a_port_of_a_lone_node_that_was_never_up():
    scene, uuids = fleet(1)
    scene.nic("n1", "mlx5_1/1", **DOWN)
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_a_port_that_was_disabled_on_purpose():
    scene, uuids = fleet()
    scene.nic("n1", "mlx5_1/1", **{**DOWN, "phys_state": "Disabled"})
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_a_port_for_storage_that_is_slower_than_the_others():
    scene, uuids = fleet()
    for number in range(1, 5):
        scene.nic(f"n{number}", "mlx5_1/1", nic_speed_gbps=100.0)
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_nodes_of_another_kind_have_other_ports():
    scene, uuids = fleet()
    for uuid in uuids[:2]:
        scene.gpu(uuid, name="NVIDIA A100-SXM4-80GB")
    for port in range(2):
        scene.nic("n1", f"mlx5_{port}/1", nic_speed_gbps=200.0)
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_congestion_is_no_broken_port():
    scene, uuids = fleet()
    grows = {"nic_out_of_sequence": lambda s: s, "nic_np_cnp_sent": lambda s: 10 * s}
    scene.nic("n1", "mlx5_0/1", nic_local_ack_timeout_err=lambda s: s, **grows)
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_one_flap_that_is_over():
    scene, uuids = fleet()
    scene.nic("n1", "mlx5_0/1", nic_link_downed=lambda s: min(1, s // 100))
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_a_silent_node_is_not_judged():
    scene, uuids = fleet()
    scene.nic("n1", "mlx5_1/1", **DOWN)
    scene.run(300, working(uuids))
    scene.silence("n1")
    scene.run(100, working(uuids))
    assert findings(scene) == []


# Missing fields


def test_without_a_state_nothing_is_claimed():
    scene, uuids = fleet()
    scene.nic("n1", "mlx5_1/1", **{**DOWN, "state": None})
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_a_port_whose_speed_is_not_told_is_judged_by_its_state():
    scene, uuids = fleet()
    scene.nic("n1", "mlx5_1/1", **{**DOWN, "nic_speed_gbps": None})
    scene.run(900, working(uuids))
    (finding,) = findings(scene)
    assert finding.confidence == "hypothesis"


def test_nodes_without_ports():
    scene = Scene()
    uuids = scene.node("n1", 2)
    scene.run(900, working(uuids))
    assert findings(scene) == []
