"""What a probe reads of a node's host side: CPUs, memory, network, mounts, jobs' cgroups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.model.units import GIB
from gpumon.simulate.shifted.ranges import Draw
from gpumon.simulate.shifted.sensors import AT
from gpumon.simulate.shifted.signals import curve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpumon.simulate.shifted.fleet import Fleet, Machine, Placed
    from gpumon.simulate.shifted.sensors import Played
    from gpumon.simulate.shifted.story import Growth

    Floats = NDArray[np.float64]

RANK_BYTES: Final = 9.0 * GIB
"""Resident memory of a rank with its loaders, unless its kind has another (our choice)."""

_LAUNCHER_CORES: Final = 0.004
"""CPUs that a job's scripts and launchers use beside its ranks (our choice)."""


class OwnHost(NamedTuple):
    """One job on one node over all samples."""

    job: Placed
    is_on: NDArray[np.bool_]
    cgroup: dict[str, Floats]
    job_cpu_us: Floats
    """CPU time of the job on this node since it began."""
    cpu_us: Floats
    """Of each rank: sample by rank."""
    cores: Floats
    """Likewise."""
    rss_bytes: Floats
    """Of each rank."""
    cpu_wait: Floats
    """Share of time in which each rank's main thread has no CPU."""
    read: Floats
    written: Floats
    """Bytes a second of each rank, from and to storage of any kind."""


class Hosts(NamedTuple):
    """One node over all samples."""

    node: dict[str, Floats]
    ports: dict[str, Floats]
    """Sample by port."""
    mount: dict[str, Floats]
    """Of the one mount of which numbers are known; empty: none."""
    jobs: list[OwnHost]


def hosts(fleet: Fleet, machine: Machine, jobs: dict[int, Played], times: Floats) -> Hosts:
    """The host side of a node."""
    draw = Draw(fleet.plan.seed, f"host {machine.name}")
    own = [_own(job, machine, jobs[job.number], times, draw) for job in machine.jobs]
    total = {key: np.zeros(len(times)) for key in ("cores", "read", "write", "disk", "stuck")}
    worst = {key: np.zeros(len(times)) for key in ("io_wait", "cpu_wait", "request_s")}
    ports = np.zeros((len(times), max(1, machine.kind.ports)))
    held = np.zeros(len(times))
    for one in own:
        node = one.job.machines.index(machine)
        here = _ranks(one.job, node)
        mean = jobs[one.job.number].mean[:, here]
        for key, sums in total.items():
            sums += mean[..., AT[key]].sum(axis=1)
        for key, most in worst.items():
            np.maximum(most, mean[..., AT[key]].max(axis=1), out=most)
        held += one.cgroup["job_mem_used_bytes"]
        for at, gpu in enumerate(one.job.gpus[node]):
            port = _port_of(one.job, machine, gpu)
            ports[:, port] += mean[:, at, AT["port"]]
    node_fields = _node(machine, total, worst, held, times, draw)
    return Hosts(node_fields, _ports(machine, ports, times, draw), _mount(total, worst, draw), own)


def _ranks(job: Placed, node: int) -> slice:
    count = len(job.gpus[node])
    return slice(node * count, (node + 1) * count)


def _port_of(job: Placed, machine: Machine, gpu: int) -> int:
    """Port of a GPU's traffic: the nearest unless its job takes another."""
    kind = machine.kind
    if job.story.port_of is not None:
        return job.story.port_of(gpu)
    return gpu * kind.ports // kind.gpus if kind.ports else 0


