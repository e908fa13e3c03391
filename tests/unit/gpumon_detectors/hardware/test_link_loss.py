"""What a slow link costs: what the job did before it against what it does since."""

from __future__ import annotations

import random

import pytest

from gpumon.detect.scene import Scene
from gpumon_detectors.hardware.fabric_degraded import FabricDegraded
from gpumon_detectors.hardware.network_degraded import NetworkDegraded
from gpumon_detectors.hardware.pcie_degraded import PcieDegraded
from tests.unit.gpumon_detectors.hardware_scenes import FIT, LINK, PORT

NARROW = {"pcie_width": 4.0}


def working(uuids, narrow=(), **values):
    return {u: {**FIT, **values, **(NARROW if u in narrow else {})} for u in uuids}


def fleet(period_s=30.0, gpus=4, nodes=1):
    scene = Scene(period_s=period_s, span_s=24 * 3600.0)
    held = tuple(uuid for n in range(nodes) for uuid in scene.node(f"n{n}", gpus))
    scene.job("42", held)
    return scene, held


def claim(scene, detector=None):
    (finding,) = (detector or PcieDegraded()).evaluate(scene.view())
    return finding


@pytest.mark.parametrize("period_s", [10.0, 60.0])
def test_a_job_that_does_less_since_the_link_is_narrow_loses_that_on_all_its_gpus(period_s):
    scene, uuids = fleet(period_s)
    scene.run(2400, working(uuids, tensor_active_ratio=0.4))
    scene.run(2000, working(uuids, uuids[2:3], tensor_active_ratio=0.26))
    found = claim(scene)
    assert found.subject == f"gpu:{uuids[2]}"
    assert set(found.gpus) == set(uuids)
    assert found.gpus[0] == uuids[2]
    length_s = found.window.end - found.window.start
    assert found.gpu_seconds == pytest.approx(0.35 * 4 * length_s, rel=0.02)
    assert found.evidence[-1].text == (
        "tensor activity of 4 GPUs of job 42: 40 % in the hour before, 26 % since: 35 % is lost"
    )


def test_hours_later_the_loss_still_counts_from_the_onset():
    scene, uuids = fleet(60.0)
    scene.run(3 * 3600, working(uuids, tensor_active_ratio=0.4))
    onset = scene.next_at
    scene.run(5 * 3600, working(uuids, uuids[:1], tensor_active_ratio=0.3))
    found = claim(scene)
    assert abs(found.window.start - onset) <= 300.0
    assert found.gpu_seconds == pytest.approx(0.25 * 4 * 5 * 3600, rel=0.05)


def test_without_tensor_and_sm_counters_utilisation_tells():
    scene, uuids = fleet()
    blind = {"tensor_active_ratio": None, "sm_active_ratio": None}
    scene.run(2400, working(uuids, gpu_util_ratio=0.9, **blind))
    scene.run(2000, working(uuids, uuids[:1], gpu_util_ratio=0.63, **blind))
    found = claim(scene)
    assert found.gpu_seconds == pytest.approx(
        0.3 * 4 * (found.window.end - found.window.start), rel=0.02
    )


def test_gpus_that_go_on_as_before_lose_nothing():
    scene, uuids = fleet()
    scene.run(2400, working(uuids, tensor_active_ratio=0.4))
    slowed = working(uuids, uuids[:1], tensor_active_ratio=0.3)
    scene.run(2000, {**slowed, uuids[3]: {**FIT, "tensor_active_ratio": 0.4}})
    found = claim(scene)
    assert set(found.gpus) == set(uuids[:3])
    assert found.gpu_seconds == pytest.approx(
        0.25 * 3 * (found.window.end - found.window.start), rel=0.02
    )


# Look-alikes


@pytest.mark.parametrize("before_s", [0, 600])
def test_where_the_time_before_is_not_known_no_loss_is_told(before_s):
    scene, uuids = fleet()
    if before_s:
        scene.run(before_s, working(uuids, tensor_active_ratio=0.4))
    scene.run(2000, working(uuids, uuids[:1], tensor_active_ratio=0.2))
    found = claim(scene)
    assert (found.gpu_seconds, found.gpus) == (None, (uuids[0],))


@pytest.mark.parametrize("since", [0.37, 0.4, 0.5])
def test_a_fall_within_the_noise_is_none(since):
    scene, uuids = fleet()
    scene.run(2400, working(uuids, tensor_active_ratio=0.4))
    scene.run(2000, working(uuids, uuids[:1], tensor_active_ratio=since))
    assert claim(scene).gpu_seconds is None


def test_a_job_whose_work_goes_up_and_down_anyway_tells_nothing():
    scene, uuids = fleet()
    dice = random.Random(4)
    for _ in range(8):
        scene.run(480, working(uuids, tensor_active_ratio=dice.choice((0.2, 0.45))))
    for _ in range(6):
        scene.run(480, working(uuids, uuids[:1], tensor_active_ratio=dice.choice((0.15, 0.3))))
    assert claim(scene).gpu_seconds is None


def test_a_fall_of_the_others_alone_is_not_the_links():
    scene, uuids = fleet()
    scene.run(2400, working(uuids, tensor_active_ratio=0.4))
    slowed = working(uuids, tensor_active_ratio=0.3)
    scene.run(2000, {**slowed, uuids[0]: {**FIT, **NARROW, "tensor_active_ratio": 0.4}})
    assert claim(scene).gpu_seconds is None


