"""Fitting: what can be told is learnt, what cannot is left to rules, and twice the same."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from joblib.externals.loky.backend import context

from gpumon.detect.features.table import COLUMN
from gpumon.detect.learning.cases import case_of
from gpumon.detect.learning.examples import Examples
from gpumon.detect.learning.fitting import LEAST_JOBS, fitted
from gpumon.detect.learning.model import model_from
from tests.unit.detect.learning.made import KEY, examples


@pytest.mark.parametrize("seed", [5, 77])
def test_a_class_that_features_tell_is_learnt(seed: int) -> None:
    """On recordings that were left out, and on others made afterwards."""
    model, (score,) = fitted(examples(seed), [KEY])
    assert score.is_kept
    assert score.precision >= 0.95
    assert score.calibration_error < 0.1
    (learnt,) = model.classes
    others = examples(seed + 1)
    is_true, can_judge = others.is_of(KEY), learnt.can_judge(others.features)
    likely = learnt.probabilities(learnt.rows(others.features)) >= learnt.claims_from
    assert can_judge.mean() > 0.9
    assert (likely & can_judge)[is_true].mean() > 0.7
    assert (likely & can_judge)[~is_true].mean() < 0.02


def test_how_much_is_lost_is_learnt_too() -> None:
    """Within some hundredths of the truth, on other examples."""
    model, _ = fitted(examples(8), [KEY])
    others = examples(9)
    mine = others.is_of(KEY)
    told = model.classes[0].lost.of(model.classes[0].rows(others.features[mine]))
    assert abs(float(told.mean() - others.lost[mine].mean())) < 0.05


def test_what_nothing_tells_is_left_to_rules() -> None:
    """Labels that have nothing to do with the features: no class, and the score says so."""
    model, (score,) = fitted(examples(6, shows_class=False), [KEY])
    assert not score.is_kept
    assert model.classes == ()


def test_too_few_jobs_teach_nothing() -> None:
    """Nor does a single recording, which cannot be tried on another one."""
    few = examples(7, jobs=4 * LEAST_JOBS, share=0.1)
    assert few.jobs_of(KEY) < LEAST_JOBS
    assert fitted(few, [KEY]) == (fitted(few, [KEY])[0], ())
    assert fitted(examples(7, recordings=1), [KEY])[1] == ()


def test_twice_the_same() -> None:
    """One set of examples and one seed give one model, digit for digit."""
    one, other = (fitted(examples(10, jobs=60), [KEY])[0] for _ in range(2))
    assert json.dumps(one.plain()) == json.dumps(other.plain())
    assert one.mark == other.mark


def test_physics_is_not_unlearnt() -> None:
    """More traffic never lowers the probability, whatever the examples say."""
    model, _ = fitted(examples(11), [KEY])
    learnt = model.classes[0]
    row = learnt.rows(examples(11).features)[7]
    rows = np.repeat(row[None, :], 50, axis=0)
    rows[:, learnt.looks_at.index("nvlink_15m")] = np.linspace(0.0, 0.6, 50)
    assert (np.diff(learnt.probabilities(rows)) >= -1e-12).all()


def test_a_machine_that_does_not_tell_its_cores_fits_in_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without lscpu joblib warns, which is nothing that a user can do something about."""

    def none() -> int:
        raise FileNotFoundError("lscpu")

    monkeypatch.setattr(context, "physical_cores_cache", None)
    monkeypatch.setattr(context, "_count_physical_cores_linux", none)
    with pytest.warns(UserWarning, match="physical cores"):
        context.cpu_count(only_physical_cores=True)
    monkeypatch.setattr(context, "physical_cores_cache", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fitted(examples(14, jobs=60), [KEY])[1]


def test_a_model_survives_its_file() -> None:
    """Written and read it says the same."""
    model, _ = fitted(examples(12), [KEY])
    again = model_from(json.loads(json.dumps(model.plain(), allow_nan=False)))
    rows = model.classes[0].rows(examples(13).features)
    one, other = (m.classes[0].probabilities(rows) for m in (model, again))
    np.testing.assert_allclose(one, other, atol=1e-4)


def test_what_a_site_has_judged_is_learnt() -> None:
    """Jobs that look like the class and were found to be none: they are claimed less."""
    taught = examples(31, jobs=100)
    others = examples(32)
    looks = np.flatnonzero(others.is_of(KEY))
    # The ones with the least traffic of the class, said to be wrong each.
    nvlink = others.features[looks, COLUMN["nvlink_15m"]]
    least = looks[np.argsort(nvlink)[: len(looks) // 2]]
    cases = [
        case_of(KEY, str(place), others.features[place], "ada", 1.0, None, is_right=False)
        for place in least
    ]
    before = fitted(taught, [KEY])[0].classes[0]
    model, (score,) = fitted(Examples.joined([taught, Examples.of_cases(cases)]), [KEY])
    assert model.made_of["cases"] == len(cases)
    after = Examples.of_cases(cases).features[:, before.columns]
    (learnt,) = model.classes
    assert learnt.probabilities(after).mean() < before.probabilities(after).mean() - 0.1
    # They say nothing of the jobs that nobody was asked about, nor what healthy jobs are like.
    assert score.jobs == taught.jobs_of(KEY)
    np.testing.assert_array_equal(learnt.healthy, before.healthy)


def test_a_case_of_another_class_changes_nothing() -> None:
    taught = examples(33, jobs=60)
    row = taught.features[0]
    case = case_of("straggler", "1", row, "ada", 1.0, 0.5, is_right=True)
    one = fitted(taught, [KEY])[0].plain()["classes"]
    other = fitted(Examples.joined([taught, Examples.of_cases([case])]), [KEY])[0].plain()
    assert json.dumps(one) == json.dumps(other["classes"])
