"""Appends to the books' files on a thread of its own: a disk that hangs stops no sampling."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from gpumon import __version__
from gpumon.base.paths import make_private
from gpumon.fleet.ledger.journal_reader import SCHEMA, SUFFIX, Pages

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpumon.fleet.ledger.journal_reader import Resumed

LOCK_NAME: Final = "writer.lock"

OPEN_WAIT_S: Final = 10.0
"""A disk that needs longer to show the books of before is not waited for."""

RETRY_S: Final = 30.0
"""What could not be written is tried again after so long, and whenever more comes."""

SLOW_S: Final = 30.0
"""A disk that takes longer for one piece of the books is said not to answer."""

MAX_WAITING_BYTES: Final = 32 * 2**20
"""Most that waits to be written: the entries of about 50,000 jobs."""


def page_name(at: float) -> str:
    """Name of the file for the day of a Unix time."""
    return time.strftime("%Y-%m-%d", time.gmtime(at)) + SUFFIX


def _not_followed(path: Path) -> str:
    return f"the books cannot be written to {path}: it is a link, which is not followed; move it"


class PageWriter:
    """The only writer of a folder. It takes pieces at once and writes them in order, each whole."""

    def __init__(
        self,
        folder: Path,
        open_wait_s: float = OPEN_WAIT_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the folder; where that fails, `note` says why and nothing is written."""
        self._folder = folder
        self._now = now
        self._state = threading.Condition()
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._waiting_bytes = 0
        self._taken = self._tried = 0
        self._trying_since: float | None = None
        self._note = ""
        self._is_open = self._is_over = False
        self.booked: Resumed | None = None
        """What is on disk from earlier processes."""
        self._thread = threading.Thread(target=self._run, name="books", daemon=True)
        self._thread.start()
        with self._state:
            self._state.wait_for(lambda: self._is_open or self._is_over, open_wait_s)
            if not self._is_open and not self._is_over:
                self._is_over = True
                self._note = f"the books are not kept: {folder} does not answer"

    @property
    def is_open(self) -> bool:
        """Whether the folder is written to."""
        return self._is_open

    @property
    def note(self) -> str:
        """Why what was taken is not on disk."""
        with self._state:
            since = self._trying_since
            if not self._note and since is not None and self._now() - since > SLOW_S:
                return f"the books wait to be written: {self._folder} does not answer"
            return self._note

    def take(self, at: float, data: bytes) -> bool:
        """Have lines of a Unix time written; False: too much waits, and they were not taken."""
        with self._state:
            is_full = self._waiting and self._waiting_bytes + len(data) > MAX_WAITING_BYTES
            if is_full or not self._is_open:
                return False
            self._waiting.append((at, data))
            self._waiting_bytes += len(data)
            self._taken += 1
            self._state.notify_all()
            return True

    def settle(self, wait_s: float) -> bool:
        """Wait until all of it was written or tried, at most so long; False: it was not."""
        with self._state:
            return self._state.wait_for(
                lambda: not self._waiting or self._tried == self._taken, wait_s
            )

    def close(self, wait_s: float) -> None:
        """Write the rest, as long as that takes at most, and let another process write."""
        with self._state:
            self._is_over = True
            self._state.notify_all()
        self._thread.join(wait_s)
        self._is_open = False

    def _run(self) -> None:
        lock: int | None = None
        try:
            make_private(self._folder)
            path = self._folder / LOCK_NAME
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            lock = os.open(path, flags, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            pages = Pages(self._folder)
            booked, today = pages.resumed(), self._folder / page_name(time.time())
            with self._state:
                if self._is_over:
                    return
                # The first entries come after minutes: what stands in their way is said before.
                self._note = _not_followed(today) if today in pages.links() else ""
                self.booked, self._is_open = booked, True
                self._state.notify_all()
            self._write_all()
        except BlockingIOError:
            self._give_up(f"another gpumon writes the books in {self._folder}; these are not kept")
        except OSError as error:
            self._give_up(f"the books cannot be kept in {self._folder}: {error.strerror}")
        finally:
            if lock is not None:
                os.close(lock)

    def _give_up(self, note: str) -> None:
        with self._state:
            self._is_over, self._note = True, note
            self._state.notify_all()

    def _write_all(self) -> None:
        """Write piece after piece until the end; one that fails stays the first."""
        while True:
            with self._state:
                self._state.wait_for(lambda: self._waiting or self._is_over)
                if not self._waiting:
                    return
                (at, data), taken = self._waiting[0], self._taken
                self._trying_since = self._now()
            failure = self._failure(at, data)
            with self._state:
                self._trying_since = None
                self._note = failure
                if not failure:
                    self._waiting.popleft()
                    self._waiting_bytes -= len(data)
                self._tried = taken
                self._state.notify_all()
                if failure and self._is_over:
                    return
                if failure:
                    self._state.wait_for(self._has_more_than(taken), RETRY_S)

    def _has_more_than(self, taken: int) -> Callable[[], bool]:
        return lambda: self._taken != taken or self._is_over

    def _failure(self, at: float, data: bytes) -> str:
        """Why a piece could not be written; empty: it is."""
        try:
            self._append(at, data)
        except OSError as error:
            if error.errno == errno.ELOOP:
                return _not_followed(self._folder / page_name(at))
            return f"the books cannot be written to {self._folder}: {error.strerror}"
        return ""

    def _append(self, at: float, data: bytes) -> None:
        """Append all of it or nothing: a part would be written twice by the next try."""
        path = self._folder / page_name(at)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(path, flags, 0o600)
        try:
            size = os.fstat(file).st_size
            if size == 0:
                data = f'{{"schema":"{SCHEMA}","tool":"gpumon {__version__}"}}\n'.encode() + data
            elif os.pread(file, 1, size - 1) != b"\n":
                data = b"\n" + data
            try:
                while data:
                    data = data[os.write(file, data) :]
            except OSError:
                os.ftruncate(file, size)
                raise
        finally:
            os.close(file)
