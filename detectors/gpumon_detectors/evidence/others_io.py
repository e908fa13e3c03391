"""What of a shared node's traffic the processes of other jobs are counted to read and write."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon_detectors.evidence.host_use import quiet_from, traffic_limit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gpumon.plugin import JobLook, Past, View

_COUNTED: Final = ("process_io_read_bytes_per_s", "process_io_write_bytes_per_s")
_HOST: Final = (
    *("net_rx_bytes_per_s", "net_tx_bytes_per_s"),
    *("disk_read_bytes_per_s", "disk_write_bytes_per_s"),
)

_ON_THE_WIRE: Final = 1.1
"""Bytes that a network carries for each that a process reads, at most: headers of Ethernet, IP and
TCP take 5 % of packets of 1,500 bytes, calls of a file server the rest (our choice)."""

_LAG_S: Final = 60.0
"""A page that is written leaves the page cache later: after 30 s (Linux' `dirty_expire_centisecs`),
and so long again until it is out (our choice)."""

_INSTANT_S: Final = 1e-3
"""Length of a row behind a gap, which stands for no time."""


def explained_since(view: View, job: JobLook, seconds: float) -> float:
    """Unix time since when other jobs' processes account for what a job's nodes move.

    Only a process on a GPU tells what it reads from and writes to storage, without the loaders that
    it started, and only to root or its owner: others move so much at least. Networks and disks are
    added up, as nobody tells which of them a process reads. Infinity where that is not known, or
    does not account for what is moved now.

    Args:
        view: What is seen.
        job: Whose nodes are asked.
        seconds: How far back.
    """
    keys = _processes_of_others(job)
    hosts = job.hosts_past(_HOST, seconds) if keys else None
    if hosts is None or not len(hosts.times):
        return inf
    past = view.past(keys, _COUNTED, view.now - float(hosts.begins[0]))
    transferred, moved = _sum(past, _COUNTED), _sum(hosts, _HOST)
    if not (transferred > 0.0).any() or not np.isfinite(moved[-1]):
        return inf
    rest = _beyond(hosts, np.nan_to_num(moved), past, _ON_THE_WIRE * np.nan_to_num(transferred))
    limit = traffic_limit(rest, max(1, len(job.job.nodes)))
    return quiet_from(hosts.times, hosts.begins, rest, limit)


def _sum(past: Past, keys: Sequence[str]) -> NDArray[np.float64]:
    """Sum over fields and entities by row, NaN where a field is known of none."""
    values = [past.columns[key] for key in keys]
    is_known = np.all([np.isfinite(one).any(axis=1) for one in values], axis=0)
    total = np.sum([np.nansum(one, axis=1, dtype=np.float64) for one in values], axis=0)
    return np.where(is_known, total, np.nan)


def _beyond(
    table: Past, moved: NDArray[np.float64], past: Past, transferred: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Bytes a second of each row beyond those told in it, or shortly before and not yet moved."""
    # Rows of both tables may end at other times: what was told by a time is compared.
    edges = np.stack((past.times - past.seconds, past.times), axis=1).ravel()
    total = np.cumsum(
        np.stack((np.zeros(len(transferred)), transferred * past.seconds), axis=1).ravel()
    )
    ends, begins = table.times, table.times - table.seconds
    by_end, by_begin, before = (
        np.interp(at, edges, total) for at in (ends, begins, begins - _LAG_S)
    )
    rest, left = np.zeros(len(ends)), 0.0
    for row, bytes_ in enumerate((moved * table.seconds).tolist()):
        left = min(left, float(by_begin[row] - before[row])) + float(by_end[row] - by_begin[row])
        rest[row] = max(0.0, bytes_ - left)
        left = max(0.0, left - bytes_)
    return rest / np.maximum(table.seconds, _INSTANT_S)


def _processes_of_others(job: JobLook) -> Sequence[str]:
    """Processes on GPUs of its nodes that are known to be another job's."""
    own = job.job.job_id
    return [
        process.key
        for node in job.nodes
        for process in node.processes
        if process.job_id and process.job_id != own
    ]
