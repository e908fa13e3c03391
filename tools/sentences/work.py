"""Scenes of GPUs that work, but not well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpumon.detect.scene import WORKING, Scene
from tools.sentences.stage import GIB, NO_FIELDS, QUIET_GROUP, QUIET_HOST, alike, empty

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpumon.detect.scene import Values

_PERIOD_S: Final = 30.0
_WORK_S: Final = 600.0

_TRAINING: Final[Values] = {
    **WORKING,
    "mem_used_bytes": 54.0 * GIB,
    "sm_active_ratio": 0.82,
    "tensor_active_ratio": 0.41,
    "dram_active_ratio": 0.33,
    "fp32_active_ratio": 0.05,
    "fp64_active_ratio": 0.0,
    "power_w": 560.0,
    "power_limit_w": 700.0,
    "pcie_rx_bytes_per_s": 3e7,
    "pcie_tx_bytes_per_s": 1e7,
    "pcie_gen": 5.0,
    "pcie_width": 16.0,
    "nvlink_rx_bytes_per_s": 2e10,
    "nvlink_tx_bytes_per_s": 2e10,
}
_EXCHANGING: Final[Values] = {
    **_TRAINING,
    "gpu_util_ratio": 0.98,
    "sm_active_ratio": 0.22,
    "tensor_active_ratio": 0.05,
    "dram_active_ratio": 0.12,
    "nvlink_rx_bytes_per_s": 1.7e11,
    "nvlink_tx_bytes_per_s": 1.7e11,
}
_SMALL: Final[Values] = {
    **_TRAINING,
    "mem_used_bytes": 20.0 * GIB,
    "gpu_util_ratio": 0.76,
    "sm_active_ratio": 0.19,
    "tensor_active_ratio": 0.03,
    "dram_active_ratio": 0.06,
    "fp32_active_ratio": 0.04,
    "power_w": 200.0,
    "nvlink_rx_bytes_per_s": 3e8,
    "nvlink_tx_bytes_per_s": 3e8,
}
_FP32: Final[Values] = {
    **_TRAINING,
    "sm_active_ratio": 0.78,
    "tensor_active_ratio": 0.0,
    "fp32_active_ratio": 0.52,
}
_COPYING: Final[Values] = {
    **_TRAINING,
    "gpu_util_ratio": 0.45,
    "sm_active_ratio": 0.32,
    "tensor_active_ratio": 0.15,
    "pcie_rx_bytes_per_s": 1.3e10,
    "pcie_tx_bytes_per_s": 8e8,
}
_FULL: Final[Values] = {
    **_TRAINING,
    "mem_used_bytes": 75.0 * GIB,
    "gpu_util_ratio": 0.43,
    "sm_active_ratio": 0.21,
    "tensor_active_ratio": 0.07,
    "dram_active_ratio": 0.19,
}


_RESTING: Final = dict.fromkeys(
    ("gpu_util_ratio", "sm_active_ratio", "tensor_active_ratio", "dram_active_ratio"), 0.0
)

_PROFILED: Final = (
    *("sm_active_ratio", "sm_occupancy_ratio", "tensor_active_ratio", "dram_active_ratio"),
    *("fp16_active_ratio", "fp32_active_ratio", "fp64_active_ratio"),
)


def _turns(
    values: Values,
    seconds: float,
    gpus: int = 2,
    *,
    cores: float | None = 2.6,
    group: Mapping[str, Any] = NO_FIELDS,
    job: Mapping[str, Any] = NO_FIELDS,
) -> Scene:
    """A job trains for ten minutes and does something else then; `cores` None: nobody sees CPUs."""
    scene = empty(_PERIOD_S)
    uuids = scene.node("n1", gpus)
    scene.job("42", uuids, **{"cpu_count": 16 * gpus, **job})
    if cores is not None:
        scene.host("n1", **QUIET_HOST)
        scene.cgroup("42", **{**QUIET_GROUP, "job_cpu_cores_used": cores, **group})
    scene.run(_WORK_S, alike(uuids, _TRAINING))
    scene.run(seconds, alike(uuids, values))
    return scene


def exchanges_for_minutes() -> Scene:
    """Four ranks move 170 GB/s over NVLink each and compute little, for twenty minutes."""
    return _turns(_EXCHANGING, 1200.0, 4)


def exchanges_for_longer() -> Scene:
    """They do for an hour."""
    return _turns(_EXCHANGING, 3600.0, 4)


def exchanges_beside_another_job() -> Scene:
    """Another job is on one of their GPUs."""
    scene = exchanges_for_longer()
    uuids = scene.view().running[0].uuids
    scene.job("43", uuids[:1])
    scene.run(_PERIOD_S, alike(uuids, _EXCHANGING))
    return scene


def exchanges_on_boards_of_two_kinds() -> Scene:
    """One of them is on another product."""
    scene = empty()
    uuids = (*scene.node("n1", 2), *scene.node("n2", 2, "NVIDIA A100-SXM4-80GB"))
    scene.job("42", uuids)
    scene.run(3600.0, alike(uuids, _EXCHANGING))
    return scene


def exchanges_at_the_memory_s_limit() -> Scene:
    """They move more bytes than any job of the lessons did."""
    return _turns({**_EXCHANGING, "dram_active_ratio": 0.88}, 3600.0, 4)


def exchanges_less() -> Scene:
    """It is less than half of their time."""
    rate = 0.47 * 0.6 * 450e9
    links = {"nvlink_rx_bytes_per_s": rate, "nvlink_tx_bytes_per_s": rate}
    return _turns({**_EXCHANGING, **links}, 3600.0, 4)


def exchanges_hidden_in_part() -> Scene:
    """Tensor cores are busier than so much exchange leaves time for."""
    links = {"nvlink_rx_bytes_per_s": 2.2e11, "nvlink_tx_bytes_per_s": 2.2e11}
    return _turns({**_EXCHANGING, **links, "tensor_active_ratio": 0.21}, 3600.0, 4)


def exchanges_in_a_solver() -> Scene:
    """They compute in fp64 in between."""
    return _turns({**_EXCHANGING, "fp64_active_ratio": 0.2}, 3600.0, 4)


def exchanges_in_a_server() -> Scene:
    """The job's name is a server's."""
    return _turns(_EXCHANGING, 3600.0, 4, job={"name": "serve-90b"})


def exchanges_over_ports() -> Scene:
    """Eight ranks on two nodes exchange over network ports, and so do other jobs there."""
    scene = empty(_PERIOD_S)
    rows = [scene.node(name, 5) for name in ("n1", "n2")]
    scene.job("42", [*rows[0][:4], *rows[1][:4]], cpu_count=128)
    scene.job("43", [rows[0][4], rows[1][4]], cpu_count=8)
    rates = dict.fromkeys(("nic_rx_bytes_per_s", "nic_tx_bytes_per_s"), 2.8e10)
    for name in ("n1", "n2"):
        scene.slurm(name, gpu_count=5)
        for number in range(4):
            scene.nic(name, f"mlx5_{number}/1", nic_speed_gbps=400.0, **rates)
    links = {"nvlink_rx_bytes_per_s": 2e10, "nvlink_tx_bytes_per_s": 2e10}
    mine = (*rows[0][:4], *rows[1][:4])
    scene.run(2400.0, alike(mine, {**_EXCHANGING, **links}))
    return scene


def small_for_minutes() -> Scene:
    """Two GPUs run small kernels for half an hour, at a quarter of their memory."""
    return _turns(_SMALL, 1800.0)


def small_for_hours() -> Scene:
    """They do for an hour and a half."""
    return _turns(_SMALL, 5400.0)


def small_beside_simulators() -> Scene:
    """Seven CPUs are busy for each GPU."""
    return _turns(_SMALL, 1800.0, cores=14.0)


def small_unseen() -> Scene:
    """The job's CPUs are not seen."""
    return _turns(_SMALL, 1800.0, cores=None)


