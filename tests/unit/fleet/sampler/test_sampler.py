from __future__ import annotations

import threading

import pytest

from gpumon.fleet.join.join import join
from gpumon.fleet.sampler.sampler import Sampler
from gpumon.model.fault import SourceError, fault
from gpumon.model.finding import DetectionReport
from gpumon.model.records.frame import Frame
from gpumon.model.records.ledger import LedgerTotals
from gpumon.sources.source import Wish
from tests.unit.fleet.factories import DEVICES, frame, gpu_block, job, node, queue, uuid
from tests.worlds.tick import finding


class Clock:
    """Time that passes only where somebody waits."""

    def __init__(self):
        self.time = 100.0
        self.on_wait = lambda now: None

    def now(self):
        return self.time

    monotonic = now

    def wait(self, event, seconds):
        self.time += max(0.0, seconds)
        self.on_wait(self.time)
        return event.is_set()


class Script:
    """A source that delivers given frames when the clock reaches their time."""

    def __init__(self, url, clock, frames):
        self.url = url
        self.clock = clock
        self.frames = sorted(frames, key=lambda f: f.taken_at)
        self.wishes = []
        self.is_closed = False
        self.total = len(self.frames)

    def start(self, wake):
        self.wake = wake

    def poll(self):
        due = [f for f in self.frames if f.taken_at <= self.clock.time]
        self.frames = self.frames[len(due) :]
        return due

    def pending(self):
        return len(self.frames) == self.total and self.total > 0

    def wish(self, wish):
        self.wishes.append(wish)

    def close(self):
        self.is_closed = True


class Past:
    begins_at = None

    def __init__(self):
        self.ticks = []
        self.is_closed = False

    def append(self, tick):
        self.ticks.append(tick)

    def reader(self):
        return tuple(self.ticks)

    def close(self):
        self.is_closed = True


class Judge:
    def __init__(self, is_slow=False):
        self.submitted = []
        self.rehearsed = []
        self.is_busy, self.is_slow = False, is_slow
        self.is_closed = False

    def rehearse(self, tick):
        self.rehearsed.append(tick)
        self.is_busy = self.is_slow

    def submit(self, tick):
        if self.is_busy:
            return False
        self.submitted.append(tick)
        return True

    def report(self):
        error = SourceError("detector", "muted", "")
        return DetectionReport(self.submitted[-1].at, (), (), (error,))

    def collect(self):
        return self.report()

    def finish(self, timeout_s):
        self.is_busy = False
        return self.report() if self.submitted else None

    def close(self):
        self.is_closed = True


def gpu_frame(name, at, origin="ssh", **values):
    return frame(name, {"gpu": gpu_block(name, [0], **values)}, at, origin)


def test_a_single_sample_needs_neither_past_nor_detection():
    clock = Clock()
    source = Script("ssh", clock, [gpu_frame("gpu01", 100.0, power_w=[300.0])])
    tick = Sampler([source], clock, 1.0).sample_for(0.0)
    assert tick.gpus[uuid("gpu01", 0)].value("power_w") == 300.0
    assert tick.history is None
    assert tick.targets[0].is_ok


def test_a_look_waits_for_the_slowest_node_but_not_for_ever():
    clock = Clock()
    quick = Script("a", clock, [gpu_frame("gpu01", 100.0, "a")])
    never = Script("b", clock, [gpu_frame("gpu02", 1e9, "b")])
    tick = Sampler([quick, never], clock, 1.0).sample_for(2.0)
    assert clock.time <= 100.0 + 2.0 + 10.0 + 2.0
    assert [t.is_ok for t in tick.targets] == [True, False]
    assert [(e.where, e.message) for e in tick.errors] == [("b", "no answer in 12 s")]
    assert tick.targets[1].error == tick.errors[0]


def test_a_look_remembers_every_beat_and_judges_the_last():
    clock = Clock()
    past, judge = Past(), Judge()
    frames = [gpu_frame("gpu01", 100.0 + beat, power_w=[beat]) for beat in range(4)]
    sampler = Sampler([Script("ssh", clock, frames)], clock, 1.0, lambda: past, lambda: judge)
    tick = sampler.sample_for(3.0)
    seen = [t.gpus[uuid("gpu01", 0)].value("power_w") for t in past.ticks]
    assert seen == [0.0, 1.0, 2.0, 3.0]
    assert [t.at for t in judge.submitted] == [103.0]
    assert tick.errors[-1].message == "muted"
    sampler.close()
    assert past.is_closed
    assert judge.is_closed


