"""Fleets resemble the site that their seed draws, as far as anything of it was published."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from gpumon.simulate.cluster.job_faults import HANG, STRAGGLER, fail_slow_s
from gpumon.simulate.physics.training import Shape
from gpumon.simulate.world.mix import WORLD
from gpumon.simulate.world.sites import KALOS, PHILLY, SITES, site_of
from tests.bench.likeness import compared

MOST_OFF = 0.1


@pytest.mark.slow
def test_every_published_quantile_is_met_by_fleets_of_its_own_site() -> None:
    missed = {row.published: row.off_by for row in compared() if abs(row.off_by) > MOST_OFF}
    assert missed == {}


def test_a_seed_draws_its_site_and_all_are_drawn_alike() -> None:
    drawn = Counter(site_of(seed).name for seed in range(400))
    assert set(drawn) == {site.name for site in SITES}
    assert min(drawn.values()) > 70
    assert all(site_of(seed) is site_of(seed) for seed in range(20))


def test_sites_differ_in_what_runs_there() -> None:
    seeds = {site.name: next(s for s in range(99) if site_of(s) is site) for site in SITES}

    def share(site: str, kind: str) -> float:
        chance = Random(4)
        kinds = [WORLD.draw(seeds[site], chance, {"h100": 9}, 8).workload.kind for _ in range(2000)]
        return kinds.count(kind) / len(kinds)

    assert share(PHILLY.name, "input_bound") > 3 * share(KALOS.name, "input_bound")
    assert share(KALOS.name, "dense") > 3 * share(PHILLY.name, "dense")


@pytest.mark.parametrize(
    ("shape", "minutes"), [((1, 2), 10), ((1, 8), 10), ((4, 8), 24), ((64, 8), 72), ((99, 8), 72)]
)
def test_fail_slows_last_as_long_as_published_for_the_size_of_the_job(
    shape: tuple[int, int], minutes: float
) -> None:
    chance = Random(8)
    lasted = [fail_slow_s(Shape(*shape), chance) / 60.0 for _ in range(2000)]
    assert sum(lasted) / len(lasted) == pytest.approx(minutes, rel=0.05)
    assert 0.45 * minutes < min(lasted) < 0.6 * minutes
    between = fail_slow_s(Shape(2, 8), Random(1)), fail_slow_s(Shape(1, 8), Random(1))
    assert between[1] < between[0] < fail_slow_s(Shape(4, 8), Random(1))


def test_only_what_makes_a_rank_slow_ends_before_its_job() -> None:
    chance = Random(9)
    drawn = [WORLD.draw(3, chance, {"h100": 9}, 8).trouble for _ in range(4000)]
    ends = {trouble.finding_class: trouble.lasts_s < 1e6 for trouble in drawn if trouble}
    assert len(ends) > 3
    assert {kind for kind, is_over in ends.items() if is_over} == {STRAGGLER}


def test_half_of_the_hangs_show_nobody_who_keeps_the_others_waiting() -> None:
    chance = Random("hangs")
    drawn = [WORLD.draw(5, chance, {"h100": 9}, 8).trouble for _ in range(15000)]
    hangs = [trouble.is_alike for trouble in drawn if trouble and trouble.finding_class == HANG]
    assert len(hangs) > 25
    assert 0.3 < sum(hangs) / len(hangs) < 0.7
    assert not any(t.is_alike for t in drawn if t and t.finding_class != HANG)