def _own(job: Placed, machine: Machine, view: Played, times: Floats, draw: Draw) -> OwnHost:
    """The cgroup of a job on one of its nodes, and its ranks' processes."""
    here = _ranks(job, job.machines.index(machine))
    story, at = job.story, np.clip(times - job.start_s, 0.0, job.length_s)
    is_on = (times > job.start_s) & (times <= job.end_s + story.stuck_s)
    mean = view.mean[:, here]
    noise = 1.0 + 0.04 * draw.normal(*mean.shape[:2])
    cores = np.abs(mean[..., AT["cores"]] * noise)
    all_cores = np.minimum(cores.sum(axis=1) + _LAUNCHER_CORES * is_on, 0.998 * job.cpus)
    points = story.host_bytes or [(0.0, 0.2 * GIB), (200.0, RANK_BYTES * cores.shape[1])]
    rss = curve(points, at) * is_on
    rss = np.minimum(rss, 0.9 * job.mem_bytes)
    cache_points = story.cache_bytes or [(0.0, 0.0), (3600.0, 0.1 * job.mem_bytes)]
    cache = np.minimum(curve(cache_points, at), 0.97 * job.mem_bytes - rss)
    used = np.maximum(rss + cache * is_on, 0.0)
    pressure = {
        f"job_{key}_pressure_{part}_ratio": _pressure(mean[..., AT[name]].max(axis=1), part, draw)
        for key, name in (("cpu", "cpu_wait"), ("io", "io_wait"))
        for part in ("some", "full")
    }
    written = np.where(at > story.quiet_from_s, 0.0, 80.0 + 40.0 * draw.uniform(len(at)))
    cgroup = {
        "job_cpu_cores_used": all_cores,
        "job_cpu_count": np.full(len(times), float(job.cpus)),
        "job_mem_used_bytes": used,
        "job_mem_peak_bytes": np.maximum.accumulate(used),
        "job_mem_limit_bytes": np.full(len(times), job.mem_bytes),
        "job_io_read_bytes_per_s": mean[..., AT["disk"]].sum(axis=1),
        "job_io_write_bytes_per_s": 2e3 * draw.uniform(len(times)),
        "job_output_bytes_per_s": written,
        "job_output_age_s": _age(written, times),
        "job_process_count": np.round(
            2.0 + cores.shape[1] * 4.0 + story.threads + 0.0 * times
        ),
        **pressure,
    }  # fmt: skip
    cpu_us = np.floor(1e6 * view.cpu_s[:, here])
    job_cpu_us = np.floor(cpu_us.sum(axis=1) + 1e6 * _LAUNCHER_CORES * at)
    each = np.repeat((rss / cores.shape[1])[:, None], cores.shape[1], axis=1)
    read, written_by = mean[..., AT["read"]] + mean[..., AT["disk"]], mean[..., AT["write"]]
    # Pressure is of all threads of the job; of the one that launches kernels it is a part.
    waits = np.clip(0.5 * mean[..., AT["cpu_wait"]] * noise, 0.0, 1.0)
    return OwnHost(
        job=job,
        is_on=is_on,
        cgroup=cgroup,
        job_cpu_us=job_cpu_us,
        cpu_us=cpu_us,
        cores=cores,
        rss_bytes=each,
        cpu_wait=waits,
        read=read,
        written=written_by,
    )


def _pressure(share: Floats, part: str, draw: Draw) -> Floats:
    wide = share * (0.4 if part == "full" else 1.0) * (1.0 + 0.1 * draw.normal(len(share)))
    return np.asarray(np.round(np.clip(wide, 0.0, 0.99), 4), np.float64)


def _age(written: Floats, times: Floats) -> Floats:
    """Time since the newest write."""
    last = np.maximum.accumulate(np.where(written > 0, times, times[0] - 1.0))
    return np.asarray(np.maximum(0.0, times - last) + 1.5, np.float64)


