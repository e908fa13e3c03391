"""The detection worker: the one process that imports plugins.

Started by `supervisor` with one end of a socket pair. It says what it is about to do before it does
it, by a message or a mark, so that the monitor knows whom to blame when nothing follows.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpumon.detect.contract import DetectorError, declaration_of
from gpumon.detect.wire.protocol import encode, framed, receive, unread
from gpumon.detect.wire.work_mark import WorkMark
from gpumon.detect.worker.coverage import SentBlind
from gpumon.detect.worker.evaluate import answer_of
from gpumon.detect.worker.registry import entries, load
from gpumon.detect.worker.rotation import Turns
from gpumon.detect.worker.tick_copy import Replica
from gpumon.detect.worker.tuning import ParameterError, Tuning

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from gpumon.detect.contract import Declaration, Detector
    from gpumon.detect.facts.facts import Part
    from gpumon.detect.view import View
    from gpumon.detect.worker.registry import Entry

_NICENESS: Final = 5
"""Detection can wait; the screen and the sampler cannot."""

_MOST_WORDS: Final = 160
"""Characters of an error that ends the worker: a line of the terminal takes no more."""

_MUCH_NEWS: Final = 1000
"""Nodes and jobs told again at once from which the tick is worth keeping off the collector."""

_MUCH_UNSENT: Final = 2**16
"""Bytes of answers from which on the monitor reads them while the worker goes on."""

MOST_BYTES: Final = 2 * 2**30
"""Memory of its own that the worker can have at all; history is mapped and does not count."""

HELD_BYTES: Final = 768 * 2**20
"""Memory of its own that the worker may hold while idle: scikit-learn, numpy and the facts of
80,000 GPUs stay below half of it."""

_YOUNG: Final = 1
"""The garbage collector's generations that hold what was made since it last looked."""

_PATIENCE: Final = 500_000
"""Containers made in one evaluation until the collector interrupts it: five times what the tick of
ten thousand jobs needs, a fraction of what the memory has room for."""

_STATM: Final = "/proc/self/statm"
_STATM_BYTES: Final = 256  # seven numbers
_PAGE_BYTES: Final = resource.getpagesize()


