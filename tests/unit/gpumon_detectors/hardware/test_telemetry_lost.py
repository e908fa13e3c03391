from __future__ import annotations

import pytest

from gpumon.detect.scene import Scene, working
from gpumon_detectors.hardware.telemetry_lost import TelemetryLost
from tests.worlds.advice import sends_away

DARK = {"temp_c": None, "power_w": None, "mem_used_bytes": None, "gpu_util_ratio": None}


def fleet(nodes=4):
    scene = Scene()
    uuids = [scene.node(f"n{number}", 2) for number in range(1, nodes + 1)]
    scene.job("42", [uuid for of_node in uuids for uuid in of_node])
    every = [uuid for of_node in uuids for uuid in of_node]
    scene.run(300, working(every))
    return scene, every


def findings(scene, **parameters):
    return list(TelemetryLost(**parameters).evaluate(scene.view()))


@pytest.mark.parametrize(
    ("seconds", "confidence"),
    [(40, "hypothesis"), (120, "hypothesis"), (130, "supported"), (610, "established")],
)
def test_a_node_that_falls_silent_under_a_job(seconds, confidence):
    scene, uuids = fleet()
    missed_at = scene.next_at
    scene.silence("n2")
    scene.run(seconds, working(uuids))
    (finding,) = findings(scene)
    assert finding.subject == "node:n2"
    assert finding.severity == ("warning" if confidence == "hypothesis" else "critical")
    assert finding.confidence == confidence
    assert finding.onset == missed_at
    assert finding.gpu_seconds is None
    assert finding.gpus == ("GPU-n2-0", "GPU-n2-1")
    assert "under job 42" in finding.summary
    texts = [evidence.text for evidence in finding.evidence]
    assert texts[0].endswith("nodes that report: 3 of 4")
    assert "job 42 runs there on 2 GPUs" in texts


def test_three_periods_are_waited_for():
    scene, uuids = fleet()
    scene.silence("n2")
    scene.run(30, working(uuids))
    assert findings(scene) == []


@pytest.mark.parametrize(("missed", "confidence"), [(4, "hypothesis"), (5, "supported")])
def test_some_reports_in_a_row_are_lost_by_chance(missed, confidence):
    """At 60 s four of them are more than the two minutes that a hiccup takes."""
    scene = Scene(period_s=60.0)
    uuids = [uuid for number in range(3) for uuid in scene.node(f"n{number}", 2)]
    scene.job("42", uuids)
    scene.run(900, working(uuids))
    scene.silence("n2")
    scene.run(60 * missed, working(uuids))
    (finding,) = findings(scene)
    assert finding.confidence == confidence


def test_what_the_source_and_slurm_say_is_evidence():
    scene, uuids = fleet()
    scene.silence("n2")
    scene.fail("n2", "no answer for 30 s")
    scene.slurm("n2", state="allocated+not_responding")
    scene.run(300, working(uuids))
    texts = [evidence.text for evidence in findings(scene)[0].evidence]
    assert "its source: no answer for 30 s" in texts
    assert "Slurm calls it allocated+not_responding" in texts


def died(nodes=4, ends="NODE_FAIL", slurm="down+not_responding", slurm_after_s=300):
    """Of a fleet one node falls silent, Slurm gives it up and its job leaves."""
    scene, uuids = fleet(nodes)
    scene.silence("n2")
    scene.run(slurm_after_s, working(uuids))
    scene.slurm("n2", state=slurm)
    scene.end("42")
    if ends is not None:
        scene.record("42", state=ends, nodes=("n1", "n2"), end_at=scene.next_at)
    scene.job("43", uuids[:2])
    scene.run(340, working(uuids))
    return scene


def test_a_node_that_slurm_gave_up_is_told_of_on_although_its_job_has_left():
    (finding,) = findings(died())
    assert (finding.subject, finding.confidence) == ("node:n2", "established")
    assert finding.window.end - finding.window.start == 630
    assert finding.summary.endswith("(10 min): Slurm gave it up, with it ended job 42")
    assert "Slurm calls it down+not_responding" in [e.text for e in finding.evidence]
    assert not any("output still grows" in line for line in finding.advice)


def test_a_job_that_is_requeued_leaves_nothing_to_be_named():
    (finding,) = findings(died(ends=None))
    assert finding.summary.endswith("Slurm gave it up")


