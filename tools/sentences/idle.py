"""Scenes of jobs, and of users without a job, that let all GPUs rest that they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpumon.detect.scene import HELD, START_AT, UNUSED, WORKING
from tools.sentences.stage import (
    HOUR_S,
    LONG_PERIOD_S,
    NO_FIELDS,
    PERIOD_S,
    QUIET_GROUP,
    QUIET_HOST,
    alike,
    empty,
    job_on_a_node,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpumon.detect.scene import Scene, Values


def _rests(
    values: Values, rest_s: float, *, work_s: float = 900.0, job: Mapping[str, Any] = NO_FIELDS
) -> Scene:
    """A job that computes and then rests, its CPUs and its I/O quiet."""
    period_s = PERIOD_S if rest_s < 2 * HOUR_S else LONG_PERIOD_S
    scene, uuids = job_on_a_node(period_s=period_s, job=job)
    if work_s:
        scene.cgroup("42", job_cpu_cores_used=6.0)
        scene.run(work_s, alike(uuids, WORKING))
        scene.cgroup("42", **QUIET_GROUP)
    scene.run(rest_s, alike(uuids, values))
    return scene


def _moves_data(values: Values, work_s: float = 900.0) -> Scene:
    """A job that does everything but compute."""
    scene, uuids = job_on_a_node()
    if work_s:
        scene.run(work_s, alike(uuids, WORKING))
    scene.cgroup("42", job_io_read_bytes_per_s=3e8)
    scene.host("n1", net_rx_bytes_per_s=3e8, disk_write_bytes_per_s=2e8)
    scene.nic("n1", "mlx5_0/1", nic_rx_bytes_per_s=3e8, nic_tx_bytes_per_s=1e6)
    scene.mount("n1", "/data", fs_read_bytes_per_s=3e8, fs_write_bytes_per_s=0.0)
    scene.run(2400, alike(uuids, values))
    return scene


def _beside_another(values: Values, work_s: float = 900.0) -> Scene:
    """A job whose CPU time is not told, on a node on which another one computes."""
    scene = empty()
    uuids = scene.node("n1", 4)
    scene.job("42", uuids[:2], cpu_count=32)
    scene.job("43", uuids[2:], cpu_count=32)
    scene.host("n1", cpu_busy_ratio=0.4, cpu_count=64.0, net_rx_bytes_per_s=3e8)
    if work_s:
        scene.run(work_s, alike(uuids, WORKING))
    scene.run(2400, {**alike(uuids[:2], values), **alike(uuids[2:], WORKING)})
    return scene


def _in_company(values: Values, work_s: float, read: float) -> tuple[Scene, Mapping[str, Values]]:
    """A job whose own CPUs rest, beside another one that reads; and what their GPUs do."""
    scene, counted = empty(), {"read": read, "write": 0.0}
    uuids = scene.node("n1", 4)
    scene.job("42", uuids[:2], cpu_count=32)
    scene.job("43", uuids[2:], cpu_count=32)
    scene.host("n1", **{**QUIET_HOST, "net_rx_bytes_per_s": 2e4 + 1.05 * read})
    io = {f"process_io_{way}_bytes_per_s": rate for way, rate in counted.items()}
    scene.process(11, uuids[2:], job_id="43", **io)
    scene.cgroup("42", job_cpu_us=20_000_000, **QUIET_GROUP)
    if work_s:
        scene.cgroup("42", job_cpu_cores_used=6.0)
        scene.run(work_s, alike(uuids, WORKING))
        scene.cgroup("42", **QUIET_GROUP)
    return scene, {**alike(uuids[:2], values), **alike(uuids[2:], WORKING)}


def _beside_bursts(values: Values, work_s: float = 900.0) -> Scene:
    """The other one fetches data every few minutes."""
    scene, now = _in_company(values, work_s, 0.0)
    for _ in range(20):
        scene.host("n1", net_rx_bytes_per_s=QUIET_HOST["net_rx_bytes_per_s"])
        scene.run(150, now)
        scene.host("n1", net_rx_bytes_per_s=4e8)
        scene.run(60, now)
    return scene


def _beside_a_reader(values: Values, work_s: float = 900.0) -> Scene:
    """A process of the other one reads its data all the while."""
    scene, now = _in_company(values, work_s, 4e8)
    scene.run(4200, now)
    return scene


def _out_of_sight(values: Values, work_s: float = 900.0) -> Scene:
    """A job of whose CPUs nothing is told."""
    scene, uuids = job_on_a_node()
    scene.cgroup("42", job_cpu_cores_used=None)
    scene.host("n1", cpu_busy_ratio=None)
    if work_s:
        scene.run(work_s, alike(uuids, WORKING))
    scene.run(2400, alike(uuids, values))
    return scene


# never_started


def untouched_since_the_start() -> Scene:
    """A job does nothing for the 20 minutes since it began."""
    return _rests(UNUSED, 1200, work_s=0)


def untouched_for_an_hour() -> Scene:
    """It does nothing for 70 minutes."""
    return _rests(UNUSED, 4200, work_s=0)


def untouched_but_for_a_desktop() -> Scene:
    """Only what draws was on its GPUs."""
    return _rests({**UNUSED, "process_count": 2.0, "compute_process_count": 0.0}, 1200, work_s=0)


def _unwatched(hours: float, cpu_s: float | None, seconds: float, cores: float = 0.01) -> Scene:
    """A job that began some hours before gpumon came, and had used so much CPU time by then."""
    period_s = PERIOD_S if seconds < 2 * HOUR_S else LONG_PERIOD_S
    scene, _ = job_on_a_node(period_s=period_s, job={"start_at": START_AT - hours * HOUR_S})
    scene.cgroup("42", job_cpu_cores_used=cores)
    if cpu_s is not None:
        scene.cgroup("42", job_cpu_us=round(1e6 * cpu_s))
    scene.run(seconds, {})
    return scene


def untouched_and_not_watched() -> Scene:
    """It started an hour before gpumon began to watch, and what it used by then is not known."""
    return _unwatched(1, None, 1200)


def untouched_by_its_cpu_time() -> Scene:
    """It had used half a minute of CPU time by then."""
    return _unwatched(1, 31.0, 1200)


def untouched_at_first_sight() -> Scene:
    """It began four hours before gpumon came a minute ago, and slept ever since."""
    return _unwatched(4, 31.0, 60)


def untouched_in_doubt() -> Scene:
    """It had used a quarter of an hour of CPU time by then."""
    return _unwatched(1, 900.0, 1200)


def untouched_while_data_are_staged() -> Scene:
    """It stages data all the while."""
    return _moves_data(UNUSED, 0)


def untouched_beside_another_job() -> Scene:
    """Its CPU time is not known, and another job computes on its node."""
    return _beside_another(UNUSED, 0)


def untouched_beside_bursts_of_another_job() -> Scene:
    """Another job fetches data every few minutes, while its own CPUs rest."""
    return _beside_bursts(UNUSED, work_s=0.0)


def untouched_beside_a_reader_of_another_job() -> Scene:
    """A process of another job reads all the while, and is counted to read as much."""
    return _beside_a_reader(UNUSED, work_s=0.0)


def untouched_out_of_sight() -> Scene:
    """Neither its CPU time nor its node's is known."""
    return _out_of_sight(UNUSED, 0)


