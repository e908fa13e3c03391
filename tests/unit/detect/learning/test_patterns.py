"""Jobs that behaved alike are put together, and what makes them alike is named."""

from __future__ import annotations

import numpy as np
import pytest

from gpumon.detect.features.table import COLUMN, FEATURES
from gpumon.detect.learning.patterns import LEAST_JOBS, patterns_in
from gpumon.detect.learning.unexplained import Behaviour, Gathered

KINDS = {
    "copies": {"util_15m": 0.5, "rx_15m": 0.6, "tx_15m": 0.3, "pauses_60m": 90.0},
    "sleeps": {"util_15m": 0.05, "rest_share_15m": 0.9, "power_15m": 0.15},
    "crowds": {"cpu_pressure": 0.7, "cores_per_gpu": 0.5, "util_15m": 0.6, "blocked_per_gpu": 3.0},
}
USUAL = 0.3


def behaviour(dice, job_id, changes, *, hours=1.0, user="ada", missing=()):
    """A job as all others but for some features."""
    row = USUAL + dice.normal(0.0, 0.004, len(FEATURES))
    for key, value in changes.items():
        row[COLUMN[key]] = value * (1.0 + dice.normal(0.0, 0.03))
    for key in missing:
        row[COLUMN[key]] = np.nan
    return Behaviour(job_id, user, 1000.0 + len(job_id), 5000.0, 3600.0 * hours, 6, row)


def gathered(seed, *, each=6, lone=2, others=40, missing=()):
    """So many jobs of each kind, some that are like nothing, and others of which all is clear."""
    dice = np.random.default_rng(seed)
    jobs = [
        behaviour(dice, f"{kind}-{n}", changes, hours=n + 1.0, user=f"u{n % 2}", missing=missing)
        for kind, changes in KINDS.items()
        for n in range(each)
    ]
    odd = [key for key in ("host_mem", "mem_15m", "clock_15m") if key not in missing]
    jobs += [behaviour(dice, f"lone-{n}", {odd[n]: 9.0 + 3 * n}) for n in range(lone)]
    dice.shuffle(jobs)
    clear = [behaviour(dice, f"clear-{n}", {}) for n in range(others)]
    return Gathered(tuple(jobs), tuple(clear), 9e4, 9e5)


def kinds_of(pattern):
    return {job.job_id.partition("-")[0] for job in pattern.jobs}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("each", [4, 9])
def test_jobs_of_one_kind_make_one_pattern(seed, each):
    found = patterns_in(gathered(seed, each=each))
    assert sorted(map(sorted, map(kinds_of, found.patterns))) == [
        ["copies"],
        ["crowds"],
        ["sleeps"],
    ]
    assert {len(pattern.jobs) for pattern in found.patterns} == {each}
    assert {job.job_id for job in found.single} == {"lone-0", "lone-1"}


def test_what_its_jobs_share_is_named_beside_the_usual():
    by_kind = {kinds_of(one).pop(): one for one in patterns_in(gathered(7)).patterns}
    for kind, pattern in by_kind.items():
        named = {trait.key: trait for trait in pattern.traits}
        assert set(named) <= KINDS[kind].keys()
        assert len(named) >= 2
        for key, trait in named.items():
            assert trait.value == pytest.approx(KINDS[kind][key], rel=0.1)
            assert trait.usual == pytest.approx(USUAL, abs=0.05)


def test_a_card_adds_up_its_jobs():
    pattern = patterns_in(gathered(8)).patterns[0]
    assert pattern.gpu_seconds == pytest.approx(3600.0 * (1 + 2 + 3 + 4 + 5 + 6))
    assert pattern.users == ("u1", "u0")
    assert pattern.exemplar in pattern.jobs
    assert pattern.since == min(job.since for job in pattern.jobs)
    assert [job.gpu_seconds for job in pattern.jobs] == sorted(
        (job.gpu_seconds for job in pattern.jobs), reverse=True
    )


def test_a_feature_that_most_boards_lack_is_not_compared():
    found = patterns_in(gathered(9, missing=("rx_15m", "tx_15m")))
    named = {trait.key for pattern in found.patterns for trait in pattern.traits}
    assert not named & {"rx_15m", "tx_15m"}
    assert ["copies"] in [sorted(kinds_of(pattern)) for pattern in found.patterns]


def test_the_size_of_a_job_makes_no_pattern():
    dice = np.random.default_rng(3)
    jobs = [behaviour(dice, f"{n}", {"gpus": 8.0 if n < 5 else 0.0}) for n in range(10)]
    found = patterns_in(Gathered(tuple(jobs), (), 1.0, 1.0))
    assert all(trait.key != "gpus" for pattern in found.patterns for trait in pattern.traits)


@pytest.mark.parametrize("count", range(LEAST_JOBS))
def test_fewer_jobs_than_a_pattern_has_are_listed_alone(count):
    dice = np.random.default_rng(1)
    jobs = tuple(behaviour(dice, f"{n}", KINDS["sleeps"]) for n in range(count))
    assert patterns_in(Gathered(jobs, (), 1.0, 1.0)) == ((), jobs, ())


def test_where_nothing_is_known_of_most_jobs_nothing_is_alike():
    dice = np.random.default_rng(2)
    nothing = [feature.key for feature in FEATURES]
    jobs = tuple(behaviour(dice, f"{n}", {}, missing=nothing) for n in range(5))
    assert patterns_in(Gathered(jobs, (), 1.0, 1.0)) == ((), jobs, ())


def test_the_same_jobs_make_the_same_patterns():
    first, again = (patterns_in(gathered(11)) for _ in range(2))
    assert [kinds_of(one) for one in first.patterns] == [kinds_of(one) for one in again.patterns]
    assert [one.traits for one in first.patterns] == [one.traits for one in again.patterns]
