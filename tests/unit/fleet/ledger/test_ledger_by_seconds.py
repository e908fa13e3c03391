"""The books against others that hold every second of every GPU by itself, and add them up."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from gpumon.fleet.ledger.journal import JournalFile
from gpumon.fleet.ledger.journal_reader import Pages
from gpumon.fleet.ledger.ledger import Ledger
from gpumon.fleet.ledger.totals import add_up
from gpumon.model.finding import Confidence
from gpumon.model.finding_classes import CLASSES, Loss
from gpumon.model.records.ledger import Prices
from tests.unit.fleet.ledger_world import START, claim, gpu, tick, view

if TYPE_CHECKING:
    from pathlib import Path

SPAN_S = 420
NAMES = {"a": "H100", "b": "H100", "c": "A100", "d": "A100", "e": "L4"}
PRICES = Prices({"H100": 4.0, "A100": 2.5}, 0.3, "EUR")
FLOOR = {"useful": 0.7, "unexplained": 0.01}
LOSING = [key for key, known in CLASSES.items() if known.loss is not Loss.NONE]
RANK = {key: place for place, key in enumerate(CLASSES)}


class Story:
    """What happens, drawn once: who holds what, what each GPU does, what is claimed when."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.states = {uuid: self._states() for uuid in NAMES}
        self.runs = []
        """Job, GPUs, first and last second."""
        for number in range(self.draw.randint(3, 6)):
            first = self.draw.randrange(0, SPAN_S - 60)
            last = self.draw.randrange(first + 20, SPAN_S)
            uuids = self.draw.sample(sorted(NAMES), self.draw.randint(1, 3))
            self._add(str(number + 1), uuids, first, last)
            if self.draw.random() < 0.3 and last + 40 < SPAN_S:
                # Requeued: the same job comes again, elsewhere.
                self._add(str(number + 1), uuids[:1], last + 15, SPAN_S - 5)
        self.claims = [self._claim() for _ in range(self.draw.randint(2, 6))]

    def _states(self):
        states, now = [], "useful"
        while len(states) <= SPAN_S:
            now = self.draw.choice(["useful", "useful", "unexplained", "unobserved"])
            states += [now] * self.draw.choice([3, 11, 40, 90])
        return states[: SPAN_S + 1]

    def _add(self, job_id, uuids, first, last):
        """Two jobs on one GPU at a time are those that share it."""
        self.runs.append((job_id, tuple(uuids), first, last))

    def _claim(self):
        job_id, uuids, first, last = self.draw.choice(self.runs)
        kind = self.draw.choice(LOSING)
        begin = self.draw.randrange(first, last - 10)
        gpus = uuids if self.draw.random() < 0.6 else uuids[:1]
        looks, shares = [], self.draw.choice([(1.0,), (0.3,), (0.2, 0.5, 0.8)])
        sure_from = self.draw.choice([0, begin + 60, SPAN_S])
        reach_s = self.draw.choice([30, 90, SPAN_S])
        for at in range(begin + 6, last + 1, 7):
            start = max(begin, at - reach_s)
            sure = at >= sure_from
            looks.append((at, start, self.draw.choice(shares), sure))
        return job_id, kind, begin, gpus, looks

    def jobs_at(self, at):
        found = []
        for job_id, uuids, first, last in self.runs:
            if first <= at < last:
                found.append(view(job_id, uuids, START + first, user=f"user{int(job_id) % 2}"))
            elif last <= at < last + 5:
                user = f"user{int(job_id) % 2}"
                over = {"state": "COMPLETED", "end_at": START + last, "user": user}
                found.append(view(job_id, uuids, START + first, **over))
        return found

    def findings_at(self, at):
        """What stands: each claim's newest look, until its run has ended."""
        found = []
        for number, (job_id, kind, begin, gpus, looks) in enumerate(self.claims):
            told = [look for look in looks if look[0] <= at]
            last = next(r[3] for r in self.runs if r[0] == job_id and r[2] <= begin < r[3])
            if told and at <= last:
                end, start, share, sure = told[-1]
                one = claim(
                    kind, f"job:{job_id}", START + start, START + end, gpus=gpus, share=share,
                    onset=START + begin, sure=sure,
                )  # fmt: skip
                found.append(one._replace(detector=f"{kind}-{number}"))
        return found

    def tick(self, at):
        gpus = []
        for uuid, states in self.states.items():
            seen = states[at] != "unobserved"
            sm = FLOOR.get(states[at]) if seen else None
            util = 0.5 if seen else None
            energy_j = 10**6 + at * (100 + 10 * len(NAMES[uuid]))
            gpus.append(
                gpu(uuid, START + at, util=util, sm=sm, name=NAMES[uuid], energy_j=energy_j)
            )
        return tick(START + at, self.jobs_at(at), gpus, self.findings_at(at))


