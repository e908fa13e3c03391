from __future__ import annotations

import pytest

from gpumon.detect.scene import START_AT, Scene
from gpumon_detectors.requests.overasked_time import OveraskedTime

HOUR = 3600.0


def findings(scene, **parameters):
    return list(OveraskedTime(**parameters).evaluate(scene.view()))


def ended(used_h=2.0, limit_h=24.0, **fields):
    """A job of four GPUs that began with the watching and has ended."""
    scene = Scene(period_s=60.0)
    scene.node("n", 4)
    scene.run(4 * HOUR, {})
    given = {
        "state": "COMPLETED",
        "start_at": START_AT,
        "end_at": START_AT + used_h * HOUR,
        "time_limit_s": limit_h * HOUR,
        "gpu_count": 4,
        "exit_code": "0:0",
    }
    scene.record("42", **{**given, **fields})
    scene.run(60, {})
    return scene


def test_a_limit_of_twelve_times_the_run_is_told_with_the_right_number():
    (finding,) = findings(ended())
    assert (finding.subject, finding.severity) == ("job:42", "info")
    assert (finding.finding_class, finding.confidence) == ("overasked", "established")
    assert finding.summary == "completed after 2.0 h of the 24.0 h that it asked for"
    assert finding.evidence[0].text == "ran 2.0 h of 24.0 h, 8 %, on 4 GPUs"
    assert finding.advice == ("Next time: sbatch --time=180; shorter jobs start earlier.",)
    assert finding.window[:2] == (START_AT, START_AT + 2 * HOUR)
    assert finding.gpu_seconds is None


def test_a_job_that_began_before_the_watching_is_observed_from_then_on():
    (finding,) = findings(ended(start_at=START_AT - HOUR, end_at=START_AT + HOUR))
    assert finding.window[:2] == (START_AT, START_AT + HOUR)
    assert finding.evidence[0].value == pytest.approx(2 / 24)


@pytest.mark.parametrize(
    "fields",
    [
        {"state": "FAILED"},
        {"state": "CANCELLED"},
        {"state": "PREEMPTED"},
        {"state": "RUNNING"},
        {"exit_code": "1:0"},
        {"used_h": 3.0, "limit_h": 12.0},
        {"limit_h": 2.1},
        {"used_h": 0.1, "limit_h": 4.0},
        {"start_at": START_AT - 3 * HOUR, "end_at": START_AT - 60},
    ],
    ids=[
        "failed early",
        "cancelled",
        "preempted",
        "runs",
        "with an exit code",
        "a quarter used",
        "used up",
        "little in all",
        "before the watching",
    ],
)
def test_look_alikes(fields):
    assert findings(ended(**fields)) == []


@pytest.mark.parametrize("key", ["start_at", "end_at", "time_limit_s", "gpu_count"])
def test_without_one_of_slurms_numbers_nothing_is_claimed(key):
    assert findings(ended(**{key: None})) == []


def test_the_bounds_are_parameters():
    assert findings(ended(), used_ratio=0.05) == []
    assert findings(ended(), unused_gpu_hours=100.0) == []
