"""This machine's probe, started before gpumon has imported anything else.

Python and the driver's binding take longer to come up in the child than all that a single answer
imports here, so it is there when the child is; even the import of `subprocess`, with what that
needs, would make the child begin later by as much as Python itself takes to start.
"""

from __future__ import annotations

import os
import time

from gpumon.sources.probes.program import early_start, local_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from subprocess import Popen
    from typing import BinaryIO

_POLL_S = 0.001
"""How often a child that is about to end is looked at."""

_END_LIMIT_S = 0.2
"""How long a killed child is waited for: the kernel may hold it, and then it is left behind."""

_begun: list[Child] = []


class Child:
    """A started child with three pipes: as much of `subprocess.Popen` as a probe's end needs."""

    def __init__(self, pid: int, pipes: list[int]) -> None:
        """`pipes` are this side's ends of its standard input, output and error."""
        self.pid = pid
        self.returncode: int | None = None
        self.told: dict[str, object] | None = None
        """With which options it was started on its program; None: it waits for that."""
        self.nonce = ""
        """By which its first line is known, once it was told."""
        stdin, stdout, stderr = pipes
        self.stdin: BinaryIO = open(stdin, "wb", 0)  # noqa: SIM115
        self.stdout: BinaryIO = open(stdout, "rb", 0)  # noqa: SIM115
        self.stderr: BinaryIO = open(stderr, "rb", 0)  # noqa: SIM115

    def tell(self, options: Mapping[str, object]) -> None:
        """Hand it its program; of a child that is gone whoever takes it learns why."""
        nonce = os.urandom(8).hex()
        try:
            # Less than a pipe takes at once.
            self.stdin.write(local_program({**options, "nonce": nonce}))
        except OSError:
            return
        self.told, self.nonce = dict(options), nonce

    def poll(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                # Somebody else has collected it, and with it how it ended.
                pid, status = self.pid, 0
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Exit code of the ended child.

        Raises:
            TimeoutExpired: It runs on after so many seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if timeout is not None and deadline is not None and time.monotonic() >= deadline:
                from subprocess import TimeoutExpired

                raise TimeoutExpired("the probe", timeout)
            time.sleep(_POLL_S)
        return code

    def kill(self) -> None:
        """Kill it, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, 9)

    def close(self) -> None:
        """Close the pipes."""
        for pipe in (self.stdin, self.stdout, self.stderr):
            pipe.close()


def begin() -> None:
    """Start the child. One that cannot be started is told of by who would need it."""
    try:
        child = _start(early_start())
    except (OSError, NotImplementedError):
        return
    if child is not None:
        _begun.append(child)


def tell(options: Mapping[str, object]) -> None:
    """Have the child that waits, if there is one, read the driver before anybody takes it."""
    if _begun and _begun[-1].told is None:
        _begun[-1].tell(options)


def _start(argv: tuple[str, ...]) -> Child | None:
    """The child, in a session of its own; None: a standard stream is closed, its number in use."""
    theirs, ours = [], []
    try:
        for number in range(3):
            out, into = os.pipe()
            theirs.append(into if number else out)
            ours.append(out if number else into)
        if min(theirs + ours) < 3:
            return None
        moves = [(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(theirs)]
        # What the shell left open is none of the child's; Popen closes it likewise.
        others = [number for name in os.listdir("/proc/self/fd") if (number := int(name)) > 2]
        shut = [(os.POSIX_SPAWN_CLOSE, number) for number in others]
        pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=[*moves, *shut], setsid=True)
        pipes, ours = ours, []
    finally:
        for end in theirs + ours:
            os.close(end)
    return Child(pid, pipes)


def spawn(argv: tuple[str, ...], environ: Mapping[str, str] | None = None) -> Popen[bytes]:
    """A child with three pipes, in a session of its own.

    Raises:
        OSError: The program cannot be started.
    """
    from subprocess import PIPE, Popen

    return Popen(
        argv, stdin=PIPE, stdout=PIPE, stderr=PIPE, bufsize=0, env=environ, start_new_session=True
    )


def take(options: Mapping[str, object] | None = None) -> Child | None:
    """The child, which is the caller's from now on; None: there is none.

    Args:
        options: What it is wanted for: one that was told otherwise is ended; None: whatever.
    """
    child = _begun.pop() if _begun else None
    if child is None or options is None or child.told in (None, dict(options)):
        return child
    _end(child)
    return None


def end() -> None:
    """End the child that nobody took."""
    while (child := take()) is not None:
        _end(child)


def _end(child: Child) -> None:
    child.kill()
    child.close()
    deadline = time.monotonic() + _END_LIMIT_S
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(_POLL_S)
