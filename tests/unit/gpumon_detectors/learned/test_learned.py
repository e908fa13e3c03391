"""What the shipped model tells of scenes, and what it keeps quiet about."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from gpumon.detect.contract import declaration_of
from gpumon.detect.features.table import COLUMN, FEATURES, features_of
from gpumon.detect.learning.cases import case_of, cases_rewritten, with_case
from gpumon.detect.learning.model import Learnt
from gpumon.detect.scene import Scene
from gpumon.plugin import ModelError
from gpumon_detectors.learned.learned import SHIPPED, Learned, model_in
from tests.unit.gpumon_detectors.work_scenes import EXCHANGES, TRAINS, running

if TYPE_CHECKING:
    from pathlib import Path


def findings(scene, **parameters):
    return list(Learned(**parameters).evaluate(scene.view()))


def test_ranks_that_exchange_all_the_time_are_guessed():
    """With what it costs and the features that carry it; the shipped model only guesses."""
    (finding,) = findings(running(EXCHANGES, 2400.0))
    assert (finding.subject, finding.finding_class) == ("job:42", "comm_bound")
    assert finding.confidence == "hypothesis"
    assert 0.2 * 4 * 900.0 < finding.gpu_seconds < 0.8 * 4 * 900.0
    assert "in healthy jobs" in finding.evidence[0].text
    assert finding.evidence[0].field in {"nvlink_tx_bytes_per_s", "sm_active_ratio"}


def test_training_that_hides_its_exchange_is_not():
    assert findings(running(TRAINS, 2400.0)) == []


@pytest.mark.parametrize("seconds", [60.0, 240.0])
def test_too_short_a_look_says_nothing(seconds):
    assert findings(running(EXCHANGES, seconds)) == []


@pytest.mark.parametrize("key", ["sm_active_ratio", "tensor_active_ratio"])
def test_without_profiling_counters_nothing_is_said(key):
    assert findings(running({**EXCHANGES, key: None}, 2400.0)) == []


def test_one_gpu_exchanges_with_nobody():
    assert findings(running(EXCHANGES, 2400.0, gpus=1)) == []


@pytest.mark.parametrize("rate", [None, 0.0])
def test_an_exchange_that_nobody_sees_is_none(rate):
    """On one node, with links that tell nothing or carry nothing."""
    links = dict.fromkeys(("nvlink_rx_bytes_per_s", "nvlink_tx_bytes_per_s"), rate)
    assert findings(running({**EXCHANGES, **links}, 2400.0)) == []


def test_a_job_on_boards_of_two_kinds_is_not_judged():
    """The faster ones wait for the slower, by design."""
    scene = Scene()
    uuids = (*scene.node("n1", 4), *scene.node("n2", 4, "NVIDIA A100-SXM4-80GB"))
    scene.job("42", uuids)
    scene.run(2400.0, dict.fromkeys(uuids, EXCHANGES))
    assert findings(scene) == []


def test_the_trees_are_walked_once_for_all_jobs_and_again_for_those_it_claims(monkeypatch):
    """For one row alone they take as long as for a thousand."""
    scene = Scene()
    played = {}
    for number, work in enumerate([EXCHANGES, TRAINS, TRAINS, TRAINS, TRAINS]):
        uuids = scene.node(f"n{number}", 4)
        scene.job(str(42 + number), uuids)
        played |= dict.fromkeys(uuids, work)
    scene.run(2400.0, played)
    asked, likely = [], Learnt.probabilities

    def noted(learnt, rows):
        asked.append(len(rows))
        return likely(learnt, rows)

    monkeypatch.setattr(Learnt, "probabilities", noted)
    detector, view = Learned(), scene.view()
    found = detector.evaluate(view)
    assert next(found).subject == "job:42"
    assert asked[0] > 1
    assert list(found) == []
    alone = [count for count in asked[2:] if count == 1]
    assert len(alone) <= len(model_in("").classes)


def test_gpus_that_another_job_shares_are_not_judged():
    """What they do is not one job's doing."""
    scene = running(EXCHANGES, 2400.0)
    uuids = scene.view().running[0].uuids
    assert len(findings(scene)) == 1
    scene.job("43", uuids[:1])
    scene.run(30.0, dict.fromkeys(uuids, EXCHANGES))
    assert findings(scene) == []


def declined(scene):
    return Learned().cannot_judge(scene.view())


def test_of_whom_it_cannot_speak_it_says_why():
    """Shared GPUs, mixed boards, and what lies beyond all that it was taught with."""
    assert declined(running(EXCHANGES, 2400.0)) == {}
    mixed = Scene()
    uuids = (*mixed.node("n1", 4), *mixed.node("n2", 4, "NVIDIA A100-SXM4-80GB"))
    mixed.job("42", uuids)
    mixed.run(2400.0, dict.fromkeys(uuids, EXCHANGES))
    assert declined(mixed) == {"job:42": "its GPUs are of several products"}
    shared = running(EXCHANGES, 2400.0)
    shared.job("43", shared.view().running[0].uuids[:1])
    shared.run(30.0, dict.fromkeys(shared.view().running[0].uuids, EXCHANGES))
    assert declined(shared)["job:42"] == "another job shares its GPUs"


