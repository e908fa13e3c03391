"""Since when something is idle: where the rest as observed began, for as long as it lasts."""

from __future__ import annotations

import pytest

from gpumon.detect.scene import HELD, START_AT, UNUSED, WORKING
from gpumon_detectors.evidence.phrases import clock_time
from gpumon_detectors.idle.idle_held import IdleHeld
from gpumon_detectors.idle.idle_tail import IdleTail
from gpumon_detectors.idle.never_started import NeverStarted
from gpumon_detectors.idle.partial_gpus_idle import PartialGpusIdle
from tests.unit.gpumon_detectors.idle_scenes import all_of, job_scene, work

HOUR = 3600.0


def only(detector, scene):
    (finding,) = detector.evaluate(scene.view())
    return finding


@pytest.mark.parametrize(("detector", "values"), [(IdleHeld(), HELD), (IdleTail(), UNUSED)])
def test_the_onset_stays_while_samples_are_lost_now_and_then(detector, values):
    scene, uuids = job_scene(period_s=2.0)
    work(scene, uuids, 1340.0)
    onset = scene.next_at
    for round_ in range(20):
        scene.run(62.0, all_of(uuids, values))
        if round_ % 3 == 0:
            scene.skip(14.0)
        elif round_ % 3 == 1:
            scene.run(16.0, all_of(uuids, values), stale=uuids)
            scene.run(2.0, all_of(uuids, values))
        if round_ < 6:
            continue
        finding = only(detector, scene)
        # CPU time has a row every ten seconds: the last one of work may reach into the rest.
        assert 0.0 <= finding.window.start - onset <= 12.0
        assert f" since {clock_time(finding.window.start)} (" in finding.summary


@pytest.mark.parametrize(("detector", "values"), [(IdleHeld(), HELD), (IdleTail(), UNUSED)])
def test_the_onset_stays_longer_than_any_claim_needs(detector, values):
    scene, uuids = job_scene()
    work(scene, uuids, 4 * HOUR)
    onset = scene.next_at
    for _ in range(8):
        scene.run(HOUR, all_of(uuids, values))
        # Of what is older than an hour and a half one row stands for five minutes.
        assert -1.0 <= only(detector, scene).window.start - onset <= 300.0


@pytest.mark.parametrize(("detector", "values"), [(IdleHeld(), HELD), (NeverStarted(), UNUSED)])
def test_what_began_before_it_was_observed_lasts_for_at_least_so_long(detector, values):
    scene, uuids = job_scene(start_at=START_AT - 2 * HOUR)
    scene.run(1500.0, all_of(uuids, values))
    summary = only(detector, scene).summary
    assert summary.endswith(f"for at least 24 min (observed since {clock_time(START_AT)})")


@pytest.mark.parametrize("gap_s", [90.0, 420.0, 2400.0])
def test_a_gap_is_neither_charged_nor_the_end_of_the_evidence(gap_s):
    scene, uuids = job_scene()
    work(scene, uuids, 4 * HOUR)
    onset = scene.next_at
    scene.run(1200.0, all_of(uuids, HELD))
    scene.skip(gap_s)
    scene.run(1500.0, all_of(uuids, HELD))
    finding = only(IdleHeld(), scene)
    assert finding.window.start == pytest.approx(onset, abs=90.0)
    assert finding.confidence == "supported"
    length_s = finding.window.end - finding.window.start
    assert finding.gpu_seconds == pytest.approx(2 * (length_s - gap_s - 30.0), abs=1.0)


@pytest.mark.parametrize("gap_s", [0.9 * HOUR, 2 * HOUR])
def test_what_a_gap_splits_is_no_surer_than_what_was_observed(gap_s):
    scene, uuids = job_scene()
    work(scene, uuids, 4 * HOUR)
    scene.run(600.0, all_of(uuids, HELD))
    scene.skip(gap_s)
    again = scene.next_at
    scene.run(600.0, all_of(uuids, HELD))
    finding = only(IdleHeld(), scene)
    assert finding.confidence == "hypothesis"
    assert (finding.window.start >= again) is (gap_s > HOUR)


def test_a_job_that_never_started_did_not_since_it_began_however_long_ago():
    scene, uuids = job_scene()
    for _ in range(5):
        scene.run(HOUR, all_of(uuids, UNUSED))
        assert "not touched since it began (" in only(NeverStarted(), scene).summary


def test_unused_gpus_are_followed_back_beyond_the_window():
    scene, uuids = job_scene(4)
    values = all_of(uuids[:2], WORKING) | all_of(uuids[2:], UNUSED)
    work(scene, uuids, HOUR)
    onset = scene.next_at
    for _ in range(4):
        scene.run(HOUR, values)
        finding = only(PartialGpusIdle(), scene)
        assert -1.0 <= finding.onset - onset <= 300.0
        assert f"2 of 4 GPUs unused since {clock_time(finding.onset)} (" in finding.summary
