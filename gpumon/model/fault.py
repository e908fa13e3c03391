"""What gpumon reports when it fails itself: one line for the user, the rest only for who asks."""

from __future__ import annotations

import errno
import os
import sys
from typing import Final, NamedTuple

from gpumon.model.text import plain

DEBUG_VARIABLE: Final = "GPUMON_DEBUG"
"""Set to anything but 0 it has tracebacks written to standard error."""

OWN: Final = "gpumon"
"""Where an error of its own happened."""

DETECTION: Final = "detection"
"""Where it failed where no detector was at work."""

DRIVER: Final = "NVML"
"""With this ends where an error happened that is of a node's driver as a whole."""

GPU_PROCESSES: Final = "GPU processes"
"""Likewise where the driver hides them, which is no fault: a user sees less than there is."""

HINT: Final = f"please report this; {DEBUG_VARIABLE}=1 shows where it happened"


class SourceError(NamedTuple):
    """One thing that a source could not do, in one line that names it and the way out."""

    where: str
    """Target URL, node or command that failed."""
    message: str
    hint: str = ""
    """The way out, where one is known."""


_SHORT: Final = {
    errno.EMFILE: (
        "no more files can be opened: the limit of this process is reached",
        "raise it where gpumon is started: ulimit -n 1024",
    ),
    errno.ENFILE: (
        "no more files can be opened: the limit of this machine is reached",
        "ask an administrator to raise fs.file-max, or end what holds them",
    ),
    errno.ENOMEM: (
        "no memory is left",
        "see free and ulimit -a; the limit of a job, a container or a login session counts too",
    ),
}
"""What lacks by the error of the system, in words, with the way out: no fault of anybody's code."""

_NO_PROCESS: Final = (
    "no more processes can be started",
    "see ulimit -u and what else of this user runs here",
)


def shortage(error: BaseException, *, is_start: bool = False) -> tuple[str, str] | None:
    """What this machine or session lacks, and the way out; None where it is something else.

    Args:
        error: What was raised.
        is_start: It came of the start of a process; EAGAIN means something else elsewhere.
    """
    if isinstance(error, MemoryError):
        return _SHORT[errno.ENOMEM]
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return _NO_PROCESS
    if not isinstance(error, OSError):
        return None
    if is_start and error.errno == errno.EAGAIN:
        return _NO_PROCESS
    return _SHORT.get(error.errno or 0)


def fault(doing: str, error: BaseException) -> SourceError:
    """The line about an error of gpumon's own while it was doing something."""
    if os.environ.get(DEBUG_VARIABLE, "0") not in ("", "0"):
        import traceback

        sys.stderr.write("".join(traceback.format_exception(error)))
    lacking = shortage(error)
    if lacking is not None:
        words, way_out = lacking
        return SourceError(OWN, f"{words} (while gpumon was {doing})", way_out)
    cause = plain(f"{type(error).__name__}: {error}".partition("\n")[0])[:200]
    return SourceError(OWN, f"gpumon itself failed {doing}: {cause}", HINT)
