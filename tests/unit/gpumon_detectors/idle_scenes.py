"""Jobs for tests of idleness: alone on a node, with a cgroup and a host that are quiet."""

from __future__ import annotations

import random

from gpumon.detect.scene import HELD, UNUSED, WORKING, Scene
from tests.unit.gpumon_detectors.noise import TROUBLES, later, stretches, thinned

QUIET_HOST = {
    "cpu_busy_ratio": 0.002,
    "cpu_count": 64.0,
    "net_rx_bytes_per_s": 2e4,
    "net_tx_bytes_per_s": 2e4,
    "disk_read_bytes_per_s": 0.0,
    "disk_write_bytes_per_s": 4e4,
}
QUIET_GROUP = {
    "job_cpu_cores_used": 0.01,
    "job_io_read_bytes_per_s": 0.0,
    "job_io_write_bytes_per_s": 4e4,
}


def job_scene(gpu_count=2, *, period_s=30.0, start_at=None, **fields):
    """One job on all GPUs of one node, with 16 CPUs a GPU, whose CPUs and I/O are quiet."""
    scene = Scene(period_s=period_s, span_s=24 * 3600.0)
    uuids = scene.node("n", gpu_count)
    scene.job("42", uuids, start_at=start_at, **{"cpu_count": 16 * gpu_count, **fields})
    scene.host("n", **QUIET_HOST)
    scene.cgroup("42", **QUIET_GROUP)
    return scene, uuids


def all_of(uuids, values, **other):
    """The same values for all GPUs."""
    return {uuid: {**values, **other} for uuid in uuids}


def work(scene, uuids, seconds):
    """Compute for so long, CPUs busy with it, and be quiet again."""
    scene.cgroup("42", job_cpu_cores_used=6.0)
    scene.run(seconds, all_of(uuids, WORKING))
    scene.cgroup("42", **QUIET_GROUP)


def serve(scene, uuids, seconds, burst_s=120.0, rest_s=600.0):
    """Work in bursts as a server does; CPUs are quiet in between."""
    left = seconds
    while left > 0:
        scene.run(burst_s, all_of(uuids, WORKING))
        scene.run(rest_s, all_of(uuids, HELD))
        left -= burst_s + rest_s


def unused(scene, seconds):
    """Leave every GPU unused."""
    scene.run(seconds, {})


def played(period_s, trouble, phases, gpu_count=2, **fields):
    """A job whose GPUs and CPUs go through phases: seconds, values by UUID, CPUs busy.

    With a restart all that was before the middle of the last phase is not known.
    """
    phases = [(seconds, values, cores) for seconds, values, cores in phases]
    before = cpu_s = 0.0
    if trouble == "restart":
        seconds, values, cores = phases[-1]
        gone = [*phases[:-1], (seconds / 2, values, cores)]
        before = sum(phase[0] for phase in gone)
        cpu_s = sum(phase[0] * phase[2] for phase in gone)
        phases = [(seconds / 2, values, cores)]
    scene = Scene(period_s=period_s, span_s=24 * 3600.0)
    count = 2 * gpu_count if trouble == "shared" else gpu_count
    uuids = scene.node("n", count)
    mine, others = uuids[:gpu_count], uuids[gpu_count:]
    start_at = scene.next_at - before if before else None
    scene.job("42", mine, start_at=start_at, **{"cpu_count": 16 * gpu_count, **fields})
    scene.host("n", **{**QUIET_HOST, "net_rx_bytes_per_s": 2.1e6})
    scene.cgroup("42", **QUIET_GROUP)
    if others:
        scene.job("43", others, cpu_count=16 * gpu_count)
        scene.host("n", cpu_busy_ratio=0.4)
        scene.cgroup("43", job_cpu_cores_used=11.0)
    dice = random.Random(f"{period_s}{trouble}{len(phases)}")
    for seconds, values, cores in phases:
        # The kernel counts from the job's first second on, whoever watches.
        scene.cgroup("42", job_cpu_cores_used=cores, job_cpu_us=round(1e6 * max(cpu_s, 0.1)))
        cpu_s += cores * seconds
        for passed_s, part_s, is_hole in stretches(seconds, trouble):
            if is_hole:
                scene.skip(part_s)
                continue
            given = {uuid: later(values(place), passed_s) for place, uuid in enumerate(mine)}
            if trouble == "missing":
                given = {uuid: thinned(one, dice) for uuid, one in given.items()}
            scene.run(part_s, {**given, **all_of(others, WORKING)})
    return scene, mine


__all__ = [
    "HELD",
    "TROUBLES",
    "UNUSED",
    "WORKING",
    "all_of",
    "job_scene",
    "played",
    "serve",
    "unused",
    "work",
]
