"""The monitor's end of one detection worker: starts it, talks to it, ends it."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from gpumon.base.errors import UnavailableError
from gpumon.base.own_process import own_environment, own_words
from gpumon.detect.wire.protocol import ProtocolError, encode, receive, send
from gpumon.detect.wire.work_mark import WorkMark
from gpumon.model.fault import shortage
from gpumon.model.text import plain
from gpumon.model.units import period

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumon.detect.wire.work_mark import Mark

_END_S: Final = 1.0
"""A killed process is gone once its memory is given back; one that hangs in the kernel is not
waited for."""

_END_POLLS: Final = 100
"""Looks within `_END_S`; a stream ends a moment before its process does."""


class WorkerLostError(UnavailableError):
    """The worker does not answer as agreed; the message says why."""

    def __init__(self, reason: str, culprit: str | None, way_out: str = "") -> None:
        super().__init__(reason, way_out)
        self.culprit = culprit
        """Key of the detector that was at work, None where none was."""


class WorkerLink:
    """One worker process, below a supervisor in a process group of its own."""

    def __init__(self, budget_s: float, start_s: float) -> None:
        self._budget_s = budget_s
        self._start_s = start_s
        self._loading: str | None = None
        self._keys: tuple[str, ...] = ()
        """Of the detectors that the mark counts."""
        self._is_closed = False
        self._deadline = time.monotonic() + start_s
        here, there = socket.socketpair()
        self._sock = here
        self._ready = select.poll()
        self._ready.register(here, select.POLLIN)
        self._mark = WorkMark()
        self._writer: Mark | None = None
        """Who was at work when a message began; None: none has."""
        try:
            with there:
                self._process = _spawn(there.fileno())
        except OSError as error:
            here.close()
            words, way_out = shortage(error, is_start=True) or (str(error), "")
            raise WorkerLostError(f"cannot be started: {words}", None, way_out) from error

    def start(self, message: Mapping[str, object]) -> None:
        """Send the first request, with the memory in which the worker says who is at work.

        Raises:
            WorkerLostError: The worker does not take it.
        """
        self.ask(message, (self._mark.fd,))

    def ask(self, message: Mapping[str, object], descriptors: Sequence[int] = ()) -> None:
        """Send a request.

        Raises:
            WorkerLostError: The worker does not take it.
        """
        self._loading = None
        self._deadline = time.monotonic() + self._start_s
        try:
            self._sock.settimeout(self._start_s)
            send(self._sock, encode(message), descriptors)
            # What is read is waited for beforehand.
            self._sock.settimeout(None)
        except OSError as error:
            raise self._lost(f"ended: {self._last_words() or error}") from error

    def answer(self) -> dict[str, Any]:
        """The next message, which must come within the budget of who is at work.

        Raises:
            WorkerLostError: It does not, or is no message.
        """
        self._writer = None
        try:
            received = receive(self._sock, self._wait)
        except TimeoutError as error:
            budget_s = self._start_s if self._culprit is None else self._budget_s
            raise self._lost(f"took longer than {period(budget_s)}") from error
        except ProtocolError as error:
            raise self._lost(f"broke the protocol: {error}", self._writer) from error
        except OSError as error:
            raise self._lost(f"ended: {self._last_words() or error}") from error
        if received is None:
            raise self._lost(f"ended: {self._last_words() or 'its stream was closed'}")
        message, descriptors = received
        for descriptor in descriptors:
            os.close(descriptor)
        kind = message.get("kind")
        self._loading = str(message.get("key")) if kind == "begin" else None
        self._deadline = time.monotonic() + (self._budget_s if kind == "begin" else self._start_s)
        if kind == "ready":
            self._keys = tuple(map(str, message.get("keys", ())))
        return message

    @property
    def _culprit(self) -> str | None:
        """Key of the detector at work, None where none is."""
        return self._key_of(self._mark.read())

    def _key_of(self, mark: Mark) -> str | None:
        number = mark.number
        if number is None or not 0 <= number < len(self._keys):
            return self._loading
        return self._keys[number]

    def _left_s(self) -> float:
        """Seconds until whoever is at work is late."""
        number, since = self._mark.read()
        if number is not None:
            deadline = since + self._budget_s
        elif self._loading is not None:
            deadline = self._deadline
        else:
            deadline = max(self._deadline, since + self._start_s)
        return deadline - time.monotonic()

    def close(self) -> None:
        """End the worker and everything that it started; bounded, from any thread."""
        self._is_closed = True
        if self._process.returncode is None:
            # The supervisor kills whatever there is below it.
            self._process.terminate()
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                # The worker ends with its supervisor, however that goes.
                self._process.kill()
                # It is collected whenever it goes; until then Popen would warn of it.
                threading.Thread(
                    target=self._process.wait, name="worker's end", daemon=True
                ).start()
        # Whoever waits for an answer in another thread wakes up by this.
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _wait(self) -> None:
        """Until the worker says something; who begins meanwhile has a budget of its own."""
        is_ready = bool(self._ready.poll(0))
        while not is_ready:
            left_s = self._left_s()
            if left_s <= 0 or self._is_closed:
                raise TimeoutError
            is_ready = bool(self._ready.poll(1000 * min(left_s, self._budget_s) + 1))
        if self._writer is None:
            # The worker ends where a detector has left bytes of its own that nobody has read yet:
            # so this is whose they are, however far it is once they prove to be no message.
            self._writer = self._mark.read()

    def _lost(self, reason: str, by: Mark | None = None) -> WorkerLostError:
        return WorkerLostError(plain(reason), self._key_of(by or self._mark.read()))

    def _last_words(self) -> str:
        """Exit status, and the last line that the worker wrote: at its start, or why it ends.

        The process is not reaped: until then nobody else can have its group's number.
        """
        status = None
        for _ in range(_END_POLLS):
            flags = os.WEXITED | os.WNOWAIT | os.WNOHANG
            status = None if self._is_closed else os.waitid(os.P_PID, self._process.pid, flags)
            if self._is_closed or status is not None:
                break
            time.sleep(_END_S / _END_POLLS)
        if status is None or self._process.stderr is None:
            return ""
        os.set_blocking(self._process.stderr.fileno(), False)
        lines = (self._process.stderr.read() or b"").decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        kind = "exit status" if status.si_code == os.CLD_EXITED else "signal"
        return f"{kind} {status.si_status}" + (f": {last}" if last else "")


def _spawn(descriptor: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        own_words("-m", "gpumon.detect.worker.supervisor", str(descriptor), str(os.getpid())),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=(descriptor,),
        process_group=0,
        env=own_environment(),
    )
