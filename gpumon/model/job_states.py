"""What a job does in each of Slurm's states."""

from __future__ import annotations

from typing import Final

HOLDING_STATES: Final = frozenset(
    {"RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "RESIZING", "SIGNALING", "STAGE_OUT"}
)
"""States in which a job holds what it was given."""

_ENDED_STATES: Final = frozenset(
    {
        "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
        "BOOT_FAIL", "DEADLINE", "REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL",
    }
)  # fmt: skip
"""States in which a job stays listed for a while (Slurm's MinJobAge) but does nothing more."""


def has_ended(state: str) -> bool:
    """Whether a job in this state has ended."""
    return state in _ENDED_STATES