def said_within(story, booked, since, until):
    """What one gpumon says of each second that it books, of what lies behind the books before.

    Args:
        story: What happens.
        booked: Until when the gpumon before has booked.
        since: When this one looks for the first time.
        until: When it does for the last time.
    """
    said = {}
    for number, (job_id, kind, begin, gpus, looks) in enumerate(story.claims):
        earlier = [look for look in looks if look[0] <= since]
        seen = [*earlier[-1:], *(look for look in looks if since < look[0] <= until)]
        for place, (end, start, share, sure) in enumerate(seen):
            first = begin if place == 0 else start
            for second in range(max(first, booked), end):
                for uuid in gpus:
                    said.setdefault((job_id, uuid, second), {})[number] = (kind, share, sure)
    return said


def by_seconds(story, lives=((0, 0, SPAN_S),)):
    """GPU-seconds by user, GPU and key: each second of each holding is divided by itself."""
    said = {}
    for life in lives:
        said |= said_within(story, *life)
    found = {}
    for second in range(SPAN_S):
        holders = {}
        for job_id, uuids, first, last in story.runs:
            if first <= second < last:
                for uuid in uuids:
                    holders.setdefault(uuid, []).append(job_id)
        for uuid, jobs in holders.items():
            for job_id in jobs:
                # What cannot be read at the next look was last seen at this one.
                here, after = story.states[uuid][second : second + 2]
                state = after if after == "unobserved" else here
                parts = divided(state, said.get((job_id, uuid, second), {}))
                for key, part in parts.items():
                    where = (f"user{int(job_id) % 2}", NAMES[uuid], key)
                    found[where] = found.get(where, 0.0) + part / len(jobs)
    return found


def divided(state, claims):
    found, left, proven = {}, 1.0, {}
    for sure in (True, False):
        largest = {}
        for kind, share, is_sure in claims.values():
            if is_sure is sure:
                largest[kind] = max(largest.get(kind, 0.0), share)
        for kind in sorted(largest, key=RANK.get):
            if state == "unobserved" and CLASSES[kind].category != "hardware":
                continue
            key = kind if sure else "~" + kind
            known = proven.get(kind, 0.0)
            beyond = max(0.0, largest[kind] - known) / (1.0 - known) if known < 1.0 else 0.0
            proven[kind] = largest[kind]
            if beyond:
                found[key] = left * beyond
                left -= found[key]
    found[state] = left
    return found


def told(accounts, offset_s):
    found = {}
    for account in accounts:
        for key, seconds in account.seconds_at(offset_s).items():
            where = (account.user, account.gpu, key)
            found[where] = found.get(where, 0.0) + seconds
    return {where: seconds for where, seconds in found.items() if seconds > 1e-6}


@pytest.mark.parametrize("seed", [*range(60), *range(300, 340)])
def test_books_are_those_of_single_seconds(seed):
    story = Story(seed)
    ledger = Ledger(PRICES)
    for at in range(SPAN_S + 1):
        ledger.take(story.tick(at))
    totals = ledger.summary()
    expected = {where: s for where, s in by_seconds(story).items() if s > 1e-6}
    assert told(totals.sums, totals.at - totals.since) == pytest.approx(expected, abs=0.02)
    price = {"H100": 4.0, "A100": 2.5, "L4": 0.0}
    wasted = sum(s * price[name] / 3600 for (_, name, key), s in expected.items() if key in CLASSES)
    assert sum(totals.total().wasted_cost.values()) == pytest.approx(wasted, abs=1e-4)
    unpriced = sum(s for (_, name, _key), s in expected.items() if name == "L4")
    assert totals.total().unpriced_s == pytest.approx(unpriced, abs=0.02)


