"""Pictures of the past that can be shown again, in bounded memory: recent dense, older thin."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gpumon.model.records.tick import Tick

SPACING_S: Final = ((120.0, 0.0), (600.0, 10.0), (3600.0, 60.0), (7200.0, 120.0))
"""Ages up to which pictures are kept, seconds, and how far apart they then are at least."""

DEFAULT_MAX_BYTES: Final = 96 * 2**20
"""Most memory of all pictures: those of 48 GPUs then reach back as far as `SPACING_S`."""

GPU_BYTES: Final = 4800
"""What one GPU takes of a picture with its processes, measured on 48 and 1,000 GPUs."""

JOB_BYTES: Final = 1500
"""What one job takes of a tick, rounded up from what was measured."""
NODE_BYTES: Final = 3000
"""Likewise, rounded up; a queue's records are shared between pictures until it answers anew."""


def tick_bytes(tick: Tick) -> int:
    """About what a picture takes beside the past that it refers to."""
    size = GPU_BYTES * len(tick.gpus) + JOB_BYTES * len(tick.jobs) + NODE_BYTES * len(tick.nodes)
    return size + 10_000


class Tape:
    """Takes pictures from the sampler's thread, gives them to the screen's.

    Kept pictures let go of the past that they refer to: whoever shows one gives it a newer reader,
    whose rows up to the picture's time are the same.
    """

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._ticks: list[Tick] = []
        self._sizes: list[int] = []
        self._used = 0

    def add(self, tick: Tick) -> None:
        """Keep a picture; one of an earlier time than the newest begins the tape anew."""
        with self._lock:
            if self._ticks and tick.at <= self._ticks[-1].at:
                if tick.at == self._ticks[-1].at:
                    return
                self._ticks.clear()
                self._sizes.clear()
                self._used = 0
            size = tick_bytes(tick)
            self._ticks.append(tick._replace(history=None))
            self._sizes.append(size)
            self._used += size
            self._thin(tick.at)

    @property
    def used_bytes(self) -> int:
        """About what all pictures take."""
        return self._used

    def __len__(self) -> int:
        return len(self._ticks)

    @property
    def span(self) -> tuple[float, float] | None:
        """Unix times of the oldest and the newest picture; None: there is none."""
        with self._lock:
            return (self._ticks[0].at, self._ticks[-1].at) if self._ticks else None

    def at(self, time: float) -> Tick | None:
        """The last picture up to a Unix time, else the oldest; None: there is none."""
        with self._lock:
            found = bisect_right(self._ticks, time, key=_at)
            return self._ticks[max(0, found - 1)] if self._ticks else None

    def near(self, time: float, steps: int) -> Tick | None:
        """The picture so many after the one of a time, before it where negative; the last one."""
        with self._lock:
            if not self._ticks:
                return None
            if steps < 0:
                found = bisect_left(self._ticks, time, key=_at) + steps
            else:
                found = bisect_right(self._ticks, time, key=_at) - 1 + steps
            return self._ticks[max(0, min(len(self._ticks) - 1, found))]

    def _thin(self, now: float) -> None:
        """Drop what is too old, too dense for its age, or too much."""
        while self._ticks and now - self._ticks[0].at > SPACING_S[-1][0]:
            self._drop(0)
        for age_s, spacing_s in SPACING_S[1:]:
            self._thin_around(now - _younger(age_s), spacing_s)
        while self._used > self._max_bytes and len(self._ticks) > 2:
            self._drop(min(range(1, len(self._ticks) - 1), key=lambda i: self._worth(i, now)))

    def _thin_around(self, border: float, spacing_s: float) -> None:
        """Drop the pictures that have just grown older than a border and are too dense there."""
        position = bisect_right(self._ticks, border, key=_at) - 1
        while position > 0:
            if self._ticks[position].at - self._ticks[position - 1].at >= spacing_s:
                return
            self._drop(position)
            position -= 1

    def _worth(self, position: int, now: float) -> float:
        """How wide a gap it would leave, measured by its age."""
        gap_s = self._ticks[position + 1].at - self._ticks[position - 1].at
        return gap_s / (now - self._ticks[position].at + 1.0)

    def _drop(self, position: int) -> None:
        del self._ticks[position]
        self._used -= self._sizes.pop(position)


def _at(tick: Tick) -> float:
    return tick.at


def _younger(age_s: float) -> float:
    """The age at which a stretch of `SPACING_S` begins."""
    ages = [0.0, *(age for age, _ in SPACING_S)]
    return ages[ages.index(age_s) - 1]
