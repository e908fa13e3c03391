"""A recording as a feed of ticks: pause, speed, steps, and seeking by time."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from math import inf
from typing import TYPE_CHECKING, Final

from gpumon.fleet.ledger import Ledger
from gpumon.fleet.replay_clock import ReplayClock
from gpumon.fleet.sampler import Sampler
from gpumon.sources.recording import Playback, RecordedTarget
from gpumon.sources.source import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.fleet.partners import Detection, Past
    from gpumon.model.finding import DetectionReport
    from gpumon.model.frame import SourceError
    from gpumon.model.tick import Tick, WindowReader
    from gpumon.sources.recording import Recording, Span
    from gpumon.sources.source import Clock, Wish

LOOK_BACK_S: Final = 3600.0
"""How much of the past before the instant that is sought is known there: history's own span."""

FINE_S: Final = 600.0
"""How much of it in every picture at least; one of each passage, a minute, will do before."""

FINE_BYTES: Final = 2 * 2**20
"""So much of a file is read in every picture, for a second of a core: an hour of two dozen GPUs,
a quarter of one of 48, so that findings at the instant have the windows that they need."""

MIN_SPEED: Final = 0.5
MAX_SPEED: Final = 60.0

MIN_AGE_S: Final = 0.001
"""A picture of this very instant is the live one's."""

MAX_SHOWN: Final = 3600
"""Pictures whose times are kept for steps backward."""

SOUGHT_S: Final = 4.0
"""The first picture after a seek waits this long for its findings: where the time stands there
is no later one that could bring them."""

JUDGE_S: Final = 60.0
"""A headless replay waits this long for the findings of a picture."""


