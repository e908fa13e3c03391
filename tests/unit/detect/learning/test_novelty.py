"""What is like nothing usual lies far from all others; what comes every day does not."""

from __future__ import annotations

import numpy as np
import pytest

from gpumon.detect.features.table import COLUMN, FEATURES
from gpumon.detect.learning import novelty
from gpumon.detect.learning.novelty import LEAST_OF_A_KIND, ODD_FROM, Usual
from gpumon.detect.learning.patterns import MOST_ODD, patterns_in
from gpumon.detect.learning.unexplained import Behaviour, Gathered
from gpumon.model.records.pattern import LEAST_USUAL

KINDS = ({"util_15m": 0.9, "sm_15m": 0.7}, {"util_15m": 0.2, "pauses_60m": 0.9}, {"rx_15m": 0.8})
STRANGE = {"blocked_per_gpu": 4.0, "io_pressure": 0.9, "rest_share_15m": 0.8, "cpu_share": 1.0,
           "longest_pause_60m": 3.0, "util_change": -0.9}  # fmt: skip
"""No usual job has any of these."""


def behaviour(dice, job_id, changes, *, gpus=0.0, missing=()):
    row = 0.3 + dice.normal(0.0, 0.004, len(FEATURES))
    row[COLUMN["gpus"]] = row[COLUMN["job_nodes"]] = 0.0
    row[COLUMN["gpus"]] = gpus
    for key, value in changes.items():
        row[COLUMN[key]] = value + dice.normal(0.0, 0.004)
    row[[COLUMN[key] for key in missing]] = np.nan
    return Behaviour(job_id, "ada", 1e9, 1e9 + 3600.0, 60.0, 6, row)


def site(seed, count=150, **more):
    """So many usual jobs of three kinds."""
    dice = np.random.default_rng(seed)
    return [behaviour(dice, f"usual-{n}", KINDS[n % 3], **more) for n in range(count)]


@pytest.mark.parametrize("seed", range(3))
def test_a_strange_job_is_farther_than_any_usual_one(seed):
    jobs = site(seed)
    strange = behaviour(np.random.default_rng(seed + 100), "strange", STRANGE)
    times = Usual([*jobs, strange]).times([*jobs, strange])
    assert times[-1] > ODD_FROM
    assert times[-1] > times[:-1].max()
    assert np.median(times[:-1]) == pytest.approx(1.0, abs=0.1)
    assert (times[:-1] >= ODD_FROM).mean() < 0.01


def test_one_more_of_a_common_kind_is_none():
    one = behaviour(np.random.default_rng(5), "new", KINDS[1])
    assert Usual(site(1)).times([one])[0] < ODD_FROM


def test_what_never_comes_together_is_strange_though_each_part_is_common():
    """As a GPU that is busy by one counter and at rest by the other."""
    dice = np.random.default_rng(7)
    jobs = []
    keys = ("util_15m", "sm_15m", "power_15m", "util_60m", "sm_60m", "power_60m")
    for n in range(300):
        level = dice.uniform(0.0, 1.0)
        jobs.append(behaviour(dice, f"usual-{n}", dict.fromkeys(keys, level)))
    common = behaviour(dice, "common", dict.fromkeys(keys, 0.9))
    torn = dict(zip(keys, (0.9, 0.1, 0.1, 0.9, 0.1, 0.1), strict=True))
    together, apart = Usual(jobs).times([common, behaviour(dice, "torn", torn)])
    assert apart > 1.2 * together


@pytest.mark.parametrize("seed", range(3))
def test_what_jobs_like_it_share_is_strange_though_other_kinds_have_it(seed):
    """As a pause between kernels that others have."""
    dice = np.random.default_rng(20 + seed)
    # Of each kind 16 features are the same, and in 64 any two jobs differ.
    same, others = ([feature.key for feature in FEATURES[a:b]] for a, b in ((0, 16), (16, 80)))

    def job(name, values):
        return behaviour(dice, name, values | {key: 0.3 + dice.normal(0.0, 0.1) for key in others})

    jobs = [job(f"usual-{n}", dict.fromkeys(same, n % 6 / 5.0)) for n in range(300)]
    strange = job("strange", dict.fromkeys(same, 0.2) | dict.fromkeys(same[:4], 0.8))
    times = Usual([*jobs, strange]).times([*jobs, strange])
    assert times[-1] > 1.08 * times[:-1].max()


