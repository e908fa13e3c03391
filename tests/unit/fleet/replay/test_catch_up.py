"""A past is lived through at once, on the way to the real clock."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest

from gpumon.detect.engine.engine import DetectionEngine
from gpumon.detect.series import LEAST_GAP_S
from gpumon.fleet.history.history import History
from gpumon.fleet.ledger.ledger import Ledger
from gpumon.fleet.replay.catch_up import (
    EVALUATION_S,
    LATE_EVALUATION_S,
    LATE_S,
    LATE_STRIDE_S,
    RUN_UP_S,
    STRIDE_S,
    CatchUpClock,
    CatchUpFeed,
    lagging,
    strides_of,
)
from gpumon.fleet.replay.feed import patient
from gpumon.fleet.sampler.sampler import Sampler
from gpumon.model.finding import DetectionReport
from gpumon.model.records.ledger import STATES
from gpumon.sources.demo import DemoSource
from gpumon.sources.source import Wish
from tests.worlds.clocks import Hasty
from tests.worlds.tick import AT

PATIENCE_S = 120.0


class Real:
    """A clock that moves by whole waits, and by what each look at it costs."""

    def __init__(self, for_s: float = 0.0) -> None:
        self.time = AT
        self.for_s = for_s
        self.waited: list[float] = []

    def now(self) -> float:
        self.time += self.for_s
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
    assert clock.now() == AT - 100 - RUN_UP_S
    clock.wait(never, 40.0)
    assert real.time - AT < 0.1
    assert clock.now() == AT - 60 - RUN_UP_S
    before = clock.monotonic()
    clock.wait(never, 170.0)
    assert clock.behind_s == 0.0
    assert clock.now() == real.time
    assert abs(clock.monotonic() - before - 170.0) < 0.1
    clock.wait(never, 5.0)
    assert real.waited[-1] == 5.0
    assert abs(clock.monotonic() - before - 175.0) < 0.1


def test_a_rest_too_short_for_a_picture_joins_the_stride_before_it():
    clock, never = CatchUpClock(44.0, Real()), threading.Event()
    clock.wait(never, 41.0)
    assert clock.behind_s == pytest.approx(3.0 + RUN_UP_S, abs=0.1)
    clock.wait(never, 40.0)
    assert clock.behind_s == 0.0
    assert clock.monotonic() == pytest.approx(81.0, abs=0.1)


def past_of(seconds, period_s, real=None, nodes=1, **parts):
    """A demo's source and its feed with so much of a past, and what keeps its ticks."""
    clock = CatchUpClock(seconds, real or Real())
    stride_s = strides_of(period_s).at(clock.behind_s)
    source = DemoSource("demo:", nodes, 4, 5, clock, stride_s, clock.behind_s)
    if "judge" in parts:
        parts["judge"] = lagging(parts["judge"], clock)
    sampler = Sampler([source], clock, stride_s, History, **parts)
    return CatchUpFeed(sampler, clock, period_s), source


def lived(feed, after_s=3.0):
    """Each tick until a little after the past, with the progress when it came."""
    ticks, enough = [], threading.Event()

    def take(tick) -> None:
        if not enough.is_set():
            ticks.append((tick, feed.progress))
        if feed.progress is None and tick.at > AT + after_s:
            enough.set()

    feed.start(take)
    assert enough.wait(PATIENCE_S)
    feed.close()
    return ticks


def test_a_past_is_walked_through_in_long_strides_then_short_ones_then_beats():
    feed, _ = past_of(3000.0, 2.0)
    ticks = lived(feed)
    steps = [(b.at - a.at, AT - a.at) for (a, _), (b, _) in pairwise(ticks)]
    assert {step for step, behind in steps if behind > LATE_S} == {STRIDE_S}
    late = [step for step, behind in steps if 2 * LATE_STRIDE_S < behind <= LATE_S]
    assert set(late) == {LATE_STRIDE_S}
    live = [tick for tick, progress in ticks if progress is None]
    assert {round(b.at - a.at) for a, b in pairwise(live)} == {2}
    assert {tick.period_s for tick in live} == {2.0}
    assert max(tick.lateness_s for tick, _ in ticks) < 0.1
    assert live[-1].observed_since == ticks[0][0].at == AT - 3000 - RUN_UP_S
    uuid = next(iter(live[-1].gpus))
    times, _ = live[-1].history.window(uuid, "power_w", AT - 4000, live[-1].at)
    assert len(times) == len(ticks)


def test_no_stride_leaves_a_gap_however_slow_the_machine_is():
    """Two pictures further apart than that are a gap to whoever judges the present."""
    feed, _ = past_of(2000.0, 1.0, Real(for_s=0.3))
    ticks = [tick for tick, progress in lived(feed) if progress is not None]
    assert max(b.at - a.at for a, b in pairwise(ticks)) <= STRIDE_S < LEAST_GAP_S


def test_a_slow_start_is_no_progress_and_no_step_back():
    real = Real()
    feed, _ = past_of(2700.0, 1.0, real)
    real.time += 3.0
    assert feed.progress.ratio == 0.0


