from __future__ import annotations

import itertools

import numpy as np
import pytest

from gpumon.detect.checks import check_detector, checks_of
from gpumon.detect.contract import Detector
from gpumon.model.finding import Confidence, Severity, Window

pytestmark = pytest.mark.slow


class Honest(Detector):
    name = "honest"
    version = "1"
    finding_classes = ("high_power",)
    needs = ("power_w",)
    supported_after_s = 60.0
    established_after_s = 600.0

    def __init__(self, limit_w=300.0):
        self.limit_w = limit_w

    def evaluate(self, view):
        for job in view.jobs:
            if not job.uuids or job.missing(self.needs):
                continue
            table = job.table(self.needs, 3600.0)
            if np.isfinite(table.columns["power_w"]).all():
                yield self.claim(view, job, table.times)

    def claim(self, view, job, times, **change):
        given = {
            "subject": job.subject,
            "severity": Severity.INFO,
            "summary": f"more than {self.limit_w:g} W",
            "window": Window(times[0], times[-1], len(times)),
            "evidence": (),
        }
        return view.finding(self, **{**given, **change})


def problems(detector_class):
    return {c.name: c.problem for c in check_detector(detector_class) if c.problem}


def first_problem(detector_class):
    """Which check it fails first; its later scenes are not even made."""
    return next(check for check in checks_of(detector_class) if check.problem)


def test_an_honest_detector_has_no_problem():
    assert problems(Honest) == {}


def test_missing_attributes_end_the_checks():
    class Bare:
        def evaluate(self, view):
            return ()

    assert list(problems(Bare)) == ["declares what the contract asks for"]


class Computes(Honest):
    def __init__(self, limit_w=300.0):
        self.limit_w = limit_w * 2


class Remembers(Honest):
    def __init__(self, limit_w=300.0):
        self.limit_w = limit_w
        self.seen = []


class Demands(Honest):
    def __init__(self, limit_w):
        self.limit_w = limit_w


class Anything(Honest):
    def __init__(self, **limits):
        vars(self).update(limits)


@pytest.mark.parametrize("detector_class", [Computes, Remembers, Demands, Anything])
def test_parameters_that_are_not_only_stored(detector_class):
    assert list(problems(detector_class)) == ["stores its parameters and does nothing else"]


def test_a_sure_claim_in_the_dark():
    class Bold(Honest):
        def evaluate(self, view):
            for job in view.jobs:
                yield self.claim(view, job, [view.now - 3600, view.now, view.now])

    assert first_problem(Bold).name.startswith("claims nothing for sure: ")


def test_a_claim_surer_than_its_window():
    class Loud(Honest):
        def evaluate(self, view):
            for finding in super().evaluate(view):
                yield finding._replace(confidence=Confidence.ESTABLISHED)

    check = first_problem(Loud)
    assert check.name == "answers validly: one sample"
    assert "allows hypothesis" in check.problem


def test_a_crash_names_the_scene():
    class Crashes(Honest):
        def evaluate(self, view):
            return [self.claim(view, job, job.table(self.needs, 60).times) for job in view.jobs]

    check = first_problem(Crashes)
    assert check.name == "claims nothing for sure: every needed field missing"
    assert "IndexError" in check.problem


def test_answers_that_change_from_call_to_call():
    counter = itertools.count()

    class Moody(Honest):
        def evaluate(self, view):
            for finding in super().evaluate(view):
                yield finding._replace(summary=f"number {next(counter)}")

    assert first_problem(Moody).name.startswith("answers the same twice: ")


def test_state_between_calls():
    class Keeps(Honest):
        def evaluate(self, view):
            self.last = view.now
            return super().evaluate(view)

    assert first_problem(Keeps).name.startswith("changes nothing: ")


def test_a_foreign_subject():
    class Lost(Honest):
        def evaluate(self, view):
            for finding in super().evaluate(view):
                yield finding._replace(subject="job:666")

    check = first_problem(Lost)
    assert check.name == "answers validly: one sample"
    assert "is not in view" in check.problem
