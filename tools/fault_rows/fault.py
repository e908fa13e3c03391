"""What a row of the matrix of faults is."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """One thing that goes wrong."""

    what: str
    survives: str
    """What goes on all the same."""
    words_shown: str
    """Regular expression of the words that a user must be told."""
    lost: str
    """What is gone or late, and for how long."""
    tests: tuple[str, ...]
    """Names of tests, as pytest has them without parameters: each makes the fault."""