def small_on_a_node() -> Scene:
    """The CPUs of its node are seen, and not which are its own."""
    return _turns(_SMALL, 1800.0, group={"job_cpu_cores_used": None})


def small_beside_files() -> Scene:
    """Its processes wait for files."""
    return _turns(_SMALL, 1800.0, group={"job_io_pressure_some_ratio": 0.4})


def small_in_a_session() -> Scene:
    """A user works in it interactively."""
    return _turns(_SMALL, 1800.0, job={"is_interactive": True})


def small_in_a_place_for_sessions() -> Scene:
    """The job is a batch job in a partition for trying things out."""
    return _turns(_SMALL, 1800.0, job={"partition": "gpu-dev"})


def fp32_for_minutes() -> Scene:
    """Two GPUs keep their fp32 pipes busy half of the time, and no tensor core, for an hour."""
    return _turns(_FP32, 3600.0)


def fp32_for_hours() -> Scene:
    """They do for three hours."""
    return _turns(_FP32, 10800.0)


def fp32_without_matrices() -> Scene:
    """They use a quarter of the memory, and its bus little."""
    return _turns({**_FP32, "mem_used_bytes": 20 * GIB, "dram_active_ratio": 0.1}, 3600.0)


def fp32_in_turns() -> Scene:
    """Convolutions and passes over memory take turns: fp32 pipes for a third of the time."""
    turns = {"fp32_active_ratio": 0.33, "sm_active_ratio": 0.93, "dram_active_ratio": 0.33}
    return _turns({**_FP32, **turns}, 3600.0)


def fp32_untold() -> Scene:
    """Nothing is known of the fp32 pipes."""
    return _turns({**_FP32, "fp32_active_ratio": None}, 3600.0)


def fp64_untold() -> Scene:
    """Nothing is known of the fp64 pipes."""
    return _turns({**_FP32, "fp64_active_ratio": None}, 3600.0)


