"""Scenes of jobs that asked for more, or for something else, than they use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpumon.detect.scene import START_AT, WORKING
from gpumon.model.records.cluster import Allocation
from tools.sentences.stage import GIB, HOUR_S, LONG_PERIOD_S, NO_FIELDS, alike, empty, job_on_a_node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpumon.detect.scene import Scene, Values

# fragmented


def _spread(seconds: float, *, beside: bool = False) -> Scene:
    """Eight GPUs on four nodes of eight, whose ports carry a twentieth and more."""
    scene = empty(LONG_PERIOD_S)
    held: list[str] = []
    others: list[str] = []
    for name in ("n1", "n2", "n3", "n4"):
        uuids = scene.node(name, 8)
        scene.slurm(name, gpu_count=8, cpu_count=128, mem_bytes=1024 * GIB)
        scene.nic(name, "mlx5_0/1", nic_tx_bytes_per_s=5e9, nic_speed_gbps=400.0)
        held += uuids[:2]
        others += uuids[2:]
    scene.job("42", held, cpu_count=128, mem_bytes=800 * GIB)
    if beside:
        scene.job("43", others[:1])
    scene.run(seconds, alike(held, WORKING))
    return scene


def spread_for_40_minutes() -> Scene:
    """A job has two GPUs on each of four nodes, and sends much between them."""
    return _spread(2400)


def spread_for_an_hour() -> Scene:
    """It does for more than an hour."""
    return _spread(4000)


def spread_for_hours() -> Scene:
    """It does for more than two hours."""
    return _spread(7600)


def spread_beside_another_job() -> Scene:
    """Another job is on one of its nodes."""
    return _spread(2400, beside=True)


# memory_leak


def _working(used: Callable[[float], float] | float) -> Values:
    return {**WORKING, "mem_used_bytes": used}


def _rising(seconds: float) -> float:
    return 40 * GIB + 10 * GIB * seconds / 3600


def _growing_on_the_gpu(seconds: float, job: Mapping[str, Any] = NO_FIELDS) -> Scene:
    scene, uuids = job_on_a_node(1, job=job)
    scene.run(seconds, alike(uuids, _working(_rising)))
    return scene


def gpu_memory_grows() -> Scene:
    """Memory in use on a GPU grows by 10 GiB an hour, for 35 minutes."""
    return _growing_on_the_gpu(2100)


def gpu_memory_grows_for_hours() -> Scene:
    """It does for more than two hours."""
    return _growing_on_the_gpu(7500)


def gpu_memory_grows_until_the_end() -> Scene:
    """The job ends by its time limit before the memory is full."""
    return _growing_on_the_gpu(2100, {"end_at": START_AT + 2 * HOUR_S})


def gpu_memory_grows_again() -> Scene:
    """It was higher before, for 20 minutes, and was freed."""
    scene, uuids = job_on_a_node(1)
    scene.run(1200, alike(uuids, _working(60 * GIB)))
    scene.run(2100, alike(uuids, _working(_rising)))
    return scene


def _growing_on_the_host(*, gpu_count: int = 1, shared: bool = False) -> Scene:
    scene = empty()
    uuids = scene.node("n1", gpu_count + 1)
    scene.job("42", uuids[:gpu_count])
    if shared:
        scene.job("43", uuids[gpu_count:])
        scene.host("n1", net_rx_bytes_per_s=1.2e8)
    scene.cgroup(
        "42",
        job_mem_used_bytes=lambda s: 50 * GIB + 10 * GIB * s / 3600,
        job_mem_limit_bytes=96 * GIB,
        job_io_read_bytes_per_s=0.0,
        job_io_write_bytes_per_s=0.0,
    )
    scene.run(2400, alike(uuids[:gpu_count], _working(30 * GIB)))
    return scene


def host_memory_grows() -> Scene:
    """Memory of the job's control group grows, though it reads and writes nothing."""
    return _growing_on_the_host()


