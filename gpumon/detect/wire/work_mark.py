"""Which detector is at work and since when, in memory that the monitor and its worker share.

A message would wake the monitor up before each detector, some forty times an evaluation. This is
read only once somebody is late or gone.
"""

from __future__ import annotations

import os
import struct
import tempfile
import time
import weakref
from typing import Final, NamedTuple

_FORM: Final = struct.Struct("dq")
_NO_NUMBER: Final = -1


class Mark(NamedTuple):
    """What the mark says."""

    number: int | None
    """Of the detector at work, as the worker told them when it was ready; None: none is."""
    since: float
    """When that began, on the monotonic clock, which both processes have."""


class WorkMark:
    """The mark; it is not mapped, so a plugin that cuts it short ends nobody."""

    def __init__(self, fd: int | None = None) -> None:
        """`fd` is the descriptor of one that there is, which becomes this one's own."""
        self.fd = _new_memory() if fd is None else fd
        # Whoever closes a worker does so while another thread waits for it, and may ask yet.
        weakref.finalize(self, os.close, self.fd)
        if fd is None:
            self.write(None)

    def write(self, number: int | None) -> None:
        """Say who is at work from now on."""
        os.pwrite(
            self.fd, _FORM.pack(time.monotonic(), _NO_NUMBER if number is None else number), 0
        )

    def read(self) -> Mark:
        """What was said last; that nobody is at work where nothing of the kind is written."""
        written = os.pread(self.fd, _FORM.size, 0)
        if len(written) < _FORM.size:
            return Mark(None, float("-inf"))
        since, number = _FORM.unpack(written)
        # What is not of the past was not written by the worker: it must not put off a deadline.
        is_past = since <= time.monotonic()
        return Mark(None if number == _NO_NUMBER else number, since if is_past else float("-inf"))


def _new_memory() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("gpumon-mark", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
