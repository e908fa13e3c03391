"""Small files of the kernel: read whole and bounded, and why one could not be read."""

import errno
import os
from typing import List

from gpumon.probe.rows import FAILED, NO_PERMISSION, NOT_SUPPORTED

MAX_BYTES = 1 << 20
"""More than any file of /proc or /sys that is read here has."""

PIECE_BYTES = 1 << 16
"""Read at once; nearly every file of the kernel is shorter."""

ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EOPNOTSUPP, errno.ENODEV, errno.EINVAL, errno.ENOSYS)
"""Answers of a kernel that has no such file, or of a file that has nothing to report here."""


def read(path: str, most: int = MAX_BYTES) -> str:
    """Text of a file, cut after `most` bytes; raises OSError."""
    return read_bytes(path, most).decode("utf-8", "replace")


def read_bytes(path: str, most: int = MAX_BYTES) -> bytes:
    """The same without making text of it."""
    # A Python file would ask for its kind, size and place first, as much as the reading itself.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = part = os.read(descriptor, min(most, PIECE_BYTES))
        while part and len(data) < most:
            part = os.read(descriptor, min(most - len(data), PIECE_BYTES))
            data += part
        return data
    finally:
        os.close(descriptor)


def read_or_empty(path: str, most: int = MAX_BYTES) -> str:
    """Text of a file, empty where it cannot be read."""
    try:
        return read(path, most)
    except OSError:
        return ""


def why(error: OSError) -> str:
    """The reason for a missing value that an error of the kernel means."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return NO_PERMISSION
    return NOT_SUPPORTED if error.errno in ABSENT else FAILED


def names(path: str, most: int) -> List[str]:
    """Names in a folder in order, at most `most`; none where it cannot be read."""
    try:
        return names_or_error(path, most)
    except OSError:
        return []


def names_or_error(path: str, most: int) -> List[str]:
    """Names in a folder in order, at most `most`; raises OSError."""
    return sorted(os.listdir(path))[:most]


def whole(text: str) -> int:
    """The first word of a text as a number that is not negative; raises ValueError."""
    words = text.split(None, 1)
    if not words or not (words[0].isdecimal() and len(words[0]) < 21):
        raise ValueError("no number: %r" % text[:32])
    return int(words[0])
