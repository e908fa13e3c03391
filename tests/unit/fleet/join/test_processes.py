"""Processes that stay from tick to tick: the picture is the one that is made anew."""

from __future__ import annotations

import json
from array import array
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from gpumon.fleet.join.join import Remembered, join
from gpumon.fleet.join.processes import CONTEXT_FIELDS, PROCESS_FIELDS
from gpumon.model.missing import Reason
from gpumon.model.records.block import Block
from tests.unit.fleet.factories import DEVICES, frame, gpu_block, job, node, queue, uuid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.model.records.frame import Frame, QueueRecords

NODES = ("gpu01", "gpu02")
OWNER_KEYS = (
    *("uid", "parent_pid", "start_time_s", "name", "step", "rank_vars"),
    *("container", "user", "job_id", "sluid"),
)
CONTEXT_KEYS = ("context_mem_used_bytes", "type")
"""What a process is made of, named a second time: the code must not forget one."""

SLUIDS = ("s8FXKTA79XAR00", "s8FXKTA79XAR01", None)


class World:
    """Two nodes and a queue of which anything may change between two ticks."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.now = 100.0
        self.jobs = [
            job("7", {"gpu01": (0, 1)}, sluid=SLUIDS[0]),
            job("8", {"gpu01": (2,), "gpu02": (0, 1, 2)}),
        ]
        self.gpus = {name: [0, 1, 2, 3] for name in NODES}
        self.owners = {name: [self.process(pid) for pid in range(40, 44)] for name in NODES}
        self.contexts = {name: [self.context(name, pid) for pid in range(40, 45)] for name in NODES}
        self.called = {name: name for name in NODES}
        self.silent: set[str] = set()

    def process(self, pid: int) -> dict[str, Any]:
        return {"key": str(pid)} | {key: self.drawn(key) for key in OWNER_KEYS} | {"busy": 0.5}

    def context(self, name: str, pid: int) -> dict[str, Any]:
        on = uuid(name, self.dice.randrange(4))
        return {"key": f"{pid}/{on}"} | {key: self.drawn(key) for key in CONTEXT_KEYS}

    def drawn(self, key: str) -> Any:
        """Any value of a field, or why there is none."""
        rank = {"RANK": str(self.dice.randrange(3)), "MASTER_ADDR": "gpu01", "MASTER_PORT": "29500"}
        told = {"SLURM_JOB_ID": self.dice.choice("789"), **rank}
        values = {
            "uid": (7001, 7002),
            "parent_pid": (1, 40, 41),
            "start_time_s": (10.0, 11.0, float("nan")),
            "context_mem_used_bytes": (1e9, 2e9, float("nan")),
            "type": ("C", "G", "C+G", None),
            "name": ("python3", "bash", None),
            "step": ("0", "batch", None),
            "rank_vars": (json.dumps(told), json.dumps(rank), Reason.NO_PERMISSION, Reason.FAILED),
            "container": ("docker:3f4a3f4a3f4a", None),
            "user": ("alice", "bob", None),
            "job_id": ("7", "8", None),
            "sluid": SLUIDS,
        }
        return self.dice.choice(values[key])

    def change(self) -> None:
        """One thing, of a kind that is drawn."""
        name = self.dice.choice(NODES)
        kinds = (*[self.tell] * 9, self.move, self.swap, self.end, self.list_other)
        self.dice.choice((*kinds, self.rename, self.call, self.fall_silent, self.hide_gpu))(name)
        self.now += 1.0

    def tell(self, name: str) -> None:
        """Another value of one field of one process."""
        rows, fields = self.dice.choice(
            ((self.owners[name], (*OWNER_KEYS, "busy")), (self.contexts[name], CONTEXT_KEYS))
        )
        if rows:
            key = self.dice.choice(fields)
            row = self.dice.choice(rows)
            row[key] = self.dice.random() if key == "busy" else self.drawn(key)

    def move(self, name: str) -> None:
        """A process opens another GPU, or begins on one."""
        self.contexts[name].append(self.context(name, self.dice.randrange(40, 46)))

    def swap(self, name: str) -> None:
        """The node lists its processes in another order."""
        self.dice.shuffle(self.owners[name])
        self.dice.shuffle(self.contexts[name])

    def end(self, name: str) -> None:
        """A process ends, or is not read any more."""
        rows = self.dice.choice((self.owners[name], self.contexts[name]))
        if rows:
            rows.pop(self.dice.randrange(len(rows)))
        if self.dice.random() < 0.3:
            self.owners[name] = [self.process(pid) for pid in range(40, 44)]

    def list_other(self, _: str) -> None:
        """Slurm lists another job, or says something else of one."""
        place = self.dice.randrange(len(self.jobs))
        changes = (
            {"user_id": self.dice.choice((None, 7001, 7002))},
            {"sluid": self.dice.choice(SLUIDS) or ""},
            {"state": self.dice.choice(("RUNNING", "COMPLETING", "COMPLETED", "PENDING"))},
            {"job_id": self.dice.choice("789")},
            {"name": "another"},
        )
        self.jobs[place] = self.jobs[place]._replace(**self.dice.choice(changes))

    def rename(self, name: str) -> None:
        """Slurm calls a node something else."""
        self.called[name] = self.dice.choice((name, f"{name}-renamed"))

    def fall_silent(self, name: str) -> None:
        """A node is known no more, or is heard of again."""
        self.silent ^= {name}

    def hide_gpu(self, name: str) -> None:
        """Another number of GPUs."""
        self.gpus[name] = list(range(self.dice.randrange(1, 5)))

    def call(self, name: str) -> None:
        """One process has another number, or is on another GPU, and nothing else is new."""
        if self.dice.random() < 0.5 and self.owners[name]:
            self.dice.choice(self.owners[name])["key"] = str(self.dice.randrange(40, 46))
        elif self.contexts[name]:
            row = self.dice.choice(self.contexts[name])
            pid = str(row["key"]).partition("/")[0]
            row["key"] = f"{pid}/{uuid(name, self.dice.randrange(4))}"

    def frames(self) -> list[Frame]:
        return [
            frame(
                name,
                {
                    "gpu": gpu_block(name, self.gpus[name]),
                    "process": block(self.owners[name], (*OWNER_KEYS, "busy")),
                    "context": block(self.contexts[name], CONTEXT_KEYS),
                },
                self.now,
            )
            for name in NODES
            if name not in self.silent
        ]

    def queue(self) -> QueueRecords:
        listed = [node(self.called[n], DEVICES)._replace(host_name=n, address=n) for n in NODES]
        return queue(list({one.job_id: one for one in self.jobs}.values()), listed)


INTEGERS = ("uid", "parent_pid")
NUMBERS = (*INTEGERS, "start_time_s", "context_mem_used_bytes", "busy")


def block(rows: list[dict[str, Any]], fields: tuple[str, ...]) -> Block:
    """Rows as a node tells them, all of it new objects."""
    numbers = [key for key in fields if key in NUMBERS]
    columns = {
        key: array("q" if key in INTEGERS else "d", [row[key] for row in rows]) for key in numbers
    }
    texts = {key: [row[key] for row in rows] for key in fields if key not in NUMBERS}
    missing = {
        (key, place): text
        for key, told in texts.items()
        for place, text in enumerate(told)
        if isinstance(text, Reason)
    }
    labels = {
        key: tuple(None if isinstance(text, Reason) else text for text in told)
        for key, told in texts.items()
    }
    return Block(tuple(str(row["key"]) for row in rows), columns, labels, missing)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("has_queue", [True, False])
def test_whatever_changes_the_picture_is_the_one_that_is_made_anew(
    seed: int, has_queue: bool
) -> None:
    world, remembered = World(seed), Remembered()
    for _ in range(100):
        world.change()
        frames, records = world.frames(), world.queue() if has_queue else None
        picture = join(frames, records, {}, world.now, 5.0, remembered=remembered)
        assert picture == join(frames, records, {}, world.now, 5.0)


@pytest.mark.parametrize("key", [*OWNER_KEYS, *CONTEXT_KEYS])
def test_a_field_alone_that_changes_is_told(key: str) -> None:
    """Each of them is in the picture, so that a tick that forgot one would show an old value."""
    world, remembered = World(3), Remembered()
    rows = world.contexts["gpu01"] if key in CONTEXT_KEYS else world.owners["gpu01"]
    seen = set()
    for _ in range(50):
        for row in rows:
            row[key] = world.drawn(key)
        frames, records = world.frames(), world.queue()
        picture = join(frames, records, {}, world.now, 5.0, remembered=remembered)
        assert picture == join(frames, records, {}, world.now, 5.0)
        seen.add(repr([gpu.processes for gpu in picture.gpus.values()]))
    assert len(seen) > 1


class Asked(dict[Any, Any]):
    """Notes down what is asked for."""

    def __init__(self, told: Mapping[Any, Any], asked: set[str]) -> None:
        super().__init__(told)
        self.asked = asked

    def get(self, key: str, default: object = None) -> object:
        self.asked.add(key if isinstance(key, str) else key[0])
        return super().get(key, default)


@pytest.mark.parametrize("name", ["process", "context"])
def test_a_process_is_made_of_no_other_field_than_those_that_are_compared(name: str) -> None:
    world = World(5)
    asked: set[str] = set()
    told = []
    for one in world.frames():
        before = one.blocks[name]
        columns, labels = Asked(before.columns, asked), Asked(before.labels, asked)
        spied = before._replace(columns=columns, labels=labels)
        told.append(one._replace(blocks={**one.blocks, name: spied}))
    join(told, world.queue(), {}, world.now, 5.0)
    assert asked
    assert asked <= {*(PROCESS_FIELDS if name == "process" else CONTEXT_FIELDS)}


def test_processes_that_are_told_again_are_the_very_same_with_their_ranks() -> None:
    """The mechanism: of what says the same nothing is made again, whatever else a node tells."""
    world, remembered = World(1), Remembered()
    first = join(world.frames(), world.queue(), {}, world.now, 5.0, remembered=remembered)
    world.owners["gpu01"][0]["busy"] = 0.9
    world.jobs[0] = world.jobs[0]._replace(name="another")
    second = join(world.frames(), world.queue(), {}, world.now, 5.0, remembered=remembered)
    pairs = [
        pair
        for key, gpu in first.gpus.items()
        for pair in zip(gpu.processes, second.gpus[key].processes, strict=True)
    ]
    assert len(pairs) >= 8
    assert all(one is other for one, other in pairs)
    for before, after in zip(first.jobs, second.jobs, strict=True):
        assert before.ranks
        assert before.ranks is after.ranks


def test_a_node_that_is_known_no_more_is_not_remembered() -> None:
    world, remembered = World(1), Remembered()
    told = world.frames()
    join(told, None, {}, world.now, 5.0, remembered=remembered)
    join(told[:1], None, {}, world.now, 5.0, remembered=remembered)
    join(told[:1], None, {}, world.now, 5.0, remembered=remembered)
    held = vars(remembered.processes)
    assert {key[1] for part in (held["_before"], held["_now"]) for key in part} == {"gpu01"}
