"""Scores, hours and intervals, against what is counted by hand."""

from __future__ import annotations

from math import isnan

import pytest

from gpumon.evaluation.events import Matcher
from gpumon.evaluation.hours import lost_seconds
from gpumon.evaluation.scoreboard import Board
from gpumon.evaluation.witness import Account, Charge, Hold
from gpumon.model.records.label import HEALTHY, Label
from gpumon.report.document.scoreboard import scoreboard_document
from gpumon.report.pages.scoreboard import scoreboard_text
from tests.unit.evaluation.test_events import claim

LOOKED_FOR = {"rule": frozenset({"idle_held", "throttled"})}
SPAN_S = 7200.0
GPU_DAYS = 25.0


def account(claims, charges, jobs=10, gpus=4):
    holds = {
        f"{n}": Hold(f"{n}", 0.0, SPAN_S, frozenset({f"G{n}"}), frozenset({f"n{n}"}), gpus)
        for n in range(jobs)
    }
    gpu_seconds = GPU_DAYS * 86400.0
    return Account(0.0, SPAN_S, 10.0, tuple(claims), holds, {}, charges, gpu_seconds, (), ())


def board_of(labels, claims, charges=None):
    board = Board()
    one = account(claims, charges or {})
    board.add("one", one, Matcher(one, labels, LOOKED_FOR).events())
    return board.scores()


def fault(job, kind="idle_held", start=0.0, end=SPAN_S, lost_s=None):
    return Label(f"job:{job}", kind, start, end, lost_s)


def healthy(job):
    return Label(f"job:{job}", HEALTHY, 0.0, SPAN_S)


def test_precision_recall_and_delay_of_every_step():
    labels = [fault(0), fault(1), fault(2, start=50.0), fault(3), healthy(4), healthy(5)]
    claims = [
        claim("idle_held", "job:0", rank=2),
        claim("idle_held", "job:1", rank=1),
        claim("idle_held", "job:2", rank=0),
        claim("idle_held", "job:4", rank=1),
        claim("throttled", "job:5", rank=0),
    ]
    scores = board_of(labels, claims)
    idle = scores.classes["idle_held"]
    assert [(c.labels, c.found, c.claims, c.true_claims) for c in idle.steps] == [
        (4, 3, 4, 3), (4, 2, 3, 2), (4, 1, 1, 1),
    ]  # fmt: skip
    guess, loud, sure = idle.steps
    assert (guess.precision, guess.recall) == (0.75, 0.75)
    assert loud.precision == pytest.approx(2 / 3)
    assert loud.f1 == pytest.approx(2 * (2 / 3) * 0.5 / (2 / 3 + 0.5))
    assert (sure.precision, sure.recall) == (1.0, 0.25)
    # A class that was claimed and never true counts in precision, not among the labelled ones.
    assert isnan(scores.classes["throttled"].steps[0].f1)
    assert scores.macro_f1[1].value == pytest.approx(loud.f1)
    assert idle.delays_s == (160.0, 160.0)
    assert (scores.benign, scores.benign_flagged, scores.false_alarms) == (2, 1, 1)
    assert scores.confusion == {
        "idle_held": {"nothing": 2, "idle_held": 2},
        "healthy": {"idle_held": 1},
    }


def test_calibration_is_the_share_of_true_claims_by_the_step_that_they_came_to():
    labels = [fault(0), fault(1), fault(2), healthy(3), healthy(4)]
    claims = [
        *(claim("idle_held", f"job:{n}", rank=rank) for n, rank in enumerate((0, 1, 1, 1))),
        claim("idle_held", "job:4", rank=0),
        # Of whom the labels say nothing, nothing is known.
        claim("idle_held", "job:9", rank=2),
    ]
    scores = board_of(labels, claims)
    guess, loud, sure = scores.calibration
    assert (guess.true_ratio.value, guess.claims) == (0.5, 2)
    assert (loud.true_ratio.value, loud.claims) == (pytest.approx(2 / 3), 3)
    assert loud.true_ratio.low < 2 / 3 < loud.true_ratio.high <= 1.0
    assert sure.claims == 0
    shown = scoreboard_document(scores, ["one"])["calibration"]
    assert shown["hypothesis"] == {"true_ratio": 0.5, "low": 0.0, "high": 1.0, "n": 2}
    assert shown["established"] == {"true_ratio": None, "low": None, "high": None, "n": 0}
    assert "supported   0.67 [" in scoreboard_text(scores)


