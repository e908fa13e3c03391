"""Files that are written for their user alone, each as a whole or not at all."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gpumon.base.errors import DeclinedError
from gpumon.base.paths import make_private

if TYPE_CHECKING:
    from pathlib import Path


OTHERS: Final = 0o077
"""Bits of a file's mode that let others in."""


class NotOwnError(DeclinedError):
    """A file that others could read or have made, or none at all; its message ends a sentence."""

    def __init__(self, message: str, *, is_open: bool) -> None:
        """`is_open`: it is a file, whose mode or owner lets others in."""
        super().__init__(message)
        self.is_open = is_open


def read_own(path: str, most_bytes: int) -> bytes:
    """What a file holds that nobody else may read; at most one byte more than that many.

    Raises:
        NotOwnError: It is open to others, somebody else's, or no regular file.
        OSError: It cannot be read.
    """
    # Not to wait for a writer where the path is a pipe.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise NotOwnError("is not a regular file", is_open=False)
        if state.st_mode & OTHERS or state.st_uid not in (os.geteuid(), 0):
            raise NotOwnError("is open to others", is_open=True)
        return os.read(descriptor, most_bytes + 1)
    finally:
        os.close(descriptor)


def write_own(path: Path, text: str, *, is_new: bool = False) -> None:
    """As `write_whole`; folders that are missing are made, for their owner alone.

    Raises:
        OSError: It could not be written; what was there is there still.
    """
    make_private(path.parent)
    write_whole(path, text, is_new=is_new)


def write_whole(path: Path, text: str, *, is_new: bool = False) -> None:
    """Write a file, mode 0600, beside its place, and put it there once all of it is written.

    Args:
        path: Where to; a link there is replaced, not followed.
        text: What it holds.
        is_new: Whether what is there by then is left alone.

    Raises:
        FileExistsError: It is to be new, and is there.
        OSError: It could not be written; what was there is there still.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        beside.unlink(missing_ok=True)
        with os.fdopen(os.open(beside, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        if is_new:
            # A link, unlike a rename, never replaces a file that came up meanwhile.
            os.link(beside, path)
            beside.unlink()
        else:
            beside.replace(path)
    except OSError:
        # Of a name that nothing can have there is nothing to remove, and that fails as well.
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
