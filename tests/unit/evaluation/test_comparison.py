"""gpumon and baselines beside the same labels."""

from __future__ import annotations

import pytest

from gpumon.evaluation.baselines.observer import Stated
from gpumon.evaluation.baselines.rules import BASELINES, IDLE
from gpumon.evaluation.comparison import Comparison
from gpumon.report.document.scoreboard import scoreboard_document
from gpumon.report.pages.scoreboard import scoreboard_text
from tests.unit.evaluation.test_events import claim, unsure
from tests.unit.evaluation.test_scoreboard import LOOKED_FOR, account, fault, healthy

LABELS = [fault(0, "idle_held", lost_s=10_000.0), fault(1, "hang", lost_s=5_000.0), healthy(2)]
JOBS = frozenset({"0", "1", "2"})


def idle(job, lost_s):
    return unsure(f"job:{job}", *IDLE, lost_s=lost_s)


def compared(told, own=()):
    """Scores of a recording of which baselines say this; those that are not named abstain."""
    comparison = Comparison(LOOKED_FOR)
    stated = {name: told.get(name, Stated((), frozenset())) for name in BASELINES}
    comparison.add("one", account(own, {}), stated, LABELS)
    return comparison


def documented(told, own=()):
    comparison = compared(told, own)
    return scoreboard_document(comparison.scores(), ["one"], comparison.baselines())


def test_baselines_are_scored_by_the_same_labels():
    told = documented(
        {"zero_60": Stated((idle(0, 8_000.0), idle(2, 3_600.0)), JOBS)},
        own=[claim("idle_held", "job:0")],
    )
    zero = told["baselines"]["zero_60"]
    assert zero["claims_classes"] == list(IDLE)
    assert (zero["jobs"], zero["jobs_judged"]) == (10, 3)
    # One of two claims is true, and of the two labelled classes it may claim one.
    assert zero["classes"]["idle_held"]["precision"] == 0.5
    assert zero["classes"]["idle_held"]["recall"] == 1.0
    assert zero["macro_f1_of_its_classes"] == pytest.approx(2 / 3, abs=1e-4)
    assert zero["macro_f1"] == pytest.approx(1 / 3, abs=1e-4)
    assert (zero["benign"], zero["benign_flagged_ratio"]) == (1, 1.0)
    assert zero["false_alarms_per_1000_gpu_days"] == 40.0
    assert zero["delay_s"]["p50"] == 160.0
    assert zero["gpu_hours_error_ratio"] == pytest.approx((8_000 - 15_000) / 15_000, abs=1e-4)
    assert zero["wasted_error_ratio"] == zero["gpu_hours_error_ratio"]
    assert zero["classes"]["idle_held"]["gpu_hours_error_ratio"] == -0.2
    assert zero["benign_charged_gpu_hours"] == 1.0
    # Nothing of gpumon's looks for hangs here.
    assert told["macro_f1_of_its_classes"] == 1.0
    assert (told["macro_f1"], told["false_alarms"], told["benign_flagged"]) == (0.5, 0, 0)


def test_who_says_nothing_of_loss_has_no_hours():
    spread = documented({"mean_1_sigma": Stated((claim("straggler", "job:1"),), JOBS)})
    told = spread["baselines"]["mean_1_sigma"]
    assert told["macro_f1"] == 0.0
    assert told["macro_f1_of_its_classes"] is None
    for key in ("gpu_hours_error_ratio", "wasted_error_ratio", "benign_charged_gpu_hours"):
        assert told[key] is None
    assert told["classes"]["hang"]["gpu_hours_error_ratio"] is None


def test_who_could_judge_no_job_abstains_and_is_not_scored_as_0():
    comparison = compared({"zero_60": Stated((idle(0, 8_000.0),), JOBS)})
    scores, baselines = comparison.scores(), comparison.baselines()
    stall = scoreboard_document(scores, ["one"], baselines)["baselines"]["three_symptom_stall"]
    assert stall.pop("claims_classes") == ["hang"]
    assert (stall.pop("jobs"), stall.pop("jobs_judged"), stall.pop("classes")) == (10, 0, {})
    assert "macro_f1" in stall
    assert set(stall.values()) == {None}
    text = scoreboard_text(scores, baselines)
    assert "three_symptom_stall abstains" in text
    assert "zero_60 abstains" not in text


def test_labels_of_jobs_that_it_could_not_judge_are_told_apart():
    told = documented({"three_symptom_stall": Stated((), frozenset({"0"}))})
    assert told["baselines"]["three_symptom_stall"]["classes"]["hang"]["abstained"] == 1
    assert told["baselines"]["three_symptom_stall"]["classes"]["idle_held"]["abstained"] == 0
    seen = documented({"three_symptom_stall": Stated((), JOBS)})
    assert seen["baselines"]["three_symptom_stall"]["classes"]["hang"]["abstained"] == 0


def test_the_table_of_baselines_fits_80_columns():
    said = {name: Stated((idle(0, 8_000.0),), JOBS) for name in BASELINES}
    comparison = compared(said)
    text = scoreboard_text(comparison.scores(), comparison.baselines())
    lines = text.splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("baseline"))
    table = lines[start : start + 2 + len(BASELINES)]
    assert [line.split()[0] for line in table[1:]] == ["(gpumon)", *BASELINES]
    assert max(map(len, table)) <= 80