def test_slurms_word_settles_what_the_monitor_cannot_know():
    """With two nodes of which one is silent, or one alone, it might be the way to it."""
    scene, uuids = fleet(1)
    scene.silence("n1")
    scene.slurm("n1", state="down+not_responding")
    scene.run(900, working(uuids))
    (finding,) = findings(scene)
    assert finding.confidence == "established"
    assert "under job 42" in finding.summary
    scene, uuids = fleet()
    for name in ("n1", "n2", "n3"):
        scene.silence(name)
    scene.slurm("n3", state="down+not_responding")
    scene.run(900, working(uuids))
    assert [finding.subject for finding in findings(scene)] == ["node:n3"]


@pytest.mark.parametrize("state", ["down+drain+not_responding", "down", "down+reboot_issued"])
def test_a_node_that_somebody_took_out_of_work_is_not_told_of(state):
    assert findings(died(slurm=state)) == []


def test_a_node_that_was_given_up_without_a_job_costs_nobody_anything():
    scene, uuids = fleet()
    scene.end("42")
    scene.job("43", uuids[:2])
    scene.run(60, working(uuids))
    scene.silence("n2")
    scene.slurm("n2", state="down+not_responding")
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_a_gpu_that_falls_silent_beside_one_that_talks():
    scene, uuids = fleet()
    missed_at = scene.next_at
    scene.gpu("GPU-n3-1", **DARK)
    scene.run(300, working(uuids))
    (finding,) = findings(scene)
    assert finding.subject == "node:n3"
    assert (finding.onset, finding.confidence) == (missed_at, "supported")
    assert finding.gpus == ("GPU-n3-1",)
    assert finding.summary.startswith("n3: GPU 1 silent since ")


def test_a_node_that_talks_again_is_claimed_no_more():
    scene, uuids = fleet()
    scene.silence("n2")
    scene.run(300, working(uuids))
    scene.revive("n2")
    scene.run(10, working(uuids))
    assert findings(scene) == []


def test_advice_is_filled_in():
    scene, uuids = fleet()
    scene.silence("n2")
    scene.run(300, working(uuids))
    (finding,) = findings(scene)
    assert "What Slurm says about it: scontrol show node n2" in finding.advice
    assert "Report this to the administrators of n2." in finding.advice
    assert "whether the node answers" in finding.machine_advice[0]


def test_silence_alone_is_no_fault_that_sends_people_away():
    scene, uuids = fleet()
    scene.silence("n2")
    scene.run(1300, working(uuids))
    (finding,) = findings(scene)
    assert finding.confidence == "established"
    assert not sends_away(finding)


# Look-alikes


def test_most_nodes_at_once_is_the_monitors_own_trouble():
    scene, uuids = fleet()
    for name in ("n1", "n2", "n3"):
        scene.silence(name)
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_all_nodes_at_once_is_the_monitors_own_trouble():
    scene, uuids = fleet()
    for name in ("n1", "n2", "n3", "n4"):
        scene.silence(name)
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_a_lone_node_cannot_be_told_from_the_way_to_it():
    scene, uuids = fleet(1)
    scene.silence("n1")
    scene.run(900, working(uuids))
    (finding,) = findings(scene)
    assert finding.confidence == "hypothesis"


@pytest.mark.parametrize(
    "state", ["down", "mixed+drain", "drained", "idle+maintenance", "mixed+reboot_issued"]
)
def test_a_node_that_slurm_knows_about_says_so(state):
    scene, uuids = fleet()
    scene.silence("n2")
    scene.slurm("n2", state=state)
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_a_node_without_a_job():
    scene, uuids = fleet()
    scene.end("42")
    scene.job("43", uuids[:2])
    scene.silence("n2")
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_a_node_that_was_never_heard_of():
    scene = Scene()
    uuids = scene.node("n1", 2)
    scene.job("42", uuids, gpus_unknown=8, nodes=("n1", "n2"))
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_a_gpu_that_the_driver_calls_lost_is_a_fault():
    scene, uuids = fleet()
    scene.fall("GPU-n3-1")
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_gpus_that_all_tell_nothing_may_not_be_read_at_all():
    scene, uuids = fleet()
    for uuid in ("GPU-n3-0", "GPU-n3-1"):
        scene.gpu(uuid, **DARK)
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_a_gpu_that_never_told_anything_has_not_fallen_silent():
    scene = Scene()
    uuids = scene.node("n1", 2)
    scene.job("42", uuids)
    scene.gpu(uuids[1], **DARK)
    scene.run(900, working(uuids))
    assert findings(scene) == []


# Missing fields


@pytest.mark.parametrize("key", list(DARK))
def test_one_missing_field_is_not_silence(key):
    scene, uuids = fleet()
    scene.gpu("GPU-n3-1", **{key: None})
    scene.run(900, working(uuids))
    assert findings(scene) == []
