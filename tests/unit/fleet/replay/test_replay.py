"""Recorded time through the sampler: the same pictures as live, at any speed, from any instant."""

from __future__ import annotations

import itertools
import json
import threading
from math import inf

import pytest

from gpumon.detect.engine.engine import DetectionEngine
from gpumon.fleet.history.history import History
from gpumon.fleet.ledger.ledger import Ledger
from gpumon.fleet.replay import replay
from gpumon.fleet.replay.backfill import backfill
from gpumon.fleet.replay.clock import ReplayClock
from gpumon.fleet.replay.feed import patient, play, playback_at
from gpumon.fleet.replay.recorder import Recorder
from gpumon.fleet.replay.replay import ReplayFeed
from gpumon.fleet.sampler.pace import JUDGE_S
from gpumon.fleet.sampler.sampler import Sampler
from gpumon.model.finding import DetectionReport
from gpumon.report.document.document import document
from gpumon.sources.demo import DemoSource
from gpumon.sources.recording.source import Playback, Recording
from gpumon.sources.recording.write import RecordingWriter
from tests.worlds.clocks import Hasty
from tests.worlds.probe import PATIENCE_S
from tests.worlds.tick import finding

START = 1_767_225_600.0
BEATS = 400


def approximately(one, other, path=""):
    """Documents are equal but for the digits that are not recorded."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), path
        for key in one:
            approximately(one[key], other[key], f"{path}.{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), path
        for number, (a, b) in enumerate(zip(one, other, strict=True)):
            approximately(a, b, f"{path}[{number}]")
    elif isinstance(one, float) or isinstance(other, float):
        assert other == pytest.approx(one, rel=1e-4, abs=0.51 if "bytes" in path else 0.01), path
    else:
        assert one == other, path


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """A recording of the demo, and the document of its last picture."""
    path = tmp_path_factory.mktemp("recording") / "demo.gpumon.zst"
    clock = Hasty(START)
    source = DemoSource("demo:2x8", 2, 8, 1, clock, 1.0)
    writer = RecordingWriter(path, START, 1.0, ["demo:2x8"])
    recorder = Recorder(writer, lambda error: None)

    class Noting(Sampler):
        """Closes a picture in the recording with each that is made, as `record` does."""

        def tick(self, lateness_s):
            tick = super().tick(lateness_s)
            recorder.end_tick(tick)
            return tick

    shown, is_shown, is_over = [], threading.Event(), threading.Event()

    def show(tick):
        if tick.at >= START + BEATS:
            shown.append(document(tick, lambda _: True))
            is_shown.set()
            # The recording ends with this picture.
            is_over.wait()

    sources = recorder.sources([source])
    judge = patient(DetectionEngine, lambda _: True, PATIENCE_S)
    sampler = Noting(sources, clock, 1.0, History, judge, open_ledger=Ledger, judge_every_s=JUDGE_S)
    sampler.start(show)
    try:
        assert is_shown.wait(PATIENCE_S), sampler.failure
    finally:
        sampler.close()
        is_over.set()
    writer.close()
    return path, shown[0]


def last(path, **options):
    ticks = []
    play(
        Recording(path),
        ticks.append,
        History,
        options.pop("judge", None),
        is_wanted=lambda _at, is_last: is_last,
        **options,
    )
    return ticks[-1]


def test_a_replay_gives_the_document_that_live_gave(live):
    path, shown = live
    replayed = document(last(path, judge=DetectionEngine), lambda _: True)
    assert [f["class"] for f in shown["findings"]]
    approximately(shown, replayed)


class Counting:
    """Judges at once, and remembers which pictures it was given."""

    def __init__(self):
        self.asked = []

    def submit(self, tick):
        self.asked.append(tick.at - START)
        return True

    def collect(self):
        return self.finish(0.0)

    def finish(self, timeout_s):
        at = START + self.asked[-1]
        return DetectionReport(at, (finding(summary=f"looked {len(self.asked)} times"),), (), ())

    def close(self):
        """Nothing to free."""


def shown_every(path, watch_s):
    """What is judged, and what the documents say, where one is written so often."""
    engines, told, due = [], {}, [START]

    def judge():
        engines.append(Counting())
        return engines[-1]

    def show(tick):
        due[0] = tick.at + watch_s
        told[tick.at - START] = [found.summary for found in tick.findings]

    play(Recording(path), show, History, judge, is_wanted=lambda at, _is_last: at >= due[0])
    return engines[0].asked, told


@pytest.mark.slow
def test_what_is_judged_does_not_hang_on_what_is_written(live):
    often, seldom = shown_every(live[0], 7.0), shown_every(live[0], 91.0)
    assert often[0] == seldom[0]
    steps = [later - earlier for earlier, later in itertools.pairwise(often[0])]
    assert max(steps) == JUDGE_S
    assert set(seldom[1]) == {0.0, 91.0, 182.0, 273.0, 364.0}
    both = set(often[1]) & set(seldom[1])
    assert both == {0.0, 91.0, 182.0, 273.0, 364.0}
    assert all(often[1][at] == seldom[1][at] for at in both)


def test_an_instant_in_between_is_shown_as_it_was(live):
    path, _ = live
    tick = last(path, until=START + 100.5)
    assert tick.at == START + 100
    uuid = next(iter(tick.gpus))
    times, _ = tick.history.window(uuid, "power_w", START, START + 200)
    assert list(times) == [START + n for n in range(101)]


class Seen:
    def __init__(self):
        self.times = []
        self.changed = threading.Condition()

    def __call__(self, tick):
        with self.changed:
            self.times.append(tick.at - START)
            self.changed.notify_all()

    def until(self, condition):
        with self.changed:
            assert self.changed.wait_for(lambda: condition(self.times), 30), self.times[-5:]


class Fast:
    """A real clock on which a minute passes whenever somebody looks."""

    def __init__(self):
        self.time = 0.0

    def monotonic(self):
        self.time += 60.0
        return self.time


@pytest.fixture
def feed(live):
    made = ReplayFeed(Recording(live[0]), History, None, real=Fast())
    yield made
    made.close()


@pytest.mark.slow
def test_a_feed_steps_and_seeks(feed):
    seen = Seen()
    feed.pause()
    feed.start(seen)
    seen.until(lambda times: times == [0.0])
    feed.step(2)
    seen.until(lambda times: times == [0.0, 1.0, 2.0])
    feed.seek(START + 300.4)
    seen.until(lambda times: times[3:] == [300.0])
    feed.step(1)
    seen.until(lambda times: times[3:] == [300.0, 301.0])
    feed.step(-1)
    seen.until(lambda times: times[-1] == 300.0)
    feed.step(-3)
    seen.until(lambda times: times[-1] == 297.0)
    assert feed.is_paused
    assert feed.now == START + 297
    assert feed.span == (START, START + BEATS)


def test_keys_do_not_wait_for_a_seek_in_a_file_that_hangs(feed, monkeypatch):
    reads, goes_on = threading.Event(), threading.Event()

    def held(*words):
        reads.set()
        assert goes_on.wait(PATIENCE_S)
        return playback_at(*words)

    monkeypatch.setattr(replay, "playback_at", held)
    seen = Seen()

    def seek():
        feed.start(seen)
        feed.seek(START + 300.4)

    seeker = threading.Thread(target=seek, daemon=True)
    seeker.start()
    assert reads.wait(PATIENCE_S)
    keys = threading.Thread(target=lambda: (feed.pause(), feed.speed(4.0)), daemon=True)
    keys.start()
    keys.join(PATIENCE_S)
    assert not keys.is_alive()
    goes_on.set()
    seeker.join()
    seen.until(lambda times: times[-1:] == [300.0])
    assert (feed.is_paused, feed._clock.is_paused, feed._clock.speed) == (True, True, 4.0)


def test_what_was_closed_while_it_was_read_is_not_played(feed, monkeypatch):
    def ended(*words):
        feed.close()
        return playback_at(*words)

    monkeypatch.setattr(replay, "playback_at", ended)
    feed.start(Seen())
    assert feed._sampler is None


class Slow:
    """A detection engine whose report is there only for who waits for it."""

    def __init__(self):
        self.asked = 0
        self.waited = []

    def submit(self, _tick):
        self.asked += 1
        return True

    def collect(self):
        return None

    def finish(self, timeout_s):
        self.waited.append(timeout_s)
        return DetectionReport(START, (finding("job:7"),), (), ())

    def close(self):
        """Nothing to free."""


def test_an_instant_that_was_sought_is_shown_with_its_findings(live):
    engines = []

    def judge():
        engines.append(Slow())
        return engines[-1]

    found = []
    seen = Seen()

    def show(tick):
        found.append([one.subject for one in tick.findings])
        seen(tick)

    feed = ReplayFeed(Recording(live[0]), History, judge, real=Fast())
    feed.pause()
    feed.start(show)
    seen.until(lambda times: times == [0.0])
    assert found == [[]]
    feed.seek(START + 300.4)
    seen.until(lambda times: times[1:] == [300.0])
    feed.step(1)
    seen.until(lambda times: times[1:] == [300.0, 301.0])
    feed.close()
    assert found[1] == ["job:7"]
    assert engines[1].asked == 2
    assert len(engines[1].waited) == 1


def test_seeking_past_either_end_stays_inside(feed):
    seen = Seen()
    feed.pause()
    feed.start(seen)
    feed.seek(0.0)
    seen.until(lambda times: times[-1:] == [0.0])
    feed.seek(inf)
    seen.until(lambda times: times[-1] == BEATS)
    feed.pause(False)
    assert feed.now == START + BEATS


def test_a_speed_stays_within_its_bounds(feed):
    assert [feed.speed(x) for x in (0.1, 2.0, 1000.0)] == [0.5, 2.0, 60.0]


def clock_of(live, speed, real):
    playback = Playback(Recording(live[0]))
    return ReplayClock(playback, speed, real), threading.Event()


@pytest.mark.parametrize("apart_s", [0.9997, 1.0, 1.0003])
def test_pictures_that_come_a_little_early_or_late_are_all_shown(tmp_path, apart_s):
    """A recorder whose beat is off by a third of a millisecond lost every second picture here."""
    path = tmp_path / "beats.gpumon"
    start = 1795700000.0
    lines = [
        {"kind": "header", "format": "gpumon-recording", "version": 1, "tool": "other",
         "started_at": start, "period_s": 1.0, "targets": ["local"]},
        {"kind": "sync", "at": start},
    ]  # fmt: skip
    lines += [{"kind": "beat", "at": start + apart_s * beat, "period_s": 1.0} for beat in range(31)]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")
    seen = []
    failure = play(
        Recording(path),
        lambda tick: None,
        None,
        None,
        is_wanted=lambda at, is_last: bool(seen.append((at, is_last))),
    )
    assert failure is None
    assert len(seen) == 31
    assert seen[-1] == (start + apart_s * 30, True)


def test_at_a_high_speed_pictures_are_left_out(live):
    clock, event = clock_of(live, 60.0, Fast())
    for _ in range(3):
        clock.wait(event, 1.0)
    assert clock.now() == START + 9
    assert clock.monotonic() == 3.0


def test_whoever_does_not_wait_sees_no_time_pass(live):
    clock, event = clock_of(live, inf, Fast())
    clock.wait(event, 0.0)
    assert clock.now() == START
    clock.wait(event, 1.0)
    assert clock.now() == START + 1


def test_the_end_is_told_and_lets_go(live):
    playback = Playback(Recording(live[0]), None, START)
    clock, event = ReplayClock(playback, inf, Fast()), threading.Event()
    event.set()
    assert clock.wait(event, 1.0)
    assert clock.ended.is_set()
    clock.release()
    assert not clock.wait(threading.Event(), 1.0)


def test_a_past_begins_with_what_was_recorded(live):
    history = History()
    now = START + 350
    assert backfill(history, Recording(live[0]), now, 60.0) == 350
    reader = history.reader()
    uuid = next(iter(last(live[0], until=START).gpus))
    times, values = reader.window(uuid, "power_w", START, now)
    assert (times[0], times[-1]) == (START, START + 349)
    assert min(values) > 0
    history.close()


def test_without_time_a_past_begins_empty(live):
    history = History()
    assert backfill(history, Recording(live[0]), START + 350, 0.0) < 350
    history.close()
