"""One probe as the monitor sees it: a child process, its lines, its end."""

from __future__ import annotations

import json
import os
import re
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.fault import SourceError
from gpumon.model.text import plain
from gpumon.sources.probes.decode import Decoder, GarbageError
from gpumon.sources.probes.early import Child, spawn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from subprocess import Popen

    from gpumon.model.records.frame import Frame

_SIGKILL: Final = 9
"""Not from `signal`, which makes an enum of every signal: .6 ms of a single answer."""
_CPU_CLOCK: Final = 2
"""Linux' CPUCLOCK_SCHED: CPU time of a process as its scheduler counts it."""

PROTOCOL: Final = 1
"""Version of the probe's lines that is understood; `gpumon.probe.main` has the same."""
HELLO: Final = b'{"gpumon_probe"'
"""Start of the probe's first line; the nonce in it distinguishes it from an echo of another's."""

MAX_GREETING: Final = 256 * 1024
"""What a login shell may print before the probe's hello; more is not a login message."""

MAX_LINE: Final = 16 * 1024 * 1024
"""Longest report; eight GPUs take about 8 KB."""

MAX_STDERR: Final = 4096
"""Last bytes of a child's complaints that are remembered. A choice: some dozen lines."""
END_LIMIT_S: Final = 0.2
"""How long after the end of its output a child is waited for, to learn its exit code."""

PIECE: Final = rb"~([0-9]{1,6})\.([0-9]{1,15})\.([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,4}) "
"""Task, number of the message, place and count of the piece, length of what follows."""

MAX_PIECES: Final = 20000
"""Most pieces of one message: about 16 MiB, the longest report."""


class Message:
    """A message of one task as far as it has come."""

    def __init__(self, number: int, count: int) -> None:
        self.number = number
        self.count = count
        self.parts: list[bytes] = []


class Tasks:
    """Pieces of the tasks of one step, numbered from 0, put together.

    A piece that srun tore, or that holds another task's words, costs its message and nothing
    else.
    """

    def __init__(self, count: int) -> None:
        """`count` tasks write; whatever names another is not theirs."""
        self._open: dict[int, Message] = {}
        self._count = count

    def take(self, line: bytes) -> tuple[int, bytes] | None:
        """Task and text of the message that this line completes; None: of none."""
        head = re.match(PIECE, line)
        if head is None:
            return None
        task, number, place, count, length = map(int, head.groups())
        part = line[head.end() :]
        if task >= self._count or not place < count <= MAX_PIECES or len(part) != length:
            return None
        if place == 0:
            self._open[task] = Message(number, count)
        message = self._open.get(task)
        expected = (number, count, place)
        if message is None or (message.number, message.count, len(message.parts)) != expected:
            self._open.pop(task, None)
            return None
        message.parts.append(part)
        if len(message.parts) < count:
            return None
        del self._open[task]
        return task, b"".join(message.parts)


class Endpoint(NamedTuple):
    """Where and how one probe is started."""

    node: str
    """Name under which the source knows the node; empty: ask the probe."""
    argv: tuple[str, ...]
    program: Callable[[dict[str, object]], bytes]
    """Bytes to write first, for the start options given."""
    explain: Callable[[int | None, str], tuple[str, str]]
    """Message and way out for an exit code and the last words on standard error."""
    nodes: tuple[str, ...] = ()
    """Nodes of which one probe each writes to the one output; empty: the one `node`."""
    origin: str = ""
    """Origin of the frames; empty: the target's URL."""
    environ: Mapping[str, str] | None = None
    """Environment of the child; None: gpumon's own."""
    is_step: bool = False
    """A step of a job: started once, because each start stays in the accounting, and ended by the
    end of its input, which the child passes on."""
    clients: int = 1
    """Processes that it takes on this machine."""
    early: Callable[[Mapping[str, object]], Child | None] | None = None
    """Gives the child that was started already, once; it was given these options and runs, or it
    waits for the program as `argv` would."""

    @property
    def reaches(self) -> tuple[str, ...]:
        """Every node of which this brings reports."""
        return self.nodes or (self.node,)


