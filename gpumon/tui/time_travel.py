"""Which instant is shown: live, a stored tick of the past, or a place of a recording."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, runtime_checkable

from gpumon.fleet.replay.remembered_ticks import Tape
from gpumon.model.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.tick import Tick

SPEEDS: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
"""Recorded seconds per real one between which `+` and `-` choose."""


class Stretch(Protocol):
    """From when to when something was recorded."""

    @property
    def start(self) -> float:
        """Unix time of the first tick."""
        ...

    @property
    def end(self) -> float:
        """Unix time of the last tick."""
        ...


@runtime_checkable
class Player(Protocol):
    """A feed whose time can be moved; `gpumon.fleet.replay.replay.ReplayFeed` is one."""

    @property
    def span(self) -> Stretch:
        """What was recorded."""
        ...

    @property
    def now(self) -> float:
        """Recorded Unix time that is shown."""
        ...

    @property
    def times(self) -> float:
        """Recorded seconds per real one."""
        ...

    @property
    def is_paused(self) -> bool:
        """Whether the time is paused."""
        ...

    def pause(self, is_paused: bool = True) -> None:
        """Pause the time, or let it go on."""
        ...

    def speed(self, times: float) -> float:
        """Play so many recorded seconds in a real one; returns what it is within the bounds."""
        ...

    def seek(self, at: float) -> None:
        """Show the last tick up to a time; may take a while."""
        ...

    def step(self, ticks: int) -> None:
        """Go so many ticks forward, or backward where negative, and pause there."""
        ...


class Place(NamedTuple):
    """Where in time the tick on screen is."""

    at: float
    """Unix time that is shown, or sought."""
    start: float
    """Unix time of the oldest tick that can be shown."""
    end: float
    """Unix time of the newest."""
    is_paused: bool = True
    speed: float | None = None
    """Recorded seconds per real one; None: what is shown is live or was."""
    is_seeking: bool = False
    """Whether the tick that was sought is still to come."""
    trouble: str = ""
    """Why the tick that was sought last cannot be shown."""


class Travel(Protocol):
    """What the time keys do."""

    def take(self, tick: Tick) -> None:
        """Keep a tick; called from the feed's thread."""
        ...

    def shown(self, newest: Tick) -> Tick:
        """The tick to show now."""
        ...

    @property
    def is_live(self) -> bool:
        """Whether what is shown is what is."""
        ...

    @property
    def is_recorded(self) -> bool:
        """Whether what is shown is a recording, which answers no questions."""
        ...

    def place(self) -> Place | None:
        """Where in time; None: live, which needs no words."""
        ...

    def span(self) -> tuple[float, float] | None:
        """Unix times between which there are ticks; None: there is none."""
        ...

    def toggle_pause(self) -> None:
        """Pause, or go on."""
        ...

    def step(self, ticks: int) -> None:
        """Go so many ticks on, or back, and pause there."""
        ...

    def shift(self, seconds: float) -> None:
        """Go so far on, or back."""
        ...

    def go(self, at: float) -> None:
        """Show the last tick up to a Unix time."""
        ...

    def go_live(self) -> None:
        """Back to the newest."""
        ...

    def change_speed(self, steps: int) -> bool:
        """Play faster, or slower where negative; False: what is live has one speed."""
        ...

    def rest(self) -> None:
        """Wait until everything that was asked for is done: for tests."""
        ...


class LiveTravel:
    """Through the stored ticks of a live feed; sampling goes on behind."""

    def __init__(self, tape: Tape | None = None) -> None:
        self.tape = tape or Tape()
        self._held: Tick | None = None
        """The tick of the past that is shown; None: the newest."""
        self._newest: Tick | None = None

    def take(self, tick: Tick) -> None:
        """Keep a tick."""
        self._newest = tick
        self.tape.add(tick)

    def shown(self, newest: Tick) -> Tick:
        """The newest, or the one that is held, with the past as it is known now."""
        held = self._held
        return newest if held is None else held._replace(history=newest.history)

    @property
    def is_live(self) -> bool:
        """Whether nothing is held."""
        return self._held is None

    @property
    def is_recorded(self) -> bool:
        """It is not: what is watched can be asked."""
        return False

    def place(self) -> Place | None:
        """Where the held tick is."""
        held, span = self._held, self.tape.span
        if held is None or span is None:
            return None
        return Place(held.at, min(held.at, span[0]), max(held.at, span[1]))

    def span(self) -> tuple[float, float] | None:
        """Of the stored ticks."""
        return self.tape.span

    def toggle_pause(self) -> None:
        """Hold what is shown, or let go of it."""
        self._held = self._newest if self._held is None else None

    def step(self, ticks: int) -> None:
        """Hold a tick near the one that is shown."""
        shown = self._held or self._newest
        if shown is not None:
            self._held = self.tape.near(shown.at, ticks) or shown

    def shift(self, seconds: float) -> None:
        """Hold the tick of so much later or earlier; at least the next one, so that it moves."""
        shown = self._held or self._newest
        if shown is None:
            return
        found = self.tape.at(shown.at + seconds)
        if found is None or found.at == shown.at:
            self.step(1 if seconds > 0 else -1)
        else:
            self._held = found

    def go(self, at: float) -> None:
        """Hold the last tick up to a time."""
        self._held = self.tape.at(at) or self._held

    def go_live(self) -> None:
        """Let go of the tick."""
        self._held = None

    def change_speed(self, _steps: int) -> bool:
        """What is live has one speed."""
        return False

    def rest(self) -> None:
        """Nothing takes time."""


