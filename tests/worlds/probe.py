"""Real probes for tests: started as gpumon starts them, read with a deadline."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gpumon.sources.probes.local import local_endpoint
from gpumon.sources.probes.stream import Endpoint, Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpumon.model.records.frame import Frame

PATIENCE_S = 600.0
"""No test waits longer for a real process; passing ones take seconds where six others compute."""

LEASE_BEAT_S = 5.0
"""How often the lease of a real probe is renewed, as a pool does."""

BEGIN = b"main(b, "
"""With this begins the last line of a real probe's program."""

PATIENT = b"""from gpumon.probe.driver import sweep
from gpumon.probe import surroundings
from gpumon.probe.kernel import local_filesystems, outputs
outputs.PATIENCE_S = local_filesystems.PATIENCE_S = 600.0
surroundings.PATIENCE_S = sweep.HURRY_AFTER_S = 600.0
"""
"""Before it: on a busy machine a reading takes longer than a report waits for it."""


def eventually(condition: Callable[[], Any], what: str) -> Any:
    """What `condition` gives as soon as that is true; fails when it stays false."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.01)
    return found


def heard(pipe: Path) -> str:
    """What is written into a named pipe; fails where nothing is: a plain open would wait."""
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, encoding="utf-8") as stream:
        ready, _, _ = select.select([stream], [], [], PATIENCE_S)
        assert ready, f"nothing writes into {pipe.name}"
        os.set_blocking(descriptor, True)
        return stream.read()


def tell(pipe: Path, text: str) -> None:
    """Write into a named pipe that is read; fails where it is not, likewise."""

    def opened() -> int | None:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return None

    with os.fdopen(eventually(opened, f"a reader of {pipe.name}"), "w") as stream:
        stream.write(text)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be collected does not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def children(pid: int | None = None) -> set[int]:
    """Children of a process (this one by default), those not collected yet included."""
    lists = Path(f"/proc/{pid or os.getpid()}/task").glob("*/children")
    try:
        return {int(child) for thread in lists for child in thread.read_text().split()}
    except OSError:
        # A thread has ended meanwhile; its children are another's now, perhaps of one already read.
        return children(pid)


HELLO = """printf '{"gpumon_probe":1,"nonce":"%s"}\\n' "$nonce";"""
"""For a shell script that speaks as a probe does."""
REPORT = """printf '{"at":1,"late_s":%s,"errors":[],"blocks":{}}\\n' """
"""Followed by numbers: one report each, which differ in their lateness."""


def talker(script: str, node: str = "n1", on_start: Callable[[], object] = int) -> Endpoint:
    """A node that answers with what a shell script prints; it learns the nonce as $nonce."""

    def program(options: dict[str, object]) -> bytes:
        on_start()
        return f"{options['nonce']}\n".encode()

    def explain(code: int | None, words: str) -> tuple[str, str]:
        return f"ended ({code}): {words.rpartition(chr(10))[2]}", "look"

    return Endpoint(node, ("sh", "-c", f"read nonce; {script}"), program, explain)


def patient(program: bytes) -> bytes:
    """A real probe's program, changed to wait for whole readings; a script as it is."""
    if BEGIN not in program:
        return program
    before, begin, options = program.partition(b"\n")[2].rpartition(BEGIN)
    body = before + PATIENT + begin + options
    return b"%d\n" % len(body) + body


class Probe:
    """One started probe, read by the test itself."""

    def __init__(
        self, where: Endpoint | None = None, period_s: float = 0.12, once: bool = False
    ) -> None:
        options: dict[str, object] = {"period_s": period_s, "once": once}
        self._endpoint = where or local_endpoint()
        self._is_real = False
        self.stream = Stream(self._endpoint._replace(program=self._program), "local", options)
        self.has_ended = False
        self._hears = True
        self._lease_at = time.monotonic() + LEASE_BEAT_S

    def _program(self, options: dict[str, object]) -> bytes:
        program = self._endpoint.program(options)
        self._is_real = BEGIN in program
        return patient(program)

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.end()
        assert self.stream.reap(PATIENCE_S)

    @property
    def pid(self) -> int:
        return self.stream._process.pid

    def read(self) -> list[Frame]:
        """Frames of what arrives next; empty when nothing but noise came, or the end."""
        stream = self.stream
        if self._is_real and time.monotonic() >= self._lease_at:
            self._lease_at = time.monotonic() + LEASE_BEAT_S
            stream.send("")
        writing = [stream.stdin] if stream.has_outgoing else []
        reading = [stream.stdout] + ([stream.stderr] if self._hears else [])
        ready, writable, _ = select.select(reading, writing, [], PATIENCE_S)
        assert ready or writable, "the probe is silent"
        if writable:
            stream.write()
        if stream.stderr in ready:
            self._hears = stream.read_stderr()
        if stream.stdout not in ready:
            return []
        # A script's reports are all of one moment: they are late only by what they report.
        heard_s = time.monotonic() if self._is_real else 0.0
        frames, goes_on = stream.read(1_760_000_000.0, heard_s)
        self.has_ended = not goes_on
        return frames

    def frames(self, wanted: Callable[[Frame], bool]) -> list[Frame]:
        """Frames up to the first that is as wanted."""
        seen: list[Frame] = []
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and not self.has_ended:
            for frame in self.read():
                seen.append(frame)
                if wanted(frame):
                    return seen
        words = self.stream.trouble() if self.has_ended else "none of them"
        raise AssertionError(f"{len(seen)} frames, and then: {words}; last: {seen[-1:]}")

    def frame(self, wanted: Callable[[Frame], bool] = lambda _: True) -> Frame:
        """The first frame that is as wanted."""
        return self.frames(wanted)[-1]

    def next_frame(self, wanted: Callable[[Frame], bool]) -> Frame:
        """The frame after the first that is as wanted: what changed amid a pass is half there."""
        self.frame(wanted)
        return self.frame()

    def until_end(self) -> None:
        """Read on until the probe has gone."""
        while not self.has_ended:
            self.read()


def sampled(frame: Frame) -> bool:
    """Whether the frame's GPUs have what needs two samples."""
    return bool(frame.block("gpu").columns.get("sm_active_ratio"))


@contextlib.contextmanager
def bounded(process: subprocess.Popen[Any], seconds: float = PATIENCE_S) -> Iterator[None]:
    """Kills a process at the end of a test, or once the test has waited for it for too long.

    What is read of it ends then, so that the test fails instead of waiting for ever.
    """
    killer = threading.Timer(seconds, process.kill)
    killer.start()
    try:
        yield
    finally:
        killer.cancel()
        process.kill()


class Ended(NamedTuple):
    """What a process printed, and how it ended."""

    out: bytes
    err: bytes
    code: int


def run(argv: Sequence[str], given: bytes, **options: Any) -> Ended:
    """A command that is given a program and ends by itself; its input stays open until then."""
    pipe = subprocess.PIPE
    started = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, **options)
    with started as process, bounded(process):
        assert process.stdin
        assert process.stdout
        assert process.stderr
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(given)
            process.stdin.flush()
        out, err = process.stdout.read(), process.stderr.read()
        code = process.wait()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    return Ended(out, err, code)