# idle_held


def held_after_a_short_run() -> Scene:
    """A job computes for a quarter of an hour, and then holds memory for 50 minutes."""
    return _rests(HELD, 3000)


def held_for_an_hour() -> Scene:
    """It holds memory for 70 minutes."""
    return _rests(HELD, 4200)


def held_for_hours() -> Scene:
    """It holds memory for two and a half hours."""
    return _rests(HELD, 9000)


def held_since_before() -> Scene:
    """The job started five hours before gpumon began to watch, and was never seen at work."""
    return _rests(HELD, 8400, work_s=0, job={"start_at": START_AT - 5 * HOUR_S})


def held_while_data_are_copied() -> Scene:
    """It copies to its GPUs and moves data meanwhile."""
    return _moves_data({**HELD, "pcie_rx_bytes_per_s": 4e8})


def held_while_a_program_spins() -> Scene:
    """One of its programs spins on a CPU, for two and a half hours."""
    scene, uuids = job_on_a_node(period_s=LONG_PERIOD_S)
    scene.run(900, alike(uuids, WORKING))
    scene.cgroup("42", job_cpu_cores_used=1.0)
    scene.run(9000, alike(uuids, HELD))
    return scene


def held_while_its_ranks_poll() -> Scene:
    """Each of its ranks keeps a CPU busy, as one that waits for the others."""
    scene, uuids = job_on_a_node(period_s=LONG_PERIOD_S)
    scene.run(900, alike(uuids, WORKING))
    scene.cgroup("42", job_cpu_cores_used=1.02 * len(uuids))
    scene.run(9000, alike(uuids, HELD))
    return scene


