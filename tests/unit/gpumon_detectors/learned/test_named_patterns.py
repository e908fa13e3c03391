"""Jobs that behave as a pattern does that has a name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpumon.detect.contract import declaration_of
from gpumon.detect.learning.named import Named, NamedError, Trait, plain, with_name
from gpumon.detect.scene import Scene
from gpumon_detectors.learned.named_patterns import NamedPatterns
from tests.unit.gpumon_detectors.work_scenes import EXCHANGES, SMALL, TRAINS, running

if TYPE_CHECKING:
    from pathlib import Path

SMALL_ONES = (Trait("sm_15m", 0.15, 0.7), Trait("tensor_15m", 0.02, 0.3))
EXCHANGING = (Trait("nvlink_15m", 0.3, 0.0), Trait("sm_15m", 0.3, 0.8))


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Two named patterns."""
    versions: tuple[Named, ...] = ()
    for name, traits in (("lonely_launcher", SMALL_ONES), ("chatty", EXCHANGING)):
        versions = with_name(versions, Named(name, 0, "ada", 1.7e9, traits, 4, 7200.0, "42"))
    path = tmp_path / "patterns.json"
    path.write_text(json.dumps(plain(versions)), encoding="utf-8")
    return str(path)


def findings(scene, file):
    return list(NamedPatterns(file).evaluate(scene.view()))


def test_a_job_that_behaves_so_is_named_with_its_features(file):
    (finding,) = findings(running(SMALL, 2400.0), file)
    assert (finding.subject, finding.finding_class) == ("job:42", "lonely_launcher")
    assert finding.summary == "behaves like the pattern lonely launcher over 15 min"
    assert (finding.confidence, finding.severity) == ("hypothesis", "info")
    assert finding.gpu_seconds is None
    assert finding.evidence[0].text.startswith("SM activity, mean of 15 minutes: ")
    assert finding.evidence[0].text.endswith("in the pattern 15 %, usually 70 %")
    assert finding.evidence[-1].text == "named by ada, found in 4 jobs, as in 42"


def test_one_that_resembles_two_patterns_is_called_by_both_names(file):
    found = findings(running(EXCHANGES, 2400.0), file)
    assert [one.finding_class for one in found] == ["chatty", "lonely_launcher"]


def test_a_job_that_does_as_usual_is_none_of_them(file):
    assert findings(running(TRAINS, 2400.0), file) == []


@pytest.mark.parametrize("key", ["sm_active_ratio", "tensor_active_ratio"])
def test_without_one_of_the_features_nothing_is_said(file, key):
    assert findings(running({**SMALL, key: None}, 2400.0), file) == []


def test_what_several_jobs_share_is_not_judged(file):
    scene = running(SMALL, 2400.0)
    uuids = scene.view().running[0].uuids
    scene.job("43", uuids[:1])
    scene.run(1000.0, dict.fromkeys(uuids, SMALL))
    assert findings(scene, file) == []


def test_it_takes_a_quarter_of_an_hour(file):
    scene = Scene(10.0)
    uuids = scene.node("n1", 2)
    scene.job("7", uuids)
    scene.run(840.0, dict.fromkeys(uuids, SMALL))
    assert findings(scene, file) == []
    scene.run(120.0, dict.fromkeys(uuids, SMALL))
    assert len(findings(scene, file)) == 1


def test_its_classes_are_the_names(file, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    declared = declaration_of(NamedPatterns(file))
    assert declared.finding_classes == ("chatty", "lonely_launcher")
    assert dict(declared.categories) == {"chatty": "compute", "lonely_launcher": "compute"}
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "nobody"))
    assert declaration_of(NamedPatterns()).finding_classes == ("named_pattern",)
    assert findings(running(SMALL, 2400.0), str(tmp_path / "none")) == []


def test_a_file_that_is_none_is_named(tmp_path: Path):
    """What the worker shows when it mutes the detector."""
    path = tmp_path / "own.json"
    path.write_text("{}", encoding="utf-8")
    assert declaration_of(NamedPatterns(str(path))).finding_classes == ("named_pattern",)
    with pytest.raises(NamedError, match=str(path)):
        findings(running(SMALL, 2400.0), str(path))
