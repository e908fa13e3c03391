"""Patterns that have a name: versions, what they match, and files that are none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from gpumon.detect.features.table import COLUMN, FEATURES
from gpumon.detect.learning import named
from gpumon.detect.learning.named import (
    MOST_BYTES,
    MOST_TRAITS,
    Named,
    NamedError,
    Trait,
    named_patterns,
    names_of,
    newest,
    own_patterns,
    plain,
    read_named,
    with_name,
    without_newest,
)
from gpumon.model.records.pattern import PatternCard

if TYPE_CHECKING:
    from pathlib import Path

TRAITS = (Trait("pause_share_15m", 0.6, 0.05), Trait("util_15m", 0.35, 0.95))


def one(name: str = "slow_tokeniser", **changes: Any) -> Named:
    """A pattern as the command makes it."""
    made = Named(name, 0, "ada", 1.7e9, TRAITS, 4, 7200.0, "42_3")
    return made._replace(**changes)


def row(**values: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Features of a job, all others missing."""
    found = np.full(len(FEATURES), np.nan)
    for key, value in values.items():
        found[COLUMN[key]] = value
    return found


@pytest.mark.parametrize(
    ("pause", "util", "matches"),
    [
        (0.6, 0.35, True),
        (0.9, 0.1, True),
        (0.34, 0.64, True),
        (0.31, 0.35, False),
        (0.6, 0.66, False),
        (0.05, 0.95, False),
        (np.nan, 0.35, False),
    ],
)
def test_each_trait_must_lie_nearer_to_the_patterns_own_value(
    pause: float, util: float, matches: bool
) -> None:
    """One that is missing is unlike anything."""
    features = row(pause_share_15m=pause, util_15m=util)
    assert one().matches(features) is matches


def test_a_card_bears_the_names_that_its_jobs_match_in_their_middle() -> None:
    """By whatever trait the card itself is told now."""
    card = PatternCard(("7", "8", "9"), ("ada",), 7200.0, 1e9, "8", (Trait("read", 8.0, 6.0),))
    alike = {
        "7": row(pause_share_15m=0.6, util_15m=0.3),
        "8": row(pause_share_15m=0.5, util_15m=0.4),
        "9": row(pause_share_15m=0.0, util_15m=0.35),
    }
    reads = one("late_reader", traits=(Trait("read", 8.2, 5.0),))
    assert names_of(card, alike, (one(), reads)) == ("late_reader", "slow_tokeniser")
    assert names_of(card, {}, (one(), reads)) == ("late_reader",)
    others = {**alike, "7": row(pause_share_15m=0.0), "10": row(pause_share_15m=0.9)}
    assert names_of(card, others, (one(),)) == ()


def test_a_name_given_again_is_a_version_that_can_be_taken_back() -> None:
    versions = with_name((), one(jobs=4))
    versions = with_name(versions, one("other"))
    versions = with_name(versions, one(jobs=9, owner="bob"))
    assert [(o.name, o.version, o.jobs) for o in newest(versions)] == [
        ("other", 1, 4),
        ("slow_tokeniser", 2, 9),
    ]
    back = without_newest(versions, "slow_tokeniser")
    assert [(o.name, o.version, o.owner) for o in newest(back)][1] == ("slow_tokeniser", 1, "ada")
    gone = without_newest(back, "slow_tokeniser")
    assert [o.name for o in newest(gone)] == ["other"]
    with pytest.raises(NamedError, match="no pattern is called 'slow_tokeniser'"):
        without_newest(gone, "slow_tokeniser")


@pytest.mark.parametrize("name", ["hang", "wasted", "useful", "healthy", "named_pattern"])
def test_what_means_something_already_is_no_name(name: str) -> None:
    with pytest.raises(NamedError, match="already has a meaning"):
        with_name((), one(name))


@pytest.mark.parametrize("name", ["", "Slow", "9lives", "a b", "x" * 65, "\x1b[31m", "naïve"])
def test_a_name_is_written_as_a_class(name: str) -> None:
    with pytest.raises(NamedError) as told:
        with_name((), one(name))
    assert "is not a name" in str(told.value)
    assert "\x1b" not in str(told.value)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "patterns.json"
    assert read_named(path) == ()
    versions = with_name(with_name((), one()), one())
    path.write_text(json.dumps(plain(versions)), encoding="utf-8")
    assert read_named(path) == versions
    assert named_patterns(path) == versions[1:]


def test_a_users_own_lie_in_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert own_patterns() == tmp_path / "gpumon" / "patterns.json"
    assert named_patterns() == ()


def _changed(**changes: Any) -> str:
    value = plain(with_name((), one()))
    value["patterns"][0].update(changes)
    return json.dumps(value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "no gpumon-named-patterns/1"),
        ('{"format": "gpumon-model/1"}', "no gpumon-named-patterns/1"),
        ('{"format": "gpumon-named-patterns/1", "patterns": {}}', "no list of patterns"),
        ('{"format": "gpumon-named-patterns/1", "patterns": [7]}', "pattern 1 is not complete"),
        (_changed(traits=[]), "pattern 1 is not complete"),
        (_changed(traits=[TRAITS[0]._asdict()] * (MOST_TRAITS + 1)), "pattern 1 is not complete"),
        (_changed(traits=[{"key": "nope", "value": 1, "usual": 2}]), "pattern 1 is not complete"),
        (_changed(gpu_seconds=1e400), "pattern 1 is not complete"),
        (_changed(version=None), "pattern 1 is not complete"),
        (_changed(version=3 * 10**40), "pattern 1 is not complete"),
        (_changed(jobs=-(10**30)), "pattern 1 is not complete"),
        (_changed(name="hang"), "pattern 1 is not complete"),
        (_changed(name="\x1b[31m"), "pattern 1 is not complete"),
        (" " * (MOST_BYTES + 1), "larger than any list of patterns"),
    ],
)
def test_what_is_none_is_refused_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "patterns.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(NamedError, match=words) as told:
        read_named(path)
    assert str(told.value).startswith(str(path))
    assert "\n" not in str(told.value)


def test_a_folder_in_its_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(NamedError, match=str(tmp_path)):
        read_named(tmp_path)


def test_versions_without_number_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named, "MOST_VERSIONS", 2)
    kept = with_name((), one())
    kept = with_name(kept, one())
    with pytest.raises(NamedError, match="no more than 2 versions are stored; remove some first"):
        with_name(kept, one())


def test_who_named_it_is_harmless(tmp_path: Path) -> None:
    path = tmp_path / "patterns.json"
    path.write_text(_changed(owner="a\x1b[2Jb", exemplar="7\u202e"), encoding="utf-8")
    (found,) = read_named(path)
    assert (found.owner, found.exemplar) == ("a\ufffd[2Jb", "7\ufffd")
