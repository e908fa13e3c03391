"""Which GPU time counts as unexplained, and whose it is."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from gpumon.detect.features.table import COLUMN
from gpumon.detect.learning import unexplained
from gpumon.detect.learning.unexplained import EVERY_S, Gatherer
from gpumon.detect.scene import WORKING, Scene
from gpumon.model.records.ledger import Account, LedgerTotals

RESTS = {**WORKING, "gpu_util_ratio": 0.0, "sm_active_ratio": 0.0, "power_w": 80.0}


class Books:
    """Two jobs of one GPU each, and what the books say of their time."""

    def __init__(self, **shares):
        self.scene, self.gatherer = Scene(), Gatherer()
        self.shares = shares
        self.seconds = {job_id: {"useful": 0.0, "unexplained": 0.0} for job_id in ("1", "2")}
        self.uuids = self.scene.node("n1", 2)
        for job_id, uuid in zip(("1", "2"), self.uuids, strict=True):
            self.scene.job(job_id, (uuid,))
        self.gatherer.begin()

    def go_on(self, looks, values=WORKING, **shares):
        """So many looks, with these shares of job 1's and job 2's time unexplained."""
        for _ in range(looks):
            made = self.scene.run(EVERY_S, dict.fromkeys(self.uuids, values))
            for job_id, share in zip(("1", "2"), shares.values(), strict=True):
                self.seconds[job_id]["unexplained"] += share * EVERY_S
                self.seconds[job_id]["useful"] += (1.0 - share) * EVERY_S
            accounts = tuple(
                Account(job_id, f"user{job_id}", "", "", "H100", 0.0, 0.0, dict(seconds))
                for job_id, seconds in self.seconds.items()
            )
            self.gatherer.take(made._replace(ledger=LedgerTotals(made.at, 0.0, accounts, ())))
        return self.gatherer.gathered()


def test_a_job_counts_from_a_quarter_of_its_time_on_for_a_quarter_of_an_hour():
    found = Books().go_on(9, one=0.3, other=0.2)
    (job,) = found.unexplained
    assert job.job_id == "1"
    assert [one.job_id for one in found.others] == ["2"]
    assert job.stretches >= 5
    assert job.gpu_seconds == pytest.approx(0.3 * EVERY_S * job.stretches)
    assert job.until - job.since == pytest.approx(job.stretches * EVERY_S)


def test_two_stretches_are_too_few():
    books = Books()
    books.go_on(6, one=0.0, other=0.0)
    found = books.go_on(2, one=0.9, other=0.0)
    assert found.unexplained == ()
    assert books.go_on(1, one=0.9, other=0.0).unexplained[0].job_id == "1"


def test_where_not_all_can_be_looked_at_it_is_those_with_the_most_of_it():
    books = Books()
    books.gatherer = Gatherer(most=1)
    books.gatherer.begin()
    found = books.go_on(9, one=0.3, other=0.6)
    assert [one.job_id for one in found.unexplained] == ["2"]
    assert found.unexplained_s == pytest.approx(0.9 * 8 * EVERY_S)


def test_all_time_is_added_up_also_of_jobs_that_are_not_listed():
    found = Books().go_on(9, one=0.3, other=0.2)
    assert found.allocated_s == pytest.approx(2 * 8 * EVERY_S)
    assert found.unexplained_s == pytest.approx(0.5 * 8 * EVERY_S)


def test_behaviour_is_that_of_the_unexplained_stretches_alone():
    books = Books()
    books.go_on(8, one=0.0, other=0.0)
    books.go_on(4, RESTS, one=0.0, other=0.0)
    found = books.go_on(6, RESTS, one=0.8, other=0.0)
    (job,) = found.unexplained
    assert job.features[COLUMN["util_15m"]] == pytest.approx(0.0, abs=0.01)
    (other,) = [one for one in found.others if one.job_id == "2"]
    assert 0.1 < other.features[COLUMN["util_15m"]] < 0.9


def test_what_is_unknown_stays_unknown():
    found = Books().go_on(9, one=0.5, other=0.5)
    assert np.isnan(found.unexplained[0].features[COLUMN["cpu_share"]])


def test_the_jobs_of_another_recording_are_others():
    books = Books()
    books.go_on(8, one=0.5, other=0.0)
    books.gatherer.begin()
    found = books.go_on(8, one=0.5, other=0.0)
    assert [one.job_id for one in found.unexplained] == ["1", "1"]


def test_books_that_take_a_claim_back_add_nothing():
    """What is charged later to the time before makes less of it unexplained."""
    books = Books()
    books.go_on(4, one=0.5, other=0.0)
    books.seconds["1"]["unexplained"] -= 500.0
    books.seconds["1"]["hang"] = 500.0
    found = books.go_on(4, one=0.0, other=0.0)
    assert found.unexplained_s == pytest.approx(3 * 0.5 * EVERY_S)


def test_a_job_of_which_a_detector_claims_something_says_nothing_of_what_is_usual():
    """Nor does what it did before the claim, which was not told yet."""
    books = Books()
    assert {one.job_id for one in books.go_on(7, one=0.0, other=0.0).others} == {"1", "2"}
    books.seconds["1"]["useful"] -= 900.0
    books.seconds["1"]["hang"] = 900.0
    assert {one.job_id for one in books.go_on(1, one=0.0, other=0.0).others} == {"2"}
    assert {one.job_id for one in books.go_on(5, one=0.0, other=0.0).others} == {"2"}


def test_of_many_usual_jobs_each_has_a_turn_of_a_quarter_of_an_hour(monkeypatch):
    monkeypatch.setattr(unexplained, "_MOST_OTHERS", 1)
    books = Books()
    # By their ids these two have the second of two turns together.
    assert books.go_on(1, one=0.0, other=0.0).others == ()
    books.go_on(unexplained.LEAST_STRETCHES, one=0.0, other=0.0)
    found = books.go_on(unexplained.LEAST_STRETCHES, one=0.0, other=0.0).others
    assert {one.job_id for one in found} == {"1", "2"}
    again = books.go_on(unexplained.LEAST_STRETCHES, one=0.0, other=0.0).others
    more = sum(one.stretches for one in again) - sum(one.stretches for one in found)
    assert more < 2 * unexplained.LEAST_STRETCHES


class Desk:
    """A machine that no queue lists, whose two GPUs processes of users hold."""

    def __init__(self):
        self.scene, self.gatherer = Scene(), Gatherer()
        self.uuids = self.scene.node("desk", 2)
        self.scene.unlist("desk")
        for pid, uuid in enumerate(self.uuids, 311):
            self.take(pid, uuid, 1000 + pid)
        self.gatherer.begin()

    def take(self, pid, uuid, uid):
        self.scene.process(pid, [uuid], uid=uid, name="python")
        memory = {"context_mem_used_bytes": 30.0 * 2**30}
        self.scene._set("desk", "context", f"{pid}/{uuid}", memory)

    def go_on(self, looks, values=WORKING, claimed=()):
        told = tuple(SimpleNamespace(subject=f"gpu:{uuid}") for uuid in claimed)
        for _ in range(looks):
            made = self.scene.run(EVERY_S, dict.fromkeys(self.uuids, values))
            books = LedgerTotals(made.at, 0.0, (), ())
            self.gatherer.take(made._replace(ledger=books, findings=told))
        return {one.job_id: one for one in self.gatherer.gathered().others}


def test_gpus_without_a_queue_are_looked_at_each_by_itself():
    desk = Desk()
    found = desk.go_on(9)
    assert found.keys() == {f"gpu:{uuid}" for uuid in desk.uuids}
    first = found[f"gpu:{desk.uuids[0]}"]
    assert (first.user, first.gpu_seconds) == ("uid 1311", 0.0)
    assert first.features[COLUMN["util_15m"]] == pytest.approx(0.9, abs=0.01)
    assert first.features[COLUMN["gpus"]] == 0.0


def test_a_gpu_without_a_queue_of_which_something_is_claimed_says_nothing_of_what_is_usual():
    desk = Desk()
    desk.go_on(9)
    first, second = (f"gpu:{uuid}" for uuid in desk.uuids)
    assert desk.go_on(1, claimed=desk.uuids[:1]).keys() == {second}
    assert desk.go_on(2).keys() == {second}
    assert desk.go_on(1).keys() == {first, second}


def test_who_takes_a_gpu_from_another_begins_anew():
    desk = Desk()
    desk.go_on(9)
    for pid in (311, 312):
        desk.scene.no_process(pid, "desk")
    desk.go_on(3)
    desk.take(400, desk.uuids[0], 1400)
    found = desk.go_on(6)
    taken = found[f"gpu:{desk.uuids[0]}"]
    # The first ten minutes do not count.
    assert (taken.user, taken.stretches) == ("uid 1400", 4)
