"""Appends to the books' files on a thread of its own: a disk that hangs stops no sampling."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from gpumon import __version__
from gpumon.base.paths import make_private
from gpumon.base.writing_thread import RETRY_S, SLOW_S, WritingThread
from gpumon.fleet.ledger.journal_reader import SCHEMA, Pages, page_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpumon.fleet.ledger.journal_reader import Resumed
    from gpumon.model.records.ledger import Account

LOCK_NAME: Final = "writer.lock"

OPEN_WAIT_S: Final = 10.0
"""A disk that needs longer to show the books of before is not waited for."""


MAX_WAITING_BYTES: Final = 32 * 2**20
"""Most that waits to be written: the entries of about 50,000 jobs."""


def _not_followed(path: Path) -> str:
    return f"the ledger cannot be written to {path}: it is a link, which is not followed; move it"


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
        self._note = ""
        self._lock: int | None = None
        self._is_open = False
        self._is_given_up = False
        self._thread = WritingThread("ledger", retry_s=RETRY_S, end=self._let_go, now=now)
        self.resumed: Resumed | None = None
        """What is on disk from earlier processes; None: they are not written by this one."""
        self.accounts: tuple[Account, ...] = ()
        """Single runs of the same, also of the process that writes them instead."""
        self._thread.take(self._open)
        if not self._thread.settle(open_wait_s):
            self._is_given_up = True
            self._note = f"the ledger is not stored: {folder} does not answer"
        if not self._is_open:
            self._thread.close(0.0)

    @property
    def is_open(self) -> bool:
        """Whether the folder is written to."""
        return self._is_open

    @property
    def note(self) -> str:
        """Why what was taken is not on disk."""
        error = self._thread.error
        if error is not None:
            return error.strerror or str(error)
        if not self._note and self._thread.busy_s > SLOW_S:
            return f"the ledger waits to be written: {self._folder} does not answer"
        return self._note

    def take(self, at: float, data: bytes) -> bool:
        """Have lines of a Unix time written; False: too much waits, and they were not taken."""
        write = partial(self._write, at, data)
        return self._is_open and self._thread.take(write, (len(data),), (MAX_WAITING_BYTES,))

    def settle(self, wait_s: float) -> bool:
        """Wait until all of it was written or tried, at most so long; False: it was not."""
        return self._thread.settle(wait_s)

    def close(self, wait_s: float) -> None:
        """Write the rest, as long as that takes at most, and let another process write."""
        self._thread.close(wait_s)
        self._is_open = False

    def _open(self) -> None:
        """Take the folder, and read where its books end; what is in the way is noted."""
        try:
            make_private(self._folder)
            path = self._folder / LOCK_NAME
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._lock = os.open(path, flags, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            pages = Pages(self._folder)
            resumed, today = pages.resumed(), self._folder / page_name(time.time())
            if self._is_given_up:
                return
            # The first entries come after minutes: what stands in their way is said before.
            self._note = _not_followed(today) if today in pages.links() else ""
            self.resumed, self.accounts, self._is_open = resumed, resumed.accounts, True
        except BlockingIOError:
            self._note = (
                f"another gpumon writes the ledger in {self._folder}; this one is not stored"
            )
            self.accounts = Pages(self._folder).resumed().accounts
        except OSError as error:
            self._note = f"the ledger cannot be stored in {self._folder}: {error.strerror}"

    def _let_go(self) -> None:
        if self._lock is not None:
            os.close(self._lock)

    def _write(self, at: float, data: bytes) -> None:
        """Append a piece; an error says what stands in its way."""
        try:
            self._append(at, data)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise OSError(error.errno, _not_followed(self._folder / page_name(at))) from None
            message = f"the ledger cannot be written to {self._folder}: {error.strerror}"
            raise OSError(error.errno, message) from None
        self._note = ""

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
