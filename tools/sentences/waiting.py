"""Scenes of jobs whose ranks wait for one another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpumon.detect.scene import START_AT, WORKING, Scene
from tools.sentences.stage import NO_FIELDS, QUIET_GROUP, QUIET_HOST, alike

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpumon.detect.scene import Values

_PERIOD_S: Final = 10.0
_WORK_S: Final = 1200.0
_PER_NODE: Final = 2

_TRAINING: Final[Values] = {**WORKING, "tensor_active_ratio": 0.3}
_SPINNING: Final[Values] = {
    **WORKING,
    "gpu_util_ratio": 1.0,
    "sm_active_ratio": 0.06,
    "tensor_active_ratio": 0.0,
    "power_w": 160.0,
}
_RESTING: Final[Values] = {
    **_SPINNING,
    "gpu_util_ratio": 0.0,
    "sm_active_ratio": 0.0,
    "power_w": 110.0,
}
_PIPES: Final = ("sm_active_ratio", "tensor_active_ratio")


def _job_on(node_count: int, job: Mapping[str, Any]) -> tuple[Scene, tuple[str, ...]]:
    scene = Scene(_PERIOD_S, span_s=24 * 3600.0)
    names = [f"n{number + 1}" for number in range(node_count)]
    uuids = tuple(uuid for name in names for uuid in scene.node(name, _PER_NODE))
    scene.job("42", uuids, **{"cpu_count": 16 * len(uuids), **job})
    for name in names:
        scene.host(name, **QUIET_HOST, d_state_process_count=0.0)
    scene.cgroup("42", **QUIET_GROUP)
    return scene, uuids


def _stops(
    seconds: float,
    node_count: int = 2,
    *,
    others: Values = _SPINNING,
    rest: int = 1,
    work: Values = _TRAINING,
    cores: float = 2.0,
    group: Mapping[str, Any] = NO_FIELDS,
    job: Mapping[str, Any] = NO_FIELDS,
) -> Scene:
    """A job trains for twenty minutes and stands still; the first `rest` GPUs do not even spin."""
    scene, uuids = _job_on(node_count, job)
    scene.run(_WORK_S, alike(uuids, work))
    scene.cgroup("42", job_cpu_cores_used=cores, **group)
    scene.run(seconds, {**alike(uuids, others), **alike(uuids[:rest], _RESTING)})
    return scene


def hung_for_minutes() -> Scene:
    """Four ranks train on two nodes; then three wait for a fourth for four minutes."""
    return _stops(240.0)


def hung_for_longer() -> Scene:
    """They do for seven minutes, and the job prints nothing."""
    return _stops(420.0, group={"job_output_age_s": 480.0})


def hung_alone() -> Scene:
    """The only GPU of a job trains, and then runs one kernel on for half an hour and more."""
    scene = Scene(_PERIOD_S, span_s=24 * 3600.0)
    uuids = scene.node("n1", 1)
    scene.job("42", uuids, cpu_count=16)
    scene.host("n1", **QUIET_HOST, d_state_process_count=0.0)
    scene.cgroup("42", **QUIET_GROUP)
    scene.run(_PERIOD_S, alike(uuids, _TRAINING))
    scene.cgroup("42", job_output_age_s=6.0)
    scene.run(_WORK_S + 60.0, alike(uuids, _TRAINING))
    scene.cgroup("42", job_output_age_s=1980.0, job_cpu_cores_used=1.0)
    scene.run(1980.0, alike(uuids, {**_SPINNING, "sm_active_ratio": 0.58, "power_w": 310.0}))
    return scene


def hung_alone_and_unheard() -> Scene:
    """It runs one that polls on a few SMs, and the job's output is not seen."""
    scene = Scene(_PERIOD_S, span_s=24 * 3600.0)
    uuids = scene.node("n1", 1)
    scene.job("42", uuids, cpu_count=16)
    scene.host("n1", **QUIET_HOST, d_state_process_count=0.0)
    scene.cgroup("42", **QUIET_GROUP)
    scene.run(_WORK_S, alike(uuids, _TRAINING))
    scene.cgroup("42", job_cpu_cores_used=1.0)
    scene.run(1980.0, alike(uuids, {**_SPINNING, "dram_active_ratio": 0.0}))
    return scene


def hung_for_sure() -> Scene:
    """Those of three nodes wait for all ranks on two others, for a quarter of an hour."""
    return _stops(900.0, rest=2 * _PER_NODE, node_count=5)


def hung_and_all_alike() -> Scene:
    """All of them wait, and none differs."""
    return _stops(900.0, rest=0)


def hung_in_the_kernel() -> Scene:
    """All wait, and on one node two processes do so in the kernel."""
    scene, uuids = _job_on(2, NO_FIELDS)
    scene.run(_WORK_S, alike(uuids, _TRAINING))
    scene.host("n2", d_state_process_count=2.0)
    scene.cgroup("42", job_cpu_cores_used=2.0)
    scene.run(900.0, alike(uuids, _SPINNING))
    return scene


def _hung_for_a_process(field: str) -> Scene:
    """All wait, and the process of the third rank has not gone on since."""
    scene, uuids = _job_on(2, NO_FIELDS)
    scene.process(907, uuids[2:3], job_id="42", **{field: 0.0})
    scene.run(_WORK_S, alike(uuids, _TRAINING))
    scene.process(907, uuids[2:3], job_id="42", **{field: lambda s: s})
    scene.cgroup("42", job_cpu_cores_used=2.0)
    scene.run(420.0, alike(uuids, _SPINNING))
    return scene


