"""Long work on the event loop, done in slices between which keys are answered."""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from textual.app import App
    from textual.widget import Widget

SLICE_S: Final = 0.008
"""How long one slice may take: with the step that ends it, what a key waits stays unnoticed."""

GAP_S: Final = 0.003
"""Pause between slices: a key needs several turns of the event loop, which all fit in here."""

HUSH_S: Final = 0.03
"""After a key no slice begins for so long: on a slow machine its work takes more turns than fit
into a pause, and each of them would wait for a slice."""

STARVED_S: Final = 0.2
"""So long after the last slice the next one begins all the same: a key may be held down."""


class HasKeys(Protocol):
    """An application that notes keys."""

    typed_s: float
    """When the last one came, by `time.perf_counter`."""
    heard_s: float
    """When something was read from the terminal last, which nobody may have acted upon yet."""


def last_key(widget: Widget | App[Any]) -> Callable[[], float]:
    """Says when the last key came to an application, or to that of a widget."""
    return lambda: cast("HasKeys", widget.app).typed_s


def last_input(widget: Widget | App[Any]) -> Callable[[], float]:
    """Says when something was read last from the terminal of an application, or of a widget's."""
    return lambda: cast("HasKeys", widget.app).heard_s


class Slices:
    """One piece of work at a time: a new one takes the place of what is under way."""

    def __init__(
        self,
        later: Callable[[float, Callable[[], None]], object],
        clock: Callable[[], float] = time.perf_counter,
        typed_s: Callable[[], float] = lambda: -inf,
        heard_s: Callable[[], float] = lambda: -inf,
    ) -> None:
        """Make it ready.

        Args:
            later: Calls a function after so many seconds, once keys were answered.
            clock: Seconds, for the length of a slice.
            typed_s: When the last key came, by that clock.
            heard_s: When something was read from the terminal, by that clock: it may be a key, and
                a slice that is under way then ends with its step.
        """
        self._later = later
        self.clock = clock
        self._typed_s = typed_s
        self._heard_s = heard_s
        self._ended_s = -inf
        self._steps: Iterator[object] | None = None
        self._on_pause: Callable[[], None] | None = None
        self._number = 0
        self._is_held = False
        self._asked_s = -inf
        """When the last key came to which what is under way is the answer."""

    @property
    def is_busy(self) -> bool:
        """Whether work is under way."""
        return self._steps is not None

    def run(
        self, steps: Iterator[object], on_pause: Callable[[], None], *, is_answer: bool = False
    ) -> None:
        """Work for one slice at once, for the others later; `on_pause` follows each but the last.

        What is short is so done when this returns. A step that comes to something true ends its
        slice: there is something to show.

        Args:
            steps: The work.
            on_pause: Called after each slice but the last.
            is_answer: Whether the last key waits for this: until the first part of it is shown only
                a further key keeps a slice from beginning.
        """
        self.hold(steps, on_pause)
        self._asked_s = self._typed_s() if is_answer else -inf
        self.go_on()

    def hold(self, steps: Iterator[object], on_pause: Callable[[], None]) -> None:
        """Take up work, and leave it until `begin`."""
        self._steps, self._on_pause = steps, on_pause
        self._number += 1
        self._is_held = True

    def run_later(self, steps: Iterator[object], on_pause: Callable[[], None]) -> None:
        """Work in slices, for the first of which keys do not wait either: no key asked for it."""
        self.hold(steps, on_pause)
        self._is_held = False
        number, self._ended_s = self._number, self.clock()
        self._later(GAP_S, lambda: self._resume(number))

    def pause(self) -> None:
        """Leave what is under way until `begin`."""
        if self._steps is not None:
            self._number += 1
            self._is_held = True

    def begin(self) -> None:
        """Do the next slice of what was held or paused."""
        if self._is_held:
            self.go_on()

    def go_on(self) -> None:
        """Do the next slice."""
        steps, number, self._is_held = self._steps, self._number, False
        if steps is None:
            return
        began_s = self.clock()
        end_s = began_s + SLICE_S
        for has_news in steps:
            if has_news or self.clock() >= end_s or self._heard_s() > began_s:
                self._asked_s = -inf if has_news else self._asked_s
                if self._on_pause is not None:
                    self._on_pause()
                self._ended_s = self.clock()
                self._later(GAP_S, lambda: self._resume(number))
                return
        self._steps = None

    def _resume(self, number: int) -> None:
        """Go on, unless other work has come meanwhile, or a key that is not answered yet."""
        if number != self._number:
            return
        now_s = self.clock()
        typed_s = self._typed_s()
        hush_s = typed_s + HUSH_S - now_s
        if hush_s > 0 and typed_s != self._asked_s and now_s - self._ended_s < STARVED_S:
            self._later(hush_s, lambda: self._resume(number))
        else:
            self.go_on()

    def drop(self) -> None:
        """Leave what is under way for good."""
        self._steps, self._on_pause, self._is_held = None, None, False

    def finish(self) -> None:
        """Do the rest at once, for a caller that needs the whole."""
        if self._steps is not None:
            for _ in self._steps:
                pass
            self._steps, self._is_held = None, False
