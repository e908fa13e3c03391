"""This machine's probe, started before gpumon has imported what it alone needs.

The driver's binding and the probe take longer to come up in the child than all that a single answer
imports here, so it is there when the child is. The program `gpumon` forks the child: a second
Python would take as much again as the first one, and would import again what both need. A caller
that runs gpumon in its own process, with threads perhaps, gets a child that is a new Python.
"""

from __future__ import annotations

import gc
import os
import sys
import time

from gpumon.sources.probes.program import early_start, early_steps, local_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from subprocess import Popen
    from typing import BinaryIO, NoReturn

_POLL_S = 0.001
"""How often a child that is about to end is polled."""

_END_LIMIT_S = 0.2
"""How long a killed child is waited for: the kernel may hold it, and then it is left behind."""

_SHARED = ("json", "threading", "typing")
"""What the probe and its reader both need is imported once, before there are two."""

_begun: list[Child] = []


class Child:
    """A started child with three pipes: as much of `subprocess.Popen` as a probe's end needs."""

    def __init__(self, pid: int, pipes: list[int]) -> None:
        """`pipes` are this side's ends of its standard input, output and error."""
        self.pid = pid
        self.returncode: int | None = None
        self.options: dict[str, object] | None = None
        """With which options it was started on its program; None: it waits for that."""
        self.nonce = ""
        """By which its first line is known, once it has its program."""
        stdin, stdout, stderr = pipes
        self.stdin: BinaryIO = open(stdin, "wb", 0)  # noqa: SIM115
        self.stdout: BinaryIO = open(stdout, "rb", 0)  # noqa: SIM115
        self.stderr: BinaryIO = open(stderr, "rb", 0)  # noqa: SIM115

    def give_program(self, options: Mapping[str, object]) -> None:
        """Hand it its program; of a child that is gone its taker learns why."""
        nonce = os.urandom(8).hex()
        try:
            # Less than a pipe takes at once.
            self.stdin.write(local_program({**options, "nonce": nonce}))
        except OSError:
            return
        self.options, self.nonce = dict(options), nonce

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
        while (code := self.poll()) is None:
            if timeout is not None and not self.has_ended(timeout):
                from subprocess import TimeoutExpired

                raise TimeoutExpired("the probe", timeout)
            time.sleep(_POLL_S)
        return code

    def has_ended(self, seconds: float) -> bool:
        """Whether it has, waiting at most so long."""
        deadline = time.monotonic() + seconds
        while self.poll() is None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def kill(self) -> None:
        """Kill it, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, 9)

    def close(self) -> None:
        """Close the pipes."""
        for pipe in (self.stdin, self.stdout, self.stderr):
            pipe.close()


def begin(*, forks: bool = False) -> None:
    """Start the child. One that cannot be started is reported by who would need it.

    Args:
        forks: Make it of this process, which has imported little yet; one with threads is left
            alone, because a lock that another thread holds would stay shut in the child.
    """
    try:
        if forks and len(os.listdir("/proc/self/task")) == 1:
            child = _fork(early_steps())
        else:
            child = _start(early_start())
    except (OSError, NotImplementedError):
        return
    if child is not None:
        _begun.append(child)


def prepare(options: Mapping[str, object]) -> None:
    """Have the child that waits, if there is one, read the driver before anybody takes it."""
    if _begun and _begun[-1].options is None:
        _begun[-1].give_program(options)


def _start(argv: tuple[str, ...]) -> Child | None:
    """The child, in a session of its own; None: a standard stream is closed, its number in use."""

    def start(theirs: list[int]) -> int:
        moves = [(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(theirs)]
        # What the shell left open is none of the child's; Popen closes it likewise.
        shut = [(os.POSIX_SPAWN_CLOSE, number) for number in _open_numbers()]
        return os.posix_spawn(argv[0], argv, os.environ, file_actions=[*moves, *shut], setsid=True)

    return _piped(start)


def _fork(steps: str) -> Child | None:
    """The same, made of this process; it never returns from these statements."""
    for name in _SHARED:
        __import__(name)

    def start(theirs: list[int]) -> int:
        # Looking at what is open takes one more, which the child might not get.
        last = max(_open_numbers())
        # Who looks for garbage writes to every object: pages that both have would become two.
        gc.freeze()
        pid = os.fork()
        if pid == 0:
            _run(steps, theirs, last)
        return pid

    return _piped(start)


def _run(steps: str, pipes: list[int], last: int) -> NoReturn:
    """Be the child: run statements and end, whatever becomes of them."""
    try:
        os.setsid()
        for number, end in enumerate(pipes):
            os.dup2(end, number)
        os.closerange(3, last + 1)
        # What the user's terminal speaks is not what the two ends have agreed on.
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115
        exec(steps, {"__name__": "__main__"})  # noqa: S102
    # Nothing of the parent's may go on here: its handlers, its `finally`, its second answer.
    except BaseException:  # noqa: BLE001
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)


def _open_numbers() -> list[int]:
    """Descriptors beyond the standard streams."""
    return [number for name in os.listdir("/proc/self/fd") if (number := int(name)) > 2]


def _piped(start: Callable[[list[int]], int]) -> Child | None:
    """A child that has three pipes; None: a standard stream is closed, its number in use.

    Args:
        start: Starts it with its ends of the pipes, and gives its PID.
    """
    theirs, ours = [], []
    try:
        for number in range(3):
            out, into = os.pipe()
            theirs.append(into if number else out)
            ours.append(out if number else into)
        if min(theirs + ours) < 3:
            return None
        pid = start(theirs)
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
        options: What it is wanted for: one with other options is ended; None: any.
    """
    child = _begun.pop() if _begun else None
    if child is None or options is None or child.options in (None, dict(options)):
        return child
    _end(child)
    return None


def end() -> None:
    """End the child that was not taken."""
    while (child := take()) is not None:
        _end(child)


def _end(child: Child) -> None:
    child.kill()
    child.close()
    child.has_ended(_END_LIMIT_S)
