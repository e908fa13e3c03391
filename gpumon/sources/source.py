"""The contract of every source, and the clock that every floor above is given."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from gpumon.model.records.frame import Frame


class Clock(Protocol):
    """Time as it is handed in: real, recorded or invented."""

    def now(self) -> float:
        """Unix time, seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump."""
        ...

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Whether the event was set within `seconds` of this clock's time."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        """Unix time, seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never jump."""
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Whether the event was set within `seconds`."""
        return event.wait(max(0.0, seconds))


def steady_s() -> float:
    """Seconds of a clock that is never set and that goes on while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Wish(NamedTuple):
    """What the screens ask of the sources; the only thing that travels upstream."""

    period_s: float | None = None
    """New period of every probe."""
    zoom_nodes: tuple[str, ...] = ()
    """Nodes of the job on screen, to be sampled faster. A wish for a period alone leaves them."""
    zoom_gpus: tuple[str, ...] = ()
    """UUIDs of the job on screen; empty: every GPU of these nodes."""
    ended_since: float | None = None
    """Jobs that have ended since this Unix time are wanted once. Such a wish leaves the zoom."""
    use_of: str = ""
    """Job of which the use of its running steps is wanted once; leaves the zoom likewise."""
    is_by_hand: bool = False
    """Whether the user asked again for what failed, and waits for it."""
    shows_processes: bool | None = None
    """Whether processes are on screen; of others it is not asked how busy they keep a GPU's SMs.
    None: as before, at first they are. Leaves the zoom."""
    has_changed_queue: bool = False
    """Whether the user has just cancelled or requeued a job, and waits to see it listed so."""

    @property
    def is_about_zoom(self) -> bool:
        """Whether it names the nodes to zoom; an empty wish ends the zoom."""
        given = (self.period_s, self.ended_since, self.shows_processes)
        others = (*(one is not None for one in given), bool(self.use_of))
        return bool(self.zoom_nodes) or not (any(others) or self.has_changed_queue)


class PastFrames(NamedTuple):
    """What a source would have reported at an instant before it was first asked."""

    at: float
    """Unix time on our own clock."""
    period_s: float
    """To the next one."""
    frames: tuple[Frame, ...]


@runtime_checkable
class Remembering(Protocol):
    """A source that can report the time before it was first asked."""

    @property
    def is_recalling(self) -> bool:
        """Whether a past may still come; what is sampled meanwhile lies behind all of it."""
        ...

    def recalled(self) -> Callable[[], Iterator[PastFrames]] | None:
        """What goes through a past, the oldest first, where one has just come; once each."""
        ...


class Source(Protocol):
    """Turns one target into frames. Never raises out of `poll`, never blocks in it."""

    url: str
    """The target as the user wrote it, without secrets."""

    def start(self, wake: Callable[[], None]) -> None:
        """Begin, without blocking; `wake` is to be called from any thread when a frame is ready."""
        ...

    def poll(self) -> list[Frame]:
        """Frames that arrived since the last poll, oldest first; returns at once.

        Trouble is reported in a frame's errors, also trouble that concerns no single node (then
        in a frame whose `node` is empty).
        """
        ...

    def pending(self) -> bool:
        """Whether the first frame of a node (or of the queue) may still arrive.

        A single sample waits for this to become False, or for its deadline. A node that has
        failed for good, or has answered, is not pending.
        """
        ...

    def wish(self, wish: Wish) -> None:
        """Take a wish; a source that cannot grant it ignores it."""
        ...

    def close(self) -> None:
        """Free every process, socket and thread; bounded, at most half a second."""
        ...
