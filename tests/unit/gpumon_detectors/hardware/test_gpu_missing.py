from __future__ import annotations

import pytest

from gpumon.detect.scene import Scene, working
from gpumon_detectors.hardware.gpu_missing import GpuMissing
from tests.worlds.advice import sends_away


def fleet():
    scene = Scene()
    uuids = scene.node("n1", 4) + scene.node("n2", 4)
    scene.job("42", uuids[:4])
    scene.run(300, working(uuids))
    return scene, uuids


def findings(scene):
    return list(GpuMissing().evaluate(scene.view()))


@pytest.mark.parametrize(
    ("seconds", "confidence"), [(60, "hypothesis"), (70, "supported"), (310, "established")]
)
def test_a_gpu_that_is_gone_from_a_node_that_talks(seconds, confidence):
    scene, uuids = fleet()
    gone_at = scene.next_at
    scene.lose(uuids[2])
    scene.run(seconds, working(uuids))
    (finding,) = findings(scene)
    assert (finding.finding_class, finding.subject) == ("gpu_fault", "node:n1")
    assert (finding.onset, finding.confidence) == (gone_at, confidence)
    assert finding.severity == ("warning" if confidence == "hypothesis" else "critical")
    assert finding.gpu_seconds is None
    assert "n1: 1 GPU gone since" in finding.summary
    assert finding.summary.endswith("under job 42")
    texts = [evidence.text for evidence in finding.evidence]
    assert texts == [
        "the driver lists 3 GPUs, Slurm gives the node 4",
        f"no longer on any node: {uuids[2]}",
    ]
    assert sends_away(finding) == (confidence != "hypothesis")


# Look-alikes


def test_all_gpus_are_there():
    scene, _ = fleet()
    assert findings(scene) == []


def test_a_node_that_was_short_before_nobody_saw_it_lose_one():
    scene, uuids = fleet()
    scene.slurm("n1", gpu_count=8)
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_slices_are_counted_otherwise():
    scene, uuids = fleet()
    for uuid in uuids[:4]:
        scene.gpu(uuid, mig_mode=1)
    scene.slurm("n1", gpu_count=28)
    scene.lose(uuids[3])
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_a_silent_node_is_another_class():
    scene, uuids = fleet()
    scene.lose(uuids[0])
    scene.silence("n1")
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_a_gpu_that_was_taken_out_on_purpose():
    scene, uuids = fleet()
    scene.lose(uuids[0])
    scene.slurm("n1", gpu_count=3)
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_which_node_lost_it_may_not_be_known():
    scene, uuids = fleet()
    scene.slurm("n2", gpu_count=8)
    scene.lose(uuids[0])
    scene.run(900, working(uuids))
    found = findings(scene)
    assert {finding.confidence for finding in found} == {"hypothesis"}
    assert [f.summary.partition(" gone")[0] for f in found] == [
        "n1: perhaps 1 GPU",
        "n2: perhaps 1 GPU",
    ]


# Missing fields


def test_without_slurms_count_nothing_is_claimed():
    scene, uuids = fleet()
    scene.slurm("n1", gpu_count=None)
    scene.lose(uuids[0])
    scene.run(900, working(uuids))
    assert findings(scene) == []
