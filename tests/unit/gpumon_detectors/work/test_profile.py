"""Since when GPUs show the same, whatever is missing in between."""

from __future__ import annotations

import numpy as np
import pytest

from gpumon_detectors.work.profile import profile_of
from tests.unit.gpumon_detectors.work_scenes import SMALL, TRAINS, all_do, played

KEY = "sm_active_ratio"


def stretch(phases, *, below=0.5, period_s=10.0, trouble="none", seconds=4 * 3600.0):
    """Since when a GPU shows few active SMs."""
    told = [
        (length, values if callable(values) else all_do(values), 3.0) for length, values in phases
    ]
    scene, _ = played(period_s, trouble, told, 1)
    profile = profile_of(scene.view().running[0], (KEY,), seconds, 1)
    means = profile.means[KEY][:, 0]
    with np.errstate(invalid="ignore"):
        return profile.since(means < below, np.isfinite(means))


def length_s(found):
    return found.window.end - found.window.start


@pytest.mark.parametrize("period_s", [10.0, 60.0])
def test_it_begins_where_the_signs_do(period_s):
    found = stretch([(1800.0, TRAINS), (1500.0, SMALL)], period_s=period_s)
    assert length_s(found) == pytest.approx(1500.0, abs=130.0)
    assert found.known_s == pytest.approx(1500.0, abs=130.0)
    assert found.mean(KEY) == pytest.approx(SMALL[KEY], abs=0.03)
    assert not found.is_open


@pytest.mark.parametrize("period_s", [10.0, 60.0])
@pytest.mark.parametrize("seconds", [330.0, 420.0, 540.0])
def test_no_more_is_seen_than_the_window_holds(seconds, period_s):
    found = stretch([(1800.0, TRAINS), (seconds, SMALL)], period_s=period_s)
    assert found is None or 300.0 <= found.known_s <= length_s(found)


def test_a_moment_is_not_worth_a_word():
    assert stretch([(1800.0, TRAINS), (200.0, SMALL)]) is None


def test_what_was_so_from_the_start_may_have_been_before():
    assert stretch([(1500.0, SMALL)]).is_open


def test_a_short_break_is_within_and_not_counted():
    found = stretch([(3000.0, SMALL), (240.0, TRAINS), (3000.0, SMALL)])
    assert length_s(found) == pytest.approx(6240.0, abs=20.0)
    assert found.known_s == pytest.approx(6000.0, abs=250.0)


def test_a_long_break_ends_it():
    found = stretch([(3000.0, SMALL), (700.0, TRAINS), (900.0, SMALL)])
    assert length_s(found) == pytest.approx(900.0, abs=130.0)


def test_what_comes_and_goes_is_none():
    def how(_place):
        return {**SMALL, KEY: lambda s: 0.2 if s % 720 < 360 else 0.8}

    assert stretch([(7200.0, how)]) is None


def test_a_counter_that_falls_silent_ends_it():
    def how(_place):
        return {**SMALL, KEY: lambda s: 0.2 if s < 2400 else None}

    assert stretch([(2700.0, how)]) is not None
    assert stretch([(3600.0, how)]) is None


def test_a_hole_that_is_as_long_as_a_claim_ends_it():
    scene, mine = played(10.0, "none", [(1500.0, all_do(SMALL), 3.0)], 1)
    scene.skip(600.0)
    scene.run(900.0, {mine[0]: SMALL})
    profile = profile_of(scene.view().running[0], (KEY,), 7200.0)
    assert profile.seconds.sum() == pytest.approx(900.0, abs=20.0)