def test_a_short_look_has_no_time_to_find_out_who_hangs():
    clock = Clock()
    judge = Judge()
    frames = [gpu_frame("gpu01", 100.0 + beat, power_w=[1.0]) for beat in range(13)]
    Sampler([Script("ssh", clock, frames)], clock, 1.0, Past, lambda: judge).sample_for(12.0)
    assert judge.rehearsed == []
    assert len(judge.submitted) == 1


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_long_look_finds_out_who_hangs_before_its_end(is_slow):
    clock = Clock()
    judge = Judge(is_slow)
    frames = [gpu_frame("gpu01", 100.0 + 10 * beat, power_w=[1.0]) for beat in range(8)]
    sampler = Sampler([Script("ssh", clock, frames)], clock, 10.0, Past, lambda: judge)
    tick = sampler.sample_for(70.0)
    assert [one.at for one in judge.rehearsed] == [140.0]
    assert [one.at for one in judge.submitted] == [170.0]
    assert tick.errors[-1].message == "muted"


def test_a_silent_node_turns_stale_and_the_others_stay_live():
    clock = Clock()
    silent = Script("a", clock, [gpu_frame("gpu01", 100.0, "a", power_w=[1.0])])
    live = Script(
        "b", clock, [gpu_frame("gpu02", 100.0 + s, "b", power_w=[2.0]) for s in range(12)]
    )
    tick = Sampler([silent, live], clock, 1.0).sample_for(10.0)
    assert tick.gpus[uuid("gpu01", 0)].value("power_w") is None
    assert tick.nodes["gpu01"].is_stale
    assert tick.gpus[uuid("gpu02", 0)].value("power_w") == 2.0


def test_an_error_stands_until_its_node_speaks_again():
    clock = Clock()
    error = SourceError("gpu01", "ssh: it does not answer", "")
    failed = Frame("ssh", "gpu01", 101.0, 0.0, {}, (error,))
    source = Script("ssh", clock, [gpu_frame("gpu01", 100.0), failed, gpu_frame("gpu01", 103.0)])
    past = Past()
    Sampler([source], clock, 1.0, lambda: past).sample_for(4.0)
    by_time = {t.at: t.nodes["gpu01"].errors for t in past.ticks}
    assert by_time == {100.0: (), 101.0: (error,), 102.0: (error,), 103.0: (), 104.0: ()}


def test_the_last_answer_of_the_queue_stays_with_its_age_while_it_fails():
    clock = Clock()
    error = SourceError("scontrol show job", "the controller does not answer", "")
    answer = Frame(
        "slurm", "", 100.0, 0.0, {}, (),
        queue([job("7", {"gpu01": (0,)})], [node("gpu01", DEVICES)]),
    )  # fmt: skip
    source = Script("slurm", clock, [answer, Frame("slurm", "", 101.0, 0.0, {}, (error,))])
    tick = Sampler([source], clock, 1.0).sample_for(5.0)
    assert [view.job.job_id for view in tick.jobs] == ["7"]
    assert tick.queue_at == 100.0
    assert not tick.targets[0].is_ok
    assert tick.targets[0].age_s == 5.0
    assert tick.errors == (error,)


def test_a_node_that_fails_does_not_make_the_queue_look_dead():
    clock = Clock()
    answer = Frame("slurm", "", 100.0, 0.0, {}, (), queue([], [node("gpu01", DEVICES)]))
    failed = Frame("slurm", "gpu01", 100.0, 0.0, {}, (SourceError("gpu01", "refused", ""),))
    tick = Sampler([Script("slurm", clock, [answer, failed])], clock, 1.0).sample_for(0.0)
    assert tick.targets[0].is_ok
    assert tick.targets[0].error.where == "gpu01"


def test_the_thread_keeps_its_beat_and_says_how_late_it_is():
    clock = Clock()
    frames = [gpu_frame("gpu01", 100.0 + beat) for beat in range(10)]
    source = Script("ssh", clock, frames)
    ticks, enough = [], threading.Event()
    sampler = Sampler([source], clock, 1.0)

    def on_tick(tick):
        ticks.append(tick)
        if len(ticks) == 2:
            clock.time += 2.5  # a picture that took too long to draw
        if len(ticks) == 5:
            sampler._closing.set()
            enough.set()

    sampler.start(on_tick)
    assert enough.wait(10)
    sampler.close()
    assert [t.at for t in ticks] == [100.0, 101.0, 103.5, 104.5, 105.5]
    assert [t.lateness_s for t in ticks] == [0.0, 0.0, 1.5, 0.0, 0.0]
    assert source.is_closed


def test_a_wish_reaches_every_source():
    clock = Clock()
    sources = [Script("a", clock, []), Script("b", clock, [])]
    Sampler(sources, clock, 1.0).wish(Wish(period_s=0.5))
    assert [s.wishes for s in sources] == [[Wish(period_s=0.5)]] * 2


