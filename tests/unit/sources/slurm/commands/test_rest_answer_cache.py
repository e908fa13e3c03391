"""All gpumons of one user ask slurmrestd as often as one of them would, whoever asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumon.model.fault import SourceError
from gpumon.sources.rest_address import RestAddress
from gpumon.sources.slurm.commands import failures
from gpumon.sources.slurm.poll.rest_queue import RestQueue
from gpumon.sources.slurm.rest import failures as rest_failures
from gpumon.sources.slurm.rest.client import RestClient
from tests.unit.sources.slurm.poll.test_queue import EPOCH, PretendClock
from tests.unit.sources.slurm.poll.test_rest_queue import (
    ADDRESS,
    DOWN,
    JOBS,
    NODES,
    TEXT_JOBS,
    Scripted,
)
from tests.unit.sources.slurm.restd import EXPIRES_AT, jwt
from tests.unit.sources.slurm.shapes import jobs_of, nodes_of

if TYPE_CHECKING:
    from pathlib import Path

    from gpumon.model.records.frame import Frame

KINDS = ("jobs", "nodes", "partitions", "reservations")


class Restful(Scripted):
    """A scripted slurmrestd that knows who asks."""

    def __init__(self, clock: PretendClock, *, call_s: float = 0.1) -> None:
        super().__init__(clock, call_s=call_s)
        self.user = "alice"
        self.answers |= {"jobs": jobs_of(41, JOBS), "nodes": nodes_of(41, NODES)}

    def identity(self) -> str:
        return self.user and f"head {self.user}"


class Neighbours:
    """Several gpumons of one user, each at its own time, over one pretended slurmrestd."""

    def __init__(self, folder: Path | None, count: int) -> None:
        self.clock = PretendClock(1e9)
        self.client = Restful(self.clock)
        self.queues = [self.join(folder) for _ in range(count)]
        self._next_at = {place * 7.0: queue for place, queue in enumerate(self.queues)}

    def join(self, folder: Path | None) -> RestQueue:
        return RestQueue(
            "slurm+https://head",
            ADDRESS,
            client=self.client,
            clock=self.clock,
            environ={"SLURM_CONF": "/none/slurm.conf"},
            folder=folder,
        )

    def round(self, queue: RestQueue, at: float | None = None) -> Frame:
        if at is not None:
            self.clock.seconds = at
        return queue._round()

    def run(self, until_s: float) -> list[Frame]:
        """Let each ask on its own beat; the first rounds lie some seconds apart."""
        frames = []
        while min(self._next_at) < until_s:
            at = min(self._next_at)
            queue = self._next_at.pop(at)
            frames.append(self.round(queue, max(self.clock.seconds, at)))
            due_at = max(queue._due_at(), self.clock.seconds + 1e-6)
            while due_at in self._next_at:
                due_at += 1e-6
            self._next_at[due_at] = queue
        return frames


def counted(folder: Path | None, count: int) -> dict[str, int]:
    neighbours = Neighbours(folder, count)
    neighbours.run(3600.0)
    return {kind: len(neighbours.client.asked(kind)) for kind in KINDS}


@pytest.mark.slow
def test_three_gpumons_cost_what_one_costs(tmp_path: Path) -> None:
    alone = counted(tmp_path / "one", 1)
    assert alone["jobs"] == pytest.approx(120, abs=1)
    three = counted(tmp_path / "three", 3)
    assert {kind: pytest.approx(alone[kind], abs=2) for kind in KINDS} == three
    assert counted(None, 3)["jobs"] > 2.5 * alone["jobs"]


def test_what_another_asked_is_read_with_its_age(tmp_path: Path) -> None:
    neighbours = Neighbours(tmp_path, 2)
    neighbours.run(8.0)
    frame = neighbours.round(neighbours.queues[1], 8.0)
    assert frame.queue is not None
    assert frame.queue.jobs == TEXT_JOBS
    assert frame.queue.jobs_at == pytest.approx(EPOCH + 0.1)
    assert len(frame.queue.nodes) == 3
    assert len(neighbours.client.asked("jobs")) == 1


def test_an_unchanged_answer_is_fresh_for_all_and_never_asked_for_in_full(
    tmp_path: Path,
) -> None:
    neighbours = Neighbours(tmp_path, 3)
    neighbours.client.unchanged_from = 1.0
    frames = neighbours.run(600.0)
    assert neighbours.client.asked("jobs").count(None) == 1
    assert len(neighbours.client.asked("jobs")) == pytest.approx(20, abs=1)
    assert all(frame.queue is not None and frame.queue.jobs == TEXT_JOBS for frame in frames)
    assert all(
        frame.taken_at - frame.queue.jobs_at < 31.0 for frame in frames if frame.queue is not None
    )
    assert not any(frame.errors for frame in frames)


def test_one_that_comes_later_has_the_records_that_are_unchanged(tmp_path: Path) -> None:
    neighbours = Neighbours(tmp_path, 1)
    neighbours.client.unchanged_from = 1.0
    neighbours.run(600.0)
    frame = neighbours.round(neighbours.join(tmp_path))
    assert frame.queue is not None
    assert frame.queue.jobs == TEXT_JOBS
    assert frame.queue.jobs_at > EPOCH + 550.0
    assert neighbours.client.asked("jobs").count(None) == 1


def test_only_whoever_holds_what_lies_there_may_be_told_that_it_is_unchanged(
    tmp_path: Path,
) -> None:
    neighbours = Neighbours(tmp_path, 2)
    first, second = neighbours.queues
    neighbours.round(first, 0.0)
    neighbours.client.answers["jobs"] = {**jobs_of(41, JOBS), "last_update": 1795251999}
    neighbours.round(second, 40.0)
    # Another's newer list is at hand here, of which `unchanged since mine` would say nothing.
    neighbours.round(first, 80.0)
    assert neighbours.client.asked("jobs") == [None, None, None]
    neighbours.round(first, 120.0)
    neighbours.round(second, 130.0)
    assert neighbours.client.asked("jobs")[3:] == [1795251999]


@pytest.mark.parametrize("other", ["bob", ""])
def test_nobody_elses_answers_are_read(tmp_path: Path, other: str) -> None:
    neighbours = Neighbours(tmp_path, 2)
    first, second = neighbours.queues
    neighbours.round(first, 0.0)
    neighbours.client.user = other
    neighbours.round(second, 1.0)
    assert neighbours.client.asked("jobs") == [None, None]
    # A token that now speaks for somebody else leaves nothing that it could be newer than.
    neighbours.round(first, 40.0)
    assert neighbours.client.asked("jobs")[2:] == [None]


def test_a_silent_controller_is_asked_once_other_trouble_is_each_ones_own(tmp_path: Path) -> None:
    silent = rest_failures.timed_out("jobs", 30.0)
    assert failures.is_silence(silent)
    for error, calls in ((silent, 1), (DOWN, 2)):
        neighbours = Neighbours(tmp_path / str(calls), 2)
        neighbours.client.trouble = error
        neighbours.client.down = [(0.0, 60.0, "jobs nodes")]
        frames = neighbours.run(8.0)
        assert [error in frame.errors for frame in frames] == [True, True]
        assert len(neighbours.client.asked("jobs")) == calls


def test_a_file_that_holds_no_list_is_no_empty_queue(tmp_path: Path) -> None:
    neighbours = Neighbours(tmp_path, 2)
    neighbours.round(neighbours.queues[0], 0.0)
    for file in tmp_path.iterdir():
        if file.name.endswith("-job"):
            head, _ = file.read_bytes().split(b"\n", 1)
            text = head.rstrip()
            size = text[text.rindex(b":") + 1 : -1].strip()
            body = b"{}".ljust(int(size))
            file.write_bytes(head + b"\n" + body)
    frame = neighbours.round(neighbours.queues[1], 1.0)
    assert frame.queue is None
    assert "not a list of jobs" in frame.errors[0].message


def identity(now: float = EXPIRES_AT - 60.0, socket: str = "", **environ: str) -> str:
    clock = PretendClock(1e9)
    clock.seconds = now - EPOCH
    return RestClient(
        RestAddress("https://head:6820", socket), clock=clock, environ=environ
    ).identity()


def test_server_and_user_tell_answers_apart_and_no_token_is_in_it() -> None:
    mine = identity(SLURM_JWT=jwt("alice"))
    assert mine
    # A new token of the same user, as a cron job renews it.
    assert identity(SLURM_JWT=jwt("alice", EXPIRES_AT + 600)) == mine
    assert identity(SLURM_JWT=jwt("bob")) not in ("", mine)
    assert identity(SLURM_JWT=jwt("alice"), socket="/run/a.sock") not in ("", mine)
    assert identity(socket="/run/a.sock") not in ("", identity(socket="/run/b.sock"))
    assert not any(part in mine for part in jwt("alice").split("."))


@pytest.mark.parametrize("token", ["", "opaque", "no token", jwt("not a login")])
def test_without_a_token_that_names_its_user_nothing_is_shared(token: str) -> None:
    assert identity(SLURM_JWT=token) == ""


def test_with_a_token_that_is_over_nothing_is_shared() -> None:
    assert identity(EXPIRES_AT - 1.0, SLURM_JWT=jwt()) != ""
    assert identity(EXPIRES_AT + 1.0, SLURM_JWT=jwt()) == ""


def test_what_slurmdbd_could_not_add_is_asked_for_sooner_than_partitions_are(
    tmp_path: Path,
) -> None:
    neighbours = Neighbours(tmp_path, 2)
    said = {"description": "Slurmdb query failed", "error": "Connection refused"}
    whole = neighbours.client.answers["partitions"]
    neighbours.client.answers["partitions"] = {**whole, "errors": [said], "warnings": [said]}
    frame = neighbours.run(1.0)[0]
    assert frame.queue is not None
    assert frame.queue.partitions
    (error,) = frame.errors
    assert isinstance(error, SourceError)
    assert "(slurmdbd)" in error.message
    assert "controller" not in error.message
    neighbours.client.answers["partitions"] = whole
    frames = neighbours.run(170.0)
    assert frames[1].errors
    assert not any(frame.errors for frame in frames[-4:])
    assert len(neighbours.client.asked("partitions")) == 2
