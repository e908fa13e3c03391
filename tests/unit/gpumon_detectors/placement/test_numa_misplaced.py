"""Ranks on CPUs of another socket than their GPU's, and those that only seem to be."""

from __future__ import annotations

import pytest

from gpumon.detect.scene import Scene
from gpumon.model.records.cluster import Rank
from gpumon_detectors.placement.numa_misplaced import NumaMisplaced
from gpumon_detectors.placement.seats import seats_on

TWO = "0:10,21 1:21,10"
COPIES = {
    "process_count": 1.0,
    "mem_used_bytes": 50.0 * 2**30,
    "mem_total_bytes": 80.0 * 2**30,
    "gpu_util_ratio": 0.78,
    "sm_active_ratio": 0.55,
    "pcie_rx_bytes_per_s": 3.5e9,
    "pcie_tx_bytes_per_s": 2e8,
    "pcie_gen": 5,
    "pcie_width": 16,
}
CPUS = {0: "0-23", 1: "24-47"}


def placed(
    nodes,
    *,
    period_s=10.0,
    seconds=900.0,
    distances=TWO,
    gpu_numa=(0, 0, 1, 1),
    how=COPIES,
    also=None,
):
    """A job of four GPUs whose ranks run at these NUMA nodes, and what is claimed of it."""
    scene = Scene(period_s)
    uuids = scene.node("n1", 4)
    ranks = [
        Rank("0", "w", place, place, 4, "n1", 100 + place, (uuid,), None)
        for place, uuid in enumerate(uuids)
    ]
    scene.job("42", uuids, cpu_count=48, ranks=ranks)
    if distances:
        scene.host("n1", numa_distances=distances)
    for place, uuid in enumerate(uuids):
        if gpu_numa[place] is not None:
            scene.gpu(uuid, gpu_numa_node=gpu_numa[place])
        told = {}
        if nodes[place] is not None:
            told = {"cpu_numa_nodes": nodes[place], "cpus_allowed": CPUS[int(nodes[place][0])]}
        scene.process(100 + place, [uuid], job_id="42", **told)
    values = {uuid: {**how, **(also or {}).get(place, {})} for place, uuid in enumerate(uuids)}
    scene.run(seconds, values)
    return list(NumaMisplaced().evaluate(scene.view()))


@pytest.mark.parametrize("period_s", [1.0, 10.0, 30.0, 60.0])
def test_ranks_that_are_far_and_wait_for_copies_are_named(period_s):
    (finding,) = placed(["0", "0", "0", "1"], period_s=period_s)
    assert finding.finding_class == "numa_misplaced"
    assert finding.confidence == "supported"
    assert finding.severity == "warning"
    assert finding.summary == "1 rank of 4 on CPUs of another socket than their GPU's"
    line = finding.evidence[0]
    assert line.text == (
        "rank 2 (n1 GPU 2) is at NUMA node 1, its process may use CPUs 0-23 of NUMA node 0 "
        "(distance 21)"
    )
    assert line.subject == "gpu:GPU-n1-2"
    assert any("--cpunodebind=1" in step for step in finding.advice)


def test_it_grows_surer():
    found = {s: placed(["1"] * 4, seconds=s) for s in (400.0, 700.0, 1900.0)}
    assert [f.confidence for (f,) in found.values()] == ["hypothesis", "supported", "established"]


def test_what_peers_beside_their_gpus_are_longer_at_work_is_charged():
    waits = {place: {"gpu_util_ratio": 0.95} for place in (0, 1, 3)}
    (finding,) = placed(["0", "0", "0", "1"], also=waits)
    assert finding.gpu_seconds == pytest.approx(0.17 * 4 * 890.0, rel=0.03)
    alike = {place: {"gpu_util_ratio": 0.80} for place in (0, 1, 3)}
    (finding,) = placed(["0", "0", "0", "1"], also=alike)
    assert finding.gpu_seconds is None


@pytest.mark.parametrize("period_s", [1.0, 10.0, 60.0])
def test_where_all_are_far_a_part_of_the_pauses_is_charged(period_s):
    (finding,) = placed(["1", "1", "0", "0"], period_s=period_s)
    lasts = finding.window.end - finding.window.start
    # Copies across sockets take 1.6 times as long; a twentieth of the time anybody pauses.
    assert finding.gpu_seconds == pytest.approx((1.0 - 1.0 / 1.6) * 0.17 * 4 * lasts, rel=0.01)
    assert finding.evidence[-1].text == (
        "across sockets copies take about 1.6 times as long: 6 % of the time"
    )


