from __future__ import annotations

import pytest

from gpumon.detect.scene import HELD, START_AT, UNUSED, WORKING
from gpumon_detectors.idle.interactive_idle import InteractiveIdle
from tests.unit.gpumon_detectors.idle_scenes import all_of, job_scene

HOUR = 3600.0


def findings(scene, **parameters):
    return list(InteractiveIdle(**parameters).evaluate(scene.view()))


def session(seconds, share, *, cycle_s=1200.0, gpu_count=1, **fields):
    """A session that computes for a share of every 20 minutes, with the GPU fully used then."""
    scene, uuids = job_scene(gpu_count, period_s=10.0, **{"is_interactive": True, **fields})
    left = seconds
    while left > 0:
        if share:
            scene.run(share * cycle_s, all_of(uuids, WORKING, gpu_util_ratio=1.0))
        scene.run((1 - share) * cycle_s, all_of(uuids, HELD))
        left -= cycle_s
    return scene, uuids


@pytest.mark.parametrize(
    ("hours", "confidence"), [(1, "hypothesis"), (3, "supported"), (4.7, "established")]
)
def test_the_claim_grows_with_the_window_as_observed(hours, confidence):
    scene, _ = session(hours * HOUR, 0.05)
    (finding,) = findings(scene)
    assert finding.confidence == confidence
    assert 0 <= finding.window.start - START_AT <= 300


def test_the_finding_says_what_it_rests_on_and_what_it_costs():
    scene, _ = session(3 * HOUR, 0.05, gpu_count=2)
    (finding,) = findings(scene)
    length_s = finding.window.end - finding.window.start
    assert (finding.subject, finding.severity) == ("job:42", "warning")
    assert finding.summary.startswith("session uses its 2 GPUs ")
    assert finding.summary.endswith("(3.0 h observed)")
    assert finding.gpu_seconds == pytest.approx(2 * 0.95 * length_s, rel=0.02)
    assert finding.evidence[0].value == pytest.approx(0.05, abs=0.01)
    assert finding.evidence[1].text == "interactive: Slurm lists it without a batch script"


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "ood-segmentation"},
        {"name": "fit.bash"},
        {"qos": "interactive"},
        {"partition": "a100-dev"},
        {"name": "jupyter"},
    ],
)
def test_a_batch_job_is_no_session_whatever_it_and_its_place_are_called(fields):
    scene, _ = session(3 * HOUR, 0.02, **{"is_interactive": False, **fields})
    assert findings(scene) == []


@pytest.mark.parametrize(("name", "is_one"), [("sys/lab", True), ("sys/lab2", False), ("", False)])
def test_a_site_names_the_sessions_of_its_portal_exactly(name, is_one):
    scene, _ = session(3 * HOUR, 0.02, is_interactive=False, name=name)
    found = findings(scene, portal_names="desk, sys/lab ,")
    assert len(found) == is_one
    assert [f.evidence[1].text for f in found] == is_one * [
        "interactive: its name is one that the site's portal gives"
    ]


def test_a_session_that_never_used_its_gpu_is_one_too():
    scene, _ = session(3 * HOUR, 0.0)
    (finding,) = findings(scene)
    assert finding.evidence[0].value == 0.0


# Look-alikes


def test_short_real_experiments_are_work():
    scene, _ = session(3 * HOUR, 0.15)
    assert findings(scene) == []
    assert len(findings(scene, busy_time_ratio=0.22)) == 1


def test_experiments_on_one_gpu_after_the_other_add_up():
    scene, uuids = job_scene(4, period_s=10.0, is_interactive=True)
    for _ in range(8):
        for uuid in uuids:
            scene.run(60, {**all_of(uuids, HELD), uuid: {**WORKING, "gpu_util_ratio": 1.0}})
        scene.run(960, all_of(uuids, HELD))
    assert findings(scene) == []


def test_a_session_that_is_left_is_idle_from_its_last_cell_on():
    """Not only from when the last hour of work is forgotten."""
    scene, uuids = job_scene(is_interactive=True, period_s=60.0)
    scene.run(1.5 * HOUR, all_of(uuids, WORKING))
    left_at = scene.next_at
    scene.run(2.2 * HOUR, all_of(uuids, UNUSED))
    (finding,) = findings(scene)
    assert abs(finding.window.start - left_at) <= 300.0
    assert finding.confidence == "supported"
    assert finding.gpu_seconds == pytest.approx(len(uuids) * 2.2 * HOUR, rel=0.04)


def test_what_is_worked_now_and_then_is_idle_from_when_that_is_little():
    scene, uuids = job_scene(is_interactive=True, period_s=60.0)
    scene.run(1.5 * HOUR, all_of(uuids, WORKING))
    worked_until = scene.next_at
    for _ in range(9):
        scene.run(960, all_of(uuids, HELD))
        scene.run(60, all_of(uuids, WORKING))
    (finding,) = findings(scene)
    assert finding.window.start >= worked_until + 0.7 * HOUR


def test_in_the_first_half_hour_nothing_is_said():
    scene, uuids = job_scene(1, is_interactive=True)
    scene.run(1500, all_of(uuids, HELD))
    assert findings(scene) == []


def test_a_batch_job_is_another_class():
    scene, _ = session(3 * HOUR, 0.05, is_interactive=False)
    assert findings(scene) == []


def test_a_server_that_is_tried_out_by_hand_stays_a_hypothesis():
    scene, _ = session(3 * HOUR, 0.05, name="try-vllm")
    (finding,) = findings(scene)
    assert finding.confidence == "hypothesis"
    assert finding.evidence[-1].text == "may be a server: named try-vllm"


# What telemetry does not show


def test_without_utilisation_nothing_is_claimed():
    scene, uuids = job_scene(2, is_interactive=True)
    scene.run(3 * HOUR, {uuids[0]: {**UNUSED, "gpu_util_ratio": None}})
    assert findings(scene) == []


def test_utilisation_that_is_missing_half_of_the_time_proves_nothing():
    scene, uuids = job_scene(1, is_interactive=True)
    for _ in range(10):
        scene.run(600, all_of(uuids, HELD, gpu_util_ratio=None))
        scene.run(600, all_of(uuids, HELD))
    assert findings(scene) == []


def test_stale_unnamed_and_cut_gpus_are_not_idle():
    scene, uuids = job_scene(2, is_interactive=True)
    scene.run(3 * HOUR, {}, stale=uuids[1:])
    assert findings(scene) == []
    scene, _ = job_scene(2, is_interactive=True, gpus_unknown=1)
    scene.run(3 * HOUR, {})
    assert findings(scene) == []
    scene, uuids = job_scene(1, is_interactive=True)
    scene.gpu(uuids[0], mig_mode=1)
    scene.run(3 * HOUR, {})
    assert findings(scene) == []
