"""What baselines say over the life of a job: gaps, ends, other GPUs."""

from __future__ import annotations

from gpumon.evaluation.baselines.observer import Observer
from gpumon.evaluation.baselines.rules import BASELINES
from tests.unit.evaluation.baselines.test_rules import (
    AT_REST,
    NODE,
    PERIOD_S,
    SPIN,
    WORK,
    observed,
)
from tests.worlds.tick import AT, job_with_gpus, tick


def test_what_lies_between_pictures_far_apart_was_not_observed():
    observer = Observer()
    view, gpus = job_with_gpus("7", {NODE: 1}, idle=1)
    for second in (0, 60, 7200, 7260):
        observer.take(tick((view,), gpus, at=AT + second, period_s=PERIOD_S))
    assert observer.statements()["zero_60"].claims == ()


def test_claims_stay_when_a_job_ends_and_one_on_other_gpus_begins_anew():
    observer = Observer()
    view, gpus = job_with_gpus("7", {NODE: 1}, idle=1)
    moved, others = job_with_gpus("7", {"gpu02": 1}, idle=1)
    for minute in range(120):
        now, its = (view, gpus) if minute < 61 else (moved, others)
        shown = () if minute == 119 else (now,)
        observer.take(tick(shown, its, at=AT + 60 * minute, period_s=PERIOD_S))
    (claim,) = observer.statements()["zero_60"].claims
    assert claim.end == AT + 60 * 60


def test_every_baseline_says_what_it_may_claim():
    statements = observed((70, AT_REST), (30, [WORK, SPIN]), (30, SPIN))
    assert list(statements) == list(BASELINES)
    for name, statement in statements.items():
        for claim in statement.claims:
            assert set(claim.classes) <= set(BASELINES[name].classes)


def test_of_no_picture_nothing_is_said():
    assert all(one == ((), frozenset()) for one in Observer().statements().values())
