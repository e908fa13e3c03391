"""The one way in which files are written beside the work: on a thread per place of writing.

A file system that hangs stops nobody then, one that is too slow costs what does not fit, counted,
and one that fails is one error in words.
"""

from __future__ import annotations

import errno
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

RETRY_S: Final = 30.0
"""What could not be written is tried again after so long, and whenever more comes."""

SLOW_S: Final = 30.0
"""A file system that takes longer for one piece is reported as not answering."""


class _Task(NamedTuple):
    write: Callable[[], None]
    costs: Sequence[int]
    may_be_replaced: bool


class WritingThread:
    """Writes what it is given, in order, one at a time; nobody waits for it unasked.

    The thread begins with the first task, and ends with the process if not before.
    """

    def __init__(
        self,
        name: str,
        *,
        retry_s: float | None = None,
        words_of: Callable[[Exception], str] = lambda error: f"{type(error).__name__}: {error}",
        end: Callable[[], None] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin nothing yet.

        Args:
            name: Of the thread.
            retry_s: A task that failed stays the first, and is tried again after so long, when more
                comes, and once at the end. None: the first error is the end, and nothing more is
                taken.
            words_of: What is said of an error that is not the file system's.
            end: Called on the thread at its very end, whatever happened.
            now: Seconds that never jump.
        """
        self._name = name
        self._retry_s = retry_s
        self._words_of = words_of
        self._end = end
        self._now = now
        self._state = threading.Condition()
        self._tasks: deque[_Task] = deque()
        """The first is the one under way."""
        self._taken = self._tried = 0
        self._trying_since: float | None = None
        self._error: OSError | None = None
        self._is_closed = self._has_ended = False
        self._thread: threading.Thread | None = None
        self.dropped = 0
        """Tasks that were not taken because too much waited."""

    @property
    def error(self) -> OSError | None:
        """Why the newest task that was tried is not written; None: it is."""
        with self._state:
            return self._error

    @property
    def busy_s(self) -> float:
        """How long the task under way has taken by now; 0 where there is none."""
        with self._state:
            since = self._trying_since
            return 0.0 if since is None else self._now() - since

    def take(
        self,
        write: Callable[[], None],
        costs: Sequence[int] = (),
        most: Sequence[int] = (),
        *,
        is_newest_only: bool = False,
    ) -> bool:
        """Have something written; False: it was not taken, as too much waits or the end has come.

        Args:
            write: Writes it; called on the thread, again where it is to be tried again.
            costs: What it takes of the room there is, in any units.
            most: The room for all that waits, in the same units. One task alone is always taken.
            is_newest_only: Whether it takes the place of what waits and was given likewise.
        """
        with self._state:
            if self._is_closed or self._has_ended:
                return False
            if is_newest_only:
                under_way = 0 if self._trying_since is None else 1
                for task in [*self._tasks][under_way:]:
                    if task.may_be_replaced:
                        self._tasks.remove(task)
            waiting = [task.costs for task in self._tasks if task.costs]
            if waiting and any(
                sum(held) + cost > room
                for *held, cost, room in zip(*waiting, costs, most, strict=True)
            ):
                self.dropped += 1
                return False
            self._append(_Task(write, costs, is_newest_only))
            return True

    def settle(self, wait_s: float) -> bool:
        """Wait until all was written or tried, at most so long; False: it was not."""
        with self._state:
            return self._state.wait_for(
                lambda: not self._tasks or self._tried == self._taken, wait_s
            )

    def close(self, wait_s: float, last: Callable[[], None] | None = None) -> bool:
        """Take nothing more, write the rest and `last`; False: that takes longer than `wait_s`."""
        with self._state:
            if last is not None and not self._is_closed and not self._has_ended:
                self._append(_Task(last, (), may_be_replaced=False))
            self._is_closed = True
            self._state.notify_all()
        return self.join(wait_s)

    def join(self, wait_s: float) -> bool:
        """Wait for the end of the thread; False: it goes on."""
        thread = self._thread
        if thread is None:
            return True
        thread.join(wait_s)
        return not thread.is_alive()

    def _append(self, task: _Task) -> None:
        self._tasks.append(task)
        self._taken += 1
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._state.notify_all()

    def _run(self) -> None:
        try:
            while self._write_next():
                pass
        finally:
            failure = None if self._end is None else self._failure(self._end)
            with self._state:
                self._has_ended = True
                self._error = self._error or failure
                self._state.notify_all()

    def _write_next(self) -> bool:
        """Write the first task, as soon as there is one; False: there is nothing more to do."""
        with self._state:
            self._state.wait_for(lambda: self._tasks or self._is_closed)
            if not self._tasks:
                return False
            task, taken = self._tasks[0], self._taken
            self._trying_since = self._now()
        failure = self._failure(task.write)
        with self._state:
            self._trying_since = None
            self._error = failure
            self._tried = taken
            if failure is None:
                self._tasks.popleft()
            self._state.notify_all()
            if failure is None:
                return True
            if self._retry_s is None or self._is_closed:
                return False
            self._state.wait_for(lambda: self._taken != taken or self._is_closed, self._retry_s)
            return True

    def _failure(self, write: Callable[[], None]) -> OSError | None:
        try:
            write()
        except OSError as error:
            return error
        # Whoever waits for this thread must hear what ended its work, whatever it was.
        except Exception as error:  # noqa: BLE001
            return OSError(errno.EIO, self._words_of(error))
        return None
