"""How many GPUs are being lost now, and that the books charge at that pace."""

from __future__ import annotations

import pytest

from gpumon.fleet.ledger.ledger import Ledger
from gpumon.model.records.ledger import Losing
from tests.unit.fleet.ledger_world import START, claim, run, view

ALL = ("a", "b", "c", "d")


def test_the_books_grow_at_the_rates_that_they_tell():
    """Three claims on two jobs, whole and in part, sure and guessed: each hour adds its rate."""
    jobs = [view("1", ["a", "b", "c"]), view("2", ["d"])]

    def found(end: float):
        return (
            claim("hang", "job:1", START, end, share=1, gpus=("a",)),
            claim("input_bound", "job:1", START, end, gpus=("a", "b", "c"), share=0.3),
            claim("small_batch", "job:1", START, end, gpus=("b", "c"), share=0.5, sure=False),
            claim("comm_bound", "job:2", START, end, share=0.25, sure=False),
        )

    ledger = Ledger()
    run(ledger, START, START + 600, jobs, ALL)
    before = run(ledger, START + 601, START + 601, jobs, ALL, findings=found(START + 601))
    run(ledger, START + 602, START + 700, jobs, ALL, findings=found(START + 601))
    after = run(ledger, START + 701, START + 701, jobs, ALL, findings=found(START + 701))
    for identity, rate in before.losing.by_finding.items():
        grown = [b - a for a, b in zip(before.charged[identity], after.charged[identity],
                                       strict=True)]  # fmt: skip
        assert grown == pytest.approx([100 * gpus for gpus in rate])
    assert before.losing.by_job["1"] == pytest.approx((1 + 2 * 0.3, 2 * 0.7 * 0.5))
    assert before.losing.by_job["2"] == pytest.approx((0, 0.25))
    assert before.losing.total() == pytest.approx((1.6, 0.95))


def test_what_is_cleared_or_cannot_be_judged_loses_nothing_now():
    job, ledger = view("1", ["a", "b"]), Ledger()
    sure = claim("idle_held", "job:1", START, START + 600, share=2)
    run(ledger, START, START + 600, [job])
    standing = run(ledger, START + 601, START + 601, [job], findings=(sure,))
    assert standing.losing.by_job == {"1": Losing(2.0, 0.0)}
    unknown = sure._replace(unknown_since=START + 601.0)
    assert not run(ledger, START + 602, START + 602, [job], findings=(unknown,)).losing.by_job
    cleared = sure._replace(cleared_at=START + 602.0)
    assert not run(ledger, START + 603, START + 603, [job], findings=(cleared,)).losing.by_finding


def test_a_gpu_that_two_jobs_hold_is_lost_by_each_in_its_part():
    jobs, ledger = [view("1", ["a"]), view("2", ["a"])], Ledger()
    fault = claim("throttled", "gpu:a", START, START + 600, share=0.4)
    run(ledger, START, START + 600, jobs, ALL)
    totals = run(ledger, START + 601, START + 601, jobs, ALL, findings=(fault,))
    assert totals.losing.by_job == {"1": pytest.approx((0.2, 0)), "2": pytest.approx((0.2, 0))}
    assert totals.losing.total() == pytest.approx((0.4, 0))


def test_who_does_not_hold_the_gpu_at_fault_loses_nothing_by_it():
    jobs, ledger = [view("1", ["a", "b"]), view("2", ["c"])], Ledger()
    fault = claim("throttled", "gpu:a", START, START + 600, share=0.5, gpus=("a", "b", "c"))
    run(ledger, START, START + 600, jobs, ALL)
    totals = run(ledger, START + 601, START + 601, jobs, ALL, findings=(fault,))
    assert totals.losing.by_job == {"1": pytest.approx((1.0, 0))}
