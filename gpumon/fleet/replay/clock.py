"""The recorded clock: time passes as somebody wants to see it, from picture to picture."""

from __future__ import annotations

import threading
from math import inf
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gpumon.sources.recording.source import Playback
    from gpumon.sources.source import Clock

MAX_TICKS_PER_S: Final = 10.0
"""More would only be drawn over each other; at a high speed pictures in between are left out."""

MAX_GAP_S: Final = 60.0
"""A longer silence, in which nothing was recorded, is passed over in a second."""

_RESIDUE: Final = 0.01
"""Part of a period that is no wait for another picture: the one that came a little early is that of
this beat (our choice)."""

_PATIENCE_S: Final = 0.5
"""Longest real wait at a stretch, so that a pause hears everything."""


class ReplayClock:
    """Time of a playback. It moves only where somebody waits, by whole recorded pictures."""

    def __init__(self, playback: Playback, speed: float, real: Clock) -> None:
        """Stand at the first picture.

        Args:
            playback: What is played; moved on with the time.
            speed: Recorded seconds per real one; `inf`: nobody waits.
            real: The clock that says how long somebody has waited.
        """
        self._playback = playback
        self._real = real
        self._changed = threading.Condition()
        self._speed = speed
        self._is_paused = False
        self._steps = 0
        self._is_released = False
        self._quick_until = -inf
        self._now = playback.advance(-inf, -inf) or 0.0
        self._elapsed_s = 0.0
        self.ended = threading.Event()
        """Set when the last picture has been shown."""

    @property
    def speed(self) -> float:
        """Recorded seconds per real one."""
        return self._speed

    @property
    def is_paused(self) -> bool:
        """Whether the time stands."""
        return self._is_paused

    @property
    def is_hurrying(self) -> bool:
        """Whether the picture that was sought is still to come."""
        following = self._playback.next_at
        return following is not None and following <= self._quick_until

    def now(self) -> float:
        """Recorded Unix time."""
        return self._now

    def monotonic(self) -> float:
        """Recorded seconds; a recorded clock that was set back does not turn them back."""
        return self._elapsed_s

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Go on to the recorded picture nearest to `seconds` from now.

        At the end of the recording this waits for the event alone.
        """
        if seconds <= 0:
            return event.is_set()
        if seconds < _RESIDUE * self._playback.period_s:
            self._elapsed_s += seconds
            return event.is_set()
        stride_s = seconds / 2
        if not self.is_hurrying and 0 < self._speed < inf:
            stride_s = max(stride_s, self._speed / MAX_TICKS_PER_S / 2)
        is_due = self._playback.next_at
        if is_due is None:
            self.ended.set()
            while not event.wait(_PATIENCE_S) and not self._is_released:
                pass
            return event.is_set()
        self._pass(event, max(seconds, is_due - self._now, stride_s))
        if event.is_set() or self._is_released:
            return event.is_set()
        reached = self._playback.advance(self._now, self._now + stride_s)
        if reached is not None:
            # What was late when it was recorded is late again; what is left out is not.
            late_s = reached - self._now - seconds
            self._elapsed_s += seconds + (late_s if abs(late_s) < seconds else 0.0)
            self._now = reached
        return False

    def hurry(self, until: float) -> None:
        """Let nobody wait up to the last picture before a time."""
        with self._changed:
            self._quick_until = until
            self._changed.notify_all()

    def set_speed(self, speed: float) -> None:
        """Change how fast the time passes."""
        with self._changed:
            self._speed = speed
            self._changed.notify_all()

    def pause(self, is_paused: bool) -> None:
        """Let the time stand, or go on."""
        with self._changed:
            self._is_paused = is_paused
            self._steps = 0
            self._changed.notify_all()

    def step(self, ticks: int) -> None:
        """Let so many pictures pass, then stand."""
        with self._changed:
            self._is_paused = True
            self._steps += ticks
            self._changed.notify_all()

    def release(self) -> None:
        """Let go of whoever waits."""
        with self._changed:
            self._is_released = True
            self._changed.notify_all()

    def _pass(self, event: threading.Event, seconds: float) -> None:
        """Wait as long as so many recorded seconds take."""
        left_s = seconds if seconds <= MAX_GAP_S else min(seconds, self._speed)
        with self._changed:
            while not (event.is_set() or self._is_released):
                if self.is_hurrying:
                    return
                if self._is_paused:
                    if self._steps > 0:
                        self._steps -= 1
                        return
                    self._changed.wait(_PATIENCE_S)
                    continue
                if self._speed == inf or left_s <= 0:
                    return
                begin = self._real.monotonic()
                self._changed.wait(min(_PATIENCE_S, left_s / self._speed))
                left_s -= (self._real.monotonic() - begin) * self._speed
