"""Whether a job does something off its GPUs: CPU, disk, network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.detect.series import Table
from gpumon.model.finding import Evidence
from gpumon_detectors.evidence.phrases import span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from gpumon.detect.view import JobLook, View

IDLE_CPU_RATIO: Final = 0.02
"""Share of its CPUs below which a job's CPUs are idle (the taxonomy's signature of class 2)."""

_IDLE_CORES: Final = 0.05
"""What sleeping launchers and loggers use on one node, however few CPUs the job has."""

_IDLE_BYTES_PER_S: Final = 1e6
"""Traffic of one node below which nothing is staged or uploaded: log lines and health checks."""

SLICE_S: Final = 120.0
"""Means are taken over so long: a logger that wakes once a minute is no work."""

_OWN: Final = ("job_cpu_cores_used", "job_io_read_bytes_per_s", "job_io_write_bytes_per_s")
_HOST: Final = (
    "cpu_busy_ratio",
    "cpu_count",
    "net_rx_bytes_per_s",
    "net_tx_bytes_per_s",
    "disk_read_bytes_per_s",
    "disk_write_bytes_per_s",
)
_NIC: Final = ("nic_rx_bytes_per_s", "nic_tx_bytes_per_s")
_MOUNT: Final = ("fs_read_bytes_per_s", "fs_write_bytes_per_s")


class HostUse(NamedTuple):
    """CPU and I/O of a job."""

    quiet_since: float
    """Unix time since when neither CPU nor I/O tells of work; infinity where they do now."""
    is_seen: bool
    """Whether its CPUs were seen at all; without, nothing of this holds."""
    cores: Table
    """`cores` per row and node: of the job's cgroups, else of its whole nodes."""
    is_own: bool
    """Whether `cores` is the job's alone; of whole nodes it is an upper bound."""

    @property
    def observed_since(self) -> float:
        """Unix time of the first row of its CPUs; minus infinity unseen."""
        return float(self.cores.begins[0]) if self.is_seen else float("-inf")

    def mean_cores(self, since: float) -> float:
        """CPU cores in use since a Unix time, on average, all nodes together; NaN unseen."""
        rows = self.cores.columns["cores"][self.cores.times >= since] if self.is_seen else ()
        return float(np.sum(rows, axis=1, dtype=np.float64).mean()) if len(rows) else float("nan")

    def evidence(self, job: JobLook, since: float) -> Evidence:
        """What the CPUs did since a Unix time, or that it was not seen."""
        if not self.is_seen:
            text = "not seen: the job's CPU time, which could tell of staging or of work on CPUs"
            return Evidence("job_cpu_cores_used", job.subject, text)
        whose = "the job" if self.is_own else "all jobs of its nodes together"
        of = f" of {job.cores}" if job.cores else ""
        window_s = float(self.cores.times[-1]) - since
        busy = self.mean_cores(since)
        text = f"{whose} kept {busy:.2f}{of} CPUs busy over {span(window_s)}"
        key = "job_cpu_cores_used" if self.is_own else "cpu_busy_ratio"
        return Evidence(key, job.subject, text, busy if busy == busy else None)


def host_use(view: View, job: JobLook, seconds: float) -> HostUse:
    """What a job did off its GPUs.

    CPU time is its cgroups', else that of its nodes, which bounds it from above. Traffic of a
    node's network, disks and mounts is the job's where no other job with GPUs is on the node;
    where one is, the job's own cgroup has to do.
    """
    own = job.cgroup(_OWN, seconds)
    is_own = _is_whole(own, "job_cpu_cores_used")
    hosts = job.hosts(_HOST, seconds)
    is_seen = is_own or _is_whole(hosts, "cpu_busy_ratio")
    if is_own:
        cores = Table(own.times, {"cores": own.columns["job_cpu_cores_used"]}, own.begins)
    else:
        busy = hosts.columns["cpu_busy_ratio"] * hosts.columns["cpu_count"]
        cores = Table(hosts.times, {"cores": busy}, hosts.begins)
    if not is_seen:
        return HostUse(float("-inf"), False, cores, False)
    nodes = max(1, len(job.job.nodes))
    allowed = max(IDLE_CPU_RATIO * (job.cores or 0), _IDLE_CORES * nodes)
    since = quiet_from(cores, _total(cores, ("cores",)), allowed)
    since = max(since, float(cores.begins[0]))
    for table, keys in _traffic(view, job, own, hosts, seconds):
        limit = _IDLE_BYTES_PER_S * nodes
        since = max(since, quiet_from(table, _total(table, keys), limit))
    return HostUse(since, True, cores, is_own)


def quiet_from(table: Table, values: NDArray[np.float64], limit: float) -> float:
    """Begin of the row behind the last one above a limit in the last two minutes whose mean is.

    Slices of two minutes are counted back from the newest row, so that their edges wander; the row
    does not. Infinity where the newest slice is above, minus infinity where none is.
    """
    times = table.times
    if not len(times):
        return float("-inf")
    slices = ((times[-1] - times) // SLICE_S).astype(np.intp)
    is_known = np.isfinite(values)
    total = np.bincount(slices, np.where(is_known, values, 0.0))
    count = np.bincount(slices, is_known)
    above = np.flatnonzero(total > limit * np.maximum(count, 1))
    if not len(above):
        return float("-inf")
    if above[0] == 0:
        return float("inf")
    in_slice = slices == above[0]
    with np.errstate(invalid="ignore"):
        last = np.flatnonzero(in_slice & (values > limit))[-1]
    return float(table.begins[last + 1])


def _is_whole(table: Table, key: str) -> bool:
    """Whether a field is known on every node, now and for most of the window."""
    values = table.columns[key]
    if not values.size:
        return False
    is_known = np.isfinite(values)
    return bool(is_known[-1].all() and is_known.mean() > 0.5)


def _total(table: Table, keys: tuple[str, ...]) -> NDArray[np.float64]:
    """Sum over fields and entities per row, NaN where nothing is known."""
    values = np.concatenate([table.columns[key] for key in keys], axis=1)
    total = np.nansum(values, axis=1, dtype=np.float64)
    return np.where(np.isfinite(values).any(axis=1), total, np.nan)


def _traffic(
    view: View, job: JobLook, own: Table, hosts: Table, seconds: float
) -> Iterator[tuple[Table, tuple[str, ...]]]:
    """Tables of bytes moved that may be the job's."""
    if len(own.times):
        yield own, _OWN[1:]
    if not job.is_alone:
        return
    if len(hosts.times):
        yield hosts, _HOST[2:4]
        yield hosts, _HOST[4:]
    since = job.job.start_at if job.job.start_at is not None else float("-inf")
    for block, keys in (("nic", _NIC), ("filesystem", _MOUNT)):
        entities = [f"{node.name}/{key}" for node in job.nodes for key in node.block(block).keys]
        if entities:
            yield view.table(entities, keys, seconds, since), keys