def sampled(count, *parts, **given):
    """The first ticks of a sampler's own thread, and the sampler once it has ended."""
    clock, ticks, enough = Clock(), [], threading.Event()
    sources = [part(clock) for part in parts]
    sampler = Sampler(sources, clock, 1.0, **given)

    def on_tick(tick):
        ticks.append(tick)
        if len(ticks) == count:
            sampler._closing.set()
            enough.set()

    sampler.start(on_tick, lambda _failure: enough.set())
    assert enough.wait(10)
    sampler.close()
    sampler._thread.join(10)
    return ticks, sampler


def steady(clock):
    return Script("ssh", clock, [gpu_frame("gpu01", 100.0 + beat) for beat in range(10)])


class Once:
    """Raises on the second call."""

    def __init__(self, real):
        self.real = real
        self.calls = 0

    def __call__(self, *given):
        self.calls += 1
        if self.calls == 2:
            raise KeyError("lost\nmore")
        return self.real(*given)


def messages(ticks):
    return [[error.message for error in tick.errors] for tick in ticks]


def test_a_past_that_fails_is_told_and_the_next_tick_is_remembered():
    past = Past()
    past.append = Once(past.append)
    ticks, sampler = sampled(3, steady, remember=lambda: past)
    said = "gpumon itself failed remembering: KeyError: 'lost\\nmore'"
    assert messages(ticks) == [[], [said], []]
    assert [tick.at for tick in past.ticks] == [100.0, 102.0]
    assert "please report" in ticks[1].errors[0].hint
    assert sampler.failure is None


def test_where_no_picture_can_be_made_the_last_one_stands(monkeypatch, said):
    monkeypatch.setattr("gpumon.fleet.sampler.sampler.join", Once(join))
    ticks, _ = sampled(3, steady)
    assert [(tick.number, tick.at) for tick in ticks] == [(1, 100.0), (2, 100.0), (3, 102.0)]
    assert [len(tick.gpus) for tick in ticks] == [1, 1, 1]
    assert messages(ticks)[1] == ["gpumon itself failed joining: KeyError: 'lost\\nmore'"]
    said(*messages(ticks)[1])


def test_a_first_picture_that_cannot_be_made_is_empty(monkeypatch):
    def broken(*_given):
        raise ValueError("no")

    monkeypatch.setattr("gpumon.fleet.sampler.sampler.join", broken)
    ticks, _ = sampled(1, steady)
    assert (dict(ticks[0].gpus), ticks[0].targets[0].is_ok) == ({}, False)
    assert messages(ticks) == [["gpumon itself failed joining: ValueError: no"]]


def test_a_source_that_breaks_its_contract_leaves_the_others_live(said):
    def broken(clock):
        source = Script("bad", clock, [])
        source.poll = lambda: 1 / 0
        return source

    ticks, _ = sampled(2, broken, steady)
    assert [len(tick.gpus) for tick in ticks] == [1, 1]
    assert messages(ticks)[1] == [
        "gpumon itself failed reading bad: ZeroDivisionError: division by zero"
    ]
    said(*messages(ticks)[1])


def test_pictures_between_two_looks_are_not_judged_and_keep_what_was_found():
    judge = Judge()
    ticks, _ = sampled(8, steady, judge=lambda: judge, remember=Past, judge_every_s=5.0)
    assert [tick.at for tick in judge.submitted] == [100.0, 101.0, 103.0, 106.0]
    assert messages(ticks) == [["muted"]] * 8


def test_what_is_said_of_a_finding_has_the_next_picture_judged():
    judge, said = Judge(), []
    judge.mute = lambda *words: said.append(words)
    clock, ended = Clock(), threading.Event()
    sampler = Sampler([steady(clock)], clock, 1.0, Past, lambda: judge, judge_every_s=5.0)

    def on_tick(tick):
        if tick.at == 104.0:
            sampler.mute(200.0, "idle")
        if tick.at == 106.0:
            sampler._closing.set()
            ended.set()

    sampler.start(on_tick)
    assert ended.wait(10)
    assert said == [(200.0, "idle", None)]
    assert [tick.at for tick in judge.submitted][-2:] == [103.0, 105.0]


def test_detection_that_fails_leaves_the_picture(said):
    judge = Judge()
    judge.submit = Once(judge.submit)
    ticks, _ = sampled(3, steady, judge=lambda: judge, remember=Past)
    assert "gpumon itself failed judging: KeyError: 'lost\\nmore'" in messages(ticks)[1]
    assert messages(ticks)[2] == ["muted"]
    said(next(message for message in messages(ticks)[1] if "failed" in message))


def test_a_look_that_nobody_judges_says_so():
    judge, clock = Judge(), Clock()
    judge.finish = lambda timeout_s: None
    tick = Sampler([steady(clock)], clock, 1.0, Past, lambda: judge).sample_for(1.0)
    assert [error.where for error in tick.errors] == ["detection"]


