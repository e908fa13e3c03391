"""The jobs are asked for soon after the user's own change, and Slurm is spared all the same."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from gpumon.sources.slurm.commands.schedule import HURRY_REST_S, Schedule
from gpumon.sources.slurm.poll.queue import SlurmQueue
from gpumon.sources.source import Wish
from tests.unit.sources.slurm.poll.test_queue import PretendClock, Scripted

if TYPE_CHECKING:
    import threading


class Changing(PretendClock):
    """On which the user changes jobs at given times."""

    def __init__(self, until_s: float, changes_s: list[float]) -> None:
        super().__init__(until_s)
        self.changes_s = changes_s
        self.queue: SlurmQueue | None = None

    def wait(self, event: threading.Event, seconds: float) -> bool:
        if self.changes_s and self.changes_s[0] <= self.seconds + seconds:
            self.waits += 1
            self.seconds = max(self.seconds, self.changes_s.pop(0))
            assert self.queue is not None
            self.queue.wish(Wish(has_changed_queue=True))
            return event.is_set()
        return super().wait(event, seconds)


def changing(until_s: float, *changes_s: float, call_s: float = 0.1) -> Scripted:
    """What is asked while the user changes jobs."""
    clock = Changing(until_s, list(changes_s))
    commands = Scripted(clock, call_s=call_s)
    environ = {"SLURM_CONF": "/none/x"}
    clock.queue = SlurmQueue("slurm", commands=commands, clock=clock, environ=environ)
    clock.queue.run(lambda: None)
    assert clock.seconds >= until_s, "the queue goes on after a wish"
    return commands


def test_the_users_own_change_has_the_jobs_asked_for_at_once_and_nothing_else() -> None:
    commands = changing(59.0, 12.0)
    assert [at for at, what in commands.calls if what == "job"] == [0.0, 12.0, 42.0]
    assert commands.count("node") == 1


def test_many_changes_cost_a_call_every_five_seconds_at_most() -> None:
    commands = changing(60.0, *(10.0 + n / 10 for n in range(100)))
    asked = [at for at, what in commands.calls if what == "job"]
    assert min(b - a for a, b in pairwise(asked)) >= HURRY_REST_S
    assert len(asked) <= 6


def test_a_change_does_not_hurry_a_slow_controller_or_one_that_is_down() -> None:
    slow = changing(100.0, 12.0, call_s=2.0)
    assert [at for at, what in slow.calls if what == "job"][1] >= 2.0 + 40.0
    schedule = Schedule(30.0)
    schedule.failed(0.0, 0.1, 0.1)
    schedule.hurry(1.0)
    assert schedule.due_at == 60.0


def test_a_wish_for_something_else_leaves_the_queues_beat() -> None:
    queue = SlurmQueue("slurm", commands=Scripted(PretendClock(1.0)), environ={})
    queue.wish(Wish(period_s=1.0))
    assert not queue._bell.is_set()
