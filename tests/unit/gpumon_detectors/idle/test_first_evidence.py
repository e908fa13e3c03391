"""What rested before gpumon came is told in the first minute, by what was counted since."""

from __future__ import annotations

import pytest

from gpumon.detect.scene import HELD, START_AT, UNUSED, WORKING
from gpumon_detectors.idle.idle_held import IdleHeld
from gpumon_detectors.idle.interactive_idle import InteractiveIdle
from gpumon_detectors.idle.never_started import NeverStarted
from tests.unit.gpumon_detectors.idle_scenes import all_of, job_scene

AGE_S = 4.5 * 3600.0
RESTING = pytest.mark.parametrize(
    ("detector", "values", "fields"),
    [
        (NeverStarted(), UNUSED, {}),
        (IdleHeld(), HELD, {}),
        (InteractiveIdle(), HELD, {"is_interactive": True}),
    ],
)


def found(detector, values, *, watched_s=50.0, cpu_s=70.0, cores=0.01, age_s=AGE_S, **fields):
    """What is claimed of a job on three GPUs that has used so much CPU time when first seen."""
    scene, uuids = job_scene(3, period_s=10.0, start_at=START_AT - age_s, **fields)
    group = {} if cpu_s is None else {"job_cpu_us": round(1e6 * cpu_s)}
    scene.cgroup("42", job_cpu_cores_used=cores, **group)
    scene.run(watched_s, all_of(uuids, values))
    return list(detector.evaluate(scene.view()))


@RESTING
def test_a_job_that_slept_since_it_began_is_told_at_first_sight(detector, values, fields):
    (finding,) = found(detector, values, **fields)
    assert (finding.confidence, finding.severity) == ("hypothesis", "warning")
    assert finding.began_at == pytest.approx(START_AT - AGE_S, abs=20)
    assert finding.window.start >= START_AT
    assert ", perhaps 4.5 h" in finding.summary or "perhaps for 4.5 h" in finding.summary
    texts = [evidence.text for evidence in finding.evidence]
    assert "in the 4.5 h before it was watched it used 1 min of CPU time" in texts


@RESTING
def test_in_the_first_seconds_its_cpu_time_tells_though_no_rate_is_known(detector, values, fields):
    (finding,) = found(detector, values, watched_s=20.0, cores=None, **fields)
    texts = [evidence.text for evidence in finding.evidence]
    assert "in the 4.5 h before it was watched it used 1 min of CPU time" in texts
    assert not any("not seen" in text for text in texts)


@RESTING
def test_what_is_lost_is_what_was_seen_to_rest(detector, values, fields):
    (finding,) = found(detector, values, **fields)
    length_s = finding.window.end - finding.window.start
    assert finding.gpu_seconds <= 3 * length_s + 1e-6
    assert length_s <= 60.0


@RESTING
@pytest.mark.parametrize(
    "told",
    [
        # Three GPUs may have been at work with so much, or with what it polls on.
        {"cpu_s": 900.0},
        {"cores": 1.0, "cpu_s": AGE_S},
        {"cpu_s": None},
        {"age_s": 120.0, "cpu_s": 3.0},
        {"age_s": 0.0, "cpu_s": 0.1},
    ],
    ids=str,
)
def test_where_nothing_speaks_of_the_time_before_the_first_minutes_say_nothing(
    detector, values, fields, told
):
    assert found(detector, values, **{**fields, **told}) == []


@RESTING
def test_a_job_at_work_is_not_told_of(detector, values, fields):
    scene, uuids = job_scene(3, period_s=10.0, start_at=START_AT - AGE_S, **fields)
    scene.cgroup("42", job_cpu_us=70_000_000)
    scene.run(20.0, all_of(uuids, WORKING, gpu_util_ratio=0.6))
    scene.run(40.0, all_of(uuids, values))
    assert list(detector.evaluate(scene.view())) == []


@pytest.mark.parametrize(("detector", "values"), [(NeverStarted(), UNUSED), (IdleHeld(), HELD)])
def test_it_goes_on_from_there_with_the_same_onset(detector, values):
    (early,) = found(detector, values)
    (late,) = found(detector, values, watched_s=2400.0)
    assert late.began_at == early.began_at
    assert late.gpu_seconds == pytest.approx(3 * 2400.0, rel=0.05)