class Books:
    """Books that cannot be written; they note down what the findings were."""

    def __init__(self, note):
        self.note = note
        self.muted = []

    def take(self, tick):
        self.muted.append(tick.muted)

    def summary(self):
        return LedgerTotals(100.0, 100.0, (), (), note=self.note)

    def close(self):
        pass


def test_books_that_are_not_written_are_one_error_of_each_tick(said):
    ticks, _ = sampled(2, steady, open_ledger=lambda: Books("the disk is full"))
    hint = "ledger.directory in the configuration names another folder"
    assert [tick.errors for tick in ticks] == [
        (SourceError("ledger", "the disk is full", hint),)
    ] * 2
    said(ticks[0].errors[0].message, ticks[0].errors[0].hint)
    ticks, _ = sampled(1, steady, open_ledger=lambda: Books(""))
    assert ticks[0].errors == ()


def test_what_the_books_lose_at_the_end_is_told_where_no_tick_has_told_it():
    class Late(Books):
        def close(self):
            self.note = "the disk is full"

    cases = ((Late(""), "the disk is full"), (Books("is told"), None), (Books(""), None))
    for books, told in cases:
        clock = Clock()
        source = Script("a", clock, [gpu_frame("gpu01", 100.0)])
        sampler = Sampler([source], clock, 1.0, open_ledger=lambda books=books: books)
        sampler.sample_for(1.0)
        sampler.close()
        assert (sampler.unwritten.message if sampler.unwritten else None) == told


def test_the_books_are_shown_what_is_muted():
    judge, books, muted = Judge(), Books(""), (finding("job:1"),)
    judge.report = lambda: DetectionReport(100.0, (), (), (), (), muted)
    ticks, _ = sampled(1, steady, judge=lambda: judge, open_ledger=lambda: books, remember=Past)
    assert ticks[0].findings == ()
    assert books.muted == [muted]


def test_the_end_of_the_thread_is_told_with_the_reason_and_everything_is_closed(said):
    clock = Clock()
    source, past, told = steady(clock), Past(), []
    sampler = Sampler([source], clock, 1.0, lambda: past)

    def on_tick(_tick):
        raise OSError("no screen")

    sampler.start(on_tick, told.append)
    sampler._thread.join(10)
    assert told == [sampler.failure]
    assert sampler.failure.message == "gpumon itself failed sampling: OSError: no screen"
    said(sampler.failure.message, sampler.failure.hint)
    assert (source.is_closed, past.is_closed) == (True, True)


def test_a_traceback_is_for_who_asks(monkeypatch, capsys):
    monkeypatch.delenv("GPUMON_DEBUG", raising=False)
    fault("joining", ValueError("x"))
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("GPUMON_DEBUG", "1")
    fault("joining", ValueError("x"))
    assert "ValueError: x" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("moved_s", "words"), [(3600.0, "forward by 3600 s"), (-86_400.0, "back by 86400 s")]
)
def test_a_clock_that_is_set_is_told_for_a_while_and_sampling_goes_on(moved_s, words, said):
    clock, beats, ticks = Clock(), iter(range(1000)), []
    enough = threading.Event()
    begun = {}

    class Fresh(Script):
        def poll(self):
            return [gpu_frame("gpu01", clock.now(), "a", power_w=[1.0])]

        def pending(self):
            return False

    sampler = Sampler([Fresh("a", clock, [])], clock, 10.0, steady=lambda: begun["steady"])
    begun["steady"] = 0.0

    def on_tick(tick):
        ticks.append(tick)
        begun["steady"] += 10.0
        if next(beats) == 3:
            clock.wall_s = moved_s
        if len(ticks) == 40:
            sampler._closing.set()
            enough.set()

    clock.wall_s = 0.0
    clock.now = lambda: clock.time + clock.wall_s
    sampler.start(on_tick)
    assert enough.wait(10)
    sampler.close()
    told = [[error for error in tick.errors if error.where == "clock"] for tick in ticks]
    assert [bool(one) for one in told] == [False] * 4 + [True] * 30 + [False] * 6
    (error,) = told[4]
    assert words in error.message
    said(error.message, error.hint)
    assert [len(tick.gpus) for tick in ticks] == [1] * 40
    assert not any(gpu.is_stale for tick in ticks[5:] for gpu in tick.gpus.values())


def test_a_clock_that_is_slewed_or_recorded_is_none_that_was_set():
    ticks, _ = sampled(5, steady, steady=iter([0.0, 1.1, 2.0, 2.9, 4.0, 5.0, 6.0]).__next__)
    assert [tick.errors for tick in ticks] == [()] * 5
    ticks, _ = sampled(5, steady)
    assert [tick.errors for tick in ticks] == [()] * 5
