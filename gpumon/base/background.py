"""A book that is written on a thread of its own: a file system that hangs stops no sampling."""

from __future__ import annotations

import errno
import queue
import threading
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Item = TypeVar("Item")
_Taken = TypeVar("_Taken", contravariant=True)

MAX_PICTURES: Final = 60
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

    def beat(self, at: float, period_s: float) -> None:
        """Close a picture."""
        ...

    def lost(self, at: float, pictures: int) -> None:
        """Say that so many pictures before the next one are not there."""
        ...

    def close(self) -> None:
        """Write the rest."""
        ...


class _Picture(NamedTuple, Generic[Item]):
    frames: list[Item]
    at: float
    period_s: float
    lost: int
    """Pictures that were dropped since the one before."""


class SteadyBook(Generic[Item]):
    """Takes pictures at once, and drops whole ones, counted, while too many wait."""

    def __init__(self, book: Slow[Item], words_of: Callable[[BaseException], str]) -> None:
        """Write into `book`, which nobody else may use from now on.

        Args:
            book: Is called on the thread alone.
            words_of: What is said of an error that is not the file system's.
        """
        self._book = book
        self._words_of = words_of
        self._noted: list[Item] = []
        self._queue: queue.SimpleQueue[_Picture[Item] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._pictures = 0
        self._frames = 0
        self._dropped = 0
        self._error: OSError | None = None
        self.lost_pictures = 0
        """Pictures that are not in the recording, because the disk was too slow."""
        self.size_bytes = book.size_bytes
        """Length of what had been written when the last picture was."""
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def frames(self, frames: Iterable[Item]) -> None:
        """Take frames of the next picture."""
        self._noted.extend(frames)

    def beat(self, at: float, period_s: float) -> None:
        """Hand a picture over.

        Raises:
            OSError: An earlier one could not be written.
        """
        if self._error is not None:
            raise self._error
        noted, self._noted = self._noted, []
        with self._lock:
            # One picture alone is always taken, however large the fleet is.
            if self._pictures and (
                self._pictures >= MAX_PICTURES or self._frames + len(noted) > MAX_FRAMES
            ):
                self._dropped += 1
                self.lost_pictures += 1
                return
            self._pictures += 1
            self._frames += len(noted)
        lost, self._dropped = self._dropped, 0
        self._queue.put(_Picture(noted, at, period_s, lost))

    def close(self, wait_s: float) -> bool:
        """Write what waits, and the end; False: that takes longer than `wait_s`.

        Raises:
            OSError: It cannot be written.
        """
        self._queue.put(None)
        self._thread.join(wait_s)
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive()

    def _run(self) -> None:
        written_at = 0.0
        try:
            while (picture := self._queue.get()) is not None:
                self._write(picture)
                written_at = picture.at
            if self._dropped:
                self._book.lost(written_at, self._dropped)
            self._book.close()
        except OSError as error:
            self._error = error
        # Whoever records must hear that this thread has ended, whatever ended it.
        except Exception as error:  # noqa: BLE001
            self._error = OSError(errno.EIO, self._words_of(error))

    def _write(self, picture: _Picture[Item]) -> None:
        if picture.lost:
            self._book.lost(picture.at, picture.lost)
        self._book.frames(picture.frames)
        self._book.beat(picture.at, picture.period_s)
        self.size_bytes = self._book.size_bytes
        with self._lock:
            self._pictures -= 1
            self._frames -= len(picture.frames)
