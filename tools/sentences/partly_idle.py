"""Scenes of jobs that use GPUs in part: some of them, some of the time, or not from the start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpumon.detect.scene import HELD, START_AT, UNUSED, WORKING
from tools.sentences.stage import HOUR_S, LONG_PERIOD_S, NO_FIELDS, alike, empty, job_on_a_node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpumon.detect.scene import Scene

# interactive_idle

_BY_HAND: Final[dict[str, Any]] = {"is_interactive": True}


def _session(idle_s: float, job: Mapping[str, Any]) -> Scene:
    """A session in which somebody computes for an hour and then hardly at all."""
    scene, uuids = job_on_a_node(1, period_s=LONG_PERIOD_S, job=job)
    scene.run(HOUR_S, alike(uuids, WORKING))
    values = {**HELD, "gpu_util_ratio": lambda s: 0.9 if s % 2400 < LONG_PERIOD_S else 0.0}
    scene.run(idle_s, alike(uuids, values))
    return scene


def session_for_an_hour() -> Scene:
    """After an hour of work a session without a batch script computes two minutes in forty."""
    return _session(5400, _BY_HAND)


def session_for_hours() -> Scene:
    """It does for three hours."""
    return _session(3.5 * HOUR_S, _BY_HAND)


def session_over_night() -> Scene:
    """It does for five hours."""
    return _session(5.5 * HOUR_S, _BY_HAND)


def session_of_the_portal() -> Scene:
    """Its job has a name that the site gives to sessions of its portal."""
    return _session(5400, {"name": "sys/dashboard/jupyter"})


def session_with_a_server() -> Scene:
    """A server is tried out in it."""
    return _session(5400, _BY_HAND | {"name": "vllm"})


# partial_gpus_idle


def _works_on_some(seconds: float, used: int = 5, job: Mapping[str, Any] = NO_FIELDS) -> Scene:
    scene = empty(30.0)
    uuids = scene.node("n1", 8)
    scene.job("42", uuids, **job)
    scene.run(seconds, alike(uuids[:used], WORKING))
    return scene


def five_of_eight() -> Scene:
    """A job works on five of its eight GPUs for seven minutes."""
    return _works_on_some(420)


def five_of_eight_for_longer() -> Scene:
    """It does for a quarter of an hour."""
    return _works_on_some(900)


def five_of_eight_for_sure() -> Scene:
    """It does for 40 minutes."""
    return _works_on_some(2400)


def two_of_eight() -> Scene:
    """It works on two of them."""
    return _works_on_some(900, 2)


def some_and_not_watched() -> Scene:
    """It started an hour before gpumon began to watch."""
    return _works_on_some(900, job={"start_at": START_AT - HOUR_S})


def some_out_of_sight() -> Scene:
    """One of its GPUs no longer reports anything, and no telemetry names four more."""
    scene = empty(30.0)
    uuids = scene.node("n1", 8)
    scene.job("42", uuids, gpus_unknown=4)
    scene.run(900, alike(uuids[:5], WORKING), stale=uuids[7:])
    return scene


def nodes_unused() -> Scene:
    """It works on one of six nodes."""
    scene = empty()
    uuids = [uuid for number in range(1, 7) for uuid in scene.node(f"n{number}", 8)]
    scene.job("42", uuids)
    scene.run(720, alike(uuids[:8], WORKING))
    return scene


# slow_startup


def start_with_a_trickle() -> Scene:
    """For 40 minutes a GPU's SMs are active for .4 % of the time, and CPUs work."""
    scene, uuids = job_on_a_node()
    scene.cgroup("42", job_cpu_cores_used=12.0, job_io_read_bytes_per_s=2e8)
    trickle = {"gpu_util_ratio": 0.01, "sm_active_ratio": 0.004}
    scene.run(2400.0, alike(uuids, {**HELD, **trickle}))
    return scene


def _starts(seconds: float, work_s: float = 120.0, job: Mapping[str, Any] = NO_FIELDS) -> Scene:
    """A job whose CPUs work for so long before its GPUs do."""
    scene, uuids = job_on_a_node(job=job)
    scene.cgroup("42", job_cpu_cores_used=12.0, job_io_read_bytes_per_s=2e8)
    scene.run(seconds, alike(uuids, UNUSED))
    if work_s:
        scene.run(work_s, alike(uuids, WORKING))
    return scene


