"""What a model says, what it keeps quiet about, and what is refused as a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpumon_detectors
from gpumon.detect.features.table import COLUMN, FEATURES
from gpumon.detect.learning.fitting import fitted
from gpumon.detect.learning.model import FORMAT, MOST_BYTES, Learnt, Model, model_from, read_model
from gpumon.detect.learning.trees import ModelError
from tests.unit.detect.learning.made import KEY, examples


@pytest.fixture(scope="module")
def model() -> Model:
    """One class, learnt."""
    return fitted(examples(21), [KEY])[0]


@pytest.fixture
def learnt(model: Model) -> Learnt:
    """It."""
    return model.classes[0]


def test_the_named_features_carry_the_verdict(learnt: Learnt) -> None:
    """As in healthy jobs, the class would not be claimed: in nine of ten verdicts and more."""
    others = examples(22)
    rows = learnt.rows(others.features)
    claimed = rows[learnt.probabilities(rows) >= learnt.claims_from][:150]
    falls = []
    for row in claimed:
        verdict = learnt.verdict(row)
        changed = row.copy()
        for key, value, healthy in verdict.reasons:
            place = learnt.looks_at.index(key)
            assert row[place] == value
            changed[place] = healthy
        falls.append(learnt.probabilities(changed[None, :])[0] < learnt.claims_from)
    assert len(claimed) > 50
    assert np.mean(falls) >= 0.9


@pytest.mark.parametrize("key", ["util_15m", "sm_15m", "tensor_15m"])
def test_nothing_is_said_without_what_it_needs(learnt: Learnt, key: str) -> None:
    """A missing counter is no 0."""
    features = examples(23, jobs=8).features
    assert learnt.can_judge(features).any()
    features[:, COLUMN[key]] = np.nan
    assert not learnt.can_judge(features).any()


def test_nothing_is_said_of_what_was_never_met(learnt: Learnt) -> None:
    """A feature far beyond all of training, or a job of too few GPUs."""
    features = examples(24, jobs=8).features
    for key, value in (("gpus", 9.0), ("gpus", 0.0), ("fp64_15m", 0.7), ("nvlink_15m", -0.5)):
        changed = features.copy()
        changed[:, COLUMN[key]] = value
        assert not learnt.can_judge(changed).any(), key


@pytest.mark.parametrize(("key", "value"), [("nvlink_15m", 0.95), ("tensor_15m", -0.3)])
def test_what_speaks_one_way_alone_still_does_beyond_all_that_was_met(
    learnt: Learnt, key: str, value: float
) -> None:
    """Ranks that exchange more than any that it was taught with wait for it no less."""
    others = examples(26, jobs=8)
    mine = others.features[others.is_of(KEY)]
    most = mine.copy()
    most[:, COLUMN[key]] = value
    assert learnt.can_judge(most).mean() == learnt.can_judge(mine).mean() > 0.9
    likely, before = (learnt.probabilities(learnt.rows(rows)) for rows in (most, mine))
    assert (likely >= before).all()


def test_a_model_that_names_no_ways_is_read_with_none_open(model: Model) -> None:
    """As models of the version before."""
    value = model.plain()
    del value["classes"][KEY]["directions"]
    (learnt,) = model_from(value).classes
    features = examples(24, jobs=8).features
    features[:, COLUMN["nvlink_15m"]] = 0.95
    assert learnt.looks_at[0] == "nvlink_15m"
    assert not learnt.can_judge(features).any()


def test_what_else_is_missing_is_borne(learnt: Learnt) -> None:
    """A board without NVLink counters gets a verdict, only less sure."""
    others = examples(25)
    mine = others.features[others.is_of(KEY)]
    blind = mine.copy()
    blind[:, COLUMN["nvlink_15m"]] = np.nan
    sure, unsure = (learnt.probabilities(learnt.rows(part)).mean() for part in (mine, blind))
    assert learnt.can_judge(blind).mean() > 0.9
    assert unsure < sure


def _changed(model: Model, **changes: Any) -> dict[str, Any]:
    plain = json.loads(json.dumps(model.plain()))
    plain["classes"][KEY].update(changes)
    return plain


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"looks_at": ["util_15m", "no_such"]}, "feature that does not exist"),
        ({"looks_at": []}, "feature that does not exist"),
        ({"healthy": [0.0]}, "one number a feature"),
        ({"bounds": [[0.0], [1.0]]}, "one number a feature"),
        ({"directions": [2] * 8}, "directions are not"),
        ({"calibration": [1.0]}, "not complete"),
        ({"calibration": [float("inf"), 0.0]}, "a number is missing"),
        ({"claims_from": 0.2}, "claims_from"),
        ({"claims_from": "high"}, "not complete"),
        ({"trees": {"base": 0.0}}, "trees are missing"),
        ({"seen": {"jobs": None}}, "not complete"),
        ({"seen": [1.0]}, "not complete"),
        ({"seen": {"jobs": 10**350}}, "not complete"),
        ({"calibration": [3 * 10**400, 0.0]}, "not complete"),
        ({"healthy": [10**360] * 8}, "not complete"),
        ({"directions": [10**30] * 8}, "not complete"),
        ({"least_gpus": float("inf")}, "not complete"),
        ({"least_gpus": 10**25}, "least_gpus"),
        ({"bounds": [[0.0] * 8, [3e307] * 8]}, "a number is missing"),
        ({"healthy": [-4e300] * 8}, "a number is missing"),
        ({"trees": {"base": 7 * 10**330, "trees": []}}, "base of trees"),
        ({"trees": {"base": 0.0, "trees": [[[0, 10**350, 0, 0, 0, 0.0]]]}}, "six numbers"),
        ({"trees": {"base": 0.0, "trees": [[[-(10**30), 0.0, 0, 0, 0, 0.5]]]}}, "feature"),
    ],
)
def test_a_damaged_model_is_refused(model: Model, changes: dict[str, Any], said: str) -> None:
    """In one line that says why."""
    with pytest.raises(ModelError, match=said) as raised:
        model_from(_changed(model, **changes))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("marks", [None, [], {}, {KEY: "0123456789ab"}])
def test_a_model_of_other_features_is_refused(model: Model, marks: object) -> None:
    """They would mean something else."""
    plain = {**model.plain(), "features": "0123456789ab", "features_of": marks}
    with pytest.raises(ModelError, match="made with other features"):
        model_from(plain)


def test_a_feature_that_no_class_looks_at_does_not_unmake_a_model(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = model.plain()
    new = FEATURES[0]._replace(key="a_new_one")
    monkeypatch.setattr("gpumon.detect.learning.model.FEATURES", (*FEATURES, new))
    assert model.plain()["features"] != plain["features"]
    assert model_from(plain).mark == model.mark
    other = tuple(one._replace(unit="W") if one.key == "util_15m" else one for one in FEATURES)
    monkeypatch.setattr("gpumon.detect.learning.model.FEATURES", other)
    with pytest.raises(ModelError, match="made with other features"):
        model_from(plain)


def test_the_shipped_model_says_which_features_it_must_find() -> None:
    file = Path(gpumon_detectors.__file__).parent / "learned" / "model.json"
    plain = json.loads(file.read_bytes())
    assert read_model(file).plain()["features_of"] == plain["features_of"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", f"no {FORMAT}"),
        ('{"format": "gpumon-model/9"}', f"no {FORMAT}"),
        ("\udcff", "no JSON"),
        (" " * (MOST_BYTES + 1), "larger than any model"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, text: str, said: str) -> None:
    """The line names the file."""
    path = tmp_path / "m.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ModelError, match=said) as raised:
        read_model(path)
    assert str(path) in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """Likewise."""
    with pytest.raises(ModelError, match="No such file"):
        read_model(tmp_path / "none.json")


@pytest.mark.parametrize(
    "exemplars",
    [
        [{"lost": 0.3, "row": [0.5]}],
        [{"lost": 0.3}],
        [{"lost": "much", "row": None}],
        {"lost": 0.3},
        "many",
        [{"lost": 1e999, "row": [0.5] * 8}],
        [{"lost": 0.3, "row": [0.5] * 8}] * 200,
    ],
)
def test_exemplars_that_are_none_are_refused(model: Model, exemplars: object) -> None:
    """In one line; a model of an earlier version has none, and is read."""
    plain = model.plain()
    plain["classes"][KEY]["exemplars"] = exemplars
    with pytest.raises(ModelError, match=KEY) as told:
        model_from(plain)
    assert "\n" not in str(told.value)
    del plain["classes"][KEY]["exemplars"]
    assert model_from(plain).classes[0].exemplars == ()
