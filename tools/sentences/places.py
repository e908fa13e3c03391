"""Scenes of ranks in the wrong place of their node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpumon.detect.scene import WORKING, Scene
from gpumon.model.records.cluster import Rank
from tools.sentences.stage import NO_FIELDS, alike

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpumon.detect.scene import Values

_PERIOD_S: Final = 10.0
_COPYING: Final[Values] = {
    **WORKING,
    "gpu_util_ratio": 0.8,
    "pcie_rx_bytes_per_s": 3e9,
    "pcie_tx_bytes_per_s": 2e8,
    "pcie_gen": 5.0,
    "pcie_width": 16.0,
}
_FAR: Final = {"cpus_allowed": "32-63", "cpus_allowed_count": 32.0, "cpu_numa_nodes": "1"}
_NEAR: Final = {"cpus_allowed": "0-31", "cpus_allowed_count": 32.0, "cpu_numa_nodes": "0"}


def _ranks_on(
    processes: Sequence[Mapping[str, Any]],
    seconds: float,
    values: Values = _COPYING,
    also: Values = NO_FIELDS,  # type: ignore[assignment]
) -> Scene:
    """A rank for each process, all GPUs at NUMA node 0; the first GPU shows `also` besides."""
    scene = Scene(_PERIOD_S)
    uuids = scene.node("n1", len(processes))
    ranks = [
        Rank("0", "w", place, place, len(uuids), "n1", 900 + place, (uuid,), None)
        for place, uuid in enumerate(uuids)
    ]
    scene.job("42", uuids, ranks=ranks)
    scene.host("n1", numa_distances="0:10,21 1:21,10")
    for place, (uuid, given) in enumerate(zip(uuids, processes, strict=True)):
        scene.gpu(uuid, gpu_numa_node=0)
        scene.process(900 + place, [uuid], job_id="42", **given)
    scene.run(seconds, {**alike(uuids, values), uuids[0]: {**values, **also}})
    return scene


def far_and_copying() -> Scene:
    """Both ranks of a job are bound to the other socket, and copy."""
    return _ranks_on([_FAR, _FAR], 900.0)


def far_beside_near() -> Scene:
    """One of four is, and the others are at work for longer."""
    busier: Values = {**_COPYING, "gpu_util_ratio": 0.95}
    return _ranks_on([_FAR, _NEAR, _NEAR, _NEAR], 2400.0, busier, {"gpu_util_ratio": 0.8})


def far_without_counters() -> Scene:
    """PCIe bytes are not counted."""
    plain = {key: value for key, value in _COPYING.items() if not key.startswith("pcie")}
    return _ranks_on([_FAR, _FAR], 900.0, plain)


def _crowded(seconds: float, *own: Mapping[str, Any]) -> Scene:
    sound = {**_NEAR, "process_cpu_wait_ratio": 0.01}
    return _ranks_on([*own, *[sound] * 3], seconds)


def few_cpus() -> Scene:
    """One of four ranks may use a single CPU, which is busy."""
    one = {**_NEAR, "cpus_allowed": "5", "cpus_allowed_count": 1.0}
    return _crowded(400.0, {**one, "process_cpu_wait_ratio": 0.52})


def one_cpu_for_two() -> Scene:
    """Two of five are bound to the same CPU."""
    one = {**_NEAR, "cpus_allowed": "5", "cpus_allowed_count": 1.0, "process_cpu_wait_ratio": 0.5}
    return _crowded(400.0, one, one)


def stranger_on_its_cpus() -> Scene:
    """A rank may use all CPUs of its job, and another user's program computes on them."""
    return _crowded(400.0, {**_NEAR, "process_cpu_wait_ratio": 0.4})


def _through_one_port(bytes_per_s: float, ports: int = 3, second: int = 0) -> Scene:
    """Each node's traffic takes its first port, the second node's another one."""
    busy = {"n1": 0, "n2": second}
    scene = Scene(_PERIOD_S)
    uuids = [uuid for name in ("n1", "n2") for uuid in scene.node(name, ports)]
    scene.job("42", uuids)
    for name in ("n1", "n2"):
        for port in range(ports):
            rate = bytes_per_s if port == busy[name] else 1e5
            scene.nic(
                name, f"mlx5_{port}/1", state="ACTIVE", nic_speed_gbps=400.0,
                nearest_by="switch", nearest_gpus=f"GPU-{name}-{port}",
                nic_tx_bytes_per_s=rate, nic_rx_bytes_per_s=rate,
            )  # fmt: skip
    scene.run(900.0, alike(uuids, WORKING))
    return scene


def one_full_port() -> Scene:
    """All ranks of a node talk through the port of the first one's GPU."""
    return _through_one_port(21e9)


def one_port_with_room() -> Scene:
    """There is little to say, and on each of two nodes with six GPUs another port is used."""
    return _through_one_port(3e9, 6, second=2)


SCENES: Final[dict[str, tuple[Callable[[], Scene], ...]]] = {
    "crowded_rank": (few_cpus, one_cpu_for_two, stranger_on_its_cpus),
    "nic_misplaced": (one_full_port, one_port_with_room),
    "numa_misplaced": (far_and_copying, far_beside_near, far_without_counters),
}
