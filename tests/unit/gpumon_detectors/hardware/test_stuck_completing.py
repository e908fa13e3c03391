from __future__ import annotations

import random

import pytest

from gpumon.detect.scene import Scene, working
from gpumon_detectors.hardware.stuck_completing import StuckCompleting
from tests.unit.gpumon_detectors.noise import TROUBLES, thinned


def ended(seconds, *, state="idle+completing", nodes=("m2",), end_ago_s=0.0, watched_s=90.0):
    """A job of two nodes ended and is completing on some of them."""
    scene = Scene()
    uuids = scene.node("m1", 2) + scene.node("m2", 2)
    scene.job("640", uuids)
    scene.run(watched_s, working(uuids))
    scene.end("640")
    scene.record(
        "640", state="COMPLETING", nodes=nodes, end_at=scene.next_at - end_ago_s, user="cho"
    )
    scene.slurm("m2", state=state)
    scene.run(seconds, {})
    return scene, uuids


def findings(scene):
    return list(StuckCompleting().evaluate(scene.view()))


@pytest.mark.parametrize(
    ("seconds", "confidence"),
    [(130, "hypothesis"), (300, "hypothesis"), (310, "supported"), (910, "established")],
)
def test_a_node_that_is_not_given_back(seconds, confidence):
    scene, _ = ended(seconds)
    (finding,) = findings(scene)
    assert (finding.subject, finding.confidence) == ("node:m2", confidence)
    assert finding.severity == "warning"
    assert finding.gpu_seconds is None
    assert finding.summary.endswith("job 640 is still completing")
    assert [evidence.text for evidence in finding.evidence][1:] == [
        "Slurm calls m2 idle+completing"
    ]


def test_it_counts_from_the_end_that_slurm_tells_and_is_sure_of_what_was_watched():
    scene, _ = ended(200, end_ago_s=4000.0)
    (finding,) = findings(scene)
    assert finding.onset == pytest.approx(finding.window.end - 4190.0)
    assert finding.window.end - finding.window.start == 280
    assert finding.confidence == "hypothesis"


def test_every_node_that_is_left_is_named_and_several_jobs_are_told_at_once():
    scene, _ = ended(0, nodes=("m1", "m2"))
    scene.record("641", state="COMPLETING", nodes=("m2",), end_at=scene.next_at + 60)
    scene.run(400, {})
    found = {finding.subject: finding.summary for finding in findings(scene)}
    assert set(found) == {"node:m1", "node:m2"}
    assert found["node:m1"].endswith("job 640 is still completing")
    assert found["node:m2"].endswith("jobs 640, 641 are still completing")


def test_what_is_left_on_its_gpus_is_evidence():
    scene, uuids = ended(0)
    scene.process(7001, uuids[3:], name="python3", job_id="640")
    scene.process(7002, uuids[3:], name="other", job_id="9")
    scene.run(400, {})
    (finding,) = findings(scene)
    assert finding.evidence[-1].text == "still on GPUs there: 7001 python3"


def test_a_silent_node_may_be_stuck_all_the_same():
    """gpumon may have left it with its job."""
    scene, _ = ended(0)
    scene.silence("m2")
    scene.run(400, {})
    assert [finding.subject for finding in findings(scene)] == ["node:m2"]


def test_a_slurmd_that_hangs_gives_nothing_back_though_its_node_is_heard():
    scene, _ = ended(0, state="idle+completing+not_responding")
    scene.run(400, {})
    (finding,) = findings(scene)
    assert (finding.subject, finding.confidence) == ("node:m2", "supported")
    assert finding.machine_advice[0].startswith("`systemctl status slurmd` there")
    scene, _ = ended(400)
    assert "systemctl" not in findings(scene)[0].machine_advice[0]


# Look-alikes


@pytest.mark.parametrize(("seconds", "is_found"), [(0, True), (40, False)])
def test_a_node_that_neither_slurm_nor_gpumon_heard_at_the_end_is_lost(seconds, is_found):
    """One that fell silent after it was left with its job, which is where gpumon stops to ask."""
    scene = Scene()
    uuids = scene.node("m1", 2) + scene.node("m2", 2)
    scene.job("640", uuids)
    scene.run(90, working(uuids))
    scene.slurm("m2", state="idle+completing+not_responding")
    if seconds:
        scene.silence("m2")
        scene.run(seconds, {})
    scene.end("640")
    scene.record("640", state="COMPLETING", nodes=("m2",), end_at=scene.next_at, user="cho")
    scene.run(4, {})
    if not seconds:
        scene.silence("m2")
    scene.run(400, {})
    assert bool(findings(scene)) is is_found


def test_an_end_takes_its_time():
    scene, _ = ended(90)
    assert findings(scene) == []


@pytest.mark.parametrize(
    "state", ["down+completing+not_responding", "idle+completing+powering_down", "down"]
)
def test_a_node_that_cannot_answer_gives_nothing_back(state):
    scene, _ = ended(2000, state=state)
    assert findings(scene) == []


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED", "PENDING"])
def test_a_job_that_left_its_nodes_is_none(state):
    scene, _ = ended(0)
    scene.record("640", state=state, nodes=("m2",), end_at=scene.next_at)
    scene.run(2000, {})
    assert findings(scene) == []


def test_a_job_whose_end_is_not_told_is_none():
    scene, _ = ended(0)
    scene.record("640", state="COMPLETING", nodes=("m2", "elsewhere"), end_at=None)
    scene.run(2000, {})
    assert findings(scene) == []


def left_behind(period_s, trouble, seconds):
    """A node that is not given back, with what telemetry suffers meanwhile."""
    scene = Scene(period_s=period_s)
    uuids = scene.node("m1", 2) + scene.node("m2", 4)
    mine = uuids[:4]
    dice = random.Random(f"{period_s}{trouble}")

    def run(for_s, values):
        told = {uuid: dict(one) for uuid, one in values.items()}
        if trouble == "missing":
            told = {uuid: thinned(one, dice) for uuid, one in told.items()}
        scene.run(for_s, told)

    if trouble == "shared":
        scene.job("655", uuids[4:])
    others = working(uuids[4:]) if trouble == "shared" else {}
    scene.job("640", mine)
    if trouble != "restart":
        run(600.0, {**working(mine), **others})
    scene.end("640")
    unseen_s = seconds / 2 if trouble == "restart" else 0.0
    ended_at = scene.next_at - unseen_s
    scene.record("640", state="COMPLETING", nodes=("m2",), end_at=ended_at, user="cho")
    scene.slurm("m2", state="mixed+completing" if trouble == "shared" else "idle+completing")
    if trouble == "holes":
        run(seconds / 2, others)
        scene.skip(60.0)
        run(seconds / 2 - 60.0, others)
    else:
        run(seconds - unseen_s, others)
    return scene


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("period_s", [1.0, 10.0, 30.0, 60.0])
def test_a_node_that_is_not_given_back_is_told_whatever_telemetry_suffers(period_s, trouble):
    (finding,) = findings(left_behind(period_s, trouble, 960.0))
    assert (finding.subject, finding.finding_class) == ("node:m2", "stuck_completing")
    assert finding.confidence in ("supported", "established")
    assert finding.gpu_seconds is None


@pytest.mark.parametrize("trouble", [one for one in TROUBLES if one != "holes"])
@pytest.mark.parametrize("period_s", [1.0, 10.0, 30.0, 60.0])
def test_an_epilogue_of_a_minute_is_nobodys_fault(period_s, trouble):
    assert findings(left_behind(period_s, trouble, 62.0)) == []
