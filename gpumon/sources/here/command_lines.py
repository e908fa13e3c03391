"""Command lines of processes of this machine, read while they are on a screen."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.base.held_process import PROC, described

if TYPE_CHECKING:
    from collections.abc import Callable

RENEWED_S: Final = 5.0
"""A command line is read again after so long: programs may write themselves another one."""

MOST_BYTES: Final = 4096
"""So much of a command line is read: more fits on no screen."""

MOST_LINES: Final = 1000
"""Command lines that are remembered: those of a few large screens. Then all are read again."""

Named = tuple[int, float]
"""A PID, and the start of its process in seconds since boot."""


class _Read(NamedTuple):
    """What was read of a process."""

    text: str | None
    """Harmless, without secrets; None: it is gone, hidden, another user's, or has none."""
    at: float
    mark: int = 0
    """Hash of the bytes that it was made of: while they are the same, so is it."""


class CommandLines:
    """Reads on a thread of its own: a process that is stuck may hold up its reader.

    Only /proc/PID/cmdline is read, never an environment, and what is found is stored in memory
    alone, with secrets taken out already.
    """

    def __init__(
        self,
        notify: Callable[[], None],
        proc: str = PROC,
        uid: int | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is read before it is asked for.

        Args:
            notify: Called on the reading thread once there is something new.
            proc: The folder of processes.
            uid: Whose processes are one's own; None: this process's user's.
            monotonic: Seconds that never jump.
        """
        self._notify = notify
        self._proc = proc
        self._uid = os.geteuid() if uid is None else uid
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._wanted: dict[Named, None] = {}
        self._read: dict[Named, _Read] = {}
        self._is_reading = False
        self.has_others = False
        """Whether command lines of other users' processes are wanted, too."""

    def show_others(self, has_others: bool) -> None:
        """Have other users' command lines, or only one's own again."""
        with self._lock:
            self.has_others = has_others
            self._read = {}

    def line(self, pid: int, start_time_s: float) -> str | None:
        """What is known of a process's command line, which has newer read; None: nothing."""
        name = (pid, start_time_s)
        with self._lock:
            known = self._read.get(name)
            if known is None or self._monotonic() - known.at >= RENEWED_S:
                self._wanted[name] = None
                if not self._is_reading:
                    self._is_reading = True
                    threading.Thread(
                        target=self._work, name="gpumon-command-lines", daemon=True
                    ).start()
        return known.text if known is not None else None

    def _work(self) -> None:
        """Read what is wanted until nothing is."""
        has_news = False
        while True:
            with self._lock:
                wanted, self._wanted = self._wanted, {}
                if not wanted:
                    self._is_reading = False
                    break
                has_others, before = self.has_others, self._read
            found = {name: self._line_of(name, has_others, before.get(name)) for name in wanted}
            with self._lock:
                if has_others == self.has_others:
                    known = self._read
                    has_news |= any(
                        name not in known or known[name].text != one.text
                        for name, one in found.items()
                    )
                    if len(known) + len(found) > MOST_LINES:
                        known = {}
                    self._read = {**known, **found}
        if has_news:
            self._notify()

    def _line_of(self, name: Named, has_others: bool, before: _Read | None) -> _Read:
        """What a process's command line is now; `before` is what was read of it last."""
        pid, start_time_s = name
        at = self._monotonic()
        try:
            is_own = Path(self._proc, str(pid)).stat().st_uid == self._uid
        except OSError:
            return _Read(None, at)
        if not (is_own or has_others):
            return _Read(None, at)
        data = self._data_of(pid)
        # Checked afterwards: what was read before the number changed hands is not shown either.
        now = described(pid, self._proc)
        if now is None or not now.began_at(start_time_s):
            return _Read(None, at)
        mark = hash(data)
        if before is not None and before.text is not None and before.mark == mark:
            return before._replace(at=at)
        words = _words(data)
        if not any(words):
            return _Read(None, at)
        # Its patterns take a while to be made, which the first screen should not wait for.
        from gpumon.sources.here.redacting import redacted

        return _Read(redacted(words), at, mark)

    def _data_of(self, pid: int) -> bytes:
        try:
            file = os.open(f"{self._proc}/{pid}/cmdline", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            return os.read(file, MOST_BYTES)
        except OSError:
            return b""
        finally:
            os.close(file)


def _words(data: bytes) -> list[str]:
    """Words of a command line as the kernel has it."""
    program, *rest = data.rstrip(b"\0").decode("utf-8", "replace").split("\0")
    # Its folder is of little use, and takes the room of what follows.
    is_path = program.startswith("/") and " " not in program
    return [program.rpartition("/")[2] if is_path else program, *rest]
