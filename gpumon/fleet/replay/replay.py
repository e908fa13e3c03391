"""A recording as a feed of ticks: pause, speed, steps, and seeking by time."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING, Final

from gpumon.fleet.replay.clock import ReplayClock
from gpumon.fleet.replay.feed import FINE_S, patient, playback_at, sampler_of
from gpumon.sources.recording.source import Playback
from gpumon.sources.source import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.fleet.sampler.protocols import Detection, Past
    from gpumon.fleet.sampler.sampler import Sampler
    from gpumon.model.fault import SourceError
    from gpumon.model.records.tick import Tick
    from gpumon.sources.recording.source import Recording, Span
    from gpumon.sources.source import Clock, Wish

MIN_SPEED: Final = 0.5
"""Slowest replay, recorded seconds a second. A choice: half speed reads a moment of trouble."""
MAX_SPEED: Final = 60.0
"""Fastest replay, recorded seconds a second. A choice: an hour in a minute."""

MAX_SHOWN: Final = 3600
"""Pictures whose times are kept for steps backward."""

SOUGHT_S: Final = 4.0
"""The first picture after a seek waits this long for its findings: where the time stands there
is no later one that could bring them."""


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

    def step(self, ticks: int) -> None:
        """Go so many pictures forward, or backward where negative, and stand there."""
        with self._lock:
            self._is_paused = True
            if self._clock is None:
                return
            if ticks >= 0:
                self._clock.step(ticks)
                return
        shown = list(self._shown)
        if len(shown) > -ticks:
            self.seek(shown[ticks - 1])
        else:
            self.seek(self._back(-ticks))

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
        generation = self._generation
        # Reading may take long, or for ever: whoever pauses or closes meanwhile must not wait.
        playback = playback_at(self.recording, at)
        clock = ReplayClock(playback, self._speed, self._real)
        with self._lock:
            if generation != self._generation:
                return
            clock.set_speed(self._speed)
            clock.pause(self._is_paused)
            if at is not None:
                clock.hurry(at)
            self._shown = deque(maxlen=MAX_SHOWN)
            evaluations = 0 if at is None else 1
            made = patient(self._judge, lambda _: not clock.is_hurrying, SOUGHT_S, evaluations)
            sampler = sampler_of(self.recording, playback, clock, self._remember, made)
            self._clock, self._sampler = clock, sampler

            def show(tick: Tick) -> None:
                if generation == self._generation and not clock.is_hurrying:
                    self._shown.append(tick.at)
                    on_tick(tick)

            sampler.start(show)

    def _back(self, ticks: int) -> float:
        """Unix time of the picture so many before the one that is shown."""
        now = self.now
        times = [sample.at for sample in Playback(self.recording, now - FINE_S, now).by_tick()]
        found = bisect_right(times, now) - 1 - ticks
        return times[max(0, found)] if times else now
