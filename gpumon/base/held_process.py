"""One process of this machine: a PID names it for ever together with its start."""

from __future__ import annotations

import errno
import os
import select
import signal
from pathlib import Path
from typing import Final, NamedTuple

from gpumon.base.errors import DeclinedError

PROC: Final = "/proc"

TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
"""Unit of the times in /proc/PID/stat."""

PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
"""Unit of the resident memory in /proc/PID/stat."""

_MOST_STAT: Final = 4096
"""Bytes of a stat file that are read: no kernel writes so many."""

_ENDED: Final = ("Z", "X")
"""States (proc(5)) of a process that has ended and waits to be collected."""


class Described(NamedTuple):
    """What /proc/PID/stat says of a process."""

    pid: int
    parent_pid: int
    program: str
    """Base name as the kernel keeps it, at most 15 bytes; hostile text."""
    state: str
    """One letter of proc(5)."""
    start_ticks: int
    """Start since boot, in units of 1 / `TICKS_PER_S` seconds."""
    cpu_s: float
    """CPU time of all its threads, without its children's."""
    rss_bytes: int

    def began_at(self, start_time_s: float) -> bool:
        """Whether it is the process that began so many seconds after boot."""
        return self.start_ticks == round(start_time_s * TICKS_PER_S)

    @property
    def start_time_s(self) -> float:
        """Start, seconds since boot."""
        return self.start_ticks / TICKS_PER_S

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, and only its parent has not yet asked how."""
        return self.state in _ENDED


class NotSentError(DeclinedError):
    """A signal reached no process; the message says why."""


def described(pid: int, proc: str = PROC) -> Described | None:
    """What the kernel says of a process; None where there is none, or it is hidden."""
    try:
        file = os.open(f"{proc}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(file, _MOST_STAT)
    except OSError:
        return None
    finally:
        os.close(file)
    # A program's name may hold anything, brackets and blanks among it.
    head, _, rest = text.rpartition(b")")
    words = rest.split()
    try:
        return Described(
            pid=pid,
            parent_pid=int(words[1]),
            program=head.partition(b"(")[2].decode("utf-8", "replace"),
            state=words[0].decode("ascii", "replace"),
            start_ticks=int(words[19]),
            cpu_s=(int(words[11]) + int(words[12])) / TICKS_PER_S,
            rss_bytes=int(words[21]) * PAGE_BYTES,
        )
    except (IndexError, ValueError):
        return None


def with_exact_memory(known: Described, proc: str = PROC) -> Described:
    """The same with the resident memory of /proc/PID/statm, as psutil tells it, if it can be read.

    /proc/PID/stat tells it roughly only.
    """
    try:
        pages = int(Path(f"{proc}/{known.pid}/statm").read_bytes().split()[1])
    except (OSError, IndexError, ValueError):
        return known
    return known._replace(rss_bytes=pages * PAGE_BYTES)


def send(pid: int, start_time_s: float, number: signal.Signals, wait_s: float = 0.0) -> bool:
    """Send a signal to the process that began then, or to nobody.

    The PID is held before its start is looked at: whoever gets the number later is not reached.

    Args:
        pid: The process.
        start_time_s: Its start, seconds since boot.
        number: The signal.
        wait_s: How long to wait for its end.

    Returns:
        Whether it has ended within that time.

    Raises:
        NotSentError: It has ended, is another one, or the kernel refuses.
    """
    handle = _held(pid)
    try:
        now = described(pid)
        if now is None or now.has_ended:
            raise NotSentError("it has ended")
        if not now.began_at(start_time_s):
            raise NotSentError("the number now belongs to another process")
        _send(handle, number)
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        return bool(waiting.poll(wait_s * 1000))
    finally:
        os.close(handle)


def _held(pid: int) -> int:
    """A handle of whatever process has this number now."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise NotSentError("it has ended") from None
    except AttributeError:
        raise NotSentError(_without_handles(pid)) from None
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EPERM, errno.EINVAL):
            raise NotSentError(_without_handles(pid)) from None
        raise NotSentError(f"the kernel says: {error.strerror}") from None


def _send(handle: int, number: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        raise NotSentError("it has ended") from None
    except PermissionError:
        raise NotSentError("not permitted: only its owner and root may signal it") from None
    except OSError as error:
        raise NotSentError(f"the kernel says: {error.strerror}") from None


def _without_handles(pid: int) -> str:
    """What to say where a process cannot be held: Linux before 5.3, or a sandbox without pidfds."""
    return (
        f"this kernel cannot hold a process (pidfd, Linux 5.3 and later); ! opens a shell for "
        f"kill {pid}"
    )