def host_memory_grows_beside_another_job() -> Scene:
    """Another job is on the node, which receives more than that."""
    return _growing_on_the_host(shared=True)


def processes_grow_while_they_read() -> Scene:
    """Its processes on GPUs grow, and read more than that."""
    scene, uuids = job_on_a_node(1)
    rest: dict[str, Any] = {"job_mem_used_bytes": 80 * GIB, "job_mem_limit_bytes": 96 * GIB}
    scene.cgroup("42", job_io_read_bytes_per_s=2.5e7, **rest)
    grows = {"process_rss_bytes": lambda s: 30 * GIB + 14 * GIB * s / 3600}
    scene.process(300, uuids, job_id="42", name="python3", **grows)
    scene.run(2400, alike(uuids, _working(20 * GIB)))
    return scene


def both_memories_grow() -> Scene:
    """Memory of three GPUs grows at once."""
    scene, uuids = job_on_a_node(3)
    scene.run(2100, alike(uuids, _working(_rising)))
    return scene


# oversized_gpu

_SMALL: Final[Values] = {
    **WORKING,
    "mem_used_bytes": 6 * GIB,
    "gpu_util_ratio": 0.3,
    "sm_active_ratio": 0.1,
}


def _small(seconds: float, job: Mapping[str, Any] = NO_FIELDS) -> Scene:
    scene, uuids = job_on_a_node(1, period_s=LONG_PERIOD_S, job=job)
    scene.run(seconds, alike(uuids, _SMALL))
    return scene


def small_for_three_hours() -> Scene:
    """A job uses a twelfth of the memory of its GPU and a tenth of its SMs for three hours."""
    return _small(3 * HOUR_S)


def small_for_hours() -> Scene:
    """It does for four and a half hours."""
    return _small(4.5 * HOUR_S)


def small_and_launched_one_by_one() -> Scene:
    """One CPU is full all the while."""
    scene, uuids = job_on_a_node(1, period_s=LONG_PERIOD_S)
    scene.cgroup("42", job_cpu_cores_used=1.0)
    scene.run(3 * HOUR_S, alike(uuids, _SMALL))
    return scene


def small_that_rested() -> Scene:
    """It does for three hours, and rested for eight minutes in between."""
    scene, uuids = job_on_a_node(1, period_s=LONG_PERIOD_S)
    scene.run(1.5 * HOUR_S, alike(uuids, _SMALL))
    scene.run(480, alike(uuids, _SMALL, gpu_util_ratio=0.0))
    scene.run(1.4 * HOUR_S, alike(uuids, _SMALL))
    return scene


def small_by_utilisation() -> Scene:
    """Nothing is known of its SMs, and its utilisation is 15 %."""
    scene, uuids = job_on_a_node(1, period_s=LONG_PERIOD_S)
    scene.run(HOUR_S, alike(uuids, _SMALL, sm_active_ratio=None, gpu_util_ratio=0.15))
    return scene


def small_with_a_dead_counter() -> Scene:
    """The counter of its SMs shows 0 while kernels run a fifth of the time."""
    scene, uuids = job_on_a_node(1)
    dead: Values = {**_SMALL, "sm_active_ratio": 0.0, "power_w": 430.0, "power_limit_w": 700.0}
    for _ in range(12):
        scene.run(60, alike(uuids, dead, gpu_util_ratio=0.55))
        scene.run(240, alike(uuids, dead, gpu_util_ratio=0.04))
    return scene


def small_and_busy() -> Scene:
    """Its kernels run nearly all the time."""
    scene, uuids = job_on_a_node(1, period_s=LONG_PERIOD_S)
    scene.run(4.5 * HOUR_S, alike(uuids, _SMALL, gpu_util_ratio=0.91))
    return scene


def small_server() -> Scene:
    """The job's name is a server's."""
    return _small(HOUR_S, {"name": "rank-api"})


