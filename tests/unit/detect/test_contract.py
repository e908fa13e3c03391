from __future__ import annotations

import pytest

from gpumon.detect.claims import honest_confidence
from gpumon.detect.contract import (
    Declaration,
    DetectorError,
    checked,
    clone,
    declaration_of,
    parameters,
)
from gpumon.model.finding import Confidence, Window

GOOD = Declaration("hot", "1", ("hot",), ("temp_c",), 60.0, 600.0)


@pytest.mark.parametrize(
    ("length_s", "samples", "confidence"),
    [
        (0, 1, "hypothesis"),
        (59.9, 60, "hypothesis"),
        (60, 61, "supported"),
        (599, 600, "supported"),
        (600, 601, "established"),
        (600, 2, "hypothesis"),
    ],
)
def test_a_shorter_look_is_a_lesser_claim(length_s, samples, confidence):
    window = Window(1000.0, 1000.0 + length_s, samples)
    assert honest_confidence(window, GOOD) is Confidence(confidence)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "Hot GPU"},
        {"name": "../x"},
        {"version": ""},
        {"version": 1},
        {"version": "1\x1b[2J"},
        {"supported_after_s": -7 * 10**350},
        {"established_after_s": 3 * 10**400},
        {"longest_period_s": 10**370},
        {"finding_classes": ()},
        {"finding_classes": ("\x1b[31m",)},
        {"finding_classes": ("slow_io", "useful")},
        {"finding_classes": ("suspected",)},
        {"needs": ("no_such_field",)},
        {"subjects": "rank"},
        {"categories": (("other", "idle"),)},
        {"categories": (("free", "no such category"),)},
        {"every_s": -1.0},
        {"every_s": 1e9},
        {"is_instant": 1},
        {"is_off_by_default": "no"},
        {"guesses": ("none_of_its_own",)},
        {"longest_period_s": -1},
        {"longest_period_s": "60"},
        {"supported_after_s": 0.0},
        {"supported_after_s": 601.0},
        {"supported_after_s": True},
        {"established_after_s": float("nan")},
        {"established_after_s": float("inf")},
        {"subjects": "user"},
    ],
)
def test_a_wrong_declaration_is_refused(change):
    with pytest.raises(DetectorError):
        checked(GOOD._replace(**change))


def test_missing_attributes_are_named():
    class Bare:
        name = "bare"

    with pytest.raises(DetectorError, match="version, finding_classes, needs"):
        declaration_of(Bare)


def test_inheriting_is_not_required():
    class Free:
        name, version = "free", "2"
        finding_classes, needs = ["free"], ["power_w"]
        supported_after_s, established_after_s = 10, 20

    want = Declaration("free", "2", ("free",), ("power_w",), 10, 20, "job")
    assert declaration_of(Free()) == want


def test_a_clone_has_the_same_parameters():
    class Tuned:
        def __init__(self, limit_c=80.0, share=0.5):
            self.limit_c = limit_c
            self.share = share

    copy = clone(Tuned(share=0.25))
    assert parameters(copy) == {"limit_c": 80.0, "share": 0.25}


def test_one_sample_proves_only_what_says_so():
    instant = GOOD._replace(is_instant=True, supported_after_s=0.0, established_after_s=0.0)
    assert checked(instant) == instant
    window = Window(1000.0, 1000.0, 1)
    assert honest_confidence(window, instant) is Confidence.ESTABLISHED
    assert honest_confidence(window, GOOD) is Confidence.HYPOTHESIS