def test_a_class_that_nobody_looks_for_counts_in_the_mean():
    scores = board_of([fault(0), fault(1, "hang")], [claim("idle_held", "job:0")])
    assert scores.macro_f1[1].value == 0.5
    assert not scores.classes["hang"].is_looked_for
    assert "not looked for" in scoreboard_text(scores)


def test_hours_are_those_of_jobs_whose_loss_is_known():
    labels = [
        fault(0, lost_s=10_000.0),
        fault(1, "throttled", lost_s=2_000.0),
        fault(2, "throttled"),
        healthy(3),
    ]
    charges = {
        "0": Charge({"idle_held": 8_000.0}, {"idle_held": 1_000.0}),
        "1": Charge({"throttled": 1_000.0, "idle_held": 500.0}, {}),
        "2": Charge({"throttled": 9_999.0}, {}),
        "3": Charge({"idle_held": 1_800.0}, {"throttled": 1_800.0}),
    }
    claims = [claim("idle_held", "job:0", lost_s=8_900.0), claim("throttled", "job:2", lost_s=1e6)]
    scores = board_of(labels, claims, charges)
    assert scores.hours_error.value == pytest.approx((10_500 - 12_000) / 12_000)
    assert scores.wasted_error.value == pytest.approx((9_500 - 12_000) / 12_000)
    assert scores.jobs_left_out == 1
    assert scores.benign_charged_s == 3_600.0
    # Of job 0 100 s less than charged were claimed, of jobs 1 and 3 nothing was, and a period of
    # each of their four GPUs is nobody's fault.
    assert scores.excess_s == pytest.approx(60 + (960 + 460) + (1_760 + 1_760))
    document = scoreboard_document(scores, ["one"])
    assert document["gpu_hours_error_ratio"] == -0.125
    assert document["benign_charged_gpu_hours"] == 1.0
    assert document["classes"]["idle_held"]["gpu_hours_error_ratio"] == -0.05
    assert document["classes"]["idle_held"]["wasted_error_ratio"] == -0.15
    assert document["classes"]["throttled"]["gpu_hours_error_ratio"] == -0.5


@pytest.mark.parametrize(
    ("label", "lost_s"),
    [
        (fault(0, lost_s=600.0), 600.0),
        # What lies outside of the recording nobody could see.
        (fault(0, start=SPAN_S - 100.0, end=SPAN_S + 300.0, lost_s=800.0), 200.0),
        (fault(0, start=-100.0, end=100.0), 400.0),
        (fault(0, "hang"), 4 * SPAN_S),
        (Label("gpu:G0", "idle_held", 0.0, 10.0, None, ("gpu:G1", "gpu:G2")), 30.0),
        (fault(0, "throttled"), None),
        (fault(0, "partial_gpus_idle"), None),
        (fault(77), None),
        (fault(0, "memory_leak"), 0.0),
    ],
)
def test_what_a_label_says_is_lost(label, lost_s):
    assert lost_seconds(account((), {}), label) == lost_s


def test_intervals_come_from_jobs_and_are_the_same_every_time():
    labels = [fault(n) for n in range(8)]
    claims = [claim("idle_held", f"job:{n}") for n in range(4)]
    one, other = board_of(labels, claims).macro_f1[1], board_of(labels, claims).macro_f1[1]
    assert one == other
    assert one.value == pytest.approx(2 / 3)
    # Between two and six of eight jobs are drawn that were found, in 95 of 100 draws and more.
    assert 0.2 < one.low < 0.5 < 0.75 < one.high < 0.95


def test_recordings_are_added_and_their_jobs_kept_apart():
    board = Board()
    for name, labels in (("a", [fault(0)]), ("b", [healthy(0)])):
        one = account([claim("idle_held", "job:0")], {})
        board.add(name, one, Matcher(one, labels, LOOKED_FOR).events())
    scores = board.scores()
    assert (scores.benign, scores.benign_flagged) == (1, 1)
    assert scores.classes["idle_held"].steps[1].precision == 0.5
    assert scores.gpu_days == 2 * GPU_DAYS
    assert scoreboard_document(scores, ["a", "b"])["false_alarms_per_1000_gpu_days"] == 20.0


def test_of_nothing_nothing_is_defined():
    scores = board_of([], [])
    document = scoreboard_document(scores, [])
    for key in ("macro_f1", "benign_flagged_ratio", "gpu_hours_error_ratio", "wasted_error_ratio"):
        assert document[key] is None
    assert document["delay_s"] == {"p50": None, "p90": None}
    assert document["steps"]["supported"]["precision"] is None
    assert scoreboard_text(scores).startswith("class")
