"""Half of a scene's pairs of period and trouble, which leaves none of either out."""

from __future__ import annotations

from tests.unit.gpumon_detectors.noise import TROUBLES, of_one_colour

PAIRS = [(period_s, trouble) for period_s in (10.0, 30.0, 60.0) for trouble in TROUBLES]


def chosen(scene, pairs):
    return {pair for pair, is_run in zip(pairs, of_one_colour(scene, pairs), strict=True) if is_run}


def test_each_period_and_each_trouble_is_met_by_every_scene():
    for scene in ("a leak", "a stall"):
        run = chosen(scene, PAIRS)
        assert len(run) in (7, 8)
        assert {period_s for period_s, _ in run} == {10.0, 30.0, 60.0}
        assert {trouble for _, trouble in run} == set(TROUBLES)


def test_scenes_together_meet_every_pair_and_each_the_same_ones_every_day():
    scenes = [f"scene {number}" for number in range(12)]
    assert set.union(*(chosen(scene, PAIRS) for scene in scenes)) == set(PAIRS)
    assert all(chosen(scene, PAIRS) == chosen(scene, PAIRS[::-1]) for scene in scenes)


def test_what_comes_in_one_row_is_run_whole():
    row = [pair for pair in PAIRS if pair[0] == 30.0]
    assert chosen("a leak", row) == set(row)
