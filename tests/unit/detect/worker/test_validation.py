from __future__ import annotations

import json

import pytest

from gpumon.detect.contract import Declaration, DetectorError
from gpumon.detect.worker.validation import (
    MAX_ADVICE,
    MAX_EVIDENCE,
    MAX_GPUS,
    MAX_OWNERS,
    MAX_SENTENCE,
    Bounds,
    RubbishError,
    coverage_from,
    declaration_from,
    finding_from,
)
from gpumon.model.finding import Confidence, Coverage, Evidence, Finding, Severity, Window

DECLARED = Declaration("hot", "1", ("hot",), ("temp_c",), 60.0, 600.0)
BOUNDS = Bounds(2000.0, 1000.0, {"job:7": 4})
EVIDENCE = Evidence("temp_c", "gpu:GPU-1", "91 C", 91.0)
GOOD = Finding(
    detector="liar",
    finding_class="hot",
    subject="job:7",
    severity=Severity.WARNING,
    confidence=Confidence.ESTABLISHED,
    summary="hot",
    evidence=(EVIDENCE,),
    window=Window(1300.0, 2000.0, 70),
    first_seen=1.0,
    last_seen=2.0,
    advice=("cool it",),
    gpu_seconds=700.0,
)


def wired(finding):
    return json.loads(json.dumps(finding))


def taken(**change):
    return finding_from(wired(GOOD._replace(**change)), DECLARED, BOUNDS)


def test_a_good_finding_is_taken_with_the_monitors_name_and_times():
    got = taken()
    assert got == GOOD._replace(
        detector="hot",
        first_seen=2000.0,
        last_seen=2000.0,
        onset=GOOD.window.start,
        category="request",
    )
    assert isinstance(got.severity, Severity)


@pytest.mark.parametrize(
    ("window", "confidence"),
    [
        (Window(1300.0, 2000.0, 70), "established"),
        (Window(1900.0, 2000.0, 10), "supported"),
        (Window(1990.0, 2000.0, 10), "hypothesis"),
        (Window(0.0, 9e9, 10), "established"),
    ],
)
def test_the_window_caps_the_confidence(window, confidence):
    assert taken(window=window, gpu_seconds=None).confidence is Confidence(confidence)


def test_a_lesser_claim_stays_lesser():
    assert taken(confidence="hypothesis").confidence is Confidence.HYPOTHESIS


@pytest.mark.parametrize("severity", ["critical", "warning", "info"])
def test_a_hypothesis_is_a_warning_at_most(severity):
    least = min(Severity(severity), Severity.WARNING, key=lambda step: step.rank)
    assert taken(severity=severity, confidence="hypothesis").severity is least
    short = {"window": Window(1960.0, 2000.0, 10), "gpu_seconds": None}
    assert taken(severity=severity, **short).severity is least
    assert taken(severity=severity).severity is Severity(severity)


def test_a_window_is_cut_to_what_was_observed():
    assert taken(window=Window(0.0, 9e9, 10)).window == Window(1000.0, 2000.0, 10)


def test_texts_lose_their_escapes():
    got = taken(summary="\x1b[2Jgone", advice=("a\nb",))
    assert "\x1b" not in got.summary
    assert "\n" not in got.advice[0]


@pytest.mark.parametrize(
    "change",
    [
        {"subject": "job:8"},
        {"subject": "job:7; rm -rf"},
        {"subject": "job:7/rank:x"},
        {"subject": "user:alice"},
        {"subject": "node:-oProxyCommand=x"},
        {"subject": None},
        {"finding_class": "other"},
        {"finding_class": ["hot"]},
        {"severity": "apocalyptic"},
        {"severity": []},
        {"confidence": "certain"},
        {"summary": ""},
        {"summary": 3},
        {"evidence": "many"},
        {"evidence": (EVIDENCE,) * 65},
        {"evidence": (EVIDENCE._replace(value="91"),)},
        {"evidence": (EVIDENCE._replace(value=True),)},
        {"evidence": (EVIDENCE._replace(field="Temp!"),)},
        {"evidence": (("temp_c", "gpu:GPU-1"),)},
        {"window": (1, 2)},
        {"window": Window(2000.0, 1300.0, 5)},
        {"window": Window(1300.0, 2000.0, 0)},
        {"window": Window(1300.0, 2000.0, 1.5)},
        {"window": Window(3000.0, 4000.0, 5)},
        {"advice": "do"},
        {"advice": ("x",) * 9},
        {"gpu_seconds": -1.0},
        {"gpu_seconds": 4 * 700.0 * 1.1},
        {"gpu_seconds": "much"},
    ],
)
def test_rubbish_is_refused(change):
    with pytest.raises(RubbishError):
        taken(**change)


