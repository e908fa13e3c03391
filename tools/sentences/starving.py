"""Scenes of jobs whose GPUs wait for their hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpumon.detect.scene import HELD, WORKING, Scene
from tools.sentences.stage import NO_FIELDS, QUIET_GROUP, QUIET_HOST, alike

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpumon.detect.scene import Values

_PERIOD_S: Final = 10.0
_LONG_S: Final = 1500.0

_STARVED: Final[Values] = {
    **WORKING,
    "gpu_util_ratio": 0.45,
    "sm_active_ratio": 0.3,
    "pcie_rx_bytes_per_s": 3e8,
    "pcie_tx_bytes_per_s": 2e6,
}
_BUSY: Final[Values] = {**_STARVED, "gpu_util_ratio": 0.98, "sm_active_ratio": 0.7}
_PAUSED: Final[Values] = {
    **HELD,
    "gpu_util_ratio": 0.0,
    "sm_active_ratio": 0.0,
    "pcie_rx_bytes_per_s": 3e4,
    "pcie_tx_bytes_per_s": 2e4,
}

_FULL: Final[dict[str, Any]] = {
    **QUIET_GROUP,
    "job_cpu_cores_used": 15.4,
    "job_cpu_count": 16.0,
    "job_cpu_pressure_some_ratio": 0.3,
    "job_io_pressure_some_ratio": 0.01,
    "job_process_count": 16.0,
    "job_mem_used_bytes": 6e10,
}
_READING: Final[dict[str, Any]] = {
    **_FULL,
    "job_cpu_cores_used": 2.0,
    "job_cpu_pressure_some_ratio": 0.0,
    "job_io_pressure_some_ratio": 0.5,
}
_WORKING: Final[dict[str, Any]] = {
    **_READING,
    "job_io_pressure_some_ratio": 0.01,
}
_DATA: Final = {"device": "filer:/data", "fs_read_exec_s": 0.12, "fs_write_bytes_per_s": 1e5}


def _job(
    gpu_count: int = 2,
    period_s: float = _PERIOD_S,
    *,
    group: Mapping[str, Any] = NO_FIELDS,
    host: Mapping[str, Any] = NO_FIELDS,
    job: Mapping[str, Any] = NO_FIELDS,
) -> tuple[Scene, tuple[str, ...]]:
    scene = Scene(period_s, span_s=24 * 3600.0)
    uuids = scene.node("n1", gpu_count)
    scene.job("42", uuids, **{"cpu_count": 16, **job})
    scene.host("n1", **{**QUIET_HOST, "d_state_process_count": 0.0, **host})
    if group:
        scene.cgroup("42", **group)
    return scene, uuids


def _starved(
    seconds: float = _LONG_S,
    values: Values = _STARVED,
    gpu_count: int = 2,
    period_s: float = _PERIOD_S,
    *,
    group: Mapping[str, Any] = _FULL,
    host: Mapping[str, Any] = NO_FIELDS,
    job: Mapping[str, Any] = NO_FIELDS,
) -> Scene:
    scene, uuids = _job(gpu_count, period_s, group=group, host=host, job=job)
    scene.run(seconds, alike(uuids, values))
    return scene


# Data


def data_for_minutes() -> Scene:
    """Two GPUs work for 45 % of the time, and the job's 16 CPUs are full, for seven minutes."""
    return _starved(420.0)


def data_for_longer() -> Scene:
    """They are for a quarter of an hour, behind work that did not wait."""
    scene, uuids = _job(group=_WORKING)
    scene.run(_LONG_S, alike(uuids, _BUSY))
    scene.cgroup("42", **_FULL)
    scene.run(900.0, alike(uuids, _STARVED))
    return scene


def data_for_sure() -> Scene:
    """They are for 40 minutes."""
    return _starved(2400.0)


def data_at_a_long_period() -> Scene:
    """A sample a minute for a quarter of an hour."""
    return _starved(900.0, period_s=60.0)


def data_without_a_group() -> Scene:
    """The job has no control group that is read, and is alone on its node."""
    host = {"cpu_busy_ratio": 0.24, "io_pressure_some_ratio": 0.02}
    return _starved(group=NO_FIELDS, host=host)


def data_without_pressure() -> Scene:
    """Pressure is not known, neither the job's nor its node's."""
    group = {key: value for key, value in _FULL.items() if "pressure" not in key}
    return _starved(group=group)


def data_with_few_cpus() -> Scene:
    """The job has one CPU for each GPU, and hardly anything competes for them."""
    used = {"job_cpu_cores_used": 1.95, "job_cpu_count": 2.0, "job_cpu_pressure_some_ratio": 0.05}
    group = {**_FULL, **used}
    return _starved(group=group)