@pytest.mark.parametrize("seed", [*range(60, 110), 2345])
def test_books_over_a_restart_are_those_of_single_seconds_with_a_hole(seed, tmp_path: Path):
    """What is told after a restart reaches back to where the old books end, and no further.

    Nobody saw what lies between them, so that faults of hardware alone take of it.
    """
    story, stop, again = Story(seed), 150, 200
    # Jobs that began or ended in the pause are left out: nobody saw them as they were.
    story.runs = [r for r in story.runs if not {r[2], r[3], r[3] - 1} & set(range(stop, again))]
    runs = {(job_id, first): last for job_id, _, first, last in story.runs}
    story.claims = [
        told
        for told in story.claims
        if any(
            told[0] == job_id and first <= told[2] < last for (job_id, first), last in runs.items()
        )
    ]
    for span in (range(stop + 1), range(again, SPAN_S + 1)):
        ledger = Ledger(PRICES, JournalFile(tmp_path))
        for at in span:
            ledger.take(story.tick(at))
        ledger.close()
    for states in story.states.values():
        states[stop + 1 : again] = ["unobserved"] * (again - stop - 1)
    lives = ((0, 0, stop), (stop, again, SPAN_S))
    expected = {where: s for where, s in by_seconds(story, lives).items() if s > 1e-6}
    found = {}
    pages = list(Pages(tmp_path).entries())
    for entry in pages:
        for key, seconds in entry.seconds.items():
            where = (entry.user, entry.gpu, key)
            found[where] = found.get(where, 0.0) + seconds
    assert found == pytest.approx(expected, abs=0.02)
    whole = add_up(pages, lambda entry: entry.user, PRICES).whole
    assert whole.allocated_s == pytest.approx(sum(expected.values()), abs=0.05)


def test_energy_is_the_sum_of_what_each_second_took():
    story = Story(7)
    story.states = {uuid: ["useful"] * (SPAN_S + 1) for uuid in NAMES}
    story.runs, story.claims = [("1", ("a", "c"), 0, SPAN_S + 1)], []
    ledger = Ledger(PRICES)
    for at in range(SPAN_S + 1):
        ledger.take(story.tick(at))
    total = ledger.summary().total()
    per_s = {"a": 140, "c": 140}
    assert total.energy_s == pytest.approx(2 * SPAN_S)
    assert total.energy_j == pytest.approx(sum(per_s.values()) * SPAN_S)
    kwh = total.energy_j / 3.6e6
    assert total.cost == pytest.approx(SPAN_S / 3600 * (4.0 + 2.5) + kwh * 0.3)


@pytest.mark.parametrize("seed", range(80, 120))
def test_energy_and_money_of_any_story_are_those_of_single_seconds(seed):
    """Also of GPUs that are shared, of other products in one job, and over what nobody saw.

    A counter is read at ticks: a second at a time where a GPU comes, goes, or is shared otherwise.
    """
    story = Story(seed)
    ledger = Ledger(PRICES)
    for at in range(SPAN_S + 1):
        ledger.take(story.tick(at))
    total = ledger.summary().total()
    held_s = dict.fromkeys(NAMES, 0)
    for uuid in NAMES:
        held = {
            second
            for _, uuids, first, last in story.runs
            if uuid in uuids
            for second in range(first, last)
        }
        held_s[uuid] = len(held)
    energy_j = sum(s * (100 + 10 * len(NAMES[uuid])) for uuid, s in held_s.items())
    ticks = 1.0 * sum(len(uuids) for _, uuids, _, _ in story.runs)
    assert total.energy_j == pytest.approx(energy_j, abs=160.0 * ticks)
    assert total.energy_s == pytest.approx(sum(held_s.values()), abs=ticks)
    rent = {"H100": 4.0, "A100": 2.5, "L4": 0.0}
    cost = sum(s / 3600 * rent[NAMES[uuid]] for uuid, s in held_s.items())
    assert total.cost == pytest.approx(cost + total.energy_j / 3.6e6 * 0.3, abs=1e-4)


def test_the_story_tells_of_all_that_it_is_to_try():
    seen = [Story(seed) for seed in range(60)]
    held = [run for story in seen for run in story.runs]
    assert any(len({r[0] for r in story.runs}) < len(story.runs) for story in seen)
    assert len({uuid for run in held for uuid in run[1]}) == len(NAMES)
    assert any(len({NAMES[uuid] for uuid in run[1]}) > 1 for run in held)
    assert any(_are_shared(story) for story in seen)
    assert any(len({(one[0], one[1]) for one in story.claims}) > 1 for story in seen)
    looks = [look for story in seen for one in story.claims for look in one[4]]
    assert {sure for *_, sure in looks} == {True, False}
    assert Confidence.HYPOTHESIS in {f.confidence for s in seen for f in s.findings_at(200)}


def _are_shared(story):
    """Whether two jobs hold a GPU at one time."""
    runs = [(uuid, *run[2:], run[0]) for run in story.runs for uuid in run[1]]
    return any(
        one[0] == other[0] and one[3] != other[3] and one[1] < other[2] and other[1] < one[2]
        for one in runs
        for other in runs
    )
