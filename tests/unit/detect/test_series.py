"""The past across gaps: what each row stands for, and what no row does."""

from __future__ import annotations

import pytest

from gpumon.detect.scene import HELD, WORKING
from tests.unit.gpumon_detectors.idle_scenes import all_of, job_scene


def past_of(scene, peaks=0):
    return scene.view().jobs[0].past(("gpu_util_ratio", "power_w"), 24 * 3600.0, peaks)


@pytest.mark.parametrize(
    ("period_s", "pause_s", "lost_s"),
    [(1.0, 20.0, 0.0), (1.0, 45.0, 46.0), (30.0, 60.0, 0.0), (30.0, 90.0, 120.0)],
)
def test_a_pause_is_bridged_and_no_row_stands_for_a_gap(period_s, pause_s, lost_s):
    scene, uuids = job_scene(period_s=period_s)
    scene.run(300.0, all_of(uuids, HELD))
    scene.skip(pause_s)
    scene.run(600.0, all_of(uuids, HELD))
    past = past_of(scene)
    length_s = past.times[-1] - past.times[0]
    assert past.seconds.sum() == length_s - lost_s


def test_the_seconds_from_a_row_on_begin_with_it():
    scene, uuids = job_scene(period_s=10.0)
    scene.run(400.0, all_of(uuids, HELD))
    past = past_of(scene)
    assert past.seconds_from(7).sum() == past.times[-1] - past.times[7]


def test_an_old_row_tells_its_mean_and_its_peak_and_a_gap_ages_as_one():
    scene, uuids = job_scene(period_s=10.0)
    scene.run(1200.0, all_of(uuids, WORKING, gpu_util_ratio=lambda s: 0.8 if s % 100 < 10 else 0.0))
    scene.skip(400.0)
    scene.run(4 * 3600.0, all_of(uuids, HELD))
    past = past_of(scene, peaks=1)
    old = past.columns["gpu_util_ratio"][1, 0]
    assert old == pytest.approx(0.08, abs=0.03)
    assert past.peaks["gpu_util_ratio"][1, 0] == pytest.approx(0.8)
    length_s = past.times[-1] - past.times[0] + past.seconds[0]
    assert past.seconds.sum() == pytest.approx(length_s - 410.0, abs=1.0)


def test_there_is_no_past_without_a_row_of_now():
    scene, uuids = job_scene(period_s=10.0)
    scene.run(100.0, all_of(uuids, HELD))
    view = scene.view()
    view.now += 60.0
    assert len(view.jobs[0].past(("gpu_util_ratio",), 3600.0, 1).times) == 0