def test_by_what_it_differs_is_told_beside_those_nearest_to_it():
    jobs = site(2)
    strange = behaviour(np.random.default_rng(8), "strange", STRANGE)
    traits = Usual(jobs).traits(strange)
    assert {one.key for one in traits} <= STRANGE.keys()
    assert len(traits) >= 3
    for one in traits:
        assert one.value == pytest.approx(STRANGE[one.key], abs=0.2)
        assert one.usual == pytest.approx(0.3, abs=0.15)


def test_what_is_missing_makes_no_job_strange():
    usual = Usual(site(3))
    missing = [feature.key for feature in FEATURES][::2]
    half = behaviour(np.random.default_rng(9), "half", KINDS[0], missing=missing)
    nothing = behaviour(np.random.default_rng(9), "none", {}, missing=[f.key for f in FEATURES])
    times = usual.times([half, nothing])
    assert times[0] < ODD_FROM
    assert np.isnan(times[1])


def test_of_a_kind_that_hardly_comes_nothing_is_said():
    dice = np.random.default_rng(4)
    large = [behaviour(dice, f"large-{n}", {}, gpus=3.0) for n in range(LEAST_OF_A_KIND)]
    asked = behaviour(dice, "asked", STRANGE, gpus=3.0)
    assert np.isnan(Usual([*site(4), *large[1:]]).times([asked])[0])
    assert Usual([*site(4), *large]).times([asked])[0] > ODD_FROM


def test_a_pattern_is_compared_with_other_jobs_than_its_own():
    dice = np.random.default_rng(6)
    alike = [behaviour(dice, f"alike-{n}", STRANGE) for n in range(6)]
    common = [behaviour(dice, f"common-{n}", KINDS[1]) for n in range(6)]
    found = patterns_in(Gathered((*alike, *common), tuple(site(6)), 1.0, 1.0)).patterns
    times = {one.exemplar.job_id.partition("-")[0]: one.card.times for one in found}
    assert times["common"] < ODD_FROM < times["alike"]


def test_names_change_nothing():
    jobs = site(10)
    strange = behaviour(np.random.default_rng(10), "strange", STRANGE)
    other = [job._replace(job_id=f"{n}", user="eve") for n, job in enumerate(jobs)]
    found = [Usual(some).times([strange])[0] for some in (jobs, other)]
    assert found[0] == found[1]


def test_of_very_many_usual_jobs_some_are_enough(monkeypatch):
    monkeypatch.setattr(novelty, "MOST_USUAL", 120)
    jobs = site(15, 400)
    strange = behaviour(np.random.default_rng(15), "strange", STRANGE)
    times = Usual(jobs).times([*jobs, strange])
    assert times[-1] > ODD_FROM
    assert (times[:-1] >= ODD_FROM).mean() < 0.01


def test_what_is_odd_is_told_beside_the_patterns():
    dice = np.random.default_rng(11)
    jobs = site(11, 160)
    strange = behaviour(dice, "strange", STRANGE)
    found = patterns_in(Gathered((strange, *jobs[:40]), tuple(jobs[40:]), 1.0, 1.0))
    (odd,) = [one for one in found.odd if one.exemplar.job_id == "strange"]
    assert odd.times > ODD_FROM
    assert odd.card.jobs == ("strange",)
    assert odd.card.times == pytest.approx(odd.times, abs=0.001)
    assert found.patterns
    assert all(one.times < ODD_FROM for one in found.patterns)


def test_one_whose_time_counts_as_useful_is_told_too():
    jobs = site(12, 120)
    strange = behaviour(np.random.default_rng(12), "strange", STRANGE)
    found = patterns_in(Gathered((), (strange, *jobs), 1.0, 1.0))
    assert found.odd[0].exemplar.job_id == "strange"


def test_where_few_jobs_are_known_nothing_is_odd():
    strange = behaviour(np.random.default_rng(13), "strange", STRANGE)
    few = tuple(site(13, LEAST_USUAL - 2))
    assert patterns_in(Gathered((strange,), few, 1.0, 1.0)).odd == ()


def test_so_many_are_told_and_no_more():
    dice = np.random.default_rng(14)
    keys = [feature.key for feature in FEATURES[:100]]
    strange = [
        behaviour(dice, f"s{n}", dict.fromkeys(dice.choice(keys, 12, replace=False), 3.0))
        for n in range(2 * MOST_ODD)
    ]
    found = patterns_in(Gathered((), (*site(14, 200), *strange), 1.0, 1.0))
    assert len(found.odd) == MOST_ODD
    times = [one.times for one in found.odd]
    assert times == sorted(times, reverse=True)
