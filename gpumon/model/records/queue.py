"""Partitions and reservations, as Slurm uses the words."""

from __future__ import annotations

from typing import NamedTuple


class Partition(NamedTuple):
    """One partition as Slurm lists it."""

    name: str
    state: str
    """Upper case: UP, DOWN, DRAIN, INACTIVE."""
    nodes: tuple[str, ...]
    gpu_count: int | None
    """GPUs of its nodes; None where Slurm does not report it."""
    is_default: bool = False
    time_limit_s: float | None = None
    """Longest run of a job; None for unlimited or unknown."""
    priority: int | None = None
    """Priority tier: jobs of a higher one are considered first."""
    qos: str = ""
    accounts: tuple[str, ...] = ()
    """Accounts that may use it; empty: all."""


class Reservation(NamedTuple):
    """One reservation as Slurm lists it."""

    name: str
    state: str
    """Upper case: ACTIVE or INACTIVE."""
    start_at: float | None
    end_at: float | None
    nodes: tuple[str, ...]
    flags: tuple[str, ...] = ()
    """Upper case, for example MAINT, IGNORE_JOBS, FLEX."""
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    partition: str = ""
    gpu_count: int | None = None
    """GPUs of it; None where Slurm does not report it."""

    @property
    def is_maintenance(self) -> bool:
        """Whether no jobs run in it."""
        return "MAINT" in self.flags