def small_where_nothing_smaller_is() -> Scene:
    """Its GPU cannot be cut into slices, and no smaller one is known."""
    scene, uuids = job_on_a_node(1, period_s=LONG_PERIOD_S)
    scene.gpu(uuids[0], name="Tesla V100-SXM2-32GB")
    scene.run(HOUR_S, alike(uuids, _SMALL, mem_total_bytes=34.1e9, mem_used_bytes=3.1e9))
    return scene


def small_beside_a_smaller_product() -> Scene:
    """Its GPU cannot be cut into slices, and the site has smaller ones."""
    scene, uuids = job_on_a_node(1, period_s=LONG_PERIOD_S)
    scene.gpu(uuids[0], name="Tesla V100-SXM2-32GB")
    (smaller,) = scene.node("n2", 1, "Tesla T4")
    scene.gpu(smaller, mem_total_bytes=15.8e9)
    scene.run(HOUR_S, alike(uuids, _SMALL, mem_total_bytes=34.1e9, mem_used_bytes=3.1e9))
    return scene


# overasked


def _asks(seconds: float, cpus: int, mem_gib: float) -> Scene:
    """A job on one GPU of a node with 8 GPUs, 128 CPUs and 1 TiB."""
    scene = empty(LONG_PERIOD_S)
    (uuid, *_) = scene.node("n1", 8)
    scene.slurm("n1", gpu_count=8, cpu_count=128, mem_bytes=1024 * GIB)
    held = (Allocation("n1", 1, None, cpus),)
    scene.job("42", (uuid,), allocations=held, cpu_count=cpus, mem_bytes=mem_gib * GIB)
    memory: dict[str, Any] = {"job_mem_peak_bytes": 40 * GIB, "job_mem_limit_bytes": mem_gib * GIB}
    scene.cgroup("42", job_cpu_cores_used=6.0, **memory)
    scene.run(seconds, {uuid: WORKING})
    return scene


def too_many_cpus() -> Scene:
    """A job on one of the node's eight GPUs asked for 96 of its 128 CPUs, and uses six."""
    return _asks(2400, 96, 64)


def too_many_cpus_for_an_hour() -> Scene:
    """It does for 70 minutes."""
    return _asks(4200, 96, 64)


def too_many_cpus_for_hours() -> Scene:
    """It does for more than four hours."""
    return _asks(15000, 96, 64)


def too_much_memory() -> Scene:
    """It asked for half of the node's memory, and uses a twelfth of that."""
    return _asks(2400, 16, 512)


# overasked_time


def too_much_time() -> Scene:
    """A job on four GPUs completed after two hours, and had asked for a day."""
    scene = empty()
    scene.node("n1", 4)
    scene.run(120, {})
    ran = {"start_at": START_AT - 2 * HOUR_S, "end_at": START_AT + 60, "exit_code": "0:0"}
    scene.record("42", state="COMPLETED", time_limit_s=24 * HOUR_S, gpu_count=4, **ran)
    scene.run(60, {})
    return scene


SCENES: Final[dict[str, tuple[Callable[[], Scene], ...]]] = {
    "fragmented": (
        spread_for_40_minutes,
        spread_for_an_hour,
        spread_for_hours,
        spread_beside_another_job,
    ),
    "memory_leak": (
        gpu_memory_grows,
        gpu_memory_grows_for_hours,
        gpu_memory_grows_until_the_end,
        gpu_memory_grows_again,
        both_memories_grow,
        host_memory_grows,
        host_memory_grows_beside_another_job,
        processes_grow_while_they_read,
    ),
    "oversized_gpu": (
        small_for_three_hours,
        small_and_launched_one_by_one,
        small_that_rested,
        small_for_hours,
        small_by_utilisation,
        small_with_a_dead_counter,
        small_and_busy,
        small_server,
        small_beside_a_smaller_product,
        small_where_nothing_smaller_is,
    ),
    "overasked": (
        too_many_cpus,
        too_many_cpus_for_an_hour,
        too_many_cpus_for_hours,
        too_much_memory,
    ),
    "overasked_time": (too_much_time,),
}