def test_gpus_that_rest_behind_the_work_lose_nothing_to_the_link():
    scene, uuids = fleet()
    scene.run(2400, working(uuids, tensor_active_ratio=0.4))
    scene.run(1800, working(uuids, uuids[:1], tensor_active_ratio=0.3))
    rest = {"gpu_util_ratio": 0.0, "tensor_active_ratio": 0.0, "sm_active_ratio": 0.0}
    scene.run(600, working(uuids, uuids[:1], **rest))
    scene.run(300, working(uuids, uuids[:1], tensor_active_ratio=0.3))
    assert claim(scene).gpu_seconds == pytest.approx(0.25 * 4 * 2100, rel=0.03)


# A job that has begun behind the slow link

COPIES = {"pcie_rx_bytes_per_s": 2.4e9, "pcie_tx_bytes_per_s": 3e7}


def wobbly(mean, by, every_s=70.0):
    """Readings of moments around a mean."""
    return lambda s: mean + by * (1 if (s // every_s) % 2 else -1)


def begun_slow(period_s=30.0, util=0.79, seconds=2400, **own):
    scene, uuids = fleet(period_s)
    values = working(uuids, uuids[2:3], **COPIES, gpu_util_ratio=wobbly(0.96, 0.03))
    values[uuids[2]] |= {"gpu_util_ratio": wobbly(util, 0.1, 50.0), **own}
    scene.run(seconds, values)
    found = claim(scene)
    lasts = found.window.end - found.window.start
    return found, None if found.gpu_seconds is None else found.gpu_seconds / (4 * lasts)


@pytest.mark.parametrize("period_s", [10.0, 30.0, 60.0])
def test_a_gpu_that_pauses_for_its_copies_keeps_its_peers_waiting(period_s):
    found, share = begun_slow(period_s)
    assert len(found.gpus) == 4
    assert share == pytest.approx(0.17, abs=0.02)
    assert "its peers in job 42 that copy as much in 96 %: 4 GPUs wait" in found.evidence[-1].text


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"util": 0.93}, id="no-longer-pauses"),
        pytest.param({"pcie_rx_bytes_per_s": 1.5e9}, id="fewer-copies"),
        pytest.param({"pcie_rx_bytes_per_s": None, "pcie_tx_bytes_per_s": None}, id="unknown"),
        pytest.param({"seconds": 400, "period_s": 60.0}, id="too-short"),
        pytest.param({"gpu_util_ratio": wobbly(0.86, 0.7, 600.0), "seconds": 1200}, id="noise"),
    ],
)
def test_what_does_not_wait_for_the_link_loses_nothing_to_it(how):
    found, share = begun_slow(**how)
    assert (share, len(found.gpus)) == (None, 1)


def test_what_jobs_before_it_lost_is_not_told_of_this_one():
    scene, uuids = fleet()
    values = working(uuids, uuids[:1], **COPIES)
    values[uuids[0]]["gpu_util_ratio"] = 0.7
    scene.run(1200, values)
    scene.end("42")
    scene.job("43", uuids)
    scene.run(1200, values)
    assert claim(scene).gpu_seconds is None


def test_pauses_that_copies_do_not_fill_are_something_elses():
    few = {"pcie_rx_bytes_per_s": 2e8, "pcie_tx_bytes_per_s": 0.0}
    scene, uuids = fleet()
    values = working(uuids, uuids[:1], **few)
    values[uuids[0]]["gpu_util_ratio"] = 0.6
    scene.run(2400, values)
    found = claim(scene)
    lasts = found.window.end - found.window.start
    # At .15 of four lanes of generation 5.
    assert found.gpu_seconds == pytest.approx(2e8 / (0.15 * 15.75e9) * 4 * lasts, rel=0.02)


# Other links


def test_nvlinks_that_are_down_cost_what_the_job_no_longer_does():
    scene, uuids = fleet()
    for uuid in uuids:
        scene.links(uuid, 4, **LINK)
    scene.run(2400, working(uuids, tensor_active_ratio=0.4))
    scene.link(uuids[1], 2, link_state=0)
    scene.run(2000, working(uuids, tensor_active_ratio=0.3))
    found = claim(scene, FabricDegraded())
    assert found.gpus[0] == uuids[1]
    assert set(found.gpus) == set(uuids)
    assert found.gpu_seconds == pytest.approx(0.25 * 4 * 1970, rel=0.03)


def test_a_slow_port_costs_the_whole_job_beyond_its_node():
    scene, uuids = fleet(nodes=3)
    for number in range(3):
        scene.nic(f"n{number}", "mlx5_0", **PORT)
    scene.run(2400, working(uuids, tensor_active_ratio=0.4))
    scene.nic("n1", "mlx5_0", **{**PORT, "nic_speed_gbps": 100.0})
    scene.run(2000, working(uuids, tensor_active_ratio=0.2))
    found = claim(scene, NetworkDegraded())
    assert found.subject == "node:n1"
    assert set(found.gpus) == set(uuids)
    assert found.gpu_seconds == pytest.approx(0.5 * 12 * 1970, rel=0.03)