class ReplayFeed:
    """Ticks of a recording for the terminal; the sampler is the one that live targets have."""

    def __init__(
        self,
        recording: Recording,
        remember: Callable[[], Past] | None = None,
        judge: Callable[[], Detection] | None = None,
        speed: float = 1.0,
        start: float | None = None,
        real: Clock | None = None,
    ) -> None:
        """Nothing is played before `start`.

        Args:
            recording: What is played.
            remember: Makes the memory, anew for each seek.
            judge: Makes the detection engine likewise.
            speed: Recorded seconds per real one, 0.5 to 60.
            start: Unix time to begin at; None: the first picture.
            real: The clock that says how fast to play; None: the machine's.
        """
        self.recording = recording
        self._remember = remember
        self._judge = judge
        self._speed = speed
        self._first_at = start
        self._real = real or SystemClock()
        self._on_tick: Callable[[Tick], None] | None = None
        self._is_paused = False
        self._lock = threading.RLock()
        self._clock: ReplayClock | None = None
        self._sampler: Sampler | None = None
        self._generation = 0
        self._shown: deque[float] = deque(maxlen=MAX_SHOWN)

    @property
    def span(self) -> Span:
        """From the first recorded picture to the last."""
        return self.recording.span

    @property
    def now(self) -> float:
        """Recorded Unix time that is shown."""
        return self._shown[-1] if self._shown else self.span.start

    @property
    def times(self) -> float:
        """Recorded seconds per real one."""
        return self._speed

    @property
    def is_paused(self) -> bool:
        """Whether the time stands."""
        return self._is_paused

    @property
    def failure(self) -> SourceError | None:
        """Why there will be no tick any more; None: there will."""
        return None if self._sampler is None else self._sampler.failure

    def start(self, on_tick: Callable[[Tick], None]) -> None:
        """Begin to play; `on_tick` is called from a thread of the feed's own."""
        self._on_tick = on_tick
        self._open(self._first_at)

    def wish(self, wish: Wish) -> None:
        """The past cannot be asked to go faster or look closer."""

    def acknowledge(self, identity: tuple[str, str, str], *, is_known: bool = True) -> bool:
        """Note that somebody knows of a finding, until the next seek; False: it does not stand."""
        sampler = self._sampler
        return sampler is not None and sampler.acknowledge(identity, is_known=is_known)

    def mute(
        self, until: float, finding_class: str | None = None, subject: str | None = None
    ) -> None:
        """Have a class, a subject or both not told before a recorded time, until the next seek."""
        if self._sampler is not None:
            self._sampler.mute(until, finding_class, subject)

    def pause(self, is_paused: bool = True) -> None:
        """Let the time stand, or go on."""
        with self._lock:
            self._is_paused = is_paused
            if self._clock is not None:
                self._clock.pause(is_paused)

    def speed(self, times: float) -> float:
        """Play so many recorded seconds in a real one; returns what it is within the bounds."""
        with self._lock:
            self._speed = min(MAX_SPEED, max(MIN_SPEED, times))
            if self._clock is not None:
                self._clock.set_speed(self._speed)
            return self._speed

    def seek(self, at: float) -> None:
        """Show the last picture up to a time, and go on from there.

        The past before it is read anew, so that history and findings are as they were.
        """
        self._open(min(max(at, self.span.start), self.span.end))

    def step(self, pictures: int) -> None:
        """Go so many pictures forward, or backward where negative, and stand there."""
        with self._lock:
            self._is_paused = True
            if self._clock is None:
                return
            if pictures >= 0:
                self._clock.step(pictures)
                return
        shown = list(self._shown)
        if len(shown) > -pictures:
            self.seek(shown[pictures - 1])
        else:
            self.seek(self._back(-pictures))

    def close(self) -> None:
        """Stop; bounded as the sampler's own end is."""
        with self._lock:
            self._generation += 1
            clock, sampler = self._clock, self._sampler
            self._clock = self._sampler = None
        if clock is not None:
            clock.release()
        if sampler is not None:
            sampler.close()

    def _open(self, at: float | None) -> None:
        """Play from a time on with a sampler that has seen what came before."""
        on_tick = self._on_tick
        if on_tick is None:
            self._first_at = at
            return
        self.close()
        with self._lock:
            generation = self._generation
            playback = playback_at(self.recording, at)
            clock = ReplayClock(playback, self._speed, self._real)
            clock.pause(self._is_paused)
            if at is not None:
                clock.hurry(at)
            self._shown = deque(maxlen=MAX_SHOWN)
            looks = 0 if at is None else 1
            made = _patient(self._judge, lambda _: not clock.is_hurrying, SOUGHT_S, looks)
            sampler = sampler_of(self.recording, playback, clock, self._remember, made)
            self._clock, self._sampler = clock, sampler

            def show(tick: Tick) -> None:
                if generation == self._generation and not clock.is_hurrying:
                    self._shown.append(tick.at)
                    on_tick(tick)

            sampler.start(show)

    def _back(self, pictures: int) -> float:
        """Unix time of the picture so many before the one that is shown."""
        now = self.now
        times = [beat.at for beat in Playback(self.recording, now - FINE_S, now).beats()]
        found = bisect_right(times, now) - 1 - pictures
        return times[max(0, found)] if times else now


class _Patient:
    """The detection engine, asked only for the pictures that are shown, and waited for if told."""

    def __init__(
        self,
        engine: Detection,
        is_wanted: Callable[[Tick], bool],
        wait_s: float,
        looks: float,
    ) -> None:
        """`looks`: how many are waited for, `wait_s` seconds each."""
        self._engine = engine
        self._is_wanted = is_wanted
        self._wait_s = wait_s
        self._looks = looks
        self._is_asked = False

    def submit(self, tick: Tick) -> bool:
        self._is_asked = self._is_wanted(tick) and self._engine.submit(tick)
        return self._is_asked

    def collect(self) -> DetectionReport | None:
        if not self._is_asked or self._looks <= 0:
            return self._engine.collect()
        self._looks -= 1
        return self._engine.finish(self._wait_s)

    def finish(self, timeout_s: float) -> DetectionReport | None:
        return self._engine.finish(timeout_s)

    def acknowledge(self, identity: tuple[str, str, str], *, is_known: bool = True) -> bool:
        return self._engine.acknowledge(identity, is_known=is_known)

    def mute(
        self, until: float, finding_class: str | None = None, subject: str | None = None
    ) -> None:
        self._engine.mute(until, finding_class, subject)

    def close(self) -> None:
        self._engine.close()