def test_progress_counts_pictures_and_is_over_with_the_first_of_the_present():
    feed, _ = past_of(2700.0, 1.0)
    told = [progress for _, progress in lived(feed)]
    past = [one for one in told if one is not None]
    assert told[: len(past)] == past
    assert {one.past_s for one in past} == {2700.0}
    steps = [b.ratio - a.ratio for a, b in pairwise(past)]
    assert past[0].ratio == pytest.approx(0.0, abs=0.001)
    assert max(steps) < 2.5 / len(past)
    assert past[-1].ratio < 1.0


class Slow:
    """An engine whose worker answers when it is waited for, and tells of what."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.waited: list[float] = []

    def submit(self, tick) -> bool:
        self.asked.append(tick.at)
        return True

    def finish(self, _timeout_s: float) -> DetectionReport:
        self.waited.append(self.asked[-1])
        return DetectionReport(self.asked[-1], (), (), ())

    def collect(self) -> None:
        return None

    def close(self) -> None:
        """Nothing runs."""


def test_a_past_is_judged_now_and_then_and_its_last_picture_for_sure():
    engine = Slow()
    feed, _ = past_of(4000.0, 1.0, judge=lambda: engine)
    ticks = [tick.at for tick, _ in lived(feed)]
    last = min(at for at in ticks if at >= AT)
    asked = [at for at in engine.asked if at <= last]
    assert asked[-1] == last == engine.waited[-1]
    early = [b - a for a, b in pairwise(asked) if a < AT - LATE_S - EVALUATION_S]
    late = [b - a for a, b in pairwise(asked) if a > AT - LATE_S][:-1]
    assert EVALUATION_S <= min(early) <= max(early) < EVALUATION_S + STRIDE_S
    assert LATE_EVALUATION_S <= min(late) <= max(late) < LATE_EVALUATION_S + LATE_STRIDE_S


def test_what_is_asked_of_the_accounting_is_answered_for_the_present():
    feed, _ = past_of(1500.0, 1.0)
    feed.wish(Wish(ended_since=AT - 86400))
    last = feed.lived_through()
    feed.close()
    assert last is not None
    assert last.at == pytest.approx(AT, abs=1.0)
    assert last.ended is not None
    assert last.ended.at == last.at
    assert {node.taken_at for node in last.nodes.values() if node.taken_at} == {last.at}


def test_a_past_that_breaks_off_has_no_last_picture(monkeypatch):
    feed, _ = past_of(600.0, 1.0)
    monkeypatch.setattr(CatchUpFeed, "progress", property(lambda _: 1 / 0))
    assert feed.lived_through() is None
    assert feed.failure is not None
    feed.close()


def booked(tick):
    """GPU-seconds of each loss of a job, and of all jobs by what else became of them."""
    found: dict[tuple[str, str], float] = {}
    for account in tick.ledger.accounts:
        for key, seconds in account.seconds_at(tick.ledger.at - tick.ledger.since).items():
            # Near the floor of useful work one sample decides of a job, but not of all of them.
            what = ("" if key in STATES else account.job_id, key)
            found[what] = found.get(what, 0.0) + seconds
    return found


@pytest.mark.slow
def test_a_past_lived_through_quickly_has_the_findings_and_books_of_each_beat():
    past_s, size, beat_s = 7800.0, (10, 8, 4), 10.0

    def whole(clock, source, stride_s, judge) -> Sampler:
        return Sampler([source], clock, stride_s, History, judge, open_ledger=Ledger)

    clock = CatchUpClock(past_s, Real())
    begun_s = clock.behind_s
    stride_s = strides_of(1.0).at(begun_s)
    quick = DemoSource("demo:", *size, clock, stride_s, begun_s)
    sampler = whole(clock, quick, stride_s, lagging(DetectionEngine, clock))
    feed = CatchUpFeed(sampler, clock, 1.0)
    seen = feed.lived_through()
    feed.close()

    hasty, true, is_over = Hasty(AT - begun_s), [], threading.Event()
    full = DemoSource("demo:", *size, hasty, beat_s, begun_s)
    judge = patient(DetectionEngine, lambda _: True, PATIENCE_S)
    beats = whole(hasty, full, beat_s, judge)

    def take(tick) -> None:
        if tick.at >= AT and not is_over.is_set():
            true.append(tick)
            is_over.set()

    beats.start(take)
    assert is_over.wait(5 * PATIENCE_S), beats.failure
    beats.close()

    (expected,) = true
    onsets = {one.identity: one.began_at for one in seen.findings}
    sure = {one.identity: one.confidence for one in seen.findings}
    assert sure == {one.identity: one.confidence for one in expected.findings}
    for one in expected.findings:
        length_s = expected.at - one.began_at
        assert onsets[one.identity] == pytest.approx(one.began_at, abs=0.05 * length_s)
    here, there = booked(seen), booked(expected)
    much = {what for what in {*here, *there} if max(here.get(what, 0), there.get(what, 0)) > 360}
    assert len(much) > 10
    for what in much:
        assert here.get(what, 0.0) == pytest.approx(there.get(what, 0.0), rel=0.05), what
