"""What may go wrong around gpumon, and the tests that make it go wrong.

A fault is green where its tests pass and were told the words: tests hand what a user is told to
the fixture `said`, and `says` is looked for in it.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Fault(NamedTuple):
    """One thing that goes wrong."""

    what: str
    survives: str
    """What goes on all the same."""
    says: str
    """Regular expression of the words that a user must be told."""
    lost: str
    """What is gone or late, and for how long."""
    tests: tuple[str, ...]
    """Names of tests, as pytest has them without parameters: each makes the fault."""


NODES: Final = (
    Fault(
        "a node sends noise without end",
        "all other nodes; the node is started again",
        r"before the probe's hello|a line of more than",
        "its values, until it speaks as a probe does",
        ("tests/unit/sources/probes/test_pool.py::test_endless_noise_is_one_error",),
    ),
)

FAULTS: Final[dict[str, tuple[Fault, ...]]] = {"Nodes": NODES}
"""By the heading that they stand below."""
