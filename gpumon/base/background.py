"""A book that is written on a thread of its own: a file system that hangs stops no sampling."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

from gpumon.base.writing_thread import WritingThread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Item = TypeVar("Item")
_Taken = TypeVar("_Taken", contravariant=True)

MAX_TICKS: Final = 60
"""Most pictures that wait to be written; at a beat of one second, a minute."""

MAX_FRAMES: Final = 4000
"""Most frames that wait: about 100 MB of nodes with eight GPUs."""


class Slow(Protocol[_Taken]):
    """A book whose calls may take any time; a file or a folder of segments."""

    @property
    def size_bytes(self) -> int:
        """Length of what is on disk."""
        ...

    def frames(self, frames: Iterable[_Taken]) -> None:
        """Take frames."""
        ...

    def end_tick(self, at: float, period_s: float) -> None:
        """Close a picture."""
        ...

    def lost(self, at: float, ticks: int) -> None:
        """Say that so many pictures before the next one are not there."""
        ...

    def close(self) -> None:
        """Write the rest."""
        ...


class _WaitingTick(NamedTuple, Generic[Item]):
    frames: list[Item]
    at: float
    period_s: float
    lost: int
    """Pictures that were dropped since the one before."""


class BackgroundWriter(Generic[Item]):
    """Takes pictures at once, and drops whole ones, counted, while too many wait."""

    def __init__(self, sink: Slow[Item], words_of: Callable[[Exception], str]) -> None:
        """Write into `sink`, which nobody else may use from now on.

        Args:
            sink: Is called on the thread alone.
            words_of: What is said of an error that is not the file system's.
        """
        self._sink = sink
        self._noted: list[Item] = []
        self._dropped = 0
        self._written_at = 0.0
        self._thread = WritingThread("recorder", words_of=words_of)
        self.lost_ticks = 0
        """Pictures that are not in the recording, because the disk was too slow."""
        self.size_bytes = sink.size_bytes
        """Length of what had been written when the last picture was."""

    def frames(self, frames: Iterable[Item]) -> None:
        """Take frames of the next picture."""
        self._noted.extend(frames)

    def end_tick(self, at: float, period_s: float) -> None:
        """Hand a picture over.

        Raises:
            OSError: An earlier one could not be written.
        """
        if (error := self._thread.error) is not None:
            raise error
        noted, self._noted = self._noted, []
        write = partial(self._write, _WaitingTick(noted, at, period_s, self._dropped))
        if self._thread.take(write, (1, len(noted)), (MAX_TICKS, MAX_FRAMES)):
            self._dropped = 0
        else:
            self._dropped += 1
            self.lost_ticks += 1

    def close(self, wait_s: float) -> bool:
        """Write what waits, and the end; False: that takes longer than `wait_s`.

        Raises:
            OSError: It cannot be written.
        """
        has_ended = self._thread.close(wait_s, self._end)
        if (error := self._thread.error) is not None:
            raise error
        return has_ended

    def _end(self) -> None:
        if self._dropped:
            self._sink.lost(self._written_at, self._dropped)
        self._sink.close()

    def _write(self, tick: _WaitingTick[Item]) -> None:
        if tick.lost:
            self._sink.lost(tick.at, tick.lost)
        self._sink.frames(tick.frames)
        self._sink.end_tick(tick.at, tick.period_s)
        self.size_bytes = self._sink.size_bytes
        self._written_at = tick.at
