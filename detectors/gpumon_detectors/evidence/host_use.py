"""Whether a job does something off its GPUs: CPU, disk, network."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import Evidence
from gpumon_detectors.evidence.gpu_use import carried
from gpumon_detectors.evidence.phrases import span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from gpumon.plugin import JobLook, Past, View

IDLE_CPU_RATIO: Final = 0.02
"""Share of its CPUs below which a job's CPUs are idle (the taxonomy's signature of class 2)."""

IDLE_CORES: Final = 0.05
"""What sleeping launchers and loggers use on one node, however few CPUs the job has."""

IDLE_BYTES_PER_S: Final = 1e6
"""Traffic of one node, above its own background, below which nothing is staged or uploaded: log
lines and health checks."""

_MOST_BACKGROUND_BYTES_PER_S: Final = 5e6
"""A node's own traffic is taken for its background up to here. Our choice: steady traffic above is
a slow download as likely as a node that talks to its file servers."""

_MOST_BACKGROUND_CORES: Final = 1.0
"""CPU time of a whole node that is taken for its own daemons'. Our choice: one that spins."""

_FEW_CORES: Final = 1.25
"""One program that polls or spins, and what sleeps beside it."""

_FEW_CORES_RATIO: Final = 0.1
"""Share of a job's CPUs that its programs may spin on, as one for each GPU does on common nodes
with more than ten CPUs a GPU. Our choice; work on CPUs keeps most of them busy."""

SLEEPING_AFTER_WORK_S: Final = 600.0
"""Sleeping ranks may hang only behind so much steady work: servers and sessions sleep (our
choice)."""

LEAST_POLL_CORES: Final = 0.75
"""CPUs that a rank keeps busy at least while it polls for its peers (our choice: one, and a
quarter for what is lost to a neighbour); with less the program is gone, or asleep for good
(`idle_held`)."""

MOST_POLL_CORES: Final = 1.6
"""And at most: one, and what sleeps beside it (our choice). With more something computes."""

SLICE_S: Final = 120.0
"""Means are taken over so long: a logger that wakes once a minute is no work."""

CORES_PER_BYTE_PER_S: Final = 1.0 / 4e9
"""CPU time that whoever receives, reads or sends a byte pays at least. Measured on 26 November 2026
on two virtual cores, shared with other work: a second of CPU for 1.7 GB that a program receives and
drops, for .5 GB that it writes to a disk (docs/numbers.md)."""

_OWN_PART: Final = 0.1
"""Part of the traffic's ups and downs that may be the job's own where it is called another's (our
choice)."""

_STEADY_PART: Final = 1 / 3
"""Part of all traffic that may flow all the time, and be the job's as far as its CPU time suffices,
where the ups and downs are another's. Our choice: others then moved twice as much for sure. What a
program stores costs eight times the CPU time that is counted, so a job stores a 24th at most."""

_COMPARED_S: Final = 60.0
_LEAST_COMPARED: Final = 30
"""Traffic and CPU time are compared over minutes, half an hour of them at least: counters of both
are read at other instants, and a daemon that pulls an image for a job takes rarely longer."""

_SURE: Final = 3.0
"""Standard errors that a slope may be larger than it seems."""

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

_STORED: Final = (_HOST[2], _HOST[4], _MOUNT[0])
"""First fields of the flows that lead to storage; over network ports ranks exchange data, too."""