def _patient(
    judge: Callable[[], Detection] | None,
    is_wanted: Callable[[Tick], bool],
    wait_s: float,
    looks: float = inf,
) -> Callable[[], Detection] | None:
    """Makes the engine as `judge` does, asked for some pictures only."""
    return None if judge is None else lambda: _Patient(judge(), is_wanted, wait_s, looks)


def playback_at(recording: Recording, at: float | None, until: float = inf) -> Playback:
    """A playback that begins as far before a time as its history needs."""
    if at is None:
        return Playback(recording, None, until)
    fine_s = max(FINE_S, FINE_BYTES / max(1.0, recording.bytes_per_s))
    return Playback(recording, at - LOOK_BACK_S, until, at - fine_s)


def sampler_of(
    recording: Recording,
    playback: Playback,
    clock: ReplayClock,
    remember: Callable[[], Past] | None,
    judge: Callable[[], Detection] | None,
) -> Sampler:
    """The sampler over a recording's targets."""
    urls = recording.targets or (str(recording.path),)
    sources = [
        RecordedTarget(url, playback, clock.ended.set, is_first=not number)
        for number, url in enumerate(urls)
    ]
    return Sampler(sources, clock, playback.period_s, remember, judge, keep_books=Ledger)


def backfill(past: Past, recording: Recording, now: float, limit_s: float = 1.0) -> int:
    """Remember what a recording knows of the hour before now; before the first live picture only.

    Args:
        past: What is filled; it stays open.
        recording: Of the same targets.
        now: Unix time before which pictures are taken.
        limit_s: Real seconds after which the rest, the newest, is left out.

    Returns:
        Number of pictures that were remembered.
    """
    playback = Playback(recording, now - LOOK_BACK_S, now - MIN_AGE_S, now - FINE_S)
    clock = ReplayClock(playback, inf, SystemClock())
    kept = _Kept(past, now - LOOK_BACK_S)
    sampler = sampler_of(recording, playback, clock, lambda: kept, None)
    sampler.start(lambda _: None)
    clock.ended.wait(limit_s)
    kept.close()
    clock.release()
    sampler.close()
    return kept.count


class _Kept:
    """A memory that outlives the sampler which fills it, and takes nothing once that is over."""

    def __init__(self, past: Past, since: float) -> None:
        self._past = past
        self._since = since
        self._lock = threading.Lock()
        self._is_over = False
        self.count = 0

    @property
    def begins_at(self) -> float | None:
        return self._past.begins_at

    def append(self, tick: Tick) -> None:
        with self._lock:
            if not self._is_over and tick.at >= self._since:
                self._past.append(tick)
                self.count += 1

    def reader(self) -> WindowReader:
        return self._past.reader()

    def close(self) -> None:
        with self._lock:
            self._is_over = True


def play(
    recording: Recording,
    on_tick: Callable[[Tick], None],
    remember: Callable[[], Past] | None,
    judge: Callable[[], Detection] | None,
    *,
    since: float | None = None,
    until: float = inf,
    is_wanted: Callable[[float, bool], bool],
    speed: float = inf,
    ended: threading.Event | None = None,
) -> SourceError | None:
    """Play without a terminal, in a thread, until the end has been reached.

    Args:
        recording: What is played.
        on_tick: Called with every picture that is wanted, its findings with it.
        remember: Makes the memory.
        judge: Makes the detection engine; it is waited for.
        since: Unix time of the first picture; None: of the recording.
        until: Unix time after which nothing is played.
        is_wanted: Told the time of a picture and whether it is the last.
        speed: Recorded seconds per real one.
        ended: Set to end early.

    Returns:
        Why it ended early by itself; None: it did not.
    """
    playback = Playback(recording, since, until)
    clock = ReplayClock(playback, speed, SystemClock())
    over = ended or threading.Event()

    def wanted(tick: Tick) -> bool:
        return is_wanted(tick.at, playback.next_at is None)

    def show(tick: Tick) -> None:
        if wanted(tick):
            on_tick(tick)

    patient = _patient(judge, wanted, JUDGE_S)
    sampler = sampler_of(recording, playback, clock, remember, patient)
    sampler.start(show)
    try:
        while not (clock.ended.wait(0.05) or over.is_set() or sampler.failure):
            pass
    finally:
        clock.release()
        sampler.close()
    return sampler.failure
