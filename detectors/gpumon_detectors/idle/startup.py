"""How a job starts: the first work of its GPUs, and what it does until then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import LEAST_EVIDENCE_S
from gpumon_detectors.evidence.host_use import (
    CORES_PER_BYTE_PER_S,
    IDLE_BYTES_PER_S,
    MOST_POLL_CORES,
    host_use,
    is_spinning,
    traffic_limit,
)
from gpumon_detectors.idle.rest import CONTEXT_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpumon.plugin import JobLook, Past, View, Window

_WORK_S: Final = 30.0
"""Seconds with signs of work out of five minutes that make it work. Our choice: a tenth; a kernel
that is tried out while a program is compiled takes less, input-bound training more."""

_POWER_RATIO: Final = 2.5
_POWER_W: Final = 50.0
"""Power well above a GPU's own lowest. Our choice: a context alone about doubles what an idle
board takes, or on a small board adds less than this."""

_TRAFFIC_BYTES_PER_S: Final = 1e9
"""A GPU that moves so much for so long is at work (KempnerPulse's class of I/O)."""

_GROWTH_RATIO: Final = 0.01
"""Share of the memory by which it grows within two minutes while something is loaded."""

_POLLING_CORES: Final = 1.1
"""CPUs for each GPU that a server's workers keep busy while they wait: each polls on one."""

_COPY_CORES_PER_BYTE_PER_S: Final = 2e-8
"""CPU time that copying a byte takes at most: 20 s a GB, eight times what receiving it over TCP and
writing it to a disk took together (2.6 s, docs/numbers.md), for small files and ciphers."""

_SLICE_S: Final = 120.0
"""Rates are averaged over two minutes, and memory is compared with that of two minutes before: what
is loaded comes in bursts with pauses of seconds (our choice)."""

_ENGINES: Final = ("sm_active_ratio", "encoder_util_ratio", "decoder_util_ratio")
_TRAFFIC: Final = (
    *("pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s"),
    *("nvlink_rx_bytes_per_s", "nvlink_tx_bytes_per_s"),
)
CORES: Final = "job_cpu_cores_used"
_IO: Final = ("job_io_read_bytes_per_s", "job_io_write_bytes_per_s")
_NET: Final = ("net_rx_bytes_per_s", "disk_read_bytes_per_s", "disk_write_bytes_per_s")


class Activity(NamedTuple):
    """What a job does off its GPUs in a window."""

    cores: float
    """CPUs that it kept busy, on average."""
    bytes_per_s: float
    """What it moved, on average; of whole nodes where it is alone there."""
    last_at: float
    """Unix time until which something was loaded or computed."""
    may_wait: bool
    """Whether since then its GPUs hold what was loaded, and nothing but polling goes on."""
    may_be_others: bool
    """Whether its nodes moved more than its CPU time suffices for."""


def signs(past: Past, busy_ratio: float) -> NDArray[np.bool_]:
    """Rows in which any of the job's GPUs shows any sign of work."""
    columns = past.columns
    found = columns["gpu_util_ratio"] >= busy_ratio
    for key in _ENGINES:
        found = found | (columns[key] >= busy_ratio)
    power = columns["power_w"]
    low = np.fmin.reduce(power, axis=0)
    found |= power > np.maximum(_POWER_RATIO * low, low + _POWER_W)
    for key in _TRAFFIC:
        found |= columns[key] >= _TRAFFIC_BYTES_PER_S
    rows: NDArray[np.bool_] = np.logical_or.reduce(found, axis=1)
    return rows


def first_work(past: Past, is_sign: NDArray[np.bool_]) -> int | None:
    """First row from which on signs of work fill `_WORK_S` of five minutes, in two rows or more."""
    rows = np.flatnonzero(is_sign)
    total = np.concatenate(([0.0], np.cumsum(past.seconds * is_sign)))
    count = np.concatenate(([0], np.cumsum(is_sign)))
    ends = past.times.searchsorted(past.times[rows] + LEAST_EVIDENCE_S, "right")
    is_work = (total[ends] - total[rows] >= _WORK_S) & (count[ends] - count[rows] > 1)
    found = rows[is_work]
    return int(found[0]) if len(found) else None


def activity(view: View, job: JobLook, past: Past, window: Window) -> Activity:
    """What the job did off its GPUs from the first row of a past to the end of a window."""
    seconds = view.now - window.start + 1.0
    nodes = max(1, len(job.job.nodes))
    own = job.cgroup_past((CORES, *_IO), seconds)
    parts: list[tuple[Past, tuple[str, ...]]] = [(own, _IO)]
    if job.alone_since <= window.start:
        parts.append((job.hosts_past(_NET, seconds), _NET))
    cores = _rates(own, (CORES,), window)
    moved = [_rates(table, keys, window) for table, keys in parts]
    last_at = max(_grew_at(past, window), window.start)
    for at, rate in _slices(own, cores, window):
        if not is_spinning(job, rate) and rate > _POLLING_CORES * len(job.gpus):
            last_at = max(last_at, at)
    means = []
    for (table, keys), rates in zip(parts, moved, strict=True):
        limit = IDLE_BYTES_PER_S * nodes if keys is _IO else traffic_limit(rates, nodes)
        # A node's own background is nobody's start.
        means.append(_mean(rates) if _mean(rates) > limit else 0.0)
        for at, rate in _slices(table, rates, window):
            if rate > limit:
                last_at = max(last_at, at)
    held = past.columns["mem_used_bytes"][past.times <= window.end]
    is_loaded = bool(len(held)) and bool((np.nan_to_num(held[-1]) > CONTEXT_BYTES).any())
    may_wait = is_loaded and window.end - last_at >= LEAST_EVIDENCE_S
    busiest = max(means)
    return Activity(
        cores=_mean(cores),
        bytes_per_s=busiest,
        last_at=min(last_at, window.end),
        may_wait=may_wait,
        may_be_others=max(means[0], _mean(cores) / CORES_PER_BYTE_PER_S) < busiest,
    )


def computing_s(view: View, job: JobLook, window: Window) -> float:
    """Seconds of a window in which the job's own CPUs compute: neither poll, nor load, nor copy.

    All traffic of its nodes is taken for its own, whosever it is. Where the network's is not seen,
    they may copy.
    """
    host = host_use(view, job, view.now - window.start + 1.0)
    span = (window.start, window.end, _SLICE_S)
    moved = {flow.key: flow.means(*span) for flow in host.flows if not flow.is_cpu}
    if not (host.is_seen and host.is_own) or _NET[0] not in moved:
        return 0.0
    cores, most = host.flows[0].means(*span), np.fmax.reduce([*moved.values()])
    least = MOST_POLL_CORES * len(job.gpus)
    with np.errstate(invalid="ignore"):
        computes = (cores > least) & (cores > _COPY_CORES_PER_BYTE_PER_S * most)
    computes &= np.isfinite(moved[_NET[0]])
    ends = np.minimum(_SLICE_S * (np.arange(len(cores)) + 1), window.end - window.start)
    return float((np.diff(ends, prepend=0.0) * computes).sum())


def _rates(table: Past, keys: tuple[str, ...], window: Window) -> NDArray[np.float64]:
    """Sum over fields and nodes of the rows up to the window's end."""
    rows = table.times <= window.end
    total = np.zeros(int(rows.sum()))
    for key in keys:
        total += np.nan_to_num(table.columns[key][rows]).sum(axis=1, dtype=np.float64)
    return total


def _slices(table: Past, rates: NDArray[np.float64], window: Window) -> list[tuple[float, float]]:
    """Ends and means of slices of two minutes, which a single busy moment does not fill."""
    times = table.times[table.times <= window.end]
    if not len(times):
        return []
    number = ((times - times[0]) // _SLICE_S).astype(np.intp)
    count = np.bincount(number)
    means = np.bincount(number, rates) / np.maximum(count, 1)
    lasts = times.searchsorted(times[0] + _SLICE_S * (np.arange(len(count)) + 1), "left") - 1
    return [(float(times[last]), float(mean)) for last, mean in zip(lasts, means, strict=True)]


def _grew_at(past: Past, window: Window) -> float:
    """Unix time at which a GPU's memory last grew by much within two minutes."""
    rows = int(past.times.searchsorted(window.end, "right"))
    used, total = (past.columns[key][:rows] for key in ("mem_used_bytes", "mem_total_bytes"))
    times = past.times[:rows]
    before = np.maximum(times.searchsorted(times - _SLICE_S, "left"), 0)
    grown = np.nan_to_num(used - used[before]) > _GROWTH_RATIO * np.nan_to_num(total, nan=np.inf)
    found = np.flatnonzero(grown.any(axis=1))
    return float(times[found[-1]]) if len(found) else float("-inf")


def _mean(values: NDArray[np.float64]) -> float:
    """Mean, 0 where nothing is known."""
    return float(values.mean()) if len(values) else 0.0
