"""What hypotheses charge, and what becomes of it when they are confirmed, wrong or over."""

from __future__ import annotations

import pytest

from gpumon.fleet.ledger.ledger import Ledger
from tests.unit.fleet.ledger_world import START, claim, gpu, run, tick, view


def test_a_hypothesis_is_suspected_and_a_request_charges_nothing():
    ledger, job = Ledger(), view("1", ["a"])
    found = (
        claim("idle_tail", "job:1", START, START + 50, share=1, sure=False),
        claim("overasked", "job:1", START, START + 50, share=1),
        claim("telemetry_lost", "gpu:a", START, START + 50, share=1),
    )
    run(ledger, START, START + 59, [job])
    total = run(ledger, START + 60, START + 60, [job], findings=found).total()
    assert total.wasted_s == {}
    assert total.suspected_s == {"idle_tail": pytest.approx(50)}
    assert total.useful_s == pytest.approx(10)


def test_a_hypothesis_that_is_confirmed_is_wasted_since_its_onset():
    ledger, job = Ledger(), view("1", ["a"])
    run(ledger, START, START + 100, [job], sm=0.0, util=0.0)
    guess = claim("idle_held", "job:1", START + 20, START + 100, share=1, sure=False)
    total = run(ledger, START + 101, START + 160, [job], sm=0, util=0, findings=(guess,)).total()
    assert (total.suspected_s, total.wasted_s) == ({"idle_held": pytest.approx(80)}, {})
    sure = claim("idle_held", "job:1", START + 20, START + 160, share=1)
    totals = run(ledger, START + 161, START + 161, [job], sm=0, util=0, findings=(sure,))
    total = totals.total()
    assert (total.suspected_s, total.wasted_s) == ({}, {"idle_held": pytest.approx(140)})
    assert totals.charged[sure.identity] == pytest.approx((140, 0))


def test_what_was_doubtful_before_the_window_that_confirms_stays_suspected():
    """GPUs rest beside an upload; when that is over, they rest on."""
    ledger, job = Ledger(), view("1", ["a"])
    run(ledger, START, START + 800, [job], sm=0.0, util=0.0)
    guess = claim("idle_tail", "job:1", START, START + 800, share=1, sure=False)
    run(ledger, START + 801, START + 1500, [job], sm=0, util=0, findings=(guess,))
    sure = claim("idle_tail", "job:1", START + 700, START + 1500, share=1, onset=START)
    total = run(ledger, START + 1501, START + 1501, [job], sm=0, util=0, findings=(sure,)).total()
    assert total.suspected_s == {"idle_tail": pytest.approx(700)}
    assert total.wasted_s == {"idle_tail": pytest.approx(800)}


def test_a_guess_that_vanishes_while_its_job_is_in_view_is_taken_back():
    ledger, job = Ledger(), view("1", ["a"])
    run(ledger, START, START + 100, [job])
    guess = claim("idle_held", "job:1", START + 20, START + 100, share=1, sure=False)
    run(ledger, START + 101, START + 101, [job], findings=(guess,))
    total = run(ledger, START + 102, START + 110, [job]).total()
    assert (total.suspected_s, total.useful_s) == ({}, pytest.approx(110))


def test_a_guess_whose_job_ended_or_that_was_cleared_stays_suspected():
    guess = claim("idle_held", "job:1", START + 20, START + 100, share=1, sure=False)
    over = view("1", ["a"], state="COMPLETED", end_at=START + 101)
    for jobs, cleared in (([over], ()), ([view("1", ["a"])], (guess._replace(cleared_at=1.0),))):
        ledger = Ledger()
        run(ledger, START, START + 100, [view("1", ["a"])])
        run(ledger, START + 101, START + 101, [view("1", ["a"])], findings=(guess,))
        here = [gpu("a", START + 102)]
        ledger.take(tick(START + 102, jobs, here, cleared=cleared))
        assert ledger.summary().total().suspected_s == {"idle_held": pytest.approx(80)}


def test_a_guess_that_was_cleared_stays_suspected_when_it_is_shown_no_more():
    """A start that was slow, perhaps: the job runs on long after that is history."""
    ledger, job = Ledger(), view("1", ["a"])
    guess = claim("slow_startup", "job:1", START + 20, START + 700, share=1, sure=False)
    run(ledger, START, START + 700, [job], sm=0.0, util=0.0)
    run(ledger, START + 701, START + 1300, [job], findings=(guess,))
    cleared = guess._replace(cleared_at=START + 1300.0)
    for at in range(1301, 4901, 30):
        here = [gpu("a", START + at)]
        ledger.take(tick(START + at, [job], here, cleared=(cleared,)))
    total = run(ledger, START + 4910, START + 4990, [job], step=10.0).total()
    assert total.suspected_s == {"slow_startup": pytest.approx(680)}
