"""Looks for dead cycles of objects while nobody types.

Ticks and their rows are free of cycles; views that were closed are not. Python begins to look
wherever many objects were made, which is in the middle of a key's work, and goes through all of a
large fleet's rows, for a tenth of a second in which no key is heard.
"""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

QUIET_S: Final = 2.0
"""So long no key came: a user who goes through views presses several a second."""

PAUSE_S: Final = 0.1
"""Between a frame and a collection: what follows from the tick is done by then."""

PERIOD_S: Final = 10.0
"""Between two collections of the objects made since the one before."""

LATEST_S: Final = 60.0
"""So long a collection waits for a quiet moment."""

WHOLE_S: Final = 300.0
"""Between two collections of every object."""

FEW: Final = 5_000
"""New objects that are not worth a collection."""

FALLBACK: Final = (2_000_000, 4, 10)
"""Thresholds at which Python collects by itself, while nothing is painted for long.

The first look at 80,000 GPUs makes 1.2 million objects that stay: none of them is garbage.
"""


def _new_objects() -> int:
    return gc.get_count()[0]


class QuietCollector:
    """Collects after the frame of a tick; keys and frames are reported to it."""

    def __init__(
        self,
        later: Callable[[float, Callable[[], None]], object],
        clock: Callable[[], float] = time.monotonic,
        collect: Callable[[int], object] = gc.collect,
        new_objects: Callable[[], int] = _new_objects,
        freeze: Callable[[], object] = gc.freeze,
    ) -> None:
        """Collect for the first time once a period has passed.

        Args:
            later: Calls a function after so many seconds, on the thread that paints.
            clock: Seconds.
            collect: Collects a generation and those that are younger; 2 are all.
            new_objects: How many were made, and are not gone, since the last collection.
            freeze: Has collections pass over what is there by now.
        """
        self._later = later
        self._clock = clock
        self._collect = collect
        self._new_objects = new_objects
        self._freeze = freeze
        self._has_begun = False
        """Whether a key was pressed, or what the start made is out of the way."""
        self._typed_s = self._checked_s = self._whole_s = clock()
        self._is_waiting = False

    def note_key(self) -> None:
        """A key was pressed now."""
        self._typed_s = self._clock()
        self._has_begun = True

    def note_frame(self) -> None:
        """Something is painted now."""
        if not self._is_waiting and self._clock() - self._checked_s >= PERIOD_S:
            self._is_waiting = True
            self._later(PAUSE_S, self._collect_garbage)

    def _collect_garbage(self) -> None:
        self._is_waiting = False
        now_s = self._clock()
        is_quiet = now_s - self._typed_s >= QUIET_S
        if not is_quiet and now_s - self._checked_s < LATEST_S:
            return
        self._checked_s = now_s
        if not self._has_begun:
            # Modules, fields, the first screen: most of it lives as long as the program, and no
            # view was closed yet. To go through it takes longer than all else in this second.
            self._has_begun = True
            self._freeze()
        elif is_quiet and now_s - self._whole_s >= WHOLE_S:
            self._whole_s = now_s
            self._collect(2)
        elif self._new_objects() >= FEW:
            self._collect(1)
