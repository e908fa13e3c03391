from __future__ import annotations

import pytest

from gpumon.detect.scene import Scene, working
from gpumon_detectors.requests.fragmented import Fragmented

HOUR = 3600.0
GIB = 2.0**30


def findings(scene, **parameters):
    return list(Fragmented(**parameters).evaluate(scene.view()))


def spread(seconds, *, each=2, nodes=4, sent=5e9, speed=400.0, neighbour=False, sm=0.45,
    product="NVIDIA H100 80GB HBM3", **fields,
):  # fmt: skip
    """A job with so many GPUs on each of several nodes of eight, each with two ports."""
    scene = Scene(period_s=30.0, span_s=24 * HOUR)
    held, others = [], []
    for number in range(nodes):
        name = f"n{number}"
        uuids = scene.node(name, 8, product)
        scene.slurm(name, gpu_count=8, cpu_count=128, mem_bytes=1024 * GIB)
        for port in ("mlx5_0/1", "mlx5_1/1"):
            scene.nic(name, port, nic_tx_bytes_per_s=sent, nic_speed_gbps=speed)
        held += uuids[:each]
        others += uuids[each:]
    given = {"cpu_count": 16 * each * nodes, "mem_bytes": 100 * GIB * each * nodes}
    scene.job("42", held, **{**given, **fields})
    if neighbour:
        scene.job("43", others[:1])
    scene.run(seconds, working([*held, *others], sm_active_ratio=sm))
    return scene


@pytest.mark.parametrize(
    ("seconds", "confidence"),
    [(HOUR, "hypothesis"), (3720, "supported"), (7200, "supported"), (8100, "established")],
)
def test_the_claim_grows_with_the_window_as_observed(seconds, confidence):
    (finding,) = findings(spread(seconds))
    assert finding.confidence == confidence


def test_the_finding_says_what_it_rests_on_and_what_to_ask_for():
    (finding,) = findings(spread(4000))
    assert (finding.subject, finding.severity) == ("job:42", "warning")
    assert finding.summary == "8 GPUs spread over 4 nodes where 1 node would do"
    assert finding.evidence[0].text == (
        "8 GPUs, 128 CPUs and 800.0 GiB of memory on 4 nodes with 8 GPUs each; 1 would do"
    )
    assert finding.evidence[1].text.startswith(
        "every node sends at least 10.00 GB/s, 10 % of what its ports carry, on average over "
    )
    assert finding.advice[0] == "Ask for whole nodes: sbatch --nodes=1 --gpus-per-node=8"


# What it costs


def lost_share(scene):
    (finding,) = findings(scene)
    lasts = finding.window.end - finding.window.start
    return None if finding.gpu_seconds is None else finding.gpu_seconds / (8 * lasts)


def test_what_nvlink_would_save_is_lost():
    # Two ports of 50 GB/s; NVLink of an H100 carries 450 GB/s each way.
    scene = spread(4000, sent=12e9)
    assert lost_share(scene) == pytest.approx(0.24 / 0.8 - 12e9 / (0.6 * 450e9), rel=0.01)
    assert findings(scene)[0].evidence[-1].text == (
        "over NVLink of one node it would save at least 26 % of the time"
    )


def test_what_is_hidden_behind_the_computation_costs_nothing():
    assert lost_share(spread(4000, sent=12e9, sm=0.675)) == pytest.approx(0.1 - 12 / 270, rel=0.01)
    assert lost_share(spread(4000, sent=12e9, sm=0.74)) is None


def test_an_exchange_takes_as_long_as_the_busiest_port():
    scene = spread(60, sent=1e6)
    for number in range(4):
        scene.nic(f"n{number}", "mlx5_1/1", nic_tx_bytes_per_s=12e9)
    scene.run(7000, {})
    (finding,) = findings(scene)
    lasts = finding.window.end - finding.window.start
    share = finding.gpu_seconds / (8 * lasts)
    assert share == pytest.approx(0.24 / 0.8 - 6 / 270, rel=0.03)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param({"sm": None}, id="sm-unknown"),
        pytest.param({"product": "NVIDIA L40S"}, id="no-nvlink"),
        pytest.param({"neighbour": True}, id="others-send-too"),
        pytest.param({"each": 4, "nodes": 4, "mem_bytes": 1500 * GIB}, id="two-nodes-stay"),
    ],
)
def test_where_it_cannot_be_told_no_loss_is(case):
    assert lost_share(spread(4000, sent=12e9, **case)) is None


# Look-alikes


def test_a_job_that_fills_its_nodes_is_dense():
    assert findings(spread(4000, each=8)) == []
    assert findings(spread(4000, each=5, nodes=2)) == []


@pytest.mark.parametrize("fields", [{"mem_bytes": 3500 * GIB}, {"cpu_count": 500}])
def test_memory_or_cpus_that_fewer_nodes_do_not_have(fields):
    assert findings(spread(4000, **fields)) == []


def test_ranks_that_hardly_exchange_anything_lose_nothing():
    assert findings(spread(4000, sent=2e8)) == []
    assert len(findings(spread(4000, sent=2e8), busy_port_ratio=0.001)) == 1


def test_the_traffic_may_be_a_neighbours():
    (finding,) = findings(spread(4000, neighbour=True))
    assert finding.confidence == "hypothesis"
    assert finding.evidence[-1].text == "other jobs are on these nodes and send too"


def test_data_that_are_read_over_the_ports_are_received():
    scene = spread(60, sent=1e6)
    for number in range(4):
        scene.nic(f"n{number}", "mlx5_0/1", nic_rx_bytes_per_s=4e10)
    scene.run(4000, {})
    assert findings(scene) == []


def test_nodes_that_differ_are_not_compared():
    scene = spread(60)
    scene.slurm("n3", gpu_count=4)
    scene.run(4000, {})
    assert findings(scene) == []


# What telemetry does not show


@pytest.mark.parametrize("missing", [{"sent": None}, {"speed": None}, {"gpus_unknown": 1}])
def test_without_ports_or_gpus_in_sight_nothing_is_claimed(missing):
    assert findings(spread(4000, **missing)) == []


def test_without_slurms_word_on_a_node_nothing_is_claimed():
    scene = spread(60)
    scene.slurm("n3", gpu_count=None)
    scene.run(4000, {})
    assert findings(scene) == []


def test_a_silent_node_proves_nothing():
    scene = spread(3900)
    scene.silence("n3")
    scene.run(300, {})
    assert findings(scene) == []
