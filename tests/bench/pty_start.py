"""Starts a program in a terminal of its own, as the benchmarks measure it."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def started(
    words: Sequence[str], env: Mapping[str, str], columns: int, rows: int, state_folder: str
) -> tuple[subprocess.Popen[bytes], int]:
    """The program and our end of its terminal.

    Args:
        words: Program and arguments.
        env: Environment, to which the kind of terminal is added.
        columns: Width of the terminal.
        rows: Its height.
        state_folder: What somebody chose before, such as the first view, belongs to no
            measurement: an empty folder in its place.
    """
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen(
        words,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        env={
            **env,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "XDG_STATE_HOME": state_folder,
        },
    )
    os.close(slave)
    return process, master
