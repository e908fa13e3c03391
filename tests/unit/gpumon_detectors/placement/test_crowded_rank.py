"""Ranks that get no CPU while their peers do."""

from __future__ import annotations

import pytest

from gpumon.detect.scene import Scene, working
from gpumon.model.records.cluster import Rank
from gpumon_detectors.placement.crowded_rank import CrowdedRank

PEER = {"cpus_allowed": "0-7", "cpus_allowed_count": 8, "process_cpu_wait_ratio": 0.01}


def scene_of(own, *, period_s=10.0, seconds=400.0, peer=PEER, at=2, gpus=4):
    """A job of which one rank fares so, and the others as `peer`."""
    scene = Scene(period_s)
    uuids = scene.node("n1", gpus)
    ranks = [
        Rank("0", "w", place, place, gpus, "n1", 100 + place, (uuid,), None)
        for place, uuid in enumerate(uuids)
    ]
    scene.job("42", uuids, ranks=ranks)
    for place, uuid in enumerate(uuids):
        values = own if place == at else peer
        scene.process(100 + place, [uuid], **{"job_id": "42", **values})
    scene.run(seconds, working(uuids))
    return scene


def claims(own, **how):
    return list(CrowdedRank().evaluate(scene_of(own, **how).view()))


@pytest.mark.parametrize("period_s", [1.0, 10.0, 30.0, 60.0])
def test_a_rank_whose_cores_were_taken_is_named_with_what_it_has_left(period_s):
    taken = {"cpus_allowed": "3", "cpus_allowed_count": 1, "process_cpu_wait_ratio": 0.47}
    (finding,) = claims(taken, period_s=period_s)
    assert finding.finding_class == "cpu_oversubscribed"
    assert finding.confidence == "supported"
    assert finding.summary == (
        "rank 2 (n1 GPU 2) without a CPU in 47 % of the time, unlike the others"
    )
    assert finding.gpus == ("GPU-n1-2",)
    texts = [line.text for line in finding.evidence]
    assert "process 102: could run and had no CPU in 47 % of the time over" in texts[0]
    assert "rank 2 (n1 GPU 2) may use 1 CPU, its peers 8" in texts
    assert any("taskset -cp 102" in step for step in finding.advice)
    assert finding.gpu_seconds is None


def test_a_rank_whose_cpus_are_seen_to_be_fewer_needs_less_contrast():
    peer = {**PEER, "process_cpu_wait_ratio": 0.3}
    waits = {"process_cpu_wait_ratio": 0.7}
    assert claims({**PEER, **waits}, peer=peer, seconds=3000.0) == []
    (finding,) = claims({**PEER, **waits, "cpus_allowed_count": 2}, peer=peer)
    assert finding.confidence == "supported"
    few = {"cpus_allowed_count": 2, "process_cpu_wait_ratio": 0.55}
    assert claims({**PEER, **few}, peer=peer, seconds=3000.0) == []


def test_ranks_bound_to_one_cpu_are_told_of_each_other():
    bound = {"cpus_allowed_count": 1, "process_cpu_wait_ratio": 0.5, "cpus_allowed": "5"}
    scene = Scene(10.0)
    uuids = scene.node("n1", 4)
    scene.job("42", uuids)
    for place, uuid in enumerate(uuids):
        alone = {**bound, "cpus_allowed": str(place), "process_cpu_wait_ratio": 0.01}
        scene.process(100 + place, [uuid], job_id="42", **(alone if place < 2 else bound))
    scene.run(400.0, working(uuids))
    (finding,) = CrowdedRank().evaluate(scene.view())
    assert finding.confidence == "supported"
    assert "it may use CPU 5 only, as n1 GPU 3 may" in [line.text for line in finding.evidence]


def test_where_a_stranger_is_on_its_cpus_it_takes_longer_to_say():
    crowded = {**PEER, "process_cpu_wait_ratio": 0.4}
    (early,) = claims(crowded)
    (late,) = claims(crowded, seconds=700.0)
    assert (early.confidence, late.confidence) == ("hypothesis", "supported")
    assert "it may use CPUs 0-7; some other program is on them" in {
        line.text for line in late.evidence
    }


@pytest.mark.parametrize(
    ("own", "peer"),
    [
        pytest.param({**PEER, "process_cpu_wait_ratio": 0.1}, PEER, id="waits-little"),
        pytest.param({**PEER, "cpus_allowed_count": 1}, PEER, id="few-but-enough"),
        pytest.param(
            {**PEER, "process_cpu_wait_ratio": 0.6},
            {**PEER, "process_cpu_wait_ratio": 0.4},
            id="all-wait",
        ),
        pytest.param({**PEER, "process_cpu_wait_ratio": None}, PEER, id="unknown"),
        pytest.param({"process_cpu_wait_ratio": 0.6}, {}, id="peers-unknown"),
        pytest.param(
            {**PEER, "process_cpu_wait_ratio": 0.6, "job_id": "77"}, PEER, id="another-job-s"
        ),
    ],
)
def test_what_looks_alike_is_not_claimed(own, peer):
    assert claims(own, peer=peer, seconds=3000.0) == []


def test_a_rank_alone_has_no_peers():
    assert claims({**PEER, "process_cpu_wait_ratio": 0.9}, gpus=1, at=0) == []
