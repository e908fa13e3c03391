"""Whatever happens to a fleet, its books balance at every tick, in memory and on disk."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumon.fleet.ledger.journal import JournalFile
from gpumon.fleet.ledger.journal_reader import Pages
from gpumon.fleet.ledger.ledger import Ledger
from gpumon.model.finding_classes import CLASSES, Loss
from gpumon.model.records.ledger import STATES
from tests.unit.fleet.ledger_world import START, claim, gpu, tick, view

UUIDS = tuple("abcdef")

CLAIMING = tuple(key for key, known in CLASSES.items() if known.loss is not Loss.NONE)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.sampled_from([1, 2, 5, 17, 60, 400, 4000])),
        st.tuples(st.just("start"), st.integers(1, 4), st.sets(st.sampled_from(UUIDS), max_size=4)),
        st.tuples(st.just("hide"), st.integers(1, 4), st.integers(0, 2)),
        st.tuples(st.just("end"), st.integers(1, 4), st.booleans()),
        st.tuples(st.just("requeue"), st.integers(1, 4), st.sets(st.sampled_from(UUIDS))),
        st.tuples(st.just("silence"), st.sampled_from(UUIDS), st.integers(0, 40)),
        st.tuples(st.just("hear"), st.sampled_from(UUIDS)),
        st.tuples(st.just("lose"), st.sampled_from(UUIDS)),
        st.tuples(
            st.just("find"),
            st.sampled_from(CLAIMING),
            st.sampled_from(["job:1", "job:2", "gpu:a", "gpu:c", "node:gpu01"]),
            st.integers(0, 700),
            st.floats(0, 1),
        ),
        st.tuples(st.just("clear"), st.integers(0, 9)),
        st.tuples(st.just("set back"), st.integers(1, 300)),
    ),
    min_size=3,
    max_size=30,
)


class World:
    """Jobs, GPUs and findings; and how much of which GPU's time was allocated, kept apart."""

    def __init__(self):
        self.at = START
        self.jobs = {}
        self.silent = {}
        self.lost = set()
        self.findings = ()
        self.cleared = ()

    def do(self, doing, *what):
        getattr(self, "do_" + doing.replace(" ", "_"))(*what)

    def do_pass(self, seconds):
        self.at += seconds

    def do_set_back(self, seconds):
        self.at -= seconds

    def do_start(self, number, uuids):
        taken = {u for n, job in self.jobs.items() if n != number for u in job.gpu_uuids}
        held = sorted(uuids - taken)
        self.jobs[number] = view(str(number), held, self._start(number), user=f"user{number}")

    def _start(self, number):
        return self.jobs[number].job.start_at if number in self.jobs else self.at - 10

    def do_hide(self, number, unknown):
        if number in self.jobs:
            old = self.jobs[number]
            self.jobs[number] = old._replace(
                gpu_uuids=old.gpu_uuids[: len(old.gpu_uuids) - unknown], gpus_unknown=unknown
            )

    def do_end(self, number, is_listed):
        if number in self.jobs:
            old = self.jobs.pop(number)
            if is_listed:
                job = old.job._replace(state="COMPLETED", end_at=self.at - 3)
                self.jobs[number + 10] = old._replace(job=job)

    def do_requeue(self, number, uuids):
        self.jobs.pop(number, None)
        self.do_start(number, uuids)

    def do_silence(self, uuid, ago):
        self.silent[uuid] = self.at - ago

    def do_hear(self, uuid):
        self.silent.pop(uuid, None)
        self.lost.discard(uuid)

    def do_lose(self, uuid):
        self.lost.add(uuid)

    def do_find(self, kind, subject, ago, share):
        gpus = ("a", "b") if subject == "job:1" else ()
        found = claim(kind, subject, self.at - ago - 1, self.at, gpus=gpus, share=share)
        kept = tuple(f for f in self.findings if f.identity != found.identity)
        self.findings = (*kept, found)

    def do_clear(self, position):
        gone = self.findings[position : position + 1]
        self.findings = self.findings[:position] + self.findings[position + 1 :]
        self.cleared += tuple(f._replace(cleared_at=f.last_seen) for f in gone)

    def tick(self):
        gpus = [
            gpu(uuid, self.at, self.silent.get(uuid), energy_j=int(self.at - START) * 7 + 10**6)
            for uuid in UUIDS
            if uuid not in self.lost
        ]
        return tick(self.at, self.jobs.values(), gpus, self.findings, cleared=self.cleared)


def held_by(ledger, seen):
    """GPU-seconds that the books should allocate: of each GPU of each run, end minus start."""
    runs = ledger._runs
    for run in (*runs.open.values(), *runs.ended):
        seen.update({id(holding): holding for holding in run.holdings})
    found = {}
    for holding in seen.values():
        line = holding.timeline
        end = ledger._at if line.is_open else line.ended_at
        key = holding.run.job.user
        found[key] = found.get(key, 0.0) + end - line.start
    return found


def on_disk(folder):
    found = {}
    for entry in Pages(folder).entries():
        for key, amount in entry.seconds.items():
            where = (entry.user, entry.gpu, key)
            found[where] = found.get(where, 0.0) + amount
    return {where: amount for where, amount in found.items() if abs(amount) > 1e-3}


def in_memory(totals):
    found = {}
    offset = totals.at - totals.since
    for account in totals.sums:
        for key, amount in account.seconds_at(offset).items():
            where = (account.user, account.gpu, key)
            found[where] = found.get(where, 0.0) + amount
    return {where: amount for where, amount in found.items() if amount > 1e-3}


@settings(max_examples=250, deadline=None)
@given(STEPS)
def test_the_books_balance_at_every_tick_and_on_disk(steps):
    with tempfile.TemporaryDirectory() as name:
        folder, world, seen = Path(name), World(), {}
        ledger = Ledger(journal=JournalFile(folder))
        for step in (*steps, ("pass", 1)):
            world.do(*step)
            ledger.take(world.tick())
            totals = ledger.summary()
            offset = totals.at - totals.since
            for account in totals.accounts:
                raw = dict(account.seconds)
                for state, going in zip(STATES, account.open, strict=True):
                    raw[state] = raw.get(state, 0) + going.until(offset)
                assert min(raw.values()) > -1e-6, (account, raw)
            by_user = totals.by("user")
            for user, seconds in held_by(ledger, seen).items():
                assert by_user[user].allocated_s == pytest.approx(seconds, rel=1e-6, abs=1e-6)
            whole = totals.total()
            for dimension in ("user", "account", "partition", "gpu"):
                parts = totals.by(dimension).values()
                assert sum(p.allocated_s for p in parts) == pytest.approx(whole.allocated_s)
        ledger.close()
        assert on_disk(folder) == pytest.approx(in_memory(ledger.summary()), rel=1e-6, abs=1e-2)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_a_gpu_second_is_nobodys_twice(steps):
    world, ledger = World(), Ledger()
    for step in (*steps, ("pass", 1)):
        if step[0] == "set back":
            continue
        world.do(*step)
        ledger.take(world.tick())
        for uuid, holdings in ledger._runs.on_gpu.items():
            spans = sorted(
                (h.timeline.start, min(h.timeline.ended_at, ledger._at)) for h in holdings
            )
            for (_, end), (start, _) in pairwise(spans):
                assert end <= start, (uuid, spans)