class Stream:
    """A started probe. Its reader calls `read` when bytes wait, and never blocks in it."""

    def __init__(self, endpoint: Endpoint, origin: str, options: dict[str, object]) -> None:
        """Start the child; raises OSError when the program cannot be started."""
        self.endpoint = endpoint
        self._origin = origin
        early = endpoint.early(options) if endpoint.early else None
        has_program = early is not None and early.options is not None
        self._nonce = early.nonce if early is not None and has_program else os.urandom(8).hex()
        self._speakers: dict[int, str] = {}
        """Node of each probe that has said hello; a single probe has number 0."""
        self._decoders: dict[int, Decoder] = {}
        self._reported: set[int] = set()
        self._tasks = Tasks(len(endpoint.nodes)) if endpoint.nodes else None
        self._buffer = bytearray()
        self._discarded = 0
        self._stderr = bytearray()
        self._outgoing = bytearray()
        if not has_program:
            self._outgoing += endpoint.program({**options, "nonce": self._nonce})
        self._process = early or spawn(endpoint.argv, endpoint.environ)
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self.stdin, self.stdout, self.stderr = (pipe.fileno() for pipe in pipes if pipe)
        for descriptor in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(descriptor, False)

    @property
    def is_greeted(self) -> bool:
        """Whether a probe has come up."""
        return bool(self._speakers)

    @property
    def has_reported(self) -> bool:
        """Whether every probe has reported, its GPUs included."""
        return len(self._reported) == len(self.endpoint.reaches)

    @property
    def cpu_s(self) -> float:
        """CPU time of its child here; 0 once that has ended."""
        try:
            # Its process clock, as clock_getcpuclockid(3) makes the number.
            return time.clock_gettime((~self._process.pid << 3) | _CPU_CLOCK)
        except OSError:
            return 0.0

    @property
    def has_outgoing(self) -> bool:
        """Whether bytes wait to be written."""
        return bool(self._outgoing)

    def send(self, wish: str) -> None:
        """Queue one wish; it also renews the lease."""
        self._outgoing += wish.encode() + b"\n"
        self.write()

    def write(self) -> None:
        """Write what the pipe takes now; a broken pipe shows at the next read."""
        try:
            while self._outgoing:
                del self._outgoing[: os.write(self.stdin, self._outgoing[:65536])]
        except BlockingIOError:
            return
        except OSError:
            self._outgoing.clear()

    def read_stderr(self) -> bool:
        """Store the last words; False at their end."""
        try:
            data = os.read(self.stderr, 65536)
        except BlockingIOError:
            return True
        self._stderr = (self._stderr + data)[-MAX_STDERR:]
        return bool(data)

    def read(self, now: float, heard_s: float) -> tuple[list[Frame], bool]:
        """Frames of the bytes that wait, and whether the stream goes on.

        Args:
            now: Unix time.
            heard_s: The monotonic clock.

        Raises:
            GarbageError: What arrives is not a probe's output.
        """
        try:
            data = os.read(self.stdout, 1 << 20)
        except BlockingIOError:
            return [], True
        self._buffer += data
        frames = []
        while (end := self._buffer.find(b"\n")) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            frames += self._take(line, now, heard_s)
        limit = MAX_LINE if self.is_greeted else MAX_GREETING
        if len(self._buffer) > limit:
            message = f"a line of more than {limit} bytes"
            raise GarbageError(message)
        return frames, bool(data)

    def _take(self, line: bytes, now: float, heard_s: float) -> list[Frame]:
        """The frame of one line of output, if it is or completes a report."""
        task, text = 0, line
        if self._tasks is not None:
            message = self._tasks.take(line)
            if message is None:
                self._discard(line)
                return []
            task, text = message
        if task not in self._speakers:
            self._greet(task, text)
            return []
        try:
            frame = self._decoders[task].frame(text, self._speakers[task], now, heard_s)
        except GarbageError:
            if self._tasks is None:
                raise
            # Torn in a way that its pieces did not show: the next report is whole again.
            self._discard(text)
            return []
        # A driver that is being opened is reported beside the node; its GPUs are still to come.
        if frame.block("node").label("awaited_call", 0) is None:
            self._reported.add(task)
        self._discarded = 0
        return [frame]

    def _greet(self, task: int, line: bytes) -> None:
        """Take the hello line, or discard what a login shell printed before it."""
        # A login shell may print without a line end, such as a window title, right before it.
        hello = line[line.find(HELLO) :] if HELLO in line else b""
        if self._nonce.encode() not in hello:
            self._discard(line)
            return
        try:
            words = json.loads(hello)
            protocol, node = words["gpumon_probe"], words.get("node")
        except (ValueError, RecursionError) as error:
            message = "the probe's hello is cut or changed"
            raise GarbageError(message) from error
        if protocol != PROTOCOL:
            message = f"the probe speaks protocol {protocol}, not {PROTOCOL}"
            raise GarbageError(message)
        nodes = self.endpoint.nodes
        if nodes and (node not in nodes or node in self._speakers.values()):
            message = f"a probe of the step calls its node {node!r}"
            raise GarbageError(message)
        self._speakers[task] = node if nodes else self.endpoint.node
        self._decoders[task] = Decoder(self.endpoint.origin or self._origin)

    def _discard(self, line: bytes) -> None:
        """Pass over something that is no report; too much of it in a row is not a probe's."""
        self._discarded += len(line) + 1
        # The pieces of a message that is not complete yet count, too.
        limit = MAX_GREETING if self._tasks is None else MAX_LINE
        if self._discarded > limit:
            when = "without a report" if self.is_greeted else "before the probe's hello"
            message = f"more than {limit} bytes {when}"
            raise GarbageError(message)

    def trouble(self, message: str = "", hint: str = "") -> SourceError:
        """Why the stream ended, in one line."""
        where = self.endpoint.node or self._origin
        if not message:
            message, hint = self.endpoint.explain(*self._last_words())
        return SourceError(plain(where), plain(message), plain(hint))

    def _last_words(self) -> tuple[int | None, str]:
        """Exit code, None for a child that goes on, and what it printed on standard error."""
        _has_ended(self._process, END_LIMIT_S)
        self.read_stderr()
        return self._process.poll(), self._stderr.decode("utf-8", "replace").strip()

    def end(self) -> None:
        """Close the pipes, which ends the probe, and kill the child; waits for nothing."""
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()
        # Killed at once, a step's child could not pass the end of input on.
        if not (self.endpoint.is_step and self.is_greeted):
            self._kill()

    def _kill(self) -> None:
        if self._process.poll() is None:
            # A child inside a hung driver call cannot be killed, only abandoned.
            try:
                os.killpg(self._process.pid, _SIGKILL)
            except ProcessLookupError:
                return
            except PermissionError:
                self._process.kill()

    def reap(self, seconds: float) -> bool:
        """Whether the ended child is gone, waiting at most `seconds` for it."""
        return _has_ended(self._process, seconds)

    def abandon(self) -> None:
        """Kill and forget a child that is beyond reach, which Popen would otherwise warn of."""
        self._kill()
        if self._process.returncode is None:
            self._process.returncode = -_SIGKILL


def _has_ended(process: Child | Popen[bytes], seconds: float) -> bool:
    """Whether a child has, waiting at most so long."""
    if isinstance(process, Child):
        return process.has_ended(seconds)
    # A single sample of this machine has no such child, and does without the module.
    from subprocess import TimeoutExpired

    try:
        process.wait(seconds)
    except TimeoutExpired:
        return False
    return True