def test_pauses_that_copies_do_not_fill_are_not_charged():
    few = {**COPIES, "gpu_util_ratio": 0.3, "pcie_rx_bytes_per_s": 1.5e9}
    (finding,) = placed(["1", "1", "0", "0"], how=few)
    lasts = finding.window.end - finding.window.start
    filled = 1.5e9 / (16 * 0.985e9 * 4) / 0.15
    assert finding.gpu_seconds == pytest.approx((1.0 - 1.0 / 1.6) * filled * 4 * lasts, rel=0.01)


def test_where_nothing_waits_the_placement_is_a_remark():
    (finding,) = placed(["1"] * 4, how={**COPIES, "gpu_util_ratio": 0.99}, seconds=3000.0)
    assert (finding.confidence, finding.severity) == ("hypothesis", "info")
    assert finding.gpu_seconds is None


def test_where_bytes_are_not_counted_it_is_a_remark_that_says_so():
    plain = {key: value for key, value in COPIES.items() if not key.startswith("pcie")}
    (finding,) = placed(["1"] * 4, how=plain, seconds=3000.0)
    assert (finding.confidence, finding.severity) == ("hypothesis", "info")
    texts = [line.text for line in finding.evidence]
    assert "how much they copy is not known: PCIe bytes are not counted here" in texts
    assert placed(["1"] * 4, how={**plain, "gpu_util_ratio": 0.99}) == []


@pytest.mark.parametrize(
    "case",
    [
        pytest.param({"nodes": ["0,1"] * 4}, id="whole-node"),
        pytest.param({"nodes": ["0", "0", "1", "1"]}, id="well-placed"),
        pytest.param(
            {"nodes": ["0"] * 4, "distances": "0:10", "gpu_numa": (0, 0, 0, 0)}, id="one-node"
        ),
        pytest.param({"nodes": ["0"] * 4, "gpu_numa": (None,) * 4}, id="gpu-unknown"),
        pytest.param({"nodes": [None] * 4}, id="cpus-unknown"),
        pytest.param({"nodes": ["0"] * 4, "distances": None}, id="distance-unknown"),
        pytest.param({"nodes": ["0"] * 4, "distances": "0:10,x 1:21,10"}, id="distance-strange"),
        pytest.param({"nodes": ["0"] * 4, "distances": "0:10,12 1:12,10"}, id="one-socket"),
        pytest.param(
            {"nodes": ["1"] * 4, "how": {**COPIES, "pcie_rx_bytes_per_s": 4e7}}, id="hardly-copies"
        ),
        pytest.param(
            {"nodes": ["1"] * 4, "how": {**COPIES, "gpu_util_ratio": None}}, id="use-unknown"
        ),
    ],
)
def test_what_looks_alike_is_not_claimed(case):
    assert placed(**case, seconds=3000.0) == []


def test_a_gpu_that_another_process_of_the_job_uses_from_nearby_is_not_told():
    """As a launcher that touched every GPU, or a monitor beside the rank."""
    scene = Scene(10.0)
    uuids = scene.node("n1", 2)
    scene.job("42", uuids)
    scene.host("n1", numa_distances=TWO)
    for uuid in uuids:
        scene.gpu(uuid, gpu_numa_node=0)
    scene.process(7, list(uuids), job_id="42", cpu_numa_nodes="1", cpus_allowed="24-47")
    scene.process(8, list(uuids), job_id="42", cpu_numa_nodes="0", cpus_allowed="0-23")
    scene.run(900.0, dict.fromkeys(uuids, COPIES))
    assert list(NumaMisplaced().evaluate(scene.view())) == []


def test_holes_and_single_missing_values_hide_nothing():
    scene = Scene(10.0)
    uuids = scene.node("n1", 1)
    scene.job("42", uuids)
    scene.host("n1", numa_distances=TWO)
    scene.gpu(uuids[0], gpu_numa_node=1)
    scene.process(7, list(uuids), job_id="42", cpu_numa_nodes="0", cpus_allowed="0-23")
    rate = {"pcie_rx_bytes_per_s": lambda s: None if int(s) % 200 == 50 else 3e9}
    for seconds in (500.0, 700.0):
        scene.run(seconds, {uuids[0]: {**COPIES, **rate}})
        scene.skip(60.0)
    scene.run(30.0, {uuids[0]: COPIES})
    (finding,) = NumaMisplaced().evaluate(scene.view())
    assert finding.confidence == "supported"


def test_the_nearest_of_a_process_s_numa_nodes_counts():
    scene = Scene(10.0)
    (uuid,) = scene.node("n1", 1)
    scene.host("n1", numa_distances="0:10,12,32,32 1:12,10,32,32 2:32,32,10,12 3:32,32,12,10")
    scene.gpu(uuid, gpu_numa_node=3)
    scene.process(7, [uuid], cpu_numa_nodes="0,2")
    scene.run(60.0, {uuid: COPIES})
    (seat,) = seats_on(scene.view().nodes["n1"])
    assert (seat.distance, seat.is_far) == (12, False)
