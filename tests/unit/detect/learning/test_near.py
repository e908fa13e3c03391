"""Which known cases a job is like."""

from __future__ import annotations

import numpy as np
import pytest

from gpumon.detect.learning.cases import Case, case_of
from gpumon.detect.learning.fitting import fitted
from gpumon.detect.learning.model import MOST_EXEMPLARS, Learnt
from gpumon.detect.learning.near import MOST_NEAR, distance, nearest
from tests.unit.detect.learning.made import KEY, examples


@pytest.fixture(scope="module")
def learnt() -> Learnt:
    """A class with its exemplars."""
    return fitted(examples(21), [KEY])[0].classes[0]


def judged(job_id: str, features: np.ndarray, *, is_right: bool = True) -> Case:  # type: ignore[type-arg]
    """One of the made examples, as somebody judged it."""
    return case_of(KEY, job_id, features, "ada", 1.7e9, None, is_right=is_right)


def test_a_model_brings_jobs_that_are_unlike_each_other(learnt: Learnt) -> None:
    """Of the class alone, each once."""
    assert len(learnt.exemplars) == MOST_EXEMPLARS
    rows = np.array([one.row for one in learnt.exemplars])
    apart = [distance(learnt, one, other) for i, one in enumerate(rows) for other in rows[:i]]
    assert min(apart) > 0.02
    likely = learnt.probabilities(rows)
    assert (likely > 0.5).mean() > 0.7
    assert all(0.0 < one.lost <= 1.0 for one in learnt.exemplars)


def test_what_somebody_judged_comes_first_and_the_nearest_of_it(learnt: Learnt) -> None:
    """However near the jobs of the lessons are."""
    others = examples(22)
    mine = np.flatnonzero(others.is_of(KEY))
    row = learnt.exemplars[0].row
    cases = [judged(str(place), others.features[place]) for place in mine[:12]]
    near = nearest(learnt, row, cases)
    assert len(near) == MOST_NEAR
    assert all(isinstance(one.known, Case) for one in near)
    by_hand = sorted(distance(learnt, row, case.row[learnt.columns]) for case in cases)
    assert [one.distance for one in near] == by_hand[:MOST_NEAR]
    assert nearest(learnt, row, [])[0].distance == 0.0


def test_cases_of_other_classes_and_versions_are_not_looked_at(learnt: Learnt) -> None:
    features = examples(23).features[0]
    other = judged("1", features)._replace(finding_class="straggler")
    old = judged("2", features)._replace(made_with="older")
    near = nearest(learnt, features[learnt.columns], [other, old])
    assert not any(isinstance(one.known, Case) for one in near)


def test_of_whom_too_little_is_known_nobody_is_near(learnt: Learnt) -> None:
    row = learnt.exemplars[0].row.copy()
    row[len(row) // 2 - 1 :] = np.nan
    assert np.isnan(distance(learnt, row, learnt.exemplars[1].row))
    assert nearest(learnt, row, []) == ()
