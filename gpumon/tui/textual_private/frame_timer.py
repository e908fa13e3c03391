"""Says when the next frame is drawn: at once after a rest, and soon after a key.

Textual's timer has a period of a sixtieth of a second. After a rest it starts again and leaves one
out: what changes right after a frame waits for up to two of them. A tick a second is
such a frame, and so is what a key shows at first.

The timer is private to textual: another of its versions keeps its own.
"""

from __future__ import annotations

import asyncio
import time
from math import inf
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.screen import Screen

PERIOD_S: Final = 1 / 60
"""Between two frames that no key asked for; textual's own."""

QUICK_S: Final = 1 / 120
"""Between a frame and the first one after a key. What follows keeps the period: a page that opens
is laid out several times."""

_PLACE: Final = "_Screen__update_timer"
"""Where textual's screen has its timer."""


class Pending(Protocol):
    """A call that is to come."""

    def cancel(self) -> None:
        """It is not to come."""


def _later(wait_s: float, draw: Callable[[], None]) -> Pending:
    loop = asyncio.get_running_loop()
    return loop.call_later(wait_s, draw) if wait_s > 0.0 else loop.call_soon(draw)


class FrameTimer:
    """In the place of textual's timer: resumed when something has changed, paused once drawn."""

    def __init__(
        self,
        draw: Callable[[], None],
        typed_s: Callable[[], float],
        later: Callable[[float, Callable[[], None]], Pending] = _later,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Nothing was drawn yet.

        Args:
            draw: Draws what has changed.
            typed_s: When the last key came, by the clock.
            later: Calls a function after so many seconds, never before it returns.
            clock: Seconds.
        """
        self._draw = draw
        self._typed_s = typed_s
        self._later = later
        self._clock = clock
        self._drawn_s = -inf
        self._pending: Pending | None = None

    def resume(self) -> None:
        """Something has changed."""
        if self._pending is not None:
            return
        between_s = QUICK_S if self._typed_s() > self._drawn_s else PERIOD_S
        wait_s = max(0.0, self._drawn_s + between_s - self._clock())
        self._pending = self._later(wait_s, self._draw_now)

    def pause(self) -> None:
        """It is drawn, or need not be."""
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None

    def _draw_now(self) -> None:
        self._pending = None
        self._drawn_s = self._clock()
        self._draw()


def quicken(screen: Screen[None]) -> FrameTimer | None:
    """Give a screen this timer; None: it has another form than expected, and keeps its own."""
    own_draw: Callable[[], None] | None = getattr(screen, "_on_timer_update", None)
    if own_draw is None or vars(screen).get(_PLACE, screen) is not None:
        return None

    def draw() -> None:
        if not screen.is_running:
            return
        try:
            own_draw()
        # As textual's own timer: the application ends with what it was.
        except Exception as error:  # noqa: BLE001
            screen.app._handle_exception(error)

    timer = FrameTimer(draw, lambda: getattr(screen.app, "typed_s", -inf))
    setattr(screen, _PLACE, timer)
    return timer
