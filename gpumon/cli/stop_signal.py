"""The end of a command that runs until it is told to go."""

from __future__ import annotations

import math
import select
import signal
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from types import FrameType

LEAVE_S: Final = 5.0
"""Longest wait of a command that nobody watches for its sampler's thread, which writes the last of
the ledger: numpy alone takes a second to be imported on a busy machine."""


class Ending:
    """Waits in the main thread until a signal, or any thread, tells that it is the end.

    A `threading.Event` will not do. Its lock is not re-entrant, so a handler that sets it while
    the thread it interrupted is about to wait would wait for itself; and a signal that comes
    between the last instruction and the wait is acted upon only after the wait, which never ends.
    A descriptor that the interpreter writes to as the signal comes knows neither.
    """

    def __init__(self, *numbers: signal.Signals) -> None:
        """Nothing is caught before it is entered; on leaving it, all is as before.

        Args:
            numbers: Signals that tell of the end, but where they are ignored, as by `nohup`.
        """
        self._numbers = numbers
        self._is_over = False

    def __enter__(self) -> Self:
        """Catch the signals."""
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._woken_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._handled_before = {
            number: signal.signal(number, self._handle)
            for number in self._numbers
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        return self

    def __exit__(self, *_: object) -> None:
        """Catch them no longer."""
        for number, handler in self._handled_before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._woken_before)
        self._reader.close()
        self._writer.close()

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self.end_wait()

    def end_wait(self) -> None:
        """Have `wait` return True at once, in any thread, from now on."""
        self._is_over = True
        # Full, it wakes whoever waits as well; closed, nobody waits any more.
        with suppress(OSError):
            self._writer.send(b"\0")

    def wait(self, limit_s: float | None = None) -> bool:
        """Whether a signal or `end_wait` came within so many seconds; None: waits for ever."""
        deadline = math.inf if limit_s is None else time.monotonic() + limit_s
        while not self._is_over:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            waits_s = None if left_s == math.inf else left_s
            if select.select([self._reader], [], [], waits_s)[0]:
                self._reader.recv(4096)
        return True
