"""Reads a file that holds a secret, which nobody but its owner may read: no argument names one."""

from __future__ import annotations

import os
import shlex
import stat
from typing import Final

from gpumon.model.text import plain

_OTHERS: Final = 0o077


class SecretError(Exception):
    """The file cannot or must not be used; holds the message and the way out."""

    def __init__(self, message: str, hint: str) -> None:
        """One line, and the way out; neither holds anything of the file."""
        super().__init__(message)
        self.message = message
        self.hint = hint


def read_secret(path: str, what: str, max_bytes: int) -> str:
    """Text of a file that nobody else may read; empty where it is longer than it may be.

    Args:
        path: The file.
        what: How it is called in errors: `token file`.
        max_bytes: What was cut off might make no secret of what looks like one.

    Raises:
        SecretError: It cannot be read, or others can.
    """
    shown = f"the {what} {plain(path)}"
    try:
        # Not to wait for a writer where the path is a pipe.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        message = f"{shown} cannot be read: {error.strerror}"
        raise SecretError(message, "check its path and owner") from None
    try:
        state = os.fstat(fd)
        if not stat.S_ISREG(state.st_mode):
            raise SecretError(f"{shown} is no regular file", "name another one")
        if state.st_mode & _OTHERS or state.st_uid not in (os.geteuid(), 0):
            way_out = f"`chmod 600 {shlex.quote(plain(path))}`"
            raise SecretError(f"{shown} is open to others", way_out)
        text = os.read(fd, max_bytes + 1).decode("ascii", "replace")
        return text if len(text) <= max_bytes else ""
    finally:
        os.close(fd)
