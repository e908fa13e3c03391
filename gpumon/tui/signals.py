"""What the process is told by signals: to end, to stop until it is wanted again, to go on."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


def catch_signals(leave: Callable[[int], None], redraw: Callable[[], None]) -> None:
    """Have signals handled as a terminal program should; in the main thread only.

    The handlers are the interpreter's own, because those also run while the event loop waits for
    a terminal that takes nothing more.

    Args:
        leave: Ends the program with an exit code.
        redraw: Draws everything again. Both are called from within a signal's handler.
    """
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda told, _frame: leave(128 + told))
    # Textual's, which give the terminal back and take it again.
    stop, go_on = signal.getsignal(signal.SIGTSTP), signal.getsignal(signal.SIGCONT)
    is_lent = False

    def lend(number: int, frame: FrameType | None) -> None:
        nonlocal is_lent
        is_lent = True
        if callable(stop):
            stop(number, frame)

    def come_back(number: int, frame: FrameType | None) -> None:
        nonlocal is_lent
        # After a SIGSTOP the terminal was never given back, so its modes are still ours.
        if is_lent and callable(go_on):
            go_on(number, frame)
        is_lent = False
        redraw()

    signal.signal(signal.SIGTSTP, lend)
    signal.signal(signal.SIGCONT, come_back)


def has_shell() -> bool:
    """Whether a shell of this terminal could wake this process again once it has stopped."""
    with suppress(OSError):
        parent = os.getppid()
        is_of_session = os.getsid(parent) == os.getsid(0)
        return is_of_session and os.getpgid(parent) != os.getpgrp()
    return False
