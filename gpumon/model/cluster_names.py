"""Names and numbers of several clusters side by side: job `42@north` is not job `42@south`.

Slurm counts jobs and names nodes per cluster. Where one cluster alone is in view, its records have
the names that Slurm gave them; where several are, each name shows whose it is.
"""

from __future__ import annotations

from typing import Final

_BETWEEN: Final = "@"
"""As in `user@host`; it is in no job id, and in no name of a node, partition or reservation."""


ASK_A_CLUSTER: Final = frozenset(
    {"sacct", "scancel", "scontrol", "sinfo", "squeue", "srun", "sshare"}
)
"""Slurm's commands with `-M` for another cluster, by their manual pages; sstat has none."""


def asking(cluster: str, words: tuple[str, ...]) -> tuple[str, ...]:
    """A command of ASK_A_CLUSTER that asks this cluster."""
    return (words[0], "-M", cluster, *words[1:])


def of_cluster(name: str, cluster: str) -> str:
    """The name as it is shown beside those of other clusters; an empty one stays empty."""
    return f"{name}{_BETWEEN}{cluster}" if name and cluster else name


def cluster_in(name: str) -> str:
    """The cluster that a name has; empty: none, as it is the only one in view."""
    return name.rpartition(_BETWEEN)[2] if _BETWEEN in name else ""


def within_cluster(name: str) -> str:
    """The name as its own cluster knows it."""
    return name.rpartition(_BETWEEN)[0] if _BETWEEN in name else name
