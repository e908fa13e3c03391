"""The timeline of one GPU against a ledger of single seconds that is obviously right."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumon.fleet.ledger.accounts import OpenAccount
from gpumon.fleet.ledger.timeline import Charge, Timeline
from gpumon.model.records.ledger import PRODUCTIVE, UNOBSERVED
from tests.worlds import tick

CHARGES = (
    Charge("gpu_fault", (0, 0), 1.0, takes_unobserved=True),
    Charge("hang", (1, 1), 1.0),
    Charge("idle_tail", (2, 2), 1.0),
    Charge("throttled", (3, 3), 0.25),
    Charge("input_bound", (4, 4), 0.5),
)

SPAN = 60

DOINGS = st.lists(
    st.one_of(
        st.tuples(st.just("see"), st.booleans(), st.integers(0, 4)),
        st.tuples(st.just("charge"), st.integers(0, SPAN), st.integers(0, SPAN), st.integers(0, 4)),
        st.tuples(st.just("weigh"), st.sampled_from([1.0, 0.5, 0.25]), st.integers(0, SPAN)),
        st.tuples(st.just("pass"), st.integers(1, 9)),
    ),
    max_size=25,
)


class Seconds:
    """The same books, second by second."""

    def __init__(self):
        self.seen = []
        self.weights = []
        self.charges = []

    def pass_(self, is_seen, weight):
        self.seen.append(is_seen)
        self.weights.append(weight)
        self.charges.append(None)

    def charge(self, start, end, charge):
        for second in range(max(0, start), min(end, len(self.seen))):
            before = self.charges[second]
            if not self.seen[second] and not charge.takes_unobserved:
                continue
            if before is None or charge.rank < before.rank:
                self.charges[second] = charge

    def totals(self):
        found = {}
        for seen, weight, charge in zip(self.seen, self.weights, self.charges, strict=True):
            lost = charge.share * weight if charge else 0.0
            state = PRODUCTIVE if seen else UNOBSERVED
            found[state] = found.get(state, 0.0) + weight - lost
            if charge:
                found[charge.finding_class] = found.get(charge.finding_class, 0.0) + lost
        return found


def opened(start=0.0):
    account = OpenAccount(tick.job("1"), "H100", start, 0.0)
    return account, Timeline(start, account)


def seconds_of(account, at):
    return {key: amount for key, amount in account.snapshot().seconds_at(at).items() if amount}


@settings(max_examples=400, deadline=None)
@given(DOINGS, st.integers(0, SPAN))
def test_every_second_is_where_a_ledger_of_single_seconds_has_it(doings, end):
    account, timeline = opened()
    seconds, now, is_seen, weight = Seconds(), 0, False, 1.0
    for doing, *what in doings:
        if doing == "pass":
            for _ in range(what[0]):
                seconds.pass_(is_seen, weight)
            now += what[0]
        elif doing == "see":
            is_seen = what[0]
            timeline.observe(float(now), is_observed=is_seen)
        elif doing == "charge":
            start, length, kind = what
            seconds.charge(start, min(now, start + length), CHARGES[kind])
            timeline.charge(float(start), float(min(now, start + length)), CHARGES[kind])
        else:
            weight, since = what
            timeline.weigh(weight, float(min(since, now)))
            for second in range(min(since, now), now):
                seconds.weights[second] = weight
        found = account.snapshot().seconds_at(float(now))
        assert sum(found.values()) == pytest.approx(sum(seconds.weights), abs=1e-6)
    expected = {key: amount for key, amount in seconds.totals().items() if amount > 1e-9}
    found = {k: v for k, v in seconds_of(account, float(now)).items() if v > 1e-9}
    assert found == pytest.approx(expected, abs=1e-6)
    mine = {key: amount for key, amount in timeline.until(float(now)).items() if amount > 1e-9}
    assert mine == pytest.approx(expected, abs=1e-6)
    timeline.end(float(min(end, now)))
    for row in (seconds.seen, seconds.weights, seconds.charges):
        del row[min(end, now) :]
    expected = {key: amount for key, amount in seconds.totals().items() if amount > 1e-9}
    found = {k: v for k, v in seconds_of(account, 9999.0).items() if v > 1e-9}
    assert found == pytest.approx(expected, abs=1e-6)


def test_the_graver_class_takes_over_a_second_and_keeps_it():
    account, timeline = opened()
    timeline.observe(0.0, is_observed=True)
    timeline.charge(10.0, 50.0, CHARGES[4])
    timeline.charge(20.0, 30.0, CHARGES[2])
    timeline.charge(10.0, 50.0, CHARGES[3])
    found = seconds_of(account, 100.0)
    assert found == {
        PRODUCTIVE: pytest.approx(100 - 10 - 30 * 0.25),
        "idle_tail": pytest.approx(10),
        "throttled": pytest.approx(30 * 0.25),
    }


def test_only_a_fault_claims_what_was_not_observed():
    account, timeline = opened()
    timeline.charge(0.0, 10.0, CHARGES[1])
    assert seconds_of(account, 10.0) == {UNOBSERVED: 10.0}
    timeline.charge(4.0, 10.0, CHARGES[0])
    assert seconds_of(account, 10.0) == {UNOBSERVED: 4.0, "gpu_fault": 6.0}


def test_a_claim_that_grows_stays_one_stretch():
    _, timeline = opened()
    timeline.observe(0.0, is_observed=True)
    for second in range(1, 500):
        timeline.charge(second - 1.0, float(second), CHARGES[4])
    assert len(timeline._stretches) == 2


def test_what_flaps_keeps_its_books_and_bounds_its_memory():
    account, timeline = opened()
    for second in range(1, 1000):
        timeline.observe(float(second), is_observed=second % 2 == 1)
    assert len(timeline._stretches) <= 65
    found = seconds_of(account, 1000.0)
    assert found == {UNOBSERVED: pytest.approx(500), PRODUCTIVE: pytest.approx(500)}


def test_a_timeline_that_moves_takes_everything_with_it():
    first, timeline = opened()
    timeline.observe(5.0, is_observed=True)
    second = OpenAccount(tick.job("1"), "B200", 0.0, 0.0)
    timeline.move(second)
    assert seconds_of(first, 20.0) == {}
    assert seconds_of(second, 20.0) == {UNOBSERVED: 5.0, PRODUCTIVE: 15.0}
