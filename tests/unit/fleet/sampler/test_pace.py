from __future__ import annotations

from itertools import pairwise

import pytest

from gpumon.fleet.sampler.pace import JUDGE_S, MANY_JOBS, Pace
from tests.worlds.tick import fleet

MANY = fleet()._replace(jobs=fleet().jobs[:1] * (MANY_JOBS + 1))


def judged(times, every_s=JUDGE_S, picture=None, **changes):
    """Which of the pictures of these times are judged."""
    pace, found = Pace(every_s), []
    for at in times:
        tick = (picture or fleet())._replace(at=at, **changes)
        if pace.is_due(tick):
            pace.judged(tick)
            found.append(at)
    return found


def test_every_picture_is_judged_unless_told_otherwise():
    assert judged(range(5), 0.0) == [0, 1, 2, 3, 4]


def test_the_first_pictures_to_judge_follow_sooner_than_later_ones():
    assert judged(range(26)) == [0, 1, 3, 6, 10, 15, 20, 25]


def test_beats_that_are_not_exact_miss_no_turn():
    jitter_s = [0.0, 0.02, -0.03]
    times = [beat + jitter_s[beat % 3] for beat in range(26)]
    assert [round(at) for at in judged(times)] == [0, 1, 3, 6, 10, 15, 20, 25]


@pytest.mark.parametrize("period_s", [2.0, 4.0, 10.0])
def test_on_a_slow_beat_the_nearest_picture_is_judged(period_s):
    times = [40.0 + period_s * beat for beat in range(20)]
    found = judged(times, period_s=period_s)
    pauses = {after - before for before, after in pairwise(found[4:])}
    assert pauses == {{2.0: 4.0, 4.0: 4.0, 10.0: 10.0}[period_s]}


def test_of_many_jobs_every_picture_is_judged_because_each_tells_of_a_part():
    assert judged(range(5), picture=MANY) == [0, 1, 2, 3, 4]


def test_a_clock_that_is_set_back_stops_nothing():
    assert judged([1000, 1001, 1003, 10, 11, 12]) == [1000, 1001, 1003, 10]


def test_a_picture_is_judged_at_once_after_somebody_said_something():
    pace, tick = Pace(JUDGE_S), fleet()
    for at in (0.0, 1.0, 3.0, 6.0):
        pace.judged(tick._replace(at=at))
    assert not pace.is_due(tick._replace(at=7.0))
    pace.hurry()
    assert pace.is_due(tick._replace(at=7.0))


def test_without_a_queue_pictures_are_judged_half_as_often():
    calm = fleet()._replace(jobs=(), queue_at=None)
    found = judged(range(90), picture=calm)
    assert found[:4] == [0, 1, 3, 6]
    assert {after - before for before, after in pairwise(found[-4:])} == {10}
