"""Views that are imported ahead of the key that asks for one: each takes 5 to 25 ms."""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from textual.timer import Timer

VIEW_BEAT_S: Final = 0.1
"""How often one more view is imported: meanwhile a key would wait. All are there in a second."""


class ViewsAhead:
    """Imports one view after the other while nobody types."""

    def __init__(
        self,
        every: Callable[[float, Callable[[], None]], Timer],
        typed_s: Callable[[], float],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Begin nothing yet.

        Args:
            every: Calls a function every so many seconds, on the thread that paints.
            typed_s: When the last key came, by the clock; minus infinity: none has.
            clock: Seconds.
        """
        self._every = every
        self._typed_s = typed_s
        self._clock = clock
        self._views: Iterator[object] | None = None
        self._timer: Timer | None = None

    def take(self, views: Iterator[object], *, is_queue: bool) -> None:
        """Begin with the first picture.

        Who only watches a machine without a queue never needs them: there a key begins it.

        Args:
            views: Imports a view with each step.
            is_queue: Whether there is a queue.
        """
        self._views = views
        if is_queue or self._typed_s() > -inf:
            self._begin()

    def note_key(self) -> None:
        """A key has come: the next may ask for another view."""
        if self._views is not None:
            self._begin()

    def _begin(self) -> None:
        if self._timer is None:
            self._timer = self._every(VIEW_BEAT_S, self._step)

    def _step(self) -> None:
        if self._views is None or self._timer is None:
            return
        is_typing = self._clock() - self._typed_s() < VIEW_BEAT_S
        if not is_typing and next(self._views, None) is None:
            self._timer.stop()