def held_beside_another_job() -> Scene:
    """Its CPU time is not known, and another job computes on its node."""
    return _beside_another(HELD)


def held_beside_bursts_of_another_job() -> Scene:
    """Another job fetches data every few minutes, while its own CPUs rest."""
    return _beside_bursts(HELD)


def held_beside_a_reader_of_another_job() -> Scene:
    """A process of another job reads all the while, and is counted to read as much."""
    return _beside_a_reader(HELD)


def held_out_of_sight() -> Scene:
    """Neither its CPU time nor its node's is known."""
    return _out_of_sight(HELD)


def held_by_a_server() -> Scene:
    """The job's name is a server's."""
    return _rests(HELD, 3000, job={"name": "llm-serve"})


def _served(values: Values) -> Scene:
    """A server that nobody has asked anything for five hours."""
    scene, uuids = job_on_a_node(1, period_s=LONG_PERIOD_S)
    for _ in range(4):
        scene.run(120, alike(uuids, WORKING))
        scene.run(600, alike(uuids, values))
    scene.run(5 * HOUR_S, alike(uuids, values))
    return scene


def held_after_bursts() -> Scene:
    """It worked in bursts, as servers do, and has rested for five hours since."""
    return _served(HELD)


# idle_tail


def done_and_held() -> Scene:
    """A job is done with its GPUs, and keeps them for 20 minutes."""
    return _rests(UNUSED, 1200)


def done_and_held_for_an_hour() -> Scene:
    """It keeps them for 70 minutes."""
    return _rests(UNUSED, 4200)


def done_before_it_was_watched() -> Scene:
    """Between its last process and the rest that was seen lies a gap in the telemetry."""
    scene, uuids = job_on_a_node(job={"start_at": START_AT - HOUR_S})
    scene.run(60, alike(uuids, HELD))
    scene.run(600, {})
    scene.skip(4200)
    scene.run(1200, {})
    return scene


def done_by_its_cpu_time() -> Scene:
    """It ran for five hours before gpumon began to watch, and worked by then."""
    return _unwatched(5, 31e3, 1200)


def done_but_data_are_uploaded() -> Scene:
    """It moves data meanwhile."""
    return _moves_data(UNUSED)


def done_beside_another_job() -> Scene:
    """Its CPU time is not known, and another job computes on its node."""
    return _beside_another(UNUSED)


def done_beside_bursts_of_another_job() -> Scene:
    """Another job fetches data every few minutes, while its own CPUs rest."""
    return _beside_bursts(UNUSED)


def done_beside_a_reader_of_another_job() -> Scene:
    """A process of another job reads all the while, and is counted to read as much."""
    return _beside_a_reader(UNUSED)


def done_out_of_sight() -> Scene:
    """Neither its CPU time nor its node's is known."""
    return _out_of_sight(UNUSED)


def done_by_a_server() -> Scene:
    """The job's name is a server's."""
    return _rests(UNUSED, 1200, job={"name": "llm-serve"})


def done_after_bursts() -> Scene:
    """It worked in bursts, as servers do, and has rested for five hours since."""
    return _served(UNUSED)


# cpu_only


def _computes_on_cpus(seconds: float) -> Scene:
    scene, _ = job_on_a_node(period_s=LONG_PERIOD_S)
    scene.cgroup("42", job_cpu_cores_used=14.0)
    scene.run(seconds, {})
    return scene


def cpus_for_half_an_hour() -> Scene:
    """A job computes on 14 of its CPUs, and on none of its GPUs, for half an hour."""
    return _computes_on_cpus(1800)


def cpus_for_an_hour() -> Scene:
    """It does for 70 minutes."""
    return _computes_on_cpus(4200)


def cpus_for_hours() -> Scene:
    """It does for more than two hours."""
    return _computes_on_cpus(7500)


def cpus_as_before() -> Scene:
    """It began four hours before gpumon started, and as many CPUs were busy then."""
    return _unwatched(4, 14.0 * 4 * HOUR_S, 4200, cores=14.0)


def cpus_while_data_are_brought_in() -> Scene:
    """It reads beside a few busy CPUs for 70 minutes."""
    scene, _ = job_on_a_node(period_s=LONG_PERIOD_S)
    scene.cgroup("42", job_cpu_cores_used=3.0, job_io_read_bytes_per_s=8e7)
    scene.run(4200, {})
    return scene


