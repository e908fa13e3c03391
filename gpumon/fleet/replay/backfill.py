"""The hour before now out of a recording of the same targets, for a monitor that begins."""

from __future__ import annotations

import threading
from math import inf
from typing import TYPE_CHECKING, Final

from gpumon.fleet.replay.clock import ReplayClock
from gpumon.fleet.replay.feed import FINE_S, SPAN_BEFORE_S, sampler_of
from gpumon.sources.recording.source import Playback
from gpumon.sources.source import SystemClock

if TYPE_CHECKING:
    from gpumon.fleet.sampler.protocols import Past
    from gpumon.model.records.tick import Tick, WindowReader
    from gpumon.sources.recording.source import Recording

MIN_AGE_S: Final = 0.001
"""A picture of this very instant is the live one's."""


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
    playback = Playback(recording, now - SPAN_BEFORE_S, now - MIN_AGE_S, now - FINE_S)
    clock = ReplayClock(playback, inf, SystemClock())
    stored = _PastOnly(past, now - SPAN_BEFORE_S)
    sampler = sampler_of(recording, playback, clock, lambda: stored, None)
    sampler.start(lambda _: None)
    clock.ended.wait(limit_s)
    stored.close()
    clock.release()
    sampler.close()
    return stored.count


class _PastOnly:
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