class Flow(NamedTuple):
    """Something that may be a job's work, over time, summed over its nodes."""

    key: str
    """The first of its fields."""
    what: str
    """In words: `traffic of the network`."""
    times: NDArray[np.float64]
    begins: NDArray[np.float64]
    values: NDArray[np.float64]
    """NaN where nothing is known."""
    limit: float
    """Up to here it is background."""
    is_own: bool
    """Whether it is the job's alone."""
    quiet_since: float
    """Unix time since when it is background; infinity where it is not now."""
    is_cpu: bool

    @property
    def is_of_storage(self) -> bool:
        """Whether it may be another job's, and be among what a process reads from or writes to."""
        return not self.is_own and self.key in _STORED

    def mean(self, since: float, until: float = inf) -> float:
        """Mean from a Unix time to another one; NaN where nothing is known."""
        values = self.values[(self.times >= since) & (self.times < until)]
        values = values[np.isfinite(values)]
        return float(values.mean()) if len(values) else float("nan")

    def means(self, since: float, until: float, slice_s: float) -> NDArray[np.float64]:
        """Means over slices from a Unix time on, up to another one; NaN where nothing is known."""
        rows = (self.times > since) & (self.times <= until) & np.isfinite(self.values)
        places = ((self.times[rows] - since) // slice_s).astype(np.intp)
        count = int((until - since) // slice_s) + 1
        known = np.bincount(places, minlength=count)
        totals = np.bincount(places, self.values[rows], count)
        return np.where(known > 0, totals / np.maximum(known, 1), np.nan)


def flow_of(
    key: str,
    what: str,
    table: Past,
    values: NDArray[np.float64],
    limit: float,
    *,
    is_own: bool,
    is_cpu: bool = False,
) -> Flow:
    """A flow over the rows of a table, and since when it is quiet."""
    quiet_since = quiet_from(table.times, table.begins, values, limit)
    return Flow(
        key=key,
        what=what,
        times=table.times,
        begins=table.begins,
        values=values,
        limit=limit,
        is_own=is_own,
        quiet_since=quiet_since,
        is_cpu=is_cpu,
    )


class HostUse(NamedTuple):
    """CPU and I/O of a job."""

    flows: tuple[Flow, ...]
    """What may be work, CPUs first where they are seen."""
    is_seen: bool
    """Whether its CPUs were seen at all; without, work on CPUs cannot be ruled out."""
    cores: Past
    """`cores` per row and node: of the job's cgroups, else of its whole nodes."""
    is_own: bool
    """Whether `cores` is the job's alone; of whole nodes it is an upper bound."""

    @property
    def observed_since(self) -> float:
        """Unix time of the first row of its CPUs; minus infinity unseen."""
        return float(self.cores.begins[0]) if self.is_seen else float("-inf")

    def mean_cores(self, since: float) -> float:
        """CPU cores in use since a Unix time, on average, all nodes together; NaN unseen."""
        return self.flows[0].mean(since) if self.is_seen else float("nan")

    def polls(self, since: float, ranks: int, halted: int = 0) -> bool:
        """Whether each rank that goes on keeps about one CPU busy, as one that waits for its peers.

        Args:
            since: Unix time.
            ranks: How many there are.
            halted: How many of them are known not to go on; half or more do not let the rest wait.
        """
        if not (self.is_seen and self.is_own):
            return False
        polling = ranks - min(halted, (ranks - 1) // 2)
        return LEAST_POLL_CORES * polling <= self.mean_cores(since) <= MOST_POLL_CORES * ranks

    def is_others(self, flow: Flow, since: float) -> bool:
        """Whether traffic of a shared node comes and goes while the job's own CPUs do not.

        Then next to none of what comes and goes can be the job's. Of what flows all the time it can
        have moved what its CPU time suffices for. False where the CPUs are not seen to be its own,
        where that is much of the traffic, or for less than half an hour.
        """
        if flow.is_own or not (self.is_seen and self.is_own):
            return False
        cpus = self.flows[0]
        moved, cores = (one.means(since, float(one.times[-1]), _COMPARED_S) for one in (flow, cpus))
        known = np.isfinite(moved) & np.isfinite(cores)
        if known.sum() < _LEAST_COMPARED:
            return False
        moved, cores = moved[known], cores[known]
        spread = float(moved.std())
        steady = min(float(np.percentile(moved, 10)), float(cores.mean()) / CORES_PER_BYTE_PER_S)
        if spread <= 0.0 or steady > _STEADY_PART * moved.mean():
            return False
        slope = float(np.cov(moved, cores, ddof=0)[0, 1]) / spread**2
        rest = cores - cores.mean() - slope * (moved - moved.mean())
        error = float(rest.std()) / (spread * np.sqrt(len(moved)))
        return bool(slope + _SURE * error <= _OWN_PART * CORES_PER_BYTE_PER_S)

    def evidence(self, job: JobLook, since: float, own: str = "the job") -> Evidence:
        """What the CPUs did since a Unix time, or that it was not seen.

        Args:
            job: The job.
            since: Unix time.
            own: What its own CPU time is of, in words.
        """
        if not self.is_seen:
            text = f"not seen: CPU time of {own}, which could show staging or work on CPUs"
            return Evidence("job_cpu_cores_used", job.subject, text)
        whose = own if self.is_own else "all programs of its nodes together"
        of = f" of {job.cores}" if job.cores and self.is_own else ""
        window_s = float(self.cores.times[-1]) - since
        busy = self.mean_cores(since)
        text = f"{whose} used {busy:.2f}{of} CPUs over {span(window_s)}"
        key = "job_cpu_cores_used" if self.is_own else "cpu_busy_ratio"
        return Evidence(key, job.subject, text, busy if busy == busy else None)


def is_spinning(job: JobLook, cores: float) -> bool:
    """Whether so few CPUs are busy that their work is none that holds GPUs for hours."""
    nodes = max(1, len(job.job.nodes))
    return cores <= max(_FEW_CORES * nodes, _FEW_CORES_RATIO * (job.cores or 0))


class _Uses(dict[tuple[str, float], HostUse]):
    """Those of one evaluation: each rule about idle GPUs asks for the same."""


def host_use(view: View, job: JobLook, seconds: float) -> HostUse:
    """What a job did off its GPUs.

    CPU time is its cgroups', else that of its nodes, which bounds it from above. Traffic of a
    node's network, disks and mounts is the job's where no other job with GPUs is, or meanwhile was,
    on the node; else nobody can say whose it is.
    """
    known = view.shared.setdefault(_Uses, _Uses())
    assert isinstance(known, _Uses)
    found = known.get((job.subject, seconds))
    if found is None:
        found = known[job.subject, seconds] = _use_of(view, job, seconds)
    return found


def _use_of(view: View, job: JobLook, seconds: float) -> HostUse:
    own = job.cgroup_past(_OWN, seconds)
    is_own = _is_whole(own, "job_cpu_cores_used")
    hosts = job.hosts_past(_HOST, seconds)
    is_seen = is_own or _is_whole(hosts, "cpu_busy_ratio")
    if is_own:
        cores = own._replace(columns={"cores": own.columns["job_cpu_cores_used"]})
    else:
        busy = hosts.columns["cpu_busy_ratio"] * hosts.columns["cpu_count"]
        cores = hosts._replace(columns={"cores": busy})
    flows = (*_cpu(job, cores, is_own=is_own),) if is_seen else ()
    return HostUse((*flows, *_traffic(view, job, own, hosts, seconds)), is_seen, cores, is_own)


def quiet_from(
    times: NDArray[np.float64],
    begins: NDArray[np.float64],
    values: NDArray[np.float64],
    limit: float,
) -> float:
    """Begin of the row behind the last one above a limit in the last two minutes whose mean is.

    Slices of two minutes are counted back from the newest row, so that their edges wander; the row
    does not. Infinity where the newest slice is above, minus infinity where none is.
    """
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
    return float(begins[last + 1])


def background(values: NDArray[np.float64], most: float) -> float:
    """What goes on all the time, from the quieter quarter of the rows, up to a bound."""
    known = values[np.isfinite(values)]
    return min(most, lower_quartile(known)) if len(known) else 0.0


def lower_quartile(values: NDArray[np.float64]) -> float:
    """As `np.percentile(values, 25)`, which takes ten times as long for a few hundred values."""
    place = (len(values) - 1) * 0.25
    low = int(place)
    high, above = min(low + 1, len(values) - 1), place - low
    ordered = np.partition(values, (low, high))
    first, second = float(ordered[low]), float(ordered[high])
    step = second - first
    return first + step * above if above < 0.5 else second - step * (1.0 - above)


def traffic_limit(values: NDArray[np.float64], nodes: int) -> float:
    """Traffic of nodes up to which it is their own background, a little work included."""
    floor = background(values, _MOST_BACKGROUND_BYTES_PER_S * nodes)
    return max(2 * floor, floor + IDLE_BYTES_PER_S * nodes)


def _is_whole(past: Past, key: str) -> bool:
    """Whether a field is known on every node, now or a moment ago, and mostly before."""
    values = past.columns[key]
    if not values.size:
        return False
    is_known = np.isfinite(values)
    now = carried(past, is_known, is_known)[-1]
    return bool(now.all() and is_known.mean() > 0.5)


def _cpu(job: JobLook, cores: Past, *, is_own: bool) -> Iterator[Flow]:
    nodes = max(1, len(job.job.nodes))
    values = _total(cores, ("cores",))
    floor = 0.0 if is_own else background(values, _MOST_BACKGROUND_CORES * nodes)
    limit = floor + max(IDLE_CPU_RATIO * (job.cores or 0), IDLE_CORES * nodes)
    key = "job_cpu_cores_used" if is_own else "cpu_busy_ratio"
    whose = is_own or job.alone_since <= cores.begins[0]
    yield flow_of(key, "CPUs busy", cores, values, limit, is_own=whose, is_cpu=True)


def _total(past: Past, keys: tuple[str, ...]) -> NDArray[np.float64]:
    """Sum over fields and entities per row, NaN where nothing is known."""
    values = np.concatenate([past.columns[key] for key in keys], axis=1)
    total = np.nansum(values, axis=1, dtype=np.float64)
    return np.where(np.isfinite(values).any(axis=1), total, np.nan)


def _traffic(view: View, job: JobLook, own: Past, hosts: Past, seconds: float) -> Iterator[Flow]:
    """Bytes moved that are the job's or may be."""
    nodes = max(1, len(job.job.nodes))
    if len(own.times):
        moved = _total(own, _OWN[1:])
        limit = IDLE_BYTES_PER_S * nodes
        yield flow_of(_OWN[1], "read or written", own, moved, limit, is_own=True)
    parts = [(hosts, _HOST[2:4], "over the network"), (hosts, _HOST[4:], "on local disks")]
    since = job.job.start_at if job.job.start_at is not None else float("-inf")
    blocks = (
        ("nic", _NIC, "over network ports"),
        ("filesystem", _MOUNT, "on mounted file systems"),
    )
    for block, keys, what in blocks:
        entities = [f"{node.name}/{key}" for node in job.nodes for key in node.block(block).keys]
        if entities:
            parts.append((view.past(entities, keys, seconds, since), keys, what))
    for past, keys, what in parts:
        if len(past.times):
            moved = _total(past, keys)
            limit = traffic_limit(moved, nodes)
            is_own = job.alone_since <= past.begins[0]
            yield flow_of(keys[0], what, past, moved, limit, is_own=is_own)
