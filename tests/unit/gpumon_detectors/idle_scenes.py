"""Jobs for tests of idleness: alone on a node, with a cgroup and a host that are quiet."""

from __future__ import annotations

from gpumon.detect.scene import HELD, UNUSED, WORKING, Scene

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


__all__ = ["HELD", "UNUSED", "WORKING", "all_of", "job_scene", "serve", "unused", "work"]
