"""One tree of all that gpumon raises itself: a branch says who can help, and how a command ends.

`gpumon/cli/exits.py` gives each branch its exit code. Whoever catches one of these answers it; what
is caught by nobody is told in one line at the last door.
"""

from __future__ import annotations


class GpumonError(Exception):
    """Something that gpumon found itself. The message is one line, for a person."""

    def __init__(self, message: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        """The way out; empty where the message holds it, or there is none."""

    @property
    def lines(self) -> tuple[str, ...]:
        """What a person is told of it, line by line."""
        return (f"{self} ({self.hint})" if self.hint else str(self),)


class InputError(GpumonError):
    """What was typed or configured means nothing here; other words help."""


class DeclinedError(GpumonError):
    """What was asked is clear and is not done, because it could do harm; nothing was changed."""


class UnavailableError(GpumonError):
    """Something outside does not answer, or not now: a program, a server, a process of gpumon."""


class DamagedError(GpumonError):
    """What was read is not what it is to be: a recording, a message, a page, a model."""