def data_of_loaders() -> Scene:
    """Four processes keep a CPU each full, of 16; what drives the GPU sleeps meanwhile."""
    group = {**_FULL, "job_cpu_cores_used": 4.1, "job_cpu_pressure_some_ratio": 0.0}
    scene, uuids = _job(1, group=group)
    own = {"job_id": "42", "name": "python3", "process_cpu_cores_used": 0.1}
    scene.process(4321, uuids, **own)
    scene.run(_LONG_S, alike(uuids, _STARVED))
    return scene


def data_of_the_program() -> Scene:
    """What drives the only GPU keeps one CPU full, of 16, and no other process works."""
    group = {**_FULL, "job_cpu_cores_used": 1.0, "job_cpu_pressure_some_ratio": 0.0}
    scene, uuids = _job(1, group=group)
    scene.process(4321, uuids, job_id="42", name="python3", process_cpu_cores_used=1.0)
    scene.run(_LONG_S, alike(uuids, _STARVED))
    return scene


def data_by_turns() -> Scene:
    """GPUs work for a tenth of the time only, and CPUs may rest then."""
    group = {**_FULL, "job_cpu_cores_used": 14.2}
    values = {**_STARVED, "gpu_util_ratio": 0.1, "sm_active_ratio": 0.07}
    return _starved(values=values, group=group)


def data_and_back() -> Scene:
    """One GPU sends back as much as it gets."""
    return _starved(values={**_STARVED, "pcie_tx_bytes_per_s": 3e8}, gpu_count=1)


def data_in_a_session() -> Scene:
    """A user works in it interactively."""
    return _starved(job={"is_interactive": True})


def data_of_a_server() -> Scene:
    """The job is called like a server."""
    return _starved(job={"name": "vllm"})


# Too many threads


def crowd() -> Scene:
    """The same with 150 processes, which want three times the job's CPUs and more."""
    group = {**_FULL, "job_process_count": 150.0, "job_cpu_pressure_some_ratio": 0.9}
    return _starved(group=group, host={"load_1m": 70.0})


# Storage


def _reads(
    seconds: float = _LONG_S,
    group: Mapping[str, Any] = _READING,
    host: Mapping[str, Any] = NO_FIELDS,
) -> Scene:
    scene, uuids = _job(group=group, host=host)
    scene.mount("n1", "/data", **_DATA, fs_read_bytes_per_s=8e8)
    scene.run(seconds, alike(uuids, _STARVED))
    return scene


def storage() -> Scene:
    """Tasks of a job wait for I/O for half of the time, and its GPUs with them."""
    return _reads(900.0, host={"d_state_process_count": 2.0})


def storage_for_sure() -> Scene:
    """They do for 40 minutes."""
    return _reads(2400.0)


def storage_together() -> Scene:
    """Six jobs on other nodes wait for the same server."""
    scene, uuids = _job(group=_READING)
    scene.mount("n1", "/data", **_DATA, fs_read_bytes_per_s=8e8)
    for number in range(6):
        node = f"n{number + 2}"
        there = scene.node(node, 1)
        scene.job(str(number + 50), there, cpu_count=8)
        scene.cgroup(str(number + 50), job_io_pressure_some_ratio=0.4, job_cpu_cores_used=1.0)
        scene.mount(node, "/data", **_DATA, fs_read_bytes_per_s=2e8)
    scene.run(_LONG_S, alike(uuids, _STARVED))
    return scene


def storage_beside_a_neighbour() -> Scene:
    """Another job is on the node, where processes sleep in the kernel."""
    scene, uuids = _job(3, group=_READING)
    scene.job("42", uuids[:2], cpu_count=16)
    scene.job("43", uuids[2:], cpu_count=16)
    scene.cgroup("42", **_READING)
    scene.host("n1", d_state_process_count=3.0)
    scene.run(_LONG_S, alike(uuids, _STARVED))
    return scene


def storage_without_a_group() -> Scene:
    """Nothing is known of the job's own pressure, nor of the CPUs of its node."""
    host = {"io_pressure_some_ratio": 0.5, "cpu_busy_ratio": None}
    return _reads(group=NO_FIELDS, host=host)


def storage_into_the_cache() -> Scene:
    """The memory of the job grows with what it reads, for more than an hour."""
    group = {**_READING, "job_mem_used_bytes": lambda s: 1e10 + 6e8 * s}
    return _reads(4200.0, group=group)


# Pauses


