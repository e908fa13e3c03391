"""Pictures between two beats of the job that somebody looks at: when, of what, at what cost."""

from __future__ import annotations

import pytest

from gpumon.fleet.sampler.sampler import Sampler
from gpumon.fleet.sampler.zoom_ticks import Closer
from gpumon.model.records.frame import Frame
from gpumon.sources.demo import DemoSource
from gpumon.sources.source import Wish
from tests.unit.fleet.factories import frame, gpu_block
from tests.unit.fleet.sampler.test_sampler import Clock, Past, Script

LOOK = Wish(zoom_nodes=("gpu01",))


def heard(node, at, power_w):
    return frame(node, {"gpu": gpu_block(node, [0], power_w=[power_w])}, at)


class Judge:
    def __init__(self):
        self.judged = []

    def submit(self, tick):
        self.judged.append(tick.at)
        return True

    def collect(self):
        return None

    def close(self):
        pass


def watched(frames, until, period_s=1.0, wishes=(), **changes):
    """Ticks up to a time of the clock, with wishes made at the times that they stand beside."""
    clock = Clock()
    source = Script("slurm", clock, frames)
    past, judge = Past(), Judge()
    sampler = Sampler([source], clock, period_s, lambda: past, lambda: judge, **changes)
    waiting = sorted(wishes, key=lambda pair: pair[0])

    def on_wait(now):
        while waiting and waiting[0][0] <= now:
            sampler.wish(waiting.pop(0)[1])
        if now >= until:
            sampler.close()

    clock.on_wait = on_wait
    ticks = []
    sampler.start(ticks.append)
    sampler._thread.join(10)
    return ticks, past, judge


def every(step_s, node="gpu01", until=112.0):
    count = int((until - 100.0) / step_s)
    return [heard(node, 100.0 + number * step_s, 100.0 + number) for number in range(count)]


def test_without_a_wish_there_is_one_picture_a_beat():
    ticks, _, _ = watched(every(0.5), 110.0)
    assert [tick.at for tick in ticks] == [100.0 + second for second in range(10)]
    assert {tick.zoom_period_s for tick in ticks} == {None}


def test_a_job_that_is_looked_at_is_shown_twice_a_second_and_the_picture_says_so():
    ticks, past, judge = watched(every(0.5), 110.0, wishes=[(103.0, LOOK)])
    times = [tick.at for tick in ticks]
    assert times[:4] == [100.0, 101.0, 102.0, 103.0]
    assert times[4:10] == [103.5, 104.0, 104.5, 105.0, 105.5, 106.0]
    assert {tick.zoom_period_s for tick in ticks if tick.at > 104.0} == {0.5}
    newest = [next(iter(tick.gpus.values())).value("power_w") for tick in ticks[4:8]]
    assert newest == sorted(set(newest))
    assert all(at % 1 == 0 for at in (tick.at for tick in past.ticks))
    assert all(at % 1 == 0 for at in judge.judged)
    assert [tick.number for tick in ticks] == sorted({tick.number for tick in ticks})


def test_what_is_between_two_beats_shows_the_past_of_the_last_one():
    ticks, _, _ = watched(every(0.5), 106.0, wishes=[(102.0, LOOK)])
    between = [at for at, tick in enumerate(ticks) if tick.at % 1]
    assert between
    for at in between:
        assert ticks[at].history == ticks[at - 1].history


def test_a_slow_beat_is_interrupted_at_once_and_once_a_second():
    ticks, _, _ = watched(every(0.5, until=140.0), 138.0, 10.0, [(110.0, LOOK)])
    times = [tick.at for tick in ticks]
    assert times[:2] == [100.0, 110.0]
    assert times[2:11] == [111.0 + second for second in range(9)]


def test_leaving_the_job_ends_it():
    ticks, _, _ = watched(every(0.5), 111.0, wishes=[(102.0, LOOK), (106.0, Wish())])
    assert [tick.at for tick in ticks if tick.at > 106.0 and tick.at % 1] == []
    assert ticks[-1].zoom_period_s is None


@pytest.mark.parametrize(
    "frames",
    [
        pytest.param(every(0.5, "gpu02") + every(1.0), id="only-another-node"),
        pytest.param(every(1.0), id="it-is-read-no-oftener"),
        pytest.param(
            [Frame("slurm", "gpu01", 100.0 + n / 2, 0.0, {}) for n in range(20)], id="bare"
        ),
    ],
)
def test_where_the_job_s_nodes_say_no_more_nothing_is_shown_or_claimed(frames):
    ticks, _, _ = watched(frames, 109.0, wishes=[(102.0, LOOK)])
    assert all(tick.at % 1 == 0 for tick in ticks)
    assert {tick.zoom_period_s for tick in ticks} == {None}


def test_a_picture_that_costs_too_much_is_not_made_again_until_it_is_asked_for_anew():
    closer = Closer()
    closer.wish(LOOK)
    assert closer.step_s(1.0, 1.0) == 0.5
    closer.hear([heard("gpu01", 100.0, 1.0)])
    assert closer.has_news(0.5)
    assert closer.period_s == 0.5
    for seconds in (0.2, 0.2, 0.1, 0.2, 0.2):
        closer.cost(seconds, 0.5)
        assert closer.step_s(1.0, 1.0) == 0.5
    closer.cost(0.2, 0.5)
    assert closer.step_s(1.0, 1.0) is None
    assert closer.period_s is None
    closer.wish(Wish(period_s=2.0))
    assert closer.step_s(1.0, 1.0) is None
    closer.wish(LOOK)
    assert closer.step_s(1.0, 1.0) == 0.5


def test_the_demo_reads_the_nodes_that_are_looked_at_more_often():
    clock = Clock()
    source = DemoSource("demo", 3, 8, 0, clock)
    everything = [one for one in source.poll() if one.blocks]
    assert len(everything) == 3
    clock.time += 0.5
    assert source.poll() == []
    source.wish(Wish(zoom_nodes=(everything[1].node,)))
    (closer,) = source.poll()
    assert closer.node == everything[1].node
    assert closer.taken_at == 100.5
    assert source.poll() == []
    clock.time += 0.5
    assert len([one for one in source.poll() if one.blocks]) == 3
    source.wish(Wish())
    clock.time += 0.5
    assert source.poll() == []


def test_an_end_at_the_very_begin_of_a_wait_is_not_slept_over(monkeypatch):
    clock, waits = Clock(), []
    sampler = Sampler([Script("slurm", clock, [])], clock, 60.0)
    clear = sampler._stirred.clear

    def late():
        sampler.close()
        clear()

    monkeypatch.setattr(sampler._stirred, "clear", late)
    clock.on_wait = waits.append
    sampler._sample_until_closed(lambda _: None)
    assert waits == []