def _node(
    machine: Machine, total: dict[str, Floats], worst: dict[str, Floats], held: Floats,
    times: Floats, draw: Draw,
) -> dict[str, Floats]:  # fmt: skip
    kind, count = machine.kind, len(times)
    busy = total["cores"] + draw.of("node_background_cores") * (1 + 0.3 * draw.uniform(count))
    busy = np.clip(busy, 0.0, 0.995 * kind.cpus)
    quiet = draw.of("node_background_bytes_per_s")
    base = 0.02 * kind.mem_bytes
    waiting = np.where(worst["cpu_wait"] > 0.3, 3.0, 1.0)
    return {
        "cpu_busy_ratio": busy / kind.cpus,
        "cpu_iowait_ratio": np.clip(0.02 * worst["io_wait"] * draw.uniform(count), 0.0, 1.0),
        "load_1m": np.round(busy * waiting + 8.0 * worst["io_wait"], 2),
        "host_mem_available_bytes": np.maximum(kind.mem_bytes - base - held, 0.01 * kind.mem_bytes),
        "cpu_pressure_some_ratio": _pressure(worst["cpu_wait"], "some", draw),
        "io_pressure_some_ratio": _pressure(worst["io_wait"], "some", draw),
        "d_state_process_count": np.round(
            3.4 * worst["io_wait"] * draw.uniform(count) + total["stuck"]
        ),
        "net_rx_bytes_per_s": total["read"] + quiet * (1 + draw.uniform(count)),
        "net_tx_bytes_per_s": total["write"] + quiet * (1 + draw.uniform(count)),
        "disk_read_bytes_per_s": total["disk"] + 300.0 * draw.uniform(count),
        "disk_write_bytes_per_s": total["disk"] + 4e4 * draw.uniform(count),
    }


def _ports(machine: Machine, traffic: Floats, times: Floats, draw: Draw) -> dict[str, Floats]:
    """Rates, speeds and errors by port."""
    if not machine.kind.ports:
        return {}
    shape = traffic.shape
    room = 0.97 * machine.kind.port_bytes_per_s
    found = {
        f"nic_{way}_bytes_per_s": np.minimum(traffic * (1 + 0.02 * draw.normal(*shape)), room)
        + 900.0 * draw.uniform(*shape)
        for way in ("tx", "rx")
    }
    found["nic_speed_gbps"] = np.full(shape, float(machine.kind.port_gbps))
    found["nic_symbol_error"] = np.zeros(shape) + draw.whole(0, 3)
    found["nic_link_downed"] = np.zeros(shape) + draw.whole(0, 2)
    for job in machine.jobs:
        for node, port, since, until, speed in job.story.down_ports:
            if job.machines[node] is machine:
                rows = times > job.start_s + since
                rows &= times <= job.start_s + min(until, job.length_s)
                found["nic_speed_gbps"][rows, port] = speed
                found["nic_link_downed"][times > job.start_s + since, port] += speed == 0
                for way in ("tx", "rx"):
                    found[f"nic_{way}_bytes_per_s"][rows, port] *= 0.0 if speed == 0 else 0.5
        for growth in job.story.growths:
            where, _ = job.place_of(growth.gpu)
            if growth.port is not None and where is machine:
                found[growth.field][:, growth.port] += grown(growth, job, times, draw)
    return found


def grown(growth: Growth, job: Placed, times: Floats, draw: Draw) -> Floats:
    """How much an error counter has grown: so many a minute, by chance."""
    gap_s = float(times[1] - times[0]) if len(times) > 1 else 1.0
    since, until = job.start_s + growth.from_s, job.start_s + min(growth.to_s, job.length_s)
    rows = (times > since) & (times <= until)
    count = np.floor(growth.per_min * gap_s / 60.0 * 2.0 * draw.uniform(len(times)) + 0.5)
    total: Floats = np.cumsum(np.where(rows, count, 0.0))
    return total


def _mount(total: dict[str, Floats], worst: dict[str, Floats], draw: Draw) -> dict[str, Floats]:
    """The network file system, NFS with numbers or one of which the kernel has none."""
    if draw.happens(0.35):
        return {}
    healthy, count = draw.of("request_s"), len(total["read"])
    read_ops = total["read"] / 5e5 + 0.2 * draw.uniform(count)
    write_ops = total["write"] / 1e6 + 0.2 * draw.uniform(count)
    took = (healthy + worst["request_s"]) * (1 + 0.2 * draw.uniform(count))
    return {
        "fs_read_bytes_per_s": total["read"],
        "fs_write_bytes_per_s": total["write"],
        "fs_read_ops_per_s": read_ops,
        "fs_write_ops_per_s": write_ops,
        "fs_read_exec_s": took,
        "fs_read_rtt_s": 0.85 * took,
        "fs_write_exec_s": 2.0 * took,
        "fs_write_rtt_s": 1.7 * took,
    }
