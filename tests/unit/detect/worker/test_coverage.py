"""What the worker knows of a fleet that changes is what it would know had it just begun."""

from __future__ import annotations

import random
import socket
from contextlib import closing

import pytest

from gpumon.detect.contract import Declaration
from gpumon.detect.scene import Scene, view_of
from gpumon.detect.wire.protocol import encode, receive, send
from gpumon.detect.wire.tick_messages import Sender
from gpumon.detect.worker.coverage import names_of, places_of
from gpumon.detect.worker.tick_copy import Replica

FIELDS = {
    "gpu": ("power_w", "pcie_gen"),
    "link": ("link_state", "link_crc_count", "link_tx_bytes_per_s"),
    "node": ("cpu_busy_ratio", "cpu_count"),
    "nic": ("nic_speed_gbps", "nic_rx_bytes_per_s"),
    "cgroup": ("job_cpu_cores_used", "job_mem_limit_bytes"),
    "event": ("event_age_s",),
}
KEYS = tuple(key for keys in FIELDS.values() for key in keys)
KINDS = ("job", "gpu", "node")


class Held:
    """A worker's picture, which is only told what changed."""

    def __init__(self):
        self.here, self.there = socket.socketpair()
        self.sender, self.replica = Sender(), Replica()

    def view(self, tick):
        message, descriptors = self.sender.message(tick, tick.history, ())
        send(self.here, encode(message), descriptors)
        told, copies = receive(self.there)
        self.replica.take(told, copies)
        return self.replica.view(told)

    def close(self):
        self.here.close()
        self.there.close()


class Fleet:
    """Four nodes on which things come, go, fall silent and tell more or less, by chance."""

    def __init__(self, seed):
        self.dice, self.scene = random.Random(seed), Scene()
        self.uuids = {f"n{number}": self.scene.node(f"n{number}", 3) for number in range(4)}
        self.silent, self.jobs, self.next_job = set(), {}, 1

    def change(self):
        for _ in range(4):
            self.speak()
        ways = (self.start, self.start, self.move, self.end, self.silence, self.lose)
        self.dice.choice(ways)()

    def start(self):
        held = sorted({uuid for uuids in self.jobs.values() for uuid in uuids})
        names = self.dice.sample(sorted(self.uuids), self.dice.randint(1, 2))
        free = [uuid for name in names for uuid in self.uuids[name] if uuid not in held]
        if not free:
            return
        job_id, self.next_job = str(self.next_job), self.next_job + 1
        self.jobs[job_id] = self.dice.sample(free, self.dice.randint(1, len(free)))
        self.scene.job(job_id, self.jobs[job_id], gpus_unknown=self.dice.choice((0, 0, 0, 2)))

    def move(self):
        """A job holds fewer GPUs than before."""
        if self.jobs:
            job_id = self.dice.choice(sorted(self.jobs))
            self.jobs[job_id] = self.jobs[job_id][-1:]
            self.scene.job(job_id, self.jobs[job_id])

    def end(self):
        if self.jobs:
            job_id = self.dice.choice(sorted(self.jobs))
            del self.jobs[job_id]
            self.scene.end(job_id)

    def speak(self):
        """Something is told from now on, or is missing from now on."""
        name = self.dice.choice(sorted(self.uuids))
        block = self.dice.choice(sorted(FIELDS))
        values = {key: self.dice.choice((None, 1.0, 4.0)) for key in FIELDS[block]}
        if block == "gpu":
            self.scene.gpu(self.dice.choice(self.uuids[name]), pcie_gen=values["pcie_gen"])
        elif block == "link":
            self.scene.link(self.dice.choice(self.uuids[name]), self.dice.randint(0, 2), **values)
        elif block == "node":
            self.scene.host(name, **values)
        elif block == "nic":
            self.scene.nic(name, self.dice.choice(("mlx5_0/1", "mlx5_1/1")), **values)
        elif block == "cgroup" and self.jobs:
            self.scene.cgroup(self.dice.choice(sorted(self.jobs)), **values)
        else:
            self.scene.xid(self.dice.choice(self.uuids[name]), 31)

    def silence(self):
        name = self.dice.choice(sorted(self.uuids))
        (self.scene.revive if name in self.silent else self.scene.silence)(name)
        self.silent ^= {name}

    def lose(self):
        name = self.dice.choice(sorted(self.uuids))
        if len(self.uuids[name]) > 2:
            gone = self.dice.choice(self.uuids[name])
            self.uuids[name] = tuple(uuid for uuid in self.uuids[name] if uuid != gone)
            self.scene.lose(gone)

    def run(self):
        values = {
            uuid: {"power_w": self.dice.choice((None, 300.0, 400.0)), "process_count": 1.0}
            for uuids in self.uuids.values()
            for uuid in uuids
        }
        return self.scene.run(10, values)


def known_of(view, kind, key):
    declared = Declaration("d", "1", ("d",), (key,), 60.0, 600.0, kind)
    coverage, places = places_of(view, declared)
    dark = names_of(view, declared, places)
    return coverage.subjects_seen, coverage.missing_fields, sorted(dark)


@pytest.mark.parametrize("seed", [3, 1415, 92653])
def test_coverage_of_a_kept_picture_is_that_of_a_new_one(seed):
    fleet, answers = Fleet(seed), set()
    with closing(Held()) as held:
        for _ in range(60):
            fleet.change()
            tick = fleet.run()
            view, again = held.view(tick), view_of(tick)
            for kind in KINDS:
                for key in KEYS:
                    found = known_of(view, kind, key)
                    assert found == known_of(again, kind, key), (kind, key)
                    answers.add((kind, key, bool(found[0]), bool(found[2])))
    # Of nearly every field somebody told, and somebody did not.
    told = {(kind, key) for kind, key, is_seen, _ in answers if is_seen}
    dark = {(kind, key) for kind, key, _, is_dark in answers if is_dark}
    assert len(told) >= 0.8 * len(KINDS) * len(KEYS)
    assert len(dark) == len(KINDS) * len(KEYS)


@pytest.mark.parametrize(("period_s", "is_blind"), [(10.0, False), (30.0, False), (60.0, True)])
def test_who_needs_values_oftener_than_they_come_is_blind_and_says_why(period_s, is_blind):
    scene = Scene(period_s=period_s)
    scene.job("7", scene.node("n", 2))
    scene.run(900.0, {})
    declared = Declaration("fine", "1", ("seen",), ("power_w",), 60.0, 600.0, longest_period_s=30.0)
    coverage, places = places_of(scene.view(), declared)
    names = names_of(scene.view(), declared, places)
    assert names == (("job:7",) if is_blind else ())
    assert (coverage.subjects_seen, coverage.subjects_blind) == ((0, 1) if is_blind else (1, 0))
    said = "values come every 60 s, and it needs one every 30 s"
    assert coverage.note == (said if is_blind else "")
    assert coverage.state == "ok"


@pytest.mark.parametrize(("needs_s", "is_noted"), [(3000.0, False), (7200.0, True)])
def test_whose_windows_reach_back_to_rarer_values_says_so(needs_s, is_noted):
    scene = Scene(period_s=300.0, span_s=20_000.0)
    scene.job("7", scene.node("n", 2))
    scene.run(7200.0, {})
    scene._period_s = 30.0
    scene.run(3600.0, {})
    declared = Declaration("long", "1", ("seen",), ("power_w",), 600.0, needs_s)
    coverage, _ = places_of(scene.view(), declared)
    said = "before the last 60 min values come only every 300 s"
    assert coverage.note == (said if is_noted else "")
    assert coverage.state == "ok"