def test_a_gpu_may_cost_its_job_no_more_than_the_gpus_that_it_names():
    own = {"subject": "gpu:GPU-1", "gpus": ("GPU-1",)}
    assert taken(**own, gpu_seconds=700.0).gpu_seconds == 700.0
    with pytest.raises(RubbishError):
        taken(**own, gpu_seconds=1500.0)
    with pytest.raises(RubbishError):
        taken(subject="gpu:GPU-1", gpus=(), gpu_seconds=1500.0)
    with pytest.raises(RubbishError):
        taken(subject="gpu:GPU-1", gpus=("GPU-1",) * 3, gpu_seconds=1500.0)
    named = {"subject": "gpu:GPU-1", "gpus": ("GPU-1", "GPU-2", "GPU-3")}
    assert taken(**named, gpu_seconds=2100.0).gpus == ("GPU-1", "GPU-2", "GPU-3")


@pytest.mark.parametrize("value", [None, 3, "finding", [], {}, [1] * 12, wired(GOOD)[:-1]])
def test_what_is_no_finding_is_refused(value):
    with pytest.raises(RubbishError):
        finding_from(value, DECLARED, BOUNDS)


@pytest.mark.parametrize("number", [float("inf"), 10**400])
def test_numbers_that_are_infinite_or_that_no_float_holds_are_refused(number):
    value = wired(GOOD)
    value[Finding._fields.index("gpu_seconds")] = number
    with pytest.raises(RubbishError):
        finding_from(value, DECLARED, BOUNDS)


def test_coverage_is_taken_with_the_monitors_name():
    value = ["liar", 3, 1, ["temp_c"], "waiting", "20 s of 60 s"]
    assert coverage_from(value, DECLARED) == Coverage(
        "hot", 3, 1, ("temp_c",), "waiting", "20 s of 60 s", DECLARED.supported_after_s
    )


@pytest.mark.parametrize(
    "value",
    [
        None,
        ["hot", -1, 0, [], "ok", ""],
        ["hot", True, 0, [], "ok", ""],
        ["hot", 0, 0, ["power_w"], "ok", ""],
        ["hot", 0, 0, [[]], "ok", ""],
        ["hot", 0, 0, [], "splendid", ""],
        ["hot", 0, 0, [], "ok", None],
    ],
)
def test_wrong_coverage_is_refused(value):
    with pytest.raises(RubbishError):
        coverage_from(value, DECLARED)


def test_a_declaration_comes_back_as_it_was():
    assert declaration_from(json.loads(json.dumps(DECLARED._asdict()))) == DECLARED


@pytest.mark.parametrize(
    "value",
    [None, [], {"name": "hot"}, {**DECLARED._asdict(), "needs": 5}, {**DECLARED._asdict(), "x": 1}],
)
def test_what_is_no_declaration_is_refused(value):
    with pytest.raises(DetectorError):
        declaration_from(value)


@pytest.mark.parametrize(
    ("part", "most", "one"),
    [
        ("gpus", MAX_GPUS, "GPU-1"),
        ("evidence", MAX_EVIDENCE, EVIDENCE),
        ("advice", MAX_ADVICE, "cool it"),
        ("machine_advice", MAX_ADVICE, "cool it"),
    ],
)
def test_more_than_a_finding_may_hold_is_refused(part, most, one):
    bounds = BOUNDS._replace(gpus={"GPU-1": None})
    given = wired(GOOD._replace(**{part: (one,) * most}))
    assert len(getattr(finding_from(given, DECLARED, bounds), part)) == most
    given = wired(GOOD._replace(**{part: (one,) * (most + 1)}))
    with pytest.raises(RubbishError):
        finding_from(given, DECLARED, bounds)


def test_more_owners_than_a_gpu_can_have_are_refused():
    bounds = BOUNDS._replace(gpus={"GPU-1": None})
    for count in (MAX_OWNERS, MAX_OWNERS + 1):
        given = wired(GOOD._replace(subject="gpu:GPU-1", owners=(1000,) * count, gpu_seconds=None))
        if count == MAX_OWNERS:
            assert len(finding_from(given, DECLARED, bounds).owners) == count
        else:
            with pytest.raises(RubbishError):
                finding_from(given, DECLARED, bounds)


def test_long_sentences_are_cut():
    assert len(taken(summary="x" * 9000).summary) == MAX_SENTENCE


def test_a_count_of_any_length_is_refused():
    with pytest.raises(RubbishError):
        taken(window=Window(1300.0, 2000.0, 3 * 10**40))