def twelve_minutes_of_start() -> Scene:
    """A job reads and compiles for twelve minutes before its GPUs work."""
    return _starts(720)


def seven_minutes_of_a_short_run() -> Scene:
    """It does for seven minutes of half an hour that it may run."""
    return _starts(420, job={"time_limit_s": 1800.0})


def half_an_hour_of_start() -> Scene:
    """It does for more than half an hour."""
    return _starts(2100)


def start_that_goes_on() -> Scene:
    """It has done so for more than half an hour, and no GPU has worked yet."""
    return _starts(2100, 0)


def start_with_an_opened_gpu() -> Scene:
    """Its processes have opened their GPUs meanwhile."""
    scene, uuids = job_on_a_node()
    scene.cgroup("42", job_cpu_cores_used=12.0, job_io_read_bytes_per_s=2e8)
    scene.run(2100, alike(uuids, UNUSED, process_count=1.0))
    return scene


def start_of_a_build() -> Scene:
    """Of a run of half a day, compilers work for a quarter of an hour, and nothing is copied."""
    scene, uuids = job_on_a_node(job={"time_limit_s": 43_200.0})
    scene.cgroup("42", job_cpu_cores_used=12.0, job_io_read_bytes_per_s=2e6)
    scene.host("n1", net_rx_bytes_per_s=3e6)
    scene.run(900, alike(uuids, UNUSED))
    scene.run(120, alike(uuids, WORKING))
    return scene


def start_beside_traffic() -> Scene:
    """Its node receives for 40 minutes what its own CPUs had no time for."""
    scene, uuids = job_on_a_node()
    scene.cgroup("42", job_cpu_cores_used=0.04, job_io_read_bytes_per_s=0.0)
    scene.host("n1", net_rx_bytes_per_s=4e8)
    scene.run(2400, alike(uuids, HELD))
    return scene


def start_of_a_server() -> Scene:
    """The job's name is a server's."""
    return _starts(720, job={"name": "prep_server"})


def start_of_a_session() -> Scene:
    """The job's name is a notebook's."""
    return _starts(720, job={"name": "jupyter"})


def _loads(load_s: float, wait_s: float) -> Scene:
    scene, uuids = job_on_a_node(job={"time_limit_s": 7200.0})
    scene.cgroup("42", job_cpu_cores_used=12.0, job_io_read_bytes_per_s=2e8)
    scene.run(load_s, alike(uuids, HELD, mem_used_bytes=lambda s: s * 6e10 / load_s))
    scene.cgroup("42", job_cpu_cores_used=2.0, job_io_read_bytes_per_s=0.0)
    scene.run(wait_s, alike(uuids, HELD, mem_used_bytes=6e10))
    return scene


def load_that_is_over() -> Scene:
    """It loads for a quarter of an hour, and then waits with what it loaded."""
    return _loads(900, 600)


def load_and_a_long_wait() -> Scene:
    """It loads for four minutes, and then waits with what it loaded."""
    return _loads(240, 1200)


def session_at_first_sight() -> Scene:
    """It began six hours before gpumon came a minute ago, and slept ever since."""
    job = {**_BY_HAND, "start_at": START_AT - 6 * HOUR_S}
    scene, uuids = job_on_a_node(1, job=job)
    scene.cgroup("42", job_cpu_us=24_000_000)
    scene.run(60.0, alike(uuids, HELD))
    return scene


SCENES: Final[dict[str, tuple[Callable[[], Scene], ...]]] = {
    "interactive_idle": (
        session_for_an_hour,
        session_for_hours,
        session_over_night,
        session_of_the_portal,
        session_with_a_server,
        session_at_first_sight,
    ),
    "partial_gpus_idle": (
        five_of_eight,
        five_of_eight_for_longer,
        five_of_eight_for_sure,
        two_of_eight,
        some_and_not_watched,
        some_out_of_sight,
        nodes_unused,
    ),
    "slow_startup": (
        twelve_minutes_of_start,
        seven_minutes_of_a_short_run,
        half_an_hour_of_start,
        start_that_goes_on,
        start_with_an_opened_gpu,
        start_with_a_trickle,
        start_of_a_build,
        start_beside_traffic,
        start_of_a_server,
        start_of_a_session,
        load_that_is_over,
        load_and_a_long_wait,
    ),
}
PARAMETERS: Final[dict[Callable[[], Scene], dict[str, Any]]] = {
    session_of_the_portal: {"portal_names": "sys/dashboard/jupyter"},
}
