"""Opens a recording for a terminal: whoever waits for a large file can leave."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from gpumon.base.outcome import Outcome
from gpumon.cli.exits import narrate
from gpumon.sources.recording.source import Recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SILENT_S: Final = 0.5
"""What opens sooner needs no word."""

_POLL_S: Final = 0.05
"""Longest time between the end of the reading and the first picture."""

_LEAVE: Final = b"q\x03\x04\x00"
"""q, and what Ctrl-C and Ctrl-D are where the terminal hands them on; Linux makes a NUL of a Ctrl-D
that was typed before keys came one by one."""


def opened(
    path: Path,
    read: Callable[[Path], Recording] = Recording,
    terminal: int | None = None,
    silent_s: float = SILENT_S,
) -> Recording | None:
    """The recording; None: the user left before it was read.

    It is read on a thread of its own: a file server that hangs, or a file that takes minutes, does
    not hold the user back. That thread ends with the process.

    Args:
        path: A file, or the folder of a rolling recording.
        read: Reads it.
        terminal: Descriptor that keys come from; None: standard input, where that is a terminal.
        silent_s: Seconds without a word.

    Raises:
        RecordingError, OSError: It cannot be read.
        KeyboardInterrupt: The user left by Ctrl-C.
    """
    outcome = Outcome(partial(read, path), "opening")
    if not outcome.has_ended(silent_s):
        keys = terminal if terminal is not None else _standard_input()
        narrate(f"reading {path} …" + ("" if keys is None else "  q leaves"))
        if not _is_waited_for(outcome, keys):
            return None
    return outcome.get()


def _standard_input() -> int | None:
    return sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None


def _is_waited_for(outcome: Outcome[Recording], keys: int | None) -> bool:
    """Wait for the end of the reading; False: the user leaves before."""
    if keys is None:
        return outcome.has_ended(None)
    with _single_keys(keys):
        while not outcome.has_ended():
            if select.select([keys], [], [], _POLL_S)[0]:
                typed = os.read(keys, 64)
                if not typed or any(key in _LEAVE for key in typed):
                    return False
    return True


@contextmanager
def _single_keys(terminal: int) -> Iterator[None]:
    """Have keys come one by one, unseen, and the terminal be as before afterwards."""
    before = termios.tcgetattr(terminal)
    # What was typed meanwhile counts: the usual way would throw it away.
    tty.setcbreak(terminal, termios.TCSANOW)
    try:
        yield
    finally:
        # One that is gone meanwhile has no modes to give back.
        with suppress(termios.error):
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