def test_work_unlike_all_lessons_is_named_by_the_feature_that_is_unlike():
    learnt = model_in("").classes[0]
    features = np.full((3, len(FEATURES)), np.nan)
    middle = learnt.bounds.mean(axis=0)
    features[:, learnt.columns] = middle
    features[:, [COLUMN[key] for key in learnt.needs]] = np.nan_to_num(
        features[:, [COLUMN[key] for key in learnt.needs]], nan=0.5
    )
    features[:, COLUMN["gpus"]] = 4.0
    # More of which speaks against the class: beyond all that was met nobody knows how much.
    place = int(learnt.directions.argmin())
    strange = learnt.looks_at[place]
    features[1, COLUMN[strange]] = learnt.bounds[1, place] + 1.0
    # Of one of which too little is known nothing is said at all.
    features[2] = features[1]
    features[2, COLUMN[learnt.needs[0]]] = np.nan
    assert learnt.unlike(features) == ("", strange, "")
    assert learnt.can_judge(features).tolist() == [True, False, False]


def test_a_server_stays_a_hypothesis():
    (finding,) = findings(running(EXCHANGES, 2400.0, name="serve-70b"))
    assert finding.confidence == "hypothesis"


def test_a_name_changes_nothing_else():
    """Probability, loss and reasons rest on counters alone."""
    one, other = (
        findings(running(EXCHANGES, 2400.0, name=name))[0] for name in ("run", "moe-8x7b")
    )
    assert one.summary == other.summary
    assert one.gpu_seconds == other.gpu_seconds


def test_the_shipped_model_is_whole():
    """Small enough to be read by people, precise enough on what it was not fitted on."""
    model = model_in("")
    assert tuple(one.key for one in model.classes) == SHIPPED == Learned.finding_classes
    assert all(one.seen["precision"] >= 0.95 for one in model.classes)
    assert len(json.dumps(model.plain())) < 200_000
    assert np.isfinite(model.classes[0].healthy[model.classes[0].looks_at.index("util_15m")])


def test_a_sites_own_model_is_used(tmp_path: Path):
    """The parameter names its file; one that claims only what is certain guesses the rest."""
    plain = model_in("").plain()
    plain["classes"]["comm_bound"]["claims_from"] = 1.0
    path = tmp_path / "own.json"
    path.write_text(json.dumps(plain), encoding="utf-8")
    (finding,) = findings(running(EXCHANGES, 2400.0), model=str(path))
    assert (finding.confidence, finding.severity) == ("hypothesis", "warning")


def test_what_is_less_likely_than_abstained_from_is_not_even_guessed(tmp_path: Path):
    """The same trees, calibrated otherwise: at .5 nothing is said, at .7 it is a guess."""
    for offset_to, expected in ((0.5, []), (0.7, ["hypothesis"])):
        plain = model_in("").plain()
        own = plain["classes"]["comm_bound"]
        own["claims_from"] = 0.75
        own["calibration"] = [0.0, float(np.log(offset_to / (1.0 - offset_to)))]
        path = tmp_path / f"{offset_to}.json"
        path.write_text(json.dumps(plain), encoding="utf-8")
        found = findings(running(EXCHANGES, 2400.0), model=str(path))
        assert [one.confidence for one in found] == expected


def test_it_declares_what_its_model_tells(tmp_path: Path):
    """What no model tells is not looked for."""
    plain = model_in("").plain()
    plain["classes"]["small_batch"] = plain["classes"].pop("comm_bound")
    path = tmp_path / "other.json"
    path.write_text(json.dumps(plain), encoding="utf-8")
    assert declaration_of(Learned(str(path))).finding_classes == ("small_batch",)
    assert declaration_of(Learned(str(tmp_path / "none"))).finding_classes == SHIPPED


def test_a_model_that_is_none_names_the_file(tmp_path: Path):
    """What the worker shows when it mutes the detector."""
    path = tmp_path / "own.json"
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(ModelError, match=str(path)):
        findings(running(EXCHANGES, 2400.0), model=str(path))


def judged(path: Path, *, is_right: bool, job_id: str = "7_1") -> str:
    """A file with one case, of a job like the one that exchanges."""
    view = running(EXCHANGES, 2400.0).view()
    (row,) = features_of(view, view.running).values
    case = case_of("comm_bound", job_id, row, "ada", 1.7e9, 0.4, is_right=is_right)
    cases_rewritten(path, lambda cases: with_case(cases, case))
    return str(path)


def test_a_verdict_names_the_known_cases_it_is_like(tmp_path: Path):
    """What somebody has judged comes first, then jobs of the lessons, where the model has some."""
    scene = running(EXCHANGES, 2400.0)
    (finding,) = findings(scene, cases=str(tmp_path / "none.json"))
    like = [one for one in finding.evidence if one.text.startswith("like ")]
    assert len(like) == min(2, len(model_in("").classes[0].exemplars))
    (finding,) = findings(scene, cases=judged(tmp_path / "right.json", is_right=True))
    texts = [one.text for one in finding.evidence if one.text.startswith("like ")]
    assert texts[0] == "like job 7_1, a finding that ada judged right on 2023-11-14"


def test_where_the_nearest_case_was_wrong_it_stays_a_guess(tmp_path: Path):
    """A model of one's own would claim it."""
    plain = model_in("").plain()
    plain["classes"]["comm_bound"]["claims_from"] = 0.6
    plain["made_of"] = {}
    path = tmp_path / "own.json"
    path.write_text(json.dumps(plain), encoding="utf-8")
    scene = running(EXCHANGES, 2400.0)
    for is_right, confidence in ((True, "supported"), (False, "hypothesis")):
        cases = judged(tmp_path / f"{is_right}.json", is_right=is_right)
        (finding,) = findings(scene, model=str(path), cases=cases)
        assert finding.confidence == confidence


def test_cases_that_cannot_be_read_are_none(tmp_path: Path):
    path = tmp_path / "odd.json"
    path.write_text("{", encoding="utf-8")
    assert len(findings(running(EXCHANGES, 2400.0), cases=str(path))) == 1
