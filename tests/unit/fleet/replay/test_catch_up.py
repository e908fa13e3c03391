"""A past is lived through at once, on the way to the real clock."""

from __future__ import annotations

import threading
from itertools import pairwise

from gpumon.fleet.history.history import History
from gpumon.fleet.replay.catch_up import CatchUpClock, CatchUpFeed, stride_s
from gpumon.fleet.sampler.sampler import Sampler
from gpumon.sources.demo import DemoSource
from tests.worlds.tick import AT


class Real:
    """A clock that moves by whole waits."""

    def __init__(self) -> None:
        self.time = AT
        self.waited: list[float] = []

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time - AT

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.waited.append(seconds)
        self.time += seconds
        return event.is_set()


def test_waits_of_the_past_take_no_time_and_those_of_the_present_do():
    real, never = Real(), threading.Event()
    clock = CatchUpClock(100.0, real)
    assert clock.now() == AT - 100
    assert clock.progress == 0.0
    clock.wait(never, 40.0)
    assert real.time - AT < 0.1
    assert abs(clock.now() - (AT - 60)) < 0.1
    assert clock.progress == 0.4
    before = clock.monotonic()
    clock.wait(never, 70.0)
    assert clock.progress is None
    assert clock.now() == real.time
    assert abs(clock.monotonic() - before - 70.0) < 0.1
    clock.wait(never, 5.0)
    assert real.waited[-1] == 5.0


def test_a_demo_has_a_past_before_it_is_live_and_then_its_own_beat():
    real = Real()
    clock = CatchUpClock(600.0, real)
    source = DemoSource("demo:2x4", 2, 4, 1, clock, 10.0)
    sampler = Sampler([source], clock, 10.0, History)
    feed = CatchUpFeed(sampler, clock, 1.0)
    ticks, enough = [], threading.Event()

    def take(tick) -> None:
        if not enough.is_set():
            ticks.append((tick, feed.progress))
        if tick.at > AT + 3:
            enough.set()

    feed.start(take)
    assert enough.wait(60.0)
    feed.close()
    past = [tick for tick, progress in ticks if progress is not None]
    live = [tick for tick, progress in ticks if progress is None]
    assert len(past) in (60, 61)
    assert past[0].at == AT - 600
    assert max(tick.lateness_s for tick, _ in ticks) < 0.1
    assert {round(b.at - a.at) for a, b in pairwise(live[1:])} == {1}
    newest = live[-1]
    uuid = next(iter(newest.gpus))
    times, _ = newest.history.window(uuid, "power_w", AT - 600, newest.at)
    assert len(times) == len(ticks)
    assert newest.observed_since == past[0].at


def test_long_pasts_take_longer_strides():
    assert stride_s(7200.0, 1.0) == 15.0
    assert stride_s(60.0, 1.0) == 1.0