def hung_for_a_stopped_process() -> Scene:
    """The process of a rank is stopped."""
    return _hung_for_a_process("process_stopped_s")


def hung_for_a_process_in_the_kernel() -> Scene:
    """That of another waits for a file system."""
    return _hung_for_a_process("process_stuck_s")


def hung_beside_a_neighbour() -> Scene:
    """One process does, on a node that another job uses too."""
    scene = Scene(_PERIOD_S, span_s=24 * 3600.0)
    *uuids, other = scene.node("n1", 3)
    scene.job("42", uuids, cpu_count=32)
    scene.job("43", (other,), cpu_count=16)
    scene.host("n1", **QUIET_HOST, d_state_process_count=0.0)
    scene.cgroup("42", **QUIET_GROUP)
    scene.run(_WORK_S, alike((*uuids, other), _TRAINING))
    scene.host("n1", d_state_process_count=1.0, net_rx_bytes_per_s=3e8)
    scene.cgroup("42", job_cpu_cores_used=2.0)
    scene.run(420.0, {**alike(uuids, _SPINNING), other: _TRAINING})
    return scene


def hung_for_a_silent_node() -> Scene:
    """One of three nodes no longer reports anything, and the ranks on the others wait."""
    scene, uuids = _job_on(3, NO_FIELDS)
    scene.run(_WORK_S, alike(uuids, _TRAINING))
    scene.silence("n3")
    scene.run(420.0, alike(uuids, _SPINNING))
    return scene


def hung_with_a_broken_gpu() -> Scene:
    """A memory row of one GPU breaks, and its job makes no progress."""
    scene, uuids = _job_on(2, NO_FIELDS)
    scene.run(_WORK_S, alike(uuids, _TRAINING))
    broken = alike(uuids[2:3], {**_RESTING, "remap_failure": 1.0})
    scene.run(900.0, {**alike(uuids, _SPINNING), **broken})
    return scene


def _hung_but_for_one(first: Values, others: Values) -> Scene:
    """Four ranks train; then one does something else than all others, for a quarter of an hour."""
    scene, uuids = _job_on(2, NO_FIELDS)
    scene.run(_WORK_S, alike(uuids, _TRAINING))
    scene.cgroup("42", job_cpu_cores_used=2.0)
    scene.run(900.0, {**alike(uuids, others), uuids[0]: first})
    return scene


def hung_for_an_endless_kernel() -> Scene:
    """A kernel of one rank never ends."""
    return _hung_but_for_one({**_SPINNING, "sm_active_ratio": 0.64, "power_w": 340.0}, _SPINNING)


def hung_for_one_that_spins() -> Scene:
    """One spins, and the others wait for it asleep."""
    return _hung_but_for_one(_SPINNING, _RESTING)


def hung_for_a_dead_process() -> Scene:
    """The process of one is gone."""
    return _hung_but_for_one({**_RESTING, "process_count": 0.0}, _RESTING)


def hung_asleep() -> Scene:
    """All rest, and each polls on one CPU."""
    return _stops(900.0, others=_RESTING, rest=0)


def hung_without_counters() -> Scene:
    """Only utilisation and power can be read."""
    work, others = ({k: v for k, v in m.items() if k not in _PIPES} for m in (_TRAINING, _SPINNING))
    return _stops(900.0, others=others, rest=0, work=work)


def hung_while_it_writes() -> Scene:
    """Something is written meanwhile, CPUs are busy, and a line was printed of late."""
    group = {"job_io_write_bytes_per_s": 4e8, "job_output_age_s": 20.0}
    return _stops(900.0, cores=30.0, group=group)


def hung_from_the_start() -> Scene:
    """A job was never seen at work, and has printed nothing for long."""
    scene, uuids = _job_on(2, NO_FIELDS)
    scene.cgroup("42", job_cpu_cores_used=4.0, job_output_age_s=9000.0)
    scene.run(1200.0, alike(uuids, _SPINNING))
    return scene


def hung_before_anybody_watched() -> Scene:
    """It hung for two hours before gpumon came, and has printed nothing for as long."""
    scene, uuids = _job_on(2, {"start_at": START_AT - 5 * 3600.0})
    scene.cgroup("42", job_cpu_cores_used=4.0, job_output_age_s=7300.0)
    scene.run(150.0, alike(uuids, _SPINNING))
    return scene


def hung_on_many() -> Scene:
    """Ten of 32 ranks do not wait with the others, on nodes on which others do."""
    scene, uuids = _job_on(16, NO_FIELDS)
    scene.run(_WORK_S, alike(uuids, _TRAINING))
    scene.run(420.0, {**alike(uuids, _SPINNING), **alike(uuids[:20:2], _RESTING)})
    return scene


SCENES: Final[dict[str, tuple[Callable[[], Scene], ...]]] = {
    "hang": (
        hung_for_minutes,
        hung_for_longer,
        hung_for_sure,
        hung_and_all_alike,
        hung_in_the_kernel,
        hung_for_a_stopped_process,
        hung_for_a_process_in_the_kernel,
        hung_beside_a_neighbour,
        hung_for_a_silent_node,
        hung_with_a_broken_gpu,
        hung_for_an_endless_kernel,
        hung_alone,
        hung_alone_and_unheard,
        hung_for_one_that_spins,
        hung_for_a_dead_process,
        hung_asleep,
        hung_without_counters,
        hung_while_it_writes,
        hung_from_the_start,
        hung_before_anybody_watched,
        hung_on_many,
    )
}
