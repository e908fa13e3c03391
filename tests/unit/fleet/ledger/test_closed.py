"""Runs that have ended are told one by one, also when nothing can correct them any more."""

from __future__ import annotations

from gpumon.fleet.ledger import runs
from gpumon.fleet.ledger.ledger import Ledger
from tests.unit.fleet.ledger_world import START, claim, run, view

LATER = START + 600 + 3 * runs.CORRECTED_S


def test_a_run_is_told_by_itself_long_after_it_ended():
    """Ten minutes of two GPUs, of which one was never used; asked for three hours later."""
    ledger, job = Ledger(), view("7", ["a", "b"])
    unused = claim("partial_gpus_idle", "job:7", START, START + 600, gpus=("b",), share=1)
    run(ledger, START, START + 599, [job], ("a", "b"))
    run(ledger, START + 600, START + 600, [job], ("a", "b"), findings=(unused,))
    totals = run(ledger, START + 601, LATER, [], ("a", "b"), step=60.0)
    assert totals.job("7") is None
    told = totals.run("7", START, START + 600)
    assert told is not None
    assert told.waste_s == 600
    assert told.useful_s == 600
    assert totals.total().waste_s == told.waste_s
    assert totals.run("8", START, START + 600) is None


def test_runs_of_one_number_are_told_apart():
    """Requeued: two minutes on one GPU, then five on two."""
    ledger = Ledger()
    first, again = START + 120, START + 180
    run(ledger, START, first, [view("7", ["a"])])
    run(ledger, first + 1, again - 1, [])
    run(ledger, again, again + 300, [view("7", ["a", "b"], start_at=again)], ("a", "b"))
    totals = run(ledger, again + 301, LATER, [], ("a", "b"), step=60.0)
    early, late = totals.run("7", START, first), totals.run("7", again, again + 300)
    assert early is not None
    assert late is not None
    assert (early.allocated_s, late.allocated_s) == (120, 600)
    both = totals.run("7", None, None)
    assert both is not None
    assert both.allocated_s == 720


def test_of_too_many_ended_runs_the_first_are_told_no_more(monkeypatch):
    monkeypatch.setattr(runs, "MOST_CLOSED", 2)
    ledger = Ledger()
    for number in range(3):
        at = START + 100 * number
        run(ledger, at, at + 60, [view(str(number), ["a"], start_at=at)])
        run(ledger, at + 61, at + 99, [])
    totals = run(ledger, START + 300, LATER, [], step=60.0)
    told = [totals.run(str(number), None, None) is not None for number in range(3)]
    assert told == [False, True, True]
    assert totals.total().allocated_s == 180
