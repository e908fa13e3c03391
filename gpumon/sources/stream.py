"""One probe as the monitor sees it: a child process, its lines, its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.frame import Frame, SourceError
from gpumon.model.text import plain
from gpumon.sources.decode import Decoder, GarbageError

if TYPE_CHECKING:
    from collections.abc import Callable

PROTOCOL: Final = 1
HELLO: Final = b'{"gpumon_probe"'
"""Start of the probe's first line; the nonce in it tells it from an echo of somebody else's."""
MAX_GREETING: Final = 256 * 1024
"""What a login shell may print before the probe's hello; more is not a login message."""
MAX_LINE: Final = 16 * 1024 * 1024
"""Longest report; eight GPUs take about 8 KB."""
MAX_STDERR: Final = 4096
END_LIMIT_S: Final = 0.2
"""How long after the end of its output a child is waited for, to learn its exit code."""


class Endpoint(NamedTuple):
    """Where and how one probe is started."""

    node: str
    """Name under which the source knows the node; empty: ask the probe."""
    argv: tuple[str, ...]
    program: Callable[[dict[str, object]], bytes]
    """Bytes to write first, for the start options given."""
    explain: Callable[[int | None, str], tuple[str, str]]
    """Message and way out for an exit code and the last words on standard error."""


class Stream:
    """A started probe. Its reader calls `read` when bytes wait, and never blocks in it."""

    def __init__(self, endpoint: Endpoint, origin: str, options: dict[str, object]) -> None:
        """Start the child; raises OSError when the program cannot be started."""
        self.endpoint = endpoint
        self.is_greeted = False
        self.has_reported = False
        self._origin = origin
        self._nonce = os.urandom(8).hex()
        self._decoder = Decoder(origin)
        self._buffer = bytearray()
        self._discarded = 0
        self._stderr = bytearray()
        self._outgoing = bytearray(endpoint.program({**options, "nonce": self._nonce}))
        self._process = subprocess.Popen(
            endpoint.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self.stdin, self.stdout, self.stderr = (pipe.fileno() for pipe in pipes if pipe)
        for descriptor in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(descriptor, False)

    @property
    def has_outgoing(self) -> bool:
        """Whether bytes wait to be written."""
        return bool(self._outgoing)

    def say(self, wish: str) -> None:
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
        """Keep the last words; False at their end."""
        try:
            data = os.read(self.stderr, 65536)
        except BlockingIOError:
            return True
        self._stderr = (self._stderr + data)[-MAX_STDERR:]
        return bool(data)

    def read(self, now: float) -> tuple[list[Frame], bool]:
        """Frames of the bytes that wait, and whether the stream goes on.

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
            if self.is_greeted:
                frames.append(self._decoder.frame(line, self.endpoint.node, now))
                self.has_reported = True
            else:
                self._greet(line)
        limit = MAX_LINE if self.is_greeted else MAX_GREETING
        if len(self._buffer) > limit:
            message = f"a line of more than {limit} bytes"
            raise GarbageError(message)
        return frames, bool(data)

    def _greet(self, line: bytes) -> None:
        """Take the hello line, or discard what a login shell printed before it."""
        # A login shell may print without a line end, such as a window title, right before it.
        hello = line[line.find(HELLO) :] if HELLO in line else b""
        if self._nonce.encode() in hello:
            try:
                protocol = json.loads(hello)["gpumon_probe"]
            except (ValueError, RecursionError) as error:
                message = "the probe's hello is cut or changed"
                raise GarbageError(message) from error
            if protocol != PROTOCOL:
                message = f"the probe speaks protocol {protocol}, not {PROTOCOL}"
                raise GarbageError(message)
            self.is_greeted = True
            return
        self._discarded += len(line) + 1
        if self._discarded > MAX_GREETING:
            message = f"more than {MAX_GREETING} bytes before the probe's hello"
            raise GarbageError(message)

    def trouble(self, message: str = "", hint: str = "") -> SourceError:
        """Why the stream ended, in one line."""
        where = self.endpoint.node or self._origin
        if not message:
            message, hint = self.endpoint.explain(*self._last_words())
        return SourceError(plain(where), plain(message), plain(hint))

    def _last_words(self) -> tuple[int | None, str]:
        """Exit code, None for a child that goes on, and what it said on standard error."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_LIMIT_S)
        self.read_stderr()
        return self._process.poll(), self._stderr.decode("utf-8", "replace").strip()

    def end(self) -> None:
        """Close the pipes, which ends the probe, and kill the child; waits for nothing."""
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()
        if self._process.poll() is None:
            # A child inside a hung driver call cannot be killed, only abandoned.
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return
            except PermissionError:
                self._process.kill()

    def reap(self, seconds: float) -> bool:
        """Whether the ended child is gone, waiting at most `seconds` for it."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def abandon(self) -> None:
        """Forget a child that is beyond reach, which Popen would otherwise warn of."""
        if self._process.returncode is None:
            self._process.returncode = -signal.SIGKILL
