"""Stands between the monitor and the worker, so that nothing a plugin started outlives the worker.

`python -P -m gpumon.detect.worker.supervisor FD MONITOR` starts the worker as its child. What a
plugin starts may leave the worker's process group and session and let its own parent end, as every
daemon does: killing a group does not find it then. Linux gives such orphans to the nearest ancestor
that asked for them (prctl(2), PR_SET_CHILD_SUBREAPER), which is this process and not the monitor:
that one's own orphans may be a user's, of a shell on a node.

It imports nothing that takes memory, and sleeps while the worker works.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
"""linux/prctl.h."""

_WAKES: Final = frozenset({signal.SIGTERM, signal.SIGCHLD})

_END_S: Final = 0.4
"""Time to collect what was killed; what hangs in the kernel goes when it comes back. The monitor
waits for a second."""

_POLL_S: Final = 0.02
"""Between two evaluations whether all are gone, seconds (our choice)."""


def main() -> None:
    """Start the worker, wait for its end or for the monitor's word, and leave nobody behind."""
    descriptor, monitor = int(sys.argv[1]), int(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Blocked before there is anybody to leave behind: they are waited for instead.
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAKES)
    _die_with(monitor, signal.SIGTERM)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    own = os.getpid()
    worker = os.fork()
    if worker == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WAKES)
        # What a plugin sends to its own group is not for the supervisor.
        os.setpgid(0, 0)
        _die_with(own, signal.SIGKILL)
        from gpumon.detect.worker.worker import serve

        serve(descriptor)
        return
    # The monitor knows of the worker's end by the end of the stream.
    os.close(descriptor)
    code = _outlive(worker)
    end_children(_END_S)
    _leave(code)


def _prctl(what: int, value: int) -> None:
    # Only Linux has prctl; elsewhere orphans stay, and the end of the stream ends the worker.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(what, value)


def _die_with(parent: int, by: signal.Signals) -> None:
    """Have a signal sent to this process when its parent ends, however that happens."""
    _prctl(_PR_SET_PDEATHSIG, by)
    if os.getppid() != parent:
        sys.exit(0)


def _outlive(worker: int) -> int:
    """Wait until the worker ends, or is to end; how it ended, 0 where it was told to."""
    while signal.sigwait(_WAKES) != signal.SIGTERM:
        for pid, code in _collected():
            if pid == worker:
                return code
    return 0


def _collected() -> list[tuple[int, int]]:
    """Process ids and exit codes of the children that have ended since the last call.

    Raises:
        ChildProcessError: There are none any more, dead or alive.
    """
    found: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            if found:
                return found
            raise
        if pid == 0:
            return found
        found.append((pid, os.waitstatus_to_exitcode(status)))


def end_children(limit_s: float) -> None:
    """Kill all children, and theirs as they become this process's own, until there is none.

    Only this process collects them, so that none of their numbers can be another's by now.
    """
    deadline = time.monotonic() + limit_s
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            for pid in _children():
                # One that changed its user is beyond our reach.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            signal.sigtimedwait({signal.SIGCHLD}, _POLL_S)
            _collected()


def _children() -> list[int]:
    """Process ids of the children of this process, which has one thread."""
    own = os.getpid()
    with contextlib.suppress(OSError, ValueError):
        return [*map(int, Path(f"/proc/{own}/task/{own}/children").read_text("ascii").split())]
    # A kernel without such lists tells each process's parent.
    from gpumon.base.held_process import described

    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if (one := described(pid)) is not None and one.parent_pid == own]


def _leave(code: int) -> None:
    """End as the worker did, which the monitor tells."""
    if code < 0:
        # The worker has left a core where one is wanted.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
        os.kill(os.getpid(), -code)
    os._exit(abs(code))


if __name__ == "__main__":
    main()
