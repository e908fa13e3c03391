"""Long work on the event loop, done in slices between which keys are answered."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SLICE_S: Final = 0.012
"""How long one slice may take: below this nobody notices that a key waits."""

GAP_S: Final = 0.003
"""Pause between slices: a key needs several turns of the event loop, which all fit in here."""


class Slices:
    """One piece of work at a time: a new one takes the place of what is under way."""

    def __init__(
        self,
        later: Callable[[float, Callable[[], None]], object],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Make it ready.

        Args:
            later: Calls a function after so many seconds, once keys were answered.
            clock: Seconds, for the length of a slice.
        """
        self._later = later
        self.clock = clock
        self._steps: Iterator[None] | None = None
        self._on_pause: Callable[[], None] | None = None
        self._number = 0

    @property
    def is_busy(self) -> bool:
        """Whether work is under way."""
        return self._steps is not None

    def run(self, steps: Iterator[None], on_pause: Callable[[], None]) -> None:
        """Work for one slice at once, for the others later; `on_pause` follows each but the last.

        What is short is so done when this returns.
        """
        self.hold(steps, on_pause)
        self.go_on()

    def hold(self, steps: Iterator[None], on_pause: Callable[[], None]) -> None:
        """Take up work, and leave it until `go_on`."""
        self._steps, self._on_pause = steps, on_pause
        self._number += 1

    def go_on(self) -> None:
        """Do the next slice."""
        steps, number = self._steps, self._number
        if steps is None:
            return
        end_s = self.clock() + SLICE_S
        for _ in steps:
            if self.clock() >= end_s:
                if self._on_pause is not None:
                    self._on_pause()
                self._later(GAP_S, lambda: self._resume(number))
                return
        self._steps = None

    def _resume(self, number: int) -> None:
        """Go on, unless other work has come meanwhile."""
        if number == self._number:
            self.go_on()

    def finish(self) -> None:
        """Do the rest at once, for whoever needs the whole."""
        if self._steps is not None:
            for _ in self._steps:
                pass
            self._steps = None
