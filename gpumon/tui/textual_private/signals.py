"""What signals ask of the process: to end, to stop until it is wanted again, to go on."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def catch_signals(
    leave: Callable[[int], None],
    soon: Callable[[Callable[[], None]], None],
    redraw: Callable[[], None],
) -> None:
    """Have signals handled as a terminal program should; in the main thread only.

    The handlers are the interpreter's own, because those also run while the event loop waits for
    a terminal that takes nothing more. What was ignored before, as by `nohup`, stays ignored.

    Args:
        leave: Ends the program with an exit code; called from within a signal's handler.
        soon: Has the event loop call something; likewise.
        redraw: Draws everything again.
    """
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda sent, _frame: leave(128 + sent))
    # Textual's, which give the terminal back and take it again.
    stop, go_on = signal.getsignal(signal.SIGTSTP), signal.getsignal(signal.SIGCONT)
    is_lent = False

    def lend() -> None:
        nonlocal is_lent
        if not is_lent and callable(stop):
            is_lent = True
            stop(signal.SIGTSTP, None)

    def come_back() -> None:
        nonlocal is_lent
        # After a SIGSTOP the terminal was never given back, so its modes are still ours.
        if is_lent and callable(go_on):
            go_on(signal.SIGCONT, None)
        is_lent = False
        redraw()

    # Both write, for which they take locks that the interrupted code may hold.
    signal.signal(signal.SIGTSTP, lambda _number, _frame: soon(lend))
    signal.signal(signal.SIGCONT, lambda _number, _frame: soon(come_back))


@contextmanager
def lent_terminal() -> Iterator[None]:
    """While another program has the terminal and no loop runs: Ctrl-C is meant for that one only.

    Ctrl-Z stops both, as it does any program.
    """
    # Ignored, the signal would be ignored by the other program as well.
    interrupted = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    stopped = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, stopped)
        signal.signal(signal.SIGINT, interrupted)


def has_shell() -> bool:
    """Whether a shell of this terminal could wake this process again once it has stopped."""
    with suppress(OSError):
        parent = os.getppid()
        is_of_session = os.getsid(parent) == os.getsid(0)
        return is_of_session and os.getpgid(parent) != os.getpgrp()
    return False