def fp32_on_something_new() -> Scene:
    """The product is not known."""
    scene = empty(_PERIOD_S)
    uuids = scene.node("n1", 2, "NVIDIA Z100")
    scene.job("42", uuids)
    scene.run(3600.0, alike(uuids, _FP32))
    return scene


def copies_for_minutes() -> Scene:
    """Two GPUs get 13 GB/s from the host and run kernels in less than half of the time."""
    return _turns(_COPYING, 1200.0)


def copies_back() -> Scene:
    """They send as much to the host, for an hour."""
    other = {"pcie_rx_bytes_per_s": 8e8, "pcie_tx_bytes_per_s": 1.3e10}
    return _turns({**_COPYING, **other}, 3600.0)


def _copies_both_ways(there: float, back: float) -> Scene:
    scene = empty(_PERIOD_S)
    uuids = scene.node("n1", 1)
    scene.job("42", uuids)
    rates = {"pcie_rx_bytes_per_s": there, "pcie_tx_bytes_per_s": back}
    scene.run(3600.0, alike(uuids, {**_COPYING, "mem_used_bytes": 8 * GIB, **rates}))
    return scene


def copies_both_ways() -> Scene:
    """One GPU sends back most of what it gets, with a tenth of its memory in use."""
    return _copies_both_ways(1.3e10, 1.1e10)


def copies_more_back() -> Scene:
    """It sends back more than it gets."""
    return _copies_both_ways(4.6e9, 6.4e9)


def copies_by_design() -> Scene:
    """Their memory is nearly full."""
    return _turns({**_COPYING, "mem_used_bytes": 74 * GIB}, 3600.0)


def copies_unprofiled() -> Scene:
    """Their boards have no profiling counters."""
    scene = empty(_PERIOD_S)
    uuids = scene.node("n1", 2)
    scene.job("42", uuids)
    values = {key: value for key, value in _COPYING.items() if key not in _PROFILED}
    scene.run(3600.0, alike(uuids, values))
    return scene


def full_for_minutes() -> Scene:
    """Memory is full to the brim on two GPUs that run small pieces of work, for an hour."""
    return _turns(_FULL, 3600.0)


def full_for_hours() -> Scene:
    """It is for three hours."""
    return _turns(_FULL, 10800.0)


def full_and_unseen() -> Scene:
    """The job's CPUs are not seen."""
    return _turns(_FULL, 3600.0, cores=None)


def _desk(values: Values, seconds: float, **process: str | float | None) -> Scene:
    """A machine without a queue, whose first GPU a user's process keeps busy."""
    scene = empty(60.0)
    (uuid,) = scene.node("desk", 1)
    scene.unlist("desk")
    scene.host("desk", **QUIET_HOST)
    shown: dict[str, Any] = {"uid": 1007, "name": "python", "process_cpu_cores_used": 1.2}
    scene.process(311, [uuid], **{**shown, **process})
    scene._set("desk", "context", f"311/{uuid}", {"context_mem_used_bytes": 20.0 * GIB})
    scene.run(seconds, {uuid: values})
    return scene


def desk_small() -> Scene:
    """A user's program runs small kernels for an hour, on a machine without a queue."""
    return _desk(_SMALL, 3600.0)


def desk_small_for_hours() -> Scene:
    """It does for three hours, and for whom is hidden."""
    return _desk(_SMALL, 10800.0, uid=None)


def desk_fp32() -> Scene:
    """One computes in fp32 for three hours."""
    return _desk(_FP32, 10800.0)


def full_memory_between_rests() -> Scene:
    """Twice it rests for ten minutes in between."""
    scene = _turns(_FULL, 2000.0)
    uuids = scene.view().running[0].uuids
    for _ in range(2):
        scene.run(600.0, alike(uuids, {**_FULL, **_RESTING}))
        scene.run(2000.0, alike(uuids, _FULL))
    return scene


SCENES: Final[dict[str, tuple[Callable[[], Scene], ...]]] = {
    "comm_bound": (
        exchanges_for_minutes,
        exchanges_for_longer,
        exchanges_less,
        exchanges_hidden_in_part,
        exchanges_in_a_solver,
        exchanges_in_a_server,
        exchanges_over_ports,
    ),
    "small_batch": (
        small_for_minutes,
        small_for_hours,
        small_beside_simulators,
        small_unseen,
        small_on_a_node,
        small_beside_files,
        small_in_a_session,
        small_in_a_place_for_sessions,
    ),
    "no_tensor_cores": (
        fp32_for_minutes,
        fp32_for_hours,
        fp32_without_matrices,
        fp32_in_turns,
        fp32_untold,
        fp64_untold,
        fp32_on_something_new,
    ),
    "copy_bound": (
        copies_for_minutes,
        copies_back,
        copies_both_ways,
        copies_more_back,
        copies_by_design,
        copies_unprofiled,
    ),
    "memory_limited": (
        full_for_minutes,
        full_for_hours,
        full_and_unseen,
        full_memory_between_rests,
    ),
    "used_by_user": (desk_small, desk_small_for_hours, desk_fp32),
}
