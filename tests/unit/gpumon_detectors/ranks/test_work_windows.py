"""Means and medians over what is known, and windows that several rules share."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from gpumon.detect.scene import WORKING, Scene
from gpumon_detectors.evidence.watched import mean_over
from gpumon_detectors.ranks.peers import jobs_apart
from gpumon_detectors.ranks.work_windows import medians, work_windows


def with_holes(dice, shape):
    values = dice.normal(size=shape)
    values[dice.random(shape) < dice.random()] = np.nan
    return values


@pytest.mark.parametrize("seed", range(40))
def test_medians_and_means_are_those_of_numpy(seed):
    dice = np.random.default_rng(seed)
    values = with_holes(dice, tuple(dice.integers(1, 10, 2)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert medians(values) == pytest.approx(np.nanmedian(values, axis=1), nan_ok=True)
        assert mean_over(values) == pytest.approx(np.nanmean(values, axis=0), nan_ok=True)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0)])
def test_of_nothing_there_is_no_median(shape):
    found = medians(np.empty(shape))
    assert found.shape == shape[:1]
    assert np.isnan(found).all()


def test_windows_are_made_once_a_look():
    scene = Scene(period_s=10.0)
    mine = scene.node("n", 4)
    scene.job("7", mine)
    scene.run(900.0, dict.fromkeys(mine, WORKING))
    view = scene.view()
    (job,) = view.jobs
    assert work_windows(view, job, 600.0) is work_windows(view, job, 600.0)
    assert len(work_windows(view, job, 300.0).ends) < len(work_windows(view, job, 600.0).ends)
    assert jobs_apart(view) is jobs_apart(view)
    scene.run(60.0, dict.fromkeys(mine, WORKING))
    later = scene.view()
    assert work_windows(later, later.jobs[0], 600.0).ends[-1] > view.now
