"""What a job does in each of Slurm's states.

Slurm has one base state and some flags of a job, and its commands print a flag in place of the
base state. Only base states end a job: one with the flag REVOKED, LAUNCH_FAILED or RECONFIG_FAIL
may wait for its next try.
"""

from __future__ import annotations

from typing import Final

HOLDING_STATES: Final = frozenset(
    {
        "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "RESIZING", "SIGNALING", "STAGE_OUT",
        "STOPPED",
    }
)  # fmt: skip
"""States and flags in which a job holds what it was given, as squeue(1) explains them."""

ENDED_STATES: Final = frozenset(
    {
        "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
        "PREEMPTED", "TIMEOUT",
    }
)  # fmt: skip
"""States that a job does not leave, though it stays listed for a while (Slurm's MinJobAge): the
base states after SUSPENDED in `enum job_states` of slurm.h."""

ENDED_RUN_STATES: Final = ENDED_STATES | {"REQUEUED", "RESIZING"}
"""States in which the accounting lists a run that is over, though its job may go on: Slurm begins a
record of its own for what follows, also where a job only changes its size."""

SHORT_CODES: Final = {
    "RUNNING": "R",
    "PENDING": "PD",
    "COMPLETING": "CG",
    "COMPLETED": "CD",
    "CONFIGURING": "CF",
    "CANCELLED": "CA",
    "FAILED": "F",
    "TIMEOUT": "TO",
    "NODE_FAIL": "NF",
    "OUT_OF_MEMORY": "OOM",
    "PREEMPTED": "PR",
    "SUSPENDED": "S",
    "STOPPED": "ST",
    "REQUEUED": "RQ",
    "RESIZING": "RS",
    "BOOT_FAIL": "BF",
    "DEADLINE": "DL",
}
"""The compact codes of squeue(1)."""


def has_ended(state: str) -> bool:
    """Whether a job in this state has ended."""
    return state in ENDED_STATES


def run_has_ended(state: str) -> bool:
    """Whether a run that the accounting lists in this state has ended."""
    return state in ENDED_RUN_STATES
