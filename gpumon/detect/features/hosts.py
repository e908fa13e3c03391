"""Features of what a job does off its GPUs: CPUs, memory, disks, file systems, network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.detect.features.feature import (
    LONG_S,
    TOO_SHORT,
    USUAL_S,
    Feature,
    deviation,
    mean,
    ratio,
)
from gpumon.model.units import GIB

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.detect.features.feature import Floats
    from gpumon.detect.features.samples import Samples


_CGROUP: Final = "its cgroups are not readable, and it is not alone on its nodes"
_NODE: Final = "the nodes' kernels are not read"
_SHARED: Final = "it is not alone on its nodes; or their kernels are not read"
_MOUNTS: Final = "no network mount reports its latency"

_CPU: Final = ("job_cpu_cores_used", "cpu_busy_ratio", "cpu_count")
_READ: Final = ("job_io_read_bytes_per_s", "disk_read_bytes_per_s", "fs_read_bytes_per_s")
_WRITE: Final = ("job_io_write_bytes_per_s", "disk_write_bytes_per_s", "fs_write_bytes_per_s")
_PRESSURES: Final = {
    kind: (f"job_{kind}_pressure_some_ratio", f"{kind}_pressure_some_ratio")
    for kind in ("cpu", "mem", "io")
}

USUAL: Final = (
    Feature("cores_per_gpu", "", "CPUs that the job keeps busy for each of its GPUs.", _CPU,
            absence=f"{_CGROUP}; or {TOO_SHORT}"),
    Feature("cpu_share", "ratio", "Share of the CPUs that it may use that is busy.",
            (*_CPU, "job_cpu_count"), absence=f"{_CGROUP}; or {TOO_SHORT}"),
    Feature("cpu_unrest", "ratio", "Standard deviation of the share of its CPUs that are busy.",
            (*_CPU, "job_cpu_count"), absence=f"{_CGROUP}; or {TOO_SHORT}"),
    Feature("host_cpu", "ratio", "Share of the nodes' CPUs that are busy.", ("cpu_busy_ratio",),
            absence=f"{_NODE}; or {TOO_SHORT}"),
    Feature("iowait", "ratio", "Share of the nodes' CPU time that waits for disks.",
            ("cpu_iowait_ratio",), absence=f"{_NODE}; or {TOO_SHORT}"),
    *(Feature(f"{kind}_pressure", "ratio",
              f"Share of the time in which a task of the job, or of its nodes, waits for {what}.",
              _PRESSURES[kind], absence=f"the kernel reports no pressure; or {TOO_SHORT}")
      for kind, what in (("cpu", "a CPU"), ("mem", "memory"), ("io", "a disk"))),
    Feature("blocked_per_gpu", "", "Tasks in uninterruptible sleep for each GPU.",
            ("d_state_process_count",), absence=f"{_SHARED}; or {TOO_SHORT}"),
    Feature("read", "log10 B/s", "Read from disks and mounts, for each GPU.", _READ,
            absence=f"{_SHARED}; or {TOO_SHORT}"),
    Feature("write", "log10 B/s", "Written to disks and mounts, for each GPU.", _WRITE,
            absence=f"{_SHARED}; or {TOO_SHORT}"),
    Feature("network", "log10 B/s", "Over the nodes' network interfaces, for each GPU.",
            ("net_rx_bytes_per_s", "net_tx_bytes_per_s"), absence=f"{_SHARED}; or {TOO_SHORT}"),
    Feature("ports", "ratio", "RDMA ports' traffic of the busier direction, over their speed.",
            ("nic_tx_bytes_per_s", "nic_rx_bytes_per_s", "nic_speed_gbps"),
            absence=f"{_SHARED}; or the nodes have no such port"),
    Feature("read_wait", "log10 s", "Latency of a read from the slowest mount.",
            ("fs_read_exec_s",), absence=f"{_MOUNTS}; or nothing is read"),
    Feature("write_wait", "log10 s", "Latency of a write to the slowest mount.",
            ("fs_write_exec_s",), absence=f"{_MOUNTS}; or nothing is written"),
    Feature("host_mem", "ratio", "Memory of the job, as a share of its limit.",
            ("job_mem_used_bytes", "job_mem_limit_bytes", "host_mem_total_bytes"),
            absence="the node's cgroups are not readable"),
    Feature("output_age", "log10 s", "How long ago the job wrote to its output.",
            ("job_output_age_s",), absence="its output is not readable, or it has none"),
)  # fmt: skip

LONG: Final = (
    Feature("host_mem_growth_60m", "GiB/h", "How much it grows, for each GPU.",
            ("job_mem_used_bytes",),
            absence="the node's cgroups are not readable; or less than half an "
            "hour was observed"),
)  # fmt: skip


def curves_of(samples: Samples) -> dict[str, Floats]:
    """Step by job: `cpu` (cores), `read` and `write` (bytes/s), `blocked` (tasks)."""
    hosts = samples.hosts
    busy = hosts["cpu_busy_ratio"] * hosts["cpu_count"]
    alone = np.array([job.is_alone for job in samples.jobs])[None, :]
    return {
        "cpu": _first(hosts["job_cpu_cores_used"], np.where(alone, busy, np.nan)),
        "read": _moved(hosts, _READ),
        "write": _moved(hosts, _WRITE),
        "blocked": hosts["d_state_process_count"],
    }


def usual_of(samples: Samples, curves: Mapping[str, Floats]) -> Floats:
    """Feature by job, in the order of `USUAL`."""
    hosts, sizes = samples.hosts, samples.sizes

    def usual(curve: Floats) -> Floats:
        return mean(samples.last(curve, USUAL_S))

    share = ratio(curves["cpu"], _first(hosts["job_cpu_count"], _cores(samples)))
    rows = [
        usual(curves["cpu"]) / sizes,
        usual(share),
        deviation(samples.last(share, USUAL_S)),
        usual(hosts["cpu_busy_ratio"]),
        usual(hosts["cpu_iowait_ratio"]),
    ]
    rows += [usual(_first(*(hosts[key] for key in keys))) for keys in _PRESSURES.values()]
    rows.append(usual(curves["blocked"]) / sizes)
    network = hosts["net_rx_bytes_per_s"] + hosts["net_tx_bytes_per_s"]
    rows += [
        _log(usual(curve) / sizes, 1.0) for curve in (curves["read"], curves["write"], network)
    ]
    moved = np.fmax(hosts["nic_tx_bytes_per_s"], hosts["nic_rx_bytes_per_s"])
    rows.append(usual(ratio(moved, hosts["nic_speed_gbps"] * 1e9 / 8.0)))
    rows += [_log(usual(hosts[key]), 1e-6) for key in ("fs_read_exec_s", "fs_write_exec_s")]
    used = hosts["job_mem_used_bytes"]
    limit = np.fmin(hosts["job_mem_limit_bytes"], hosts["host_mem_total_bytes"])
    rows.append(usual(ratio(used, limit)))
    rows.append(_log(usual(hosts["job_output_age_s"]), 1.0))
    return np.stack(rows)


def long_of(samples: Samples) -> Floats:
    """Feature by job, in the order of `LONG`."""
    used = samples.last(samples.hosts["job_mem_used_bytes"], LONG_S)
    half = len(used) // 2
    grown = mean(used[half:]) - mean(used[:half])
    return np.stack([grown * 2.0 / GIB / samples.sizes])


def _first(one: Floats, other: Floats) -> Floats:
    """One where it is known, else the other."""
    return np.where(np.isfinite(one), one, other)


def _moved(hosts: Mapping[str, Floats], keys: tuple[str, ...]) -> Floats:
    """The job's own figure where it is told and any, else disks and mounts together."""
    others = np.stack([hosts[key] for key in keys[1:]])
    is_known = np.isfinite(others).any(axis=0)
    total = np.where(is_known, np.where(np.isfinite(others), others, 0.0).sum(axis=0), np.nan)
    return np.fmax(hosts[keys[0]], total)


def _cores(samples: Samples) -> Floats:
    """CPUs that Slurm gave each job, in every step."""
    given = np.array([job.cores or np.nan for job in samples.jobs], np.float64)
    return np.broadcast_to(given, (len(samples.hosts["cpu_count"]), len(given)))


def _log(values: Floats, least: float) -> Floats:
    return np.where(np.isfinite(values), np.log10(np.maximum(values, least)), np.nan)