def cpus_beside_a_loaded_gpu() -> Scene:
    """It does for five hours with memory held on its GPUs, and is named like a server."""
    scene, uuids = job_on_a_node(period_s=LONG_PERIOD_S, job={"name": "vllm"})
    scene.cgroup("42", job_cpu_cores_used=1.0)
    scene.run(5 * HOUR_S, alike(uuids, HELD))
    return scene


# held_by_user

_QUIET_PROCESS: Final[dict[str, Any]] = {
    "process_cpu_cores_used": 0.01,
    "process_io_read_bytes_per_s": 0.0,
    "process_io_write_bytes_per_s": 2e4,
}


def _workstation(hours: float, period_s: float = PERIOD_S, **process: object) -> Scene:
    """A machine that no queue lists, on one of whose GPUs a process holds memory."""
    scene = empty(period_s)
    (first, _) = scene.node("desk", 2)
    scene.unlist("desk")
    scene.host("desk", **QUIET_HOST)
    scene.process(311, [first], **{"uid": 1007, "name": "python", **_QUIET_PROCESS, **process})
    scene.run(hours * HOUR_S, {first: HELD})
    return scene


def a_notebook_overnight() -> Scene:
    """A user's process on a machine without a queue holds memory for more than two hours."""
    return _workstation(2.2, LONG_PERIOD_S)


def a_hidden_user() -> Scene:
    """Whose process it is, and what it is called, is hidden."""
    return _workstation(0.8, uid=None, name=None)


def a_process_that_computes_on_cpus() -> Scene:
    """It computes on CPUs meanwhile, and reads."""
    return _workstation(
        2.2, LONG_PERIOD_S, process_cpu_cores_used=9.0, process_io_read_bytes_per_s=3e8
    )


def a_server_on_a_workstation() -> Scene:
    """The process is a server's by its name."""
    return _workstation(0.8, name="vllm")


def a_process_out_of_sight() -> Scene:
    """Neither its CPU time nor the machine's is known."""
    scene = _workstation(0.1, process_cpu_cores_used=None)
    scene.host("desk", cpu_busy_ratio=None)
    scene.run(HOUR_S, {"GPU-desk-0": HELD})
    return scene


def a_second_user_at_work() -> Scene:
    """Its CPU time is not known, and another user works on the machine's other GPU."""
    scene = _workstation(0.1, LONG_PERIOD_S, process_cpu_cores_used=None)
    scene.process(402, ["GPU-desk-1"], uid=1008, name="python", **_QUIET_PROCESS)
    scene.host("desk", cpu_busy_ratio=0.4, net_rx_bytes_per_s=3e8)
    scene.run(2.2 * HOUR_S, {"GPU-desk-0": HELD, "GPU-desk-1": WORKING})
    return scene


SCENES: Final[dict[str, tuple[Callable[[], Scene], ...]]] = {
    "never_started": (
        untouched_since_the_start,
        untouched_for_an_hour,
        untouched_but_for_a_desktop,
        untouched_and_not_watched,
        untouched_by_its_cpu_time,
        untouched_at_first_sight,
        untouched_in_doubt,
        untouched_while_data_are_staged,
        untouched_beside_another_job,
        untouched_beside_bursts_of_another_job,
        untouched_beside_a_reader_of_another_job,
        untouched_out_of_sight,
    ),
    "idle_held": (
        held_after_a_short_run,
        held_for_an_hour,
        held_for_hours,
        held_since_before,
        held_while_data_are_copied,
        held_while_a_program_spins,
        held_while_its_ranks_poll,
        held_beside_another_job,
        held_beside_bursts_of_another_job,
        held_beside_a_reader_of_another_job,
        held_out_of_sight,
        held_by_a_server,
        held_after_bursts,
    ),
    "idle_tail": (
        done_and_held,
        done_and_held_for_an_hour,
        done_before_it_was_watched,
        done_by_its_cpu_time,
        done_but_data_are_uploaded,
        done_beside_another_job,
        done_beside_bursts_of_another_job,
        done_beside_a_reader_of_another_job,
        done_out_of_sight,
        done_by_a_server,
        done_after_bursts,
    ),
    "cpu_only": (
        cpus_for_half_an_hour,
        cpus_for_an_hour,
        cpus_for_hours,
        cpus_as_before,
        cpus_while_data_are_brought_in,
        cpus_beside_a_loaded_gpu,
    ),
    "held_by_user": (
        a_notebook_overnight,
        a_hidden_user,
        a_process_that_computes_on_cpus,
        a_server_on_a_workstation,
        a_process_out_of_sight,
        a_second_user_at_work,
    ),
}
