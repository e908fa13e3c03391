"""The last lines that a job printed, read where its files are, for the user who runs it."""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.cluster import Job

RENEWED_S: Final = 3.0
"""A file is read again after so long, while it is on screen."""

MOST_BYTES: Final = 16 * 2**10
"""So much of a file's end is read."""

MOST_LINES: Final = 4
"""Last lines of a job's output that are shown. A choice: an exception's end and what led to it."""
_MOST_TEXT: Final = 400
"""Characters of a line that are shown: two lines of a wide terminal (our choice)."""

_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Colours and titles, as programs print them for terminals (ECMA-48)."""


class Tail(NamedTuple):
    """The end of what a job printed."""

    name: str
    """Name of the file, without its folder."""
    lines: tuple[str, ...]
    """Harmless text, the newest last; none where there is nothing but blanks."""


class JobOutput:
    """Reads on a thread of its own, as file systems hang; only of jobs of the user who asks.

    A path is what the job's owner wrote, and this process may read more than they: of somebody
    else's job nothing is opened.
    """

    def __init__(
        self, uid: int | None = None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Nothing is read before the first question.

        Args:
            uid: Whose jobs; None: this process' own user's.
            monotonic: Seconds that never jump.
        """
        self._uid = os.getuid() if uid is None else uid
        self._monotonic = monotonic
        self._paths: tuple[str, ...] = ()
        self._read_at = float("-inf")
        self._tail: Tail | None = None
        self._thread: threading.Thread | None = None

    def tail(self, job: Job) -> Tail | None:
        """What was read last of a job's output, which has newer read; None: nothing yet.

        The file that was written last counts, of those for output and errors.
        """
        if job.user_id != self._uid or job.state != "RUNNING":
            return None
        given = (job.stdout_path, job.stderr_path)
        paths = tuple(dict.fromkeys(path for path in given if path and path.startswith("/")))
        if paths != self._paths:
            self._paths, self._tail, self._read_at = paths, None, float("-inf")
        is_reading = self._thread is not None and self._thread.is_alive()
        now = self._monotonic()
        if paths and not is_reading and now - self._read_at >= RENEWED_S:
            self._read_at = now
            self._thread = threading.Thread(
                target=self._read, args=(paths,), name="gpumon-job-output", daemon=True
            )
            self._thread.start()
        return self._tail

    def _read(self, paths: tuple[str, ...]) -> None:
        found = [ends for path in paths if (ends := _end_of(path)) is not None]
        tail = max(found, key=lambda one: one[0])[1] if found else None
        if paths == self._paths:
            self._tail = tail


def _end_of(path: str) -> tuple[float, Tail] | None:
    """When a file was written last, and its last lines; None: it is none that can be read."""
    try:
        # A pipe or a terminal would keep its reader waiting, or take the keys.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):
        return None
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            return None
        start = max(0, about.st_size - MOST_BYTES)
        data = os.pread(file, MOST_BYTES, start)
    except OSError:
        return None
    finally:
        os.close(file)
    if start:
        # The first line is torn.
        data = data.partition(b"\n")[2] or data
    return about.st_mtime, Tail(plain(path.rpartition("/")[2]), _last_lines(data))


def _last_lines(data: bytes) -> tuple[str, ...]:
    lines: list[str] = []
    for line in reversed(data.decode("utf-8", "replace").split("\n")):
        # A bar of progress is drawn over itself: what was drawn last counts.
        drawn = [part for part in _ESCAPES.sub("", line).split("\r") if part.strip()]
        if drawn:
            lines.append(plain(drawn[-1].expandtabs(4).rstrip(), _MOST_TEXT))
        if len(lines) == MOST_LINES:
            break
    return tuple(reversed(lines))
