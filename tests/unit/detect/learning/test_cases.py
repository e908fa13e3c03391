"""Findings that were judged: kept, judged again, taken back, and files that hold none."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from gpumon.detect.features.table import COLUMN, FEATURES
from gpumon.detect.learning.cases import (
    MOST_BYTES,
    MOST_CASES,
    Case,
    CasesError,
    case_of,
    cases_rewritten,
    read_cases,
    with_case,
    without_case,
)
from gpumon.detect.learning.model import features_mark

if TYPE_CHECKING:
    from pathlib import Path


def row(**values: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Features of a job, all others missing."""
    found = np.full(len(FEATURES), np.nan)
    for key, value in values.items():
        found[COLUMN[key]] = value
    return found


def case(job_id: str = "42_3", name: str = "comm_bound", *, is_right: bool = True) -> Case:
    """A case as the terminal makes it."""
    features = row(util_15m=0.97, nvlink_15m=1 / 3)
    return case_of(name, job_id, features, "ada", 1.7e9, 0.25, is_right=is_right)


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    """With every feature that was known, and no other; for its owner alone."""
    path = tmp_path / "state" / "cases.json"
    assert read_cases(path) == ()
    kept = cases_rewritten(path, lambda cases: with_case(cases, case()))
    assert read_cases(path) == kept == (case(),)
    (read,) = read_cases(path)
    assert read.is_usable
    assert dict(read.features) == {"util_15m": 0.97, "nvlink_15m": 0.3333333}
    assert np.isnan(read.row).sum() == len(FEATURES) - 2
    assert path.stat().st_mode & 0o777 == 0o600


def test_of_one_job_and_class_the_last_word_counts() -> None:
    """And it can be taken back; other jobs and classes are left as they are."""
    cases = with_case((), case())
    cases = with_case(cases, case("7"))
    cases = with_case(cases, case(name="straggler"))
    cases = with_case(cases, case(is_right=False))
    assert [(one.job_id, one.finding_class, one.is_right) for one in cases] == [
        ("7", "comm_bound", True),
        ("42_3", "straggler", True),
        ("42_3", "comm_bound", False),
    ]
    left = without_case(cases, "comm_bound", "42_3")
    assert [one.job_id for one in left] == ["7", "42_3"]
    with pytest.raises(CasesError, match="there is no judgement"):
        without_case(left, "comm_bound", "42_3")


def test_a_person_judges_so_many_and_no_more() -> None:
    many = tuple(case(str(number)) for number in range(MOST_CASES))
    with pytest.raises(CasesError, match=f"no more than {MOST_CASES}"):
        with_case(many, case("one more"))
    assert len(with_case(many, case("7", is_right=False))) == MOST_CASES


def test_cases_of_a_version_with_other_features_are_kept_and_not_used(tmp_path: Path) -> None:
    path = tmp_path / "cases.json"
    old = case("1")._replace(made_with="another", features={"gone_15m": 3.0, "util_15m": 0.5})
    kept = cases_rewritten(path, lambda _none: (old, case("2")))
    assert [one.is_usable for one in kept] == [False, True]
    assert [one.is_usable for one in read_cases(path)] == [False, True]
    assert np.nansum(read_cases(path)[0].row) == 0.5


def test_a_new_feature_leaves_the_cases_before_it_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever adds one needs nobody to judge again; one that changes does."""
    kept, earlier = case(), case()._replace(made_with=features_mark())
    new = FEATURES[0]._replace(key="a_new_one")
    monkeypatch.setattr("gpumon.detect.learning.model.FEATURES", (*FEATURES, new))
    assert [one.is_usable for one in (kept, earlier)] == [True, False]
    other = tuple(one._replace(unit="W") if one.key == "util_15m" else one for one in FEATURES)
    monkeypatch.setattr("gpumon.detect.learning.model.FEATURES", other)
    assert not kept.is_usable


def _plain(**changes: Any) -> str:
    made = {**case()._asdict(), "features": dict(case().features), **changes}
    return json.dumps({"format": "gpumon-cases/1", "cases": [made]})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "no JSON"),
        ("[]", "no gpumon-cases/1"),
        ('{"format": "gpumon-cases/2", "cases": []}', "no gpumon-cases/1"),
        ('{"format": "gpumon-cases/1", "cases": {}}', "no list of cases"),
        ('{"format": "gpumon-cases/1", "cases": [7]}', "case 1 is not complete"),
        (_plain(finding_class="Rm -rf"), "case 1 is not complete"),
        (_plain(is_right="yes"), "case 1 is not complete"),
        (_plain(at="soon"), "case 1 is not complete"),
        (_plain(at=1e999), "case 1 is not complete"),
        (_plain(lost=1.5), "case 1 is not complete"),
        (_plain(features=[1]), "case 1 is not complete"),
        (_plain(features={"util_15m": math.inf}), "case 1 is not complete"),
        (_plain(features={"util_15m": 1e40}), "case 1 is not complete"),
        (_plain(features={"\x1b[2J": 1.0}), "case 1 is not complete"),
        (_plain(features={str(n): 1.0 for n in range(2000)}), "case 1 is not complete"),
        (" " * (MOST_BYTES + 1), "larger than any list of cases"),
    ],
)
def test_a_file_that_holds_no_cases_is_told_in_a_line_and_left_alone(
    tmp_path: Path, text: str, why: str
) -> None:
    path = tmp_path / "cases.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CasesError, match=why) as told:
        cases_rewritten(path, lambda cases: with_case(cases, case()))
    assert str(told.value).startswith(str(path))
    assert "\n" not in str(told.value)
    assert path.read_text(encoding="utf-8") == text


def test_names_in_a_file_are_harmless(tmp_path: Path) -> None:
    path = tmp_path / "cases.json"
    path.write_text(_plain(owner="a\x1b[31mda", job_id="4\n2"), encoding="utf-8")
    (read,) = read_cases(path)
    assert "\x1b" not in read.owner
    assert "\n" not in read.job_id
