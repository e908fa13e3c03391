"""Where scenes of idleness and of requests begin: jobs on quiet nodes, a sample a minute."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from gpumon.detect.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gpumon.detect.scene import Values

PERIOD_S: Final = 60.0
LONG_PERIOD_S: Final = 120.0
"""For scenes of hours."""
HOUR_S: Final = 3600.0
GIB: Final = 2.0**30
NO_FIELDS: Final[Mapping[str, Any]] = MappingProxyType({})
_SPAN_S: Final = 24 * HOUR_S

QUIET_HOST: Final[dict[str, Any]] = {
    "cpu_busy_ratio": 0.002,
    "cpu_count": 64.0,
    "net_rx_bytes_per_s": 2e4,
    "net_tx_bytes_per_s": 2e4,
    "disk_read_bytes_per_s": 0.0,
    "disk_write_bytes_per_s": 4e4,
}
QUIET_GROUP: Final[dict[str, Any]] = {
    "job_cpu_cores_used": 0.01,
    "job_io_read_bytes_per_s": 0.0,
    "job_io_write_bytes_per_s": 4e4,
}


def empty(period_s: float = PERIOD_S) -> Scene:
    """A fleet without nodes that remembers a day."""
    return Scene(period_s, span_s=_SPAN_S)


def job_on_a_node(
    gpu_count: int = 2, *, period_s: float = PERIOD_S, job: Mapping[str, Any] = NO_FIELDS
) -> tuple[Scene, tuple[str, ...]]:
    """Job 42 on all GPUs of node n1 with 16 CPUs a GPU; its CPUs and its I/O are quiet.

    Args:
        gpu_count: GPUs of the node.
        period_s: Seconds between two samples.
        job: What else Slurm says of the job.
    """
    scene = empty(period_s)
    uuids = scene.node("n1", gpu_count)
    scene.job("42", uuids, **{"cpu_count": 16 * gpu_count, **job})
    scene.host("n1", **QUIET_HOST)
    scene.cgroup("42", **QUIET_GROUP)
    return scene, uuids


def alike(
    uuids: Iterable[str], values: Values, **other: float | Callable[[float], float | None] | None
) -> dict[str, Values]:
    """The same values for all GPUs, with some of them changed."""
    return {uuid: {**values, **other} for uuid in uuids}
