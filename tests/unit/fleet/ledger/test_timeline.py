"""The timeline of one GPU against a ledger of single seconds that is obviously right."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumon.fleet.ledger.accounts import ClaimSums, OpenAccount
from gpumon.fleet.ledger.timeline import Charge, Timeline
from gpumon.model.records.ledger import STATES, UNEXPLAINED, UNOBSERVED, USEFUL
from tests.worlds import tick


def charge(number, finding_class, place, share, **more):
    return Charge(number, finding_class, (place, place), share, **more)


CHARGES = (
    charge(1, "gpu_fault", 0, 1.0, takes_unobserved=True),
    charge(2, "hang", 1, 0.8),
    charge(3, "idle_tail", 2, 0.95),
    charge(4, "throttled", 3, 0.25),
    charge(5, "throttled", 3, 0.4),
    charge(6, "input_bound", 4, 0.5),
    charge(7, "oversized_gpu", 5, 0.7, is_suspected=True),
    charge(8, "idle_held", 2, 0.3, is_suspected=True),
    charge(9, "input_bound", 4, 0.8, is_suspected=True),
    charge(5, "throttled", 3, 0.6),
)
"""Two of them are what one claim says one time and another."""

SPAN = 60

DOINGS = st.lists(
    st.one_of(
        st.tuples(st.just("see"), st.sampled_from(STATES)),
        st.tuples(
            st.sampled_from(["charge", "withdraw"]),
            st.integers(0, SPAN),
            st.integers(0, SPAN),
            st.integers(0, len(CHARGES) - 1),
        ),
        st.tuples(st.just("weigh"), st.sampled_from([1.0, 0.5, 0.25]), st.integers(0, SPAN)),
        st.tuples(st.just("pass"), st.integers(1, 9)),
    ),
    max_size=25,
)


class Seconds:
    """The same books, second by second."""

    def __init__(self):
        self.states = []
        self.weights = []
        self.charges = []

    def pass_(self, state, weight):
        self.states.append(state)
        self.weights.append(weight)
        self.charges.append({})

    def charge(self, start, end, charge):
        for second in range(start, min(end, len(self.states))):
            self.charges[second][charge.claim] = charge

    def withdraw(self, start, end, charge):
        for second in range(start, min(end, len(self.states))):
            self.charges[second].pop(charge.claim, None)

    def totals(self):
        found = {}
        for state, weight, charges in zip(self.states, self.weights, self.charges, strict=True):
            left = weight
            claimed = {}
            for suspected in (False, True):
                largest = {}
                for one in charges.values():
                    if one.is_suspected is suspected:
                        key = (one.rank, one.finding_class)
                        largest[key] = max(largest.get(key, 0.0), one.share)
                for (rank, name), share in sorted(largest.items()):
                    if state == UNOBSERVED and rank != (0, 0):
                        continue
                    where = "~" + name if suspected else name
                    known = claimed.get(name, 0.0)
                    beyond = max(0.0, (share - known) / (1.0 - known)) if known < 1.0 else 0.0
                    claimed[name] = share
                    found[where] = found.get(where, 0.0) + left * beyond
                    left -= left * beyond
            found[state] = found.get(state, 0.0) + left
        return found


def opened(start=0.0):
    account = OpenAccount(tick.job("1"), "H100", start, 0.0, ClaimSums())
    return account, Timeline(start, account)


def seconds_of(account, at):
    return {key: amount for key, amount in account.snapshot().seconds_at(at).items() if amount}


@settings(max_examples=400, deadline=None)
@given(DOINGS, st.integers(0, SPAN))
def test_every_second_is_where_a_ledger_of_single_seconds_has_it(doings, end):
    account, timeline = opened()
    seconds, now, state, weight = Seconds(), 0, UNOBSERVED, 1.0
    for doing, *what in doings:
        if doing == "pass":
            for _ in range(what[0]):
                seconds.pass_(state, weight)
            now += what[0]
        elif doing == "see":
            state = what[0]
            timeline.observe(float(now), state)
        elif doing in ("charge", "withdraw"):
            start, length, kind = what
            end = min(now, start + length)
            getattr(seconds, doing)(start, end, CHARGES[kind])
            said = CHARGES[kind] if doing == "charge" else CHARGES[kind].claim
            getattr(timeline, doing)(float(start), float(end), said)
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
    for row in (seconds.states, seconds.weights, seconds.charges):
        del row[min(end, now) :]
    expected = {key: amount for key, amount in seconds.totals().items() if amount > 1e-9}
    found = {k: v for k, v in seconds_of(account, 9999.0).items() if v > 1e-9}
    assert found == pytest.approx(expected, abs=1e-6)


def test_shares_combine_over_what_the_graver_class_left():
    account, timeline = opened()
    timeline.observe(0.0, USEFUL)
    timeline.charge(0.0, 200.0, charge(1, "oversized_gpu", 9, 0.6))
    timeline.charge(50.0, 150.0, charge(2, "throttled", 4, 0.1))
    assert seconds_of(account, 200.0) == {
        USEFUL: pytest.approx(100 * 0.4 + 100 * 0.9 * 0.4),
        "throttled": pytest.approx(10),
        "oversized_gpu": pytest.approx(60 + 100 * 0.9 * 0.6),
    }


def test_a_hypothesis_takes_of_what_the_proven_left_however_grave_it_is():
    account, timeline = opened()
    timeline.observe(0.0, UNEXPLAINED)
    timeline.charge(0.0, 40.0, charge(1, "hang", 1, 1.0, is_suspected=True))
    timeline.charge(0.0, 40.0, charge(2, "throttled", 4, 0.25))
    assert seconds_of(account, 40.0) == {
        "throttled": pytest.approx(10),
        "~hang": pytest.approx(30),
    }


def test_of_two_claims_of_one_class_the_larger_counts():
    account, timeline = opened()
    timeline.observe(0.0, USEFUL)
    timeline.charge(0.0, 40.0, charge(1, "throttled", 4, 0.2))
    timeline.charge(0.0, 40.0, charge(2, "throttled", 4, 0.3))
    assert seconds_of(account, 40.0)["throttled"] == pytest.approx(12)
    assert account.claims.of(1).wasted_s == 0
    assert account.claims.of(2).wasted_s == pytest.approx(12)


def test_each_claim_knows_what_it_was_charged_also_after_it_changed():
    account, timeline = opened()
    timeline.observe(0.0, USEFUL)
    timeline.charge(0.0, 40.0, charge(1, "hang", 1, 1.0, is_suspected=True))
    assert account.claims.of(1) == (0, 40)
    timeline.charge(10.0, 40.0, charge(1, "hang", 1, 1.0))
    assert account.claims.of(1) == (30, 10)
    timeline.withdraw(20.0, 100.0, 1)
    assert account.claims.of(1) == (10, 10)


def test_only_a_fault_claims_what_was_not_observed():
    account, timeline = opened()
    timeline.charge(0.0, 10.0, CHARGES[1])
    assert seconds_of(account, 10.0) == {UNOBSERVED: 10.0}
    timeline.charge(4.0, 10.0, CHARGES[0])
    assert seconds_of(account, 10.0) == {UNOBSERVED: 4.0, "gpu_fault": 6.0}


def test_a_claim_that_grows_stays_one_stretch():
    _, timeline = opened()
    timeline.observe(0.0, USEFUL)
    for second in range(1, 500):
        timeline.charge(second - 1.0, float(second), CHARGES[4])
    assert len(timeline._stretches) == 2


def test_what_flaps_keeps_its_books_and_bounds_its_memory():
    account, timeline = opened()
    for second in range(1, 1000):
        timeline.observe(float(second), (USEFUL, UNOBSERVED)[second % 2 == 0])
    assert len(timeline._stretches) <= 64 + 16 + 1
    found = seconds_of(account, 1000.0)
    assert found == {UNOBSERVED: pytest.approx(500), USEFUL: pytest.approx(500)}


@pytest.mark.parametrize("length", [7, 30, 55])
def test_a_claim_that_comes_late_reaches_back_over_a_flapping_past(length):
    """Ten hours that change every so many seconds; the first half of them is claimed then."""
    account, timeline = opened()
    states = (USEFUL, UNEXPLAINED, UNOBSERVED)
    for number in range(36000 // length + 1):
        timeline.observe(float(number * length), states[number % 3])
    before = account.snapshot().seconds_at(36000.0)
    timeline.charge(3000.0, 18000.0, charge(1, "idle_held", 2, 1.0))
    found = account.snapshot().seconds_at(36000.0)
    assert found["idle_held"] == pytest.approx(15000 * 2 / 3, rel=0.03)
    assert sum(found.values()) == pytest.approx(sum(before.values()))
    timeline.withdraw(0.0, 36000.0, 1)
    assert account.snapshot().seconds_at(36000.0) | {"idle_held": 0.0} == pytest.approx(
        before | {"idle_held": 0.0}, abs=1e-6
    )


def test_a_past_that_is_claimed_differently_everywhere_keeps_what_it_was_charged():
    account, timeline = opened()
    timeline.observe(0.0, USEFUL)
    for number in range(300):
        timeline.observe(number * 10.0, (USEFUL, UNEXPLAINED)[number % 2])
        one = charge(number, "hang", 1, 0.5)
        timeline.charge(number * 10.0 - 10.0, number * 10.0, one)
    assert len(timeline._stretches) <= 64 + 16 + 1
    assert seconds_of(account, 2990.0)["hang"] == pytest.approx(2990 / 2)


def test_a_timeline_that_moves_takes_everything_with_it():
    first, timeline = opened()
    timeline.observe(5.0, USEFUL)
    second = OpenAccount(tick.job("1"), "B200", 0.0, 0.0, first.claims)
    timeline.move(second)
    assert seconds_of(first, 20.0) == {}
    assert seconds_of(second, 20.0) == {UNOBSERVED: 5.0, USEFUL: 15.0}


@pytest.mark.parametrize(
    ("claimed", "suspected", "expected"), [(0.4, 0.55, 0.15), (0.4, 0.3, 0.0), (1.0, 0.5, 0.0)]
)
def test_of_one_class_only_what_is_beyond_the_claim_is_suspected(claimed, suspected, expected):
    """A rule proves a part of the loss, an estimator tells all of it: both tell of one loss."""
    account, timeline = opened()
    timeline.observe(0.0, USEFUL)
    timeline.charge(0.0, 10.0, charge(1, "comm_bound", 2, claimed))
    timeline.charge(0.0, 10.0, charge(2, "comm_bound", 2, suspected, is_suspected=True))
    found = seconds_of(account, 10.0)
    assert found["comm_bound"] == pytest.approx(10.0 * claimed)
    assert found.get("~comm_bound", 0.0) == pytest.approx(10.0 * expected)