def _pauses(
    rounds: int,
    pause: Mapping[str, Any],
    mount: Mapping[str, Any] = NO_FIELDS,
    *,
    work_s: float = 300.0,
    lengths_s: tuple[float, ...] = (80.0,),
    period_s: float = _PERIOD_S,
    untold: tuple[str, ...] = (),
) -> Scene:
    scene, uuids = _job(period_s=period_s, group=_WORKING)
    busy, paused = (
        {key: value for key, value in values.items() if not key.startswith(untold)}
        for values in (_BUSY, _PAUSED)
    )
    for number in range(rounds):
        scene.cgroup("42", **_WORKING)
        if mount:
            scene.mount("n1", "/data", **_DATA, fs_read_bytes_per_s=2e6)
        scene.run(work_s, alike(uuids, busy))
        scene.cgroup("42", **{**_WORKING, **pause})
        if mount:
            scene.mount("n1", "/data", **mount)
        scene.run(lengths_s[number % len(lengths_s)], alike(uuids, paused))
    scene.cgroup("42", **_WORKING)
    scene.run(60.0, alike(uuids, busy))
    return scene


def saves() -> Scene:
    """Every six minutes the GPUs pause for 80 s while a checkpoint is written, for half an hour."""
    return _pauses(5, {"job_io_pressure_some_ratio": 0.6}, {"fs_write_bytes_per_s": 9e8})


def saves_for_sure() -> Scene:
    """They do for more than an hour."""
    return _pauses(11, {"job_io_pressure_some_ratio": 0.6}, {"fs_write_bytes_per_s": 9e8})


def saves_unseen() -> Scene:
    """Writes are not counted."""
    return _pauses(5, {"job_io_pressure_some_ratio": 0.6})


def compiles() -> Scene:
    """For an hour and a half, pauses of half a minute to two; one CPU a rank is busy in them."""
    lengths_s = (40.0, 110.0, 30.0, 70.0)
    pause = {"job_cpu_cores_used": 2.3}
    return _pauses(26, pause, work_s=150.0, lengths_s=lengths_s)


def compiles_briefly() -> Scene:
    """A sample each half minute, pauses of one or two of them; SMs and PCIe are not counted."""
    pause = {"job_cpu_cores_used": 2.3}
    untold = ("sm_", "pcie_")
    lengths_s = (30.0, 60.0)
    return _pauses(36, pause, work_s=120.0, lengths_s=lengths_s, period_s=30.0, untold=untold)


# Without a queue


def _held(host: Mapping[str, Any], **process: float | str) -> Scene:
    scene = Scene(_PERIOD_S, span_s=24 * 3600.0)
    uuids = scene.node("desk", 1)
    scene.unlist("desk")
    scene.host("desk", **{**QUIET_HOST, "cpu_count": 16.0, "io_pressure_some_ratio": 0.01, **host})
    scene.process(311, uuids, name="python", **process)
    scene.run(_LONG_S, alike(uuids, _STARVED))
    return scene


def user_data() -> Scene:
    """The CPUs of a workstation are full while its one GPU works for 45 % of the time."""
    return _held({"cpu_busy_ratio": 0.96}, uid=1007)


def user_storage() -> Scene:
    """Its tasks wait for I/O instead; whose process it is cannot be seen."""
    return _held({"cpu_busy_ratio": 0.1, "io_pressure_some_ratio": 0.6})


def user_crowd() -> Scene:
    """Its CPUs are full, and five tasks for each of them want to run."""
    return _held({"cpu_busy_ratio": 0.99, "load_1m": 80.0}, uid=1007)


def user_program() -> Scene:
    """The program on the GPU keeps one CPU of 16 full, and has started nothing."""
    cores = {"process_cpu_cores_used": 1.0, "process_tree_cpu_cores_used": 1.0}
    return _held({"cpu_busy_ratio": 0.2}, uid=1007, **cores)


SCENES: Final[dict[str, tuple[Callable[[], Scene], ...]]] = {
    "input_bound": (
        data_for_minutes,
        data_for_longer,
        data_for_sure,
        data_at_a_long_period,
        data_without_a_group,
        data_without_pressure,
        data_with_few_cpus,
        data_of_loaders,
        data_of_the_program,
        data_by_turns,
        data_and_back,
        data_in_a_session,
        data_of_a_server,
    ),
    "cpu_oversubscribed": (crowd,),
    "storage_bound": (
        storage,
        storage_for_sure,
        storage_together,
        storage_beside_a_neighbour,
        storage_without_a_group,
        storage_into_the_cache,
    ),
    "checkpoint_stall": (saves, saves_for_sure, saves_unseen),
    "recompiling": (compiles, compiles_briefly),
    "user_waits": (user_data, user_storage, user_crowd, user_program),
}
