"""One line of the doctor."""

from __future__ import annotations

from typing import Final, NamedTuple

OK: Final = "ok"
ABSENT: Final = "absent"
"""Not there, which is no fault: a login node has no driver, a workstation no Slurm."""
LESS: Final = "less"
"""It works, but this user sees less than there is, or it works slowly."""
FAULT: Final = "fault"


class Check(NamedTuple):
    """What was looked at and how it fares."""

    what: str
    state: str
    """`ok`, `absent`, `less` or `fault`."""
    says: str
    way_out: str = ""
