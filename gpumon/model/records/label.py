"""What is true of a recording, as its maker knows it."""

from __future__ import annotations

from typing import Final, NamedTuple

HEALTHY: Final = "healthy"
"""In the place of a class: nothing is wrong with the subject."""


class Label(NamedTuple):
    """What is true of one subject over a stretch of time."""

    subject: str
    """`job:ID`, `job:ID/rank:N`, `world:ID`, `gpu:UUID`, `node:NAME` or `domain:NAME`."""
    finding_class: str
    """Class of the fault, or `healthy`."""
    start: float
    """Unix time."""
    end: float
    gpu_seconds: float | None = None
    """Lost by this fault alone, over all GPUs of the jobs that it befell; None: unknown."""
    also: tuple[str, ...] = ()
    """Further subjects of the same fault: who names any one of them has found it."""

    @property
    def subjects(self) -> tuple[str, ...]:
        """Everything that it is about."""
        return (self.subject, *self.also)
