"""What is noted down of pictures: claims with their lives, who held what, what was observed."""

from __future__ import annotations

from math import inf

import pytest

from gpumon.evaluation.witness import Witness
from gpumon.model.finding import Confidence, Window
from tests.worlds.tick import AT, finding, fleet

HYPOTHESIS, SUPPORTED, ESTABLISHED = Confidence


def finding_at(second, confidence=SUPPORTED, first=100.0, **changes):
    window = Window(AT, AT + second, 10)
    given = {"confidence": confidence, "window": window, "first_seen": AT + first, "onset": AT}
    return finding("job:48214", **{**given, "gpu_seconds": 2.0 * second, **changes})


def account_of(*pictures):
    """What is noted of pictures: seconds, findings, cleared ones."""
    witness = Witness()
    for second, findings, cleared in pictures:
        witness.take(
            fleet(at=AT + second, period_s=100.0, findings=findings, cleared=cleared, coverage=())
        )
    return witness.account()


def test_a_claim_knows_when_it_was_as_sure_and_when_it_cleared():
    account = account_of(
        (100, (finding_at(100, HYPOTHESIS),), ()),
        (200, (finding_at(200),), ()),
        (300, (finding_at(300, ESTABLISHED),), ()),
        (400, (finding_at(400, ESTABLISHED),), ()),
        (500, (), (finding_at(400, ESTABLISHED, cleared_at=AT + 450.0),)),
        (600, (), (finding_at(400, ESTABLISHED, cleared_at=AT + 450.0),)),
    )
    (claim,) = account.claims
    assert claim.reached == (AT + 100, AT + 200, AT + 300)
    assert (claim.onset, claim.end, claim.gpu_seconds) == (AT, AT + 450, 800.0)
    assert claim.rank == 2
    assert (account.start, account.end) == (AT + 100, AT + 600)


def test_what_comes_again_is_another_claim_and_what_stands_lasts_to_the_end():
    account = account_of(
        (100, (finding_at(100),), ()),
        (200, (), (finding_at(100, cleared_at=AT + 150.0),)),
        (
            300,
            (finding_at(300, first=300.0, onset=AT + 250.0),),
            (finding_at(100, cleared_at=AT + 150.0),),
        ),
    )
    first, second = account.claims
    assert (first.end, second.end) == (AT + 150, AT + 300)
    assert second.reached == (AT + 300, AT + 300, inf)


def test_a_guess_that_goes_without_a_word_was_told_until_then():
    account = account_of(
        (100, (finding_at(100, HYPOTHESIS),), ()),
        (200, (finding_at(200, HYPOTHESIS),), ()),
        (300, (), ()),
        (900, (), ()),
    )
    (claim,) = account.claims
    assert (claim.end, claim.rank) == (AT + 200, 0)


def test_a_window_that_begins_after_the_onset_tells_the_share_of_all_the_time():
    late = finding_at(1000, window=Window(AT + 600, AT + 1000, 10), gpu_seconds=300.0)
    (claim,) = account_of((1000, (late,), ())).claims
    assert claim.gpu_seconds == pytest.approx(750.0)


def test_what_a_fault_has_cost_stays_when_nobody_waits_for_it_any_more():
    account = account_of(
        (100, (finding_at(100),), ()),
        (700, (finding_at(700),), ()),
        (800, (finding_at(800, gpu_seconds=0.0),), ()),
        (900, (finding_at(900, gpu_seconds=None),), ()),
    )
    (claim,) = account.claims
    assert claim.gpu_seconds == 1400.0


def test_time_between_pictures_far_apart_was_not_observed():
    near = account_of((0, (), ()), (100, (), ()), (200, (), ()))
    far = account_of((0, (), ()), (100, (), ()), (5000, (), ()))
    heard = sum(not gpu.is_stale for gpu in fleet().gpus.values())
    assert near.gpu_seconds == 200.0 * heard
    assert far.gpu_seconds == 400.0 * heard


def test_jobs_hold_what_they_ever_held():
    account = account_of((0, (), ()), (100, (), ()))
    for view in fleet().jobs:
        if view.job.state == "RUNNING" and view.gpu_uuids:
            hold = account.holds[view.job.job_id]
            assert hold.gpus == set(view.gpu_uuids)
            assert hold.nodes == set(view.job.nodes)
            assert hold.gpu_count == len(view.gpu_uuids) + view.gpus_unknown
            assert (hold.start, hold.end) == (AT, AT + 100)
    assert account.holds


def test_without_a_picture_there_is_nothing():
    assert Witness().account() is None