def limit_memory() -> None:
    """Have allocations beyond `MOST_BYTES` fail in this process alone."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = MOST_BYTES if hard == resource.RLIM_INFINITY else min(MOST_BYTES, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def own_bytes() -> int | None:
    """Memory of this process that is not mapped from elsewhere; None where Linux says nothing."""
    # Asked after each detector: pathlib takes three times as long as the kernel.
    try:
        statm = os.open(_STATM, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # Resident pages, and of them those of files and of shared memory (proc_pid_statm(5)).
        _, resident, shared, *_ = map(int, os.read(statm, _STATM_BYTES).split())
    except (OSError, ValueError):
        return None
    finally:
        os.close(statm)
    return (resident - shared) * _PAGE_BYTES


class Memory:
    """Charges the growth of the process on the detector that was at work."""

    def __init__(self) -> None:
        self._before: int | None = None
        self._held_bytes: dict[str, int] = {}
        self.reason = ""

    def settle(self) -> None:
        """Begin an evaluation: what grew since the last one was not a detector."""
        self._before = own_bytes()

    def culprit(self, key: str) -> str | None:
        """Who holds most, where all is too much after `key` has judged; None: all is well."""
        now = own_bytes()
        if now is None or self._before is None:
            return None
        self._held_bytes[key] = self._held_bytes.get(key, 0) + now - self._before
        self._before = now
        if now <= HELD_BYTES:
            return None
        worst = max(self._held_bytes, key=lambda name: self._held_bytes[name])
        self.reason = f"held {self._held_bytes[worst] / 2**20:.0f} MiB of memory"
        return worst


class Worker:
    """Answers the monitor until it hangs up."""

    def __init__(self, sock: socket.socket, last_words: int | None = None) -> None:
        """`last_words` is the descriptor that takes why this process ends; None: nobody reads."""
        self._sock = sock
        self._last_words = last_words
        self._replica = Replica()
        self._entries: tuple[Entry, ...] = ()
        self._tuning = Tuning()
        self._detectors: dict[str, tuple[Detector, Declaration]] = {}
        """By key, with what each declared when it was loaded: it holds as long as the worker."""
        self._turns = Turns()
        self._memory = Memory()
        self._blind = SentBlind()
        self._unsent = bytearray()
        """Answers that go out with what is said next."""
        self._numbers: dict[str, int] = {}
        """By key what the mark calls a detector."""

    def run(self) -> None:
        """Load what the first message names, then judge one tick per message."""
        first = receive(self._sock)
        if first is None:
            return
        message, (memory,) = first
        mark = WorkMark(memory)
        self._take(message)
        self._numbers = {entry.key: number for number, entry in enumerate(self._entries)}
        self._load(message["muted"])
        self._send(kind="ready", keys=[*self._numbers])
        while (request := receive(self._sock)) is not None:
            message, descriptors = request
            if self._replica.take(message, descriptors):
                # Earlier views, which hold cycles, map what is over for all others.
                gc.collect()
            if len(message["jobs"]) + len(message["facts"]["nodes"]) >= _MUCH_NEWS:
                _freeze()
            self._load(message["muted"])
            self._evaluate_all(message, mark)
            # A view and its jobs know each other; they go while nobody waits for an answer.
            gc.collect(_YOUNG)

    def _take(self, start: dict[str, Any]) -> None:
        """Which detectors there are, without those that the configuration disables."""
        found = entries(start["paths"], installed=start["installed"])
        self._tuning = Tuning(*start["tuning"])
        for line in self._tuning.unknown(entry.key for entry in found):
            self._send(kind="unknown", message=line)
        self._entries = tuple(e for e in found if e.key not in self._tuning.disabled)

    def _load(self, muted: Sequence[str]) -> None:
        """Load those that are neither loaded nor muted: at first all, later who gets a chance."""
        off: list[tuple[Entry, Declaration]] = []
        for entry in self._entries:
            if entry.key in muted or entry.key in self._detectors:
                continue
            self._send(kind="begin", key=entry.key, doing="load")
            try:
                detector = load(entry, self._tuning.parameters.get(entry.key))
                declared = declaration_of(detector)
            except DetectorError as error:
                is_set = isinstance(error, ParameterError)
                where = f"{self._tuning.parameters_origin}: " if is_set else ""
                self._send(kind="failed", key=entry.key, message=f"{where}{error}")
                continue
            if self._tuning.runs(entry.key, declared):
                self._detectors[entry.key] = detector, declared
                self._send(kind="loaded", key=entry.key, declaration=declared._asdict())
            else:
                off.append((entry, declared))
        claimed_classes = {
            key
            for _, one in self._detectors.values()
            for key in one.finding_classes
            if key not in one.guesses
        }
        for entry, declared in off:
            self._entries = tuple(one for one in self._entries if one is not entry)
            # Of what another one looks for it is not said that nobody does.
            if not claimed_classes.issuperset(declared.finding_classes):
                self._send(kind="off", key=entry.key, name=declared.name)

    def _evaluate_all(self, message: dict[str, Any], mark: WorkMark) -> None:
        view = self._replica.view(message)
        self._memory.settle()
        muted = frozenset(message["muted"])
        asked = {k: known for k, (_, known) in self._detectors.items() if k not in muted}
        for key in muted & self._detectors.keys():
            # What it said last may not have been listened to.
            self._blind.forget(self._detectors[key][1].name)
        for key, parts in self._turns.take(view.now, view.job_layout.ring, asked).items():
            for part in parts:
                # Each part has a budget of time of its own.
                mark.write(self._numbers[key])
                if not self._evaluate(key, view.part(*part), part):
                    break
            culprit = self._memory.culprit(key)
            if culprit is not None:
                self._send(kind="bloated", key=culprit, message=self._memory.reason)
        mark.write(None)
        self._send(kind="done")

    def _evaluate(self, key: str, view: View, part: Part) -> bool:
        """Have a detector judge a part; False: it failed."""
        try:
            answer_parts = self._answer(key, view)
            answer = {"kind": "result", "key": key, "part": part, **answer_parts}
            payload = encode(answer)
        except MemoryError:
            # What it holds is lost to the others too: only a new process has all of it again.
            self._end(b"MemoryError")
        # Foreign code may raise anything; the monitor mutes it and says so.
        except Exception as error:  # noqa: BLE001
            self._send(kind="failed", key=key, message=f"{type(error).__name__}: {error}")
            return False
        self._unsent += framed(payload)
        if len(self._unsent) >= _MUCH_UNSENT:
            self._flush()
        return True

    def _answer(self, key: str, view: View) -> dict[str, Any]:
        """What a detector says; the worker ends where it has written into the stream itself."""
        detector, declared = self._detectors[key]
        before = unread(self._sock)
        try:
            return answer_of(detector, view, declared, self._blind)
        finally:
            if unread(self._sock) > before:
                self._end(b"it wrote into the worker's stream")

    def _end(self, why: bytes) -> NoReturn:
        """End at once, while the mark says who is at work."""
        if self._last_words is not None:
            os.write(self._last_words, why + b"\n")
        os._exit(1)

    def _send(self, **message: object) -> None:
        """Say something, and before it what was kept: the monitor wakes up once for all."""
        self._unsent += framed(encode(message))
        self._flush()

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, bytearray()
        self._sock.sendall(unsent)


def _freeze() -> None:
    """Spare the garbage collector the tick, which is large and holds no cycles.

    What an evaluation leaves is full of them, and is then found without walking all the rest.
    """
    gc.collect()
    gc.freeze()
    gc.collect()


def _be_quiet() -> int:
    """Plugins may print; nobody reads it, and the terminal is not theirs.

    Returns:
        A descriptor that the monitor reads once this process has ended, and plugins do not know.
    """
    last_words = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.close(null)
    return last_words


def _words(error: Exception) -> bytes:
    """What ended the worker and where in it, on one line."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    place = "" if at is None else f" ({Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno})"
    answer_parts = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{answer_parts[:_MOST_WORDS]}{place}\n".encode(errors="replace")


def serve(descriptor: int) -> None:
    """Serve the monitor at the other end of a socket."""
    os.nice(_NICENESS)
    limit_memory()
    gc.set_threshold(_PATIENCE)
    last_words = _be_quiet()
    with socket.socket(fileno=descriptor) as sock, contextlib.suppress(BrokenPipeError):
        # A plugin's child that kept the stream open would hide the end of this process.
        os.register_at_fork(after_in_child=sock.close)
        try:
            Worker(sock, last_words).run()
        except BrokenPipeError:
            raise
        # Whatever it is, the monitor can only tell it if it is said before the end.
        except Exception as error:  # noqa: BLE001
            os.write(last_words, _words(error))
            sys.exit(1)