class Errands:
    """What must not keep a key waiting, done one after the other in a thread."""

    def __init__(self) -> None:
        self._todo: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._idle = threading.Condition()
        self._open = 0
        self._thread: threading.Thread | None = None
        self.trouble = ""
        """Why the last errand that was done failed; empty: it did not."""

    def do(self, what: Callable[[], None]) -> None:
        """Have something done soon."""
        with self._idle:
            self._open += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="travel", daemon=True)
                self._thread.start()
        self._todo.put(what)

    @property
    def is_idle(self) -> bool:
        """Whether everything is done."""
        return not self._open

    def rest(self) -> None:
        """Wait until everything is done, at most ten seconds."""
        with self._idle:
            self._idle.wait_for(lambda: not self._open, 10.0)

    def _run(self) -> None:
        while True:
            what = self._todo.get()
            trouble = ""
            try:
                what()
            # Whatever fails in one errand must not end those that come after it.
            except Exception as error:  # noqa: BLE001
                trouble = plain(f"{type(error).__name__}: {error}".partition("\n")[0], 200)
            finally:
                with self._idle:
                    self.trouble = trouble
                    self._open -= 1
                    self._idle.notify_all()


class ReplayTravel:
    """Through a recording, whose seeks read the past again and therefore run beside the screen."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self._errands = Errands()
        self._aim: float | None = None

    def take(self, _tick: Tick) -> None:
        """The recording itself keeps them."""

    def shown(self, newest: Tick) -> Tick:
        """The newest that the player has played."""
        return newest

    @property
    def is_live(self) -> bool:
        """Nothing of a recording is."""
        return False

    @property
    def is_recorded(self) -> bool:
        """It is."""
        return True

    def place(self) -> Place | None:
        """Where the player is."""
        span, aim = self._player.span, self._aim
        is_seeking = aim is not None and not self._errands.is_idle
        at = aim if is_seeking and aim is not None else self._player.now
        is_paused = self._player.is_paused
        trouble = "" if is_seeking else self._errands.trouble
        return Place(
            at=at,
            start=span.start,
            end=span.end,
            is_paused=is_paused,
            speed=self._player.times,
            is_seeking=is_seeking,
            trouble=trouble,
        )

    def span(self) -> tuple[float, float] | None:
        """Of the recording."""
        return (self._player.span.start, self._player.span.end)

    def toggle_pause(self) -> None:
        """Pause, or go on."""
        self._player.pause(not self._player.is_paused)

    def step(self, ticks: int) -> None:
        """Go so many ticks."""
        self._aim = None
        self._errands.do(lambda: self._player.step(ticks))

    def shift(self, seconds: float) -> None:
        """Seek relative to what is shown, or to what is still sought."""
        is_aimed = self._aim is not None and not self._errands.is_idle
        since = self._aim if is_aimed and self._aim is not None else self._player.now
        self.go(since + seconds)

    def go(self, at: float) -> None:
        """Seek; of several seeks that wait only the last is done."""
        span = self._player.span
        aim = self._aim = min(max(at, span.start), span.end)

        def seek() -> None:
            if self._aim == aim:
                self._player.seek(aim)

        self._errands.do(seek)

    def go_live(self) -> None:
        """To the end of what was recorded, at its own speed."""
        self._player.speed(1.0)
        self._player.pause(False)
        self.go(self._player.span.end)

    def change_speed(self, steps: int) -> bool:
        """The next of `SPEEDS`."""
        times = self._player.times
        near = min(range(len(SPEEDS)), key=lambda i: abs(SPEEDS[i] - times))
        self._player.speed(SPEEDS[max(0, min(len(SPEEDS) - 1, near + steps))])
        return True

    def rest(self) -> None:
        """Wait for the seeks."""
        self._errands.rest()


def travel_of(feed: object) -> Travel:
    """How a feed's time is moved."""
    return ReplayTravel(feed) if isinstance(feed, Player) else LiveTravel()
