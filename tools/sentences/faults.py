"""Scenes of GPUs that are broken or gone, and of nodes that are silent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.detect.scene import WORKING, Scene, working
from tools.sentences.stage import alike

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SHORT_PERIOD_S: Final = 10.0
_SHARED_MEMORY: Final = "/dev/shm"
_TEMPORARY: Final = "/tmp"

# gpu_fault


def _node_at_work(
    gpu_count: int = 2, *, period_s: float = _SHORT_PERIOD_S, node: str = "n1", job_id: str = "42"
) -> tuple[Scene, tuple[str, ...]]:
    scene = Scene(period_s)
    uuids = scene.node(node, gpu_count)
    if job_id:
        scene.job(job_id, uuids)
    scene.run(10 * period_s, working(uuids))
    return scene, uuids


def _xids(numbers: Sequence[int]) -> Scene:
    """A node whose driver tells of another Xid on each GPU."""
    scene, uuids = _node_at_work(len(numbers))
    for uuid, number in zip(uuids, numbers, strict=True):
        scene.xid(uuid, number)
    scene.run(_SHORT_PERIOD_S, working(uuids))
    return scene


def xids_that_stop_the_work() -> Scene:
    """The driver reports Xids after which no work goes on."""
    return _xids((79, 48, 119, 136, 54))


def xids_of_the_machine() -> Scene:
    """It reports milder Xids that are the machine's own."""
    return _xids((74, 94, 159, 151, 78, 142))


def xids_to_remember() -> Scene:
    """It reports Xids that may be ignored for now."""
    return _xids((92, 154, 137, 160))


def xids_that_leave_it_open() -> Scene:
    """It reports Xids that leave open whose fault it is."""
    return _xids((39, 999))


def xids_of_programs() -> Scene:
    """It reports Xids that programs cause."""
    return _xids((31, 45, 60, 109, 43, 37))


def memory_errors() -> Scene:
    """Uncorrected memory errors are counted on one GPU, and reported of another one as an event."""
    scene, uuids = _node_at_work()
    scene.gpu(uuids[0], ecc_uncorrected_volatile_count=0)
    scene.run(300, working(uuids))
    scene.gpu(uuids[0], ecc_uncorrected_volatile_count=2)
    scene.run(60, working(uuids))
    scene.xid(uuids[1], None, event_type=0x2)
    scene.run(_SHORT_PERIOD_S, working(uuids))
    return scene


def codes_of_the_driver() -> Scene:
    """One GPU each has a code of the driver, and the last one has two."""
    scene, uuids = _node_at_work(5)
    codes = ("remap_failure", "recovery_action", "remap_pending", "retired_pages_pending")
    for uuid, code in zip(uuids, codes, strict=False):
        scene.gpu(uuid, **{code: 2 if code == "recovery_action" else 1})
    scene.gpu(uuids[4], remap_pending=1, retired_pages_pending=1)
    scene.run(60, working(uuids))
    return scene


def lost_gpu() -> Scene:
    """A GPU falls off the bus, and the others of its job stop working."""
    scene, uuids = _node_at_work(4)
    scene.fall(uuids[3])
    spins = {**WORKING, "gpu_util_ratio": 1.0, "sm_active_ratio": 0.12, "power_w": 205.0}
    scene.run(600, alike(uuids, spins))
    return scene


def fault_without_a_job() -> Scene:
    """A GPU that no job holds is broken."""
    scene, uuids = _node_at_work(1, job_id="")
    scene.gpu(uuids[0], remap_failure=1)
    scene.run(60, working(uuids))
    return scene


def fault_on_an_odd_node() -> Scene:
    """A GPU is broken on a node whose name cannot be part of a command."""
    scene, uuids = _node_at_work(1, node="-n1", job_id="")
    scene.gpu(uuids[0], remap_failure=1)
    scene.run(60, working(uuids))
    return scene


# gpu_missing


def _missing(seconds: float, *, given_elsewhere: int = 4) -> Scene:
    """Two nodes of four GPUs each, one of which loses a GPU."""
    scene = Scene(_SHORT_PERIOD_S)
    uuids = scene.node("n1", 4) + scene.node("n2", 4)
    scene.slurm("n2", gpu_count=given_elsewhere)
    scene.job("42", uuids[:4])
    scene.run(300, working(uuids))
    scene.lose(uuids[2])
    scene.run(seconds, working(uuids))
    return scene


def missing_for_a_moment() -> Scene:
    """A GPU under a job is gone from its node for less than a minute."""
    return _missing(40)


def missing_for_minutes() -> Scene:
    """It is gone for two minutes."""
    return _missing(120)


def missing_for_sure() -> Scene:
    """It is gone for six minutes."""
    return _missing(360)


def missing_at_an_unknown_place() -> Scene:
    """Another node, without a job, has been short of GPUs since before."""
    return _missing(360, given_elsewhere=8)


# telemetry_lost


def _silence(seconds: float, *, errors: Sequence[str] = (), state: str = "mixed") -> Scene:
    """Four nodes of two GPUs each under one job, the last of which says nothing any more."""
    scene = Scene(_SHORT_PERIOD_S)
    uuids = [uuid for name in ("n1", "n2", "n3", "n4") for uuid in scene.node(name, 2)]
    scene.job("42", uuids)
    scene.run(120, working(uuids))
    scene.silence("n4")
    scene.fail("n4", *errors)
    scene.slurm("n4", state=state)
    scene.run(seconds, working(uuids))
    return scene


def silent_for_a_minute() -> Scene:
    """One of four nodes of a job says nothing for a minute."""
    return _silence(60)


def silent_for_minutes() -> Scene:
    """It says nothing for five minutes, its source has an error, and Slurm misses it as well."""
    return _silence(300, errors=("no answer for 30 s",), state="mixed+not_responding")


def silent_for_sure() -> Scene:
    """It says nothing for eleven minutes."""
    return _silence(660)


def given_up() -> Scene:
    """Slurm gives it up after five minutes, and its job ends with it."""
    scene = _silence(300)
    scene.slurm("n4", state="down+not_responding")
    scene.end("42")
    scene.record("42", state="NODE_FAIL", nodes=("n3", "n4"), end_at=scene.next_at)
    scene.run(360, {})
    return scene


def silent_gpus() -> Scene:
    """A GPU says nothing for five minutes beside one that does."""
    scene, uuids = _node_at_work()
    vital = ("temp_c", "power_w", "mem_used_bytes")
    scene.gpu(uuids[1], **dict.fromkeys(vital))
    scene.run(300, working(uuids))
    return scene


# filesystem_full


def _without_room(seconds: float, *paths: str, job: str = "42", before_s: float = 120.0) -> Scene:
    """A while with room, and then none."""
    gib = 2.0**30
    scene = Scene(_SHORT_PERIOD_S)
    uuids = scene.node("n1", 2)
    if job:
        scene.job(job, uuids)
    for path in paths:
        scene.space("n1", path, size_bytes=64 * gib, used_bytes=9 * gib, free_bytes=55 * gib)
    if before_s:
        scene.run(before_s, working(uuids))
    for path in paths:
        scene.space("n1", path, used_bytes=64 * gib, free_bytes=3 * 2.0**20)
    scene.run(seconds, working(uuids))
    return scene


def shared_memory_without_room() -> Scene:
    """Nothing more fits into the shared memory of a job's node for two minutes."""
    return _without_room(120, _SHARED_MEMORY)


def shared_memory_without_room_for_longer() -> Scene:
    """Nothing fits for ten minutes."""
    return _without_room(600, _SHARED_MEMORY)


def shared_memory_and_more_without_room() -> Scene:
    """Nothing fits for twenty minutes, and `/tmp` is full as well; no job is there."""
    return _without_room(1200, _SHARED_MEMORY, _TEMPORARY, job="")


def temporary_files_without_room() -> Scene:
    """Only the disk for temporary files is full, and was so when gpumon began to watch."""
    return _without_room(1200, _TEMPORARY, before_s=0.0)


def temporary_files_of_a_workstation() -> Scene:
    """It is the disk of a machine without a queue."""
    scene = _without_room(600, _TEMPORARY, job="")
    scene.unlist("n1")
    scene.run(_SHORT_PERIOD_S, {})
    return scene


# stuck_completing


def _completing(seconds: float) -> Scene:
    """A job of two nodes ends, and one of its processes stays in the kernel of the second node."""
    scene = Scene(_SHORT_PERIOD_S)
    uuids = scene.node("n1", 2) + scene.node("n2", 2)
    scene.job("42", uuids)
    scene.run(120, working(uuids))
    scene.end("42")
    scene.record("42", state="COMPLETING", nodes=("n2",), end_at=scene.next_at)
    scene.slurm("n2", state="idle+completing")
    scene.process(4711, uuids[2:3], name="python3", job_id="42")
    scene.run(seconds, {})
    return scene


def completing_for_minutes() -> Scene:
    """One of the two nodes of an ended job is completing for three minutes."""
    return _completing(180)


def completing_for_longer() -> Scene:
    """It is completing for eight minutes."""
    return _completing(480)


def completing_for_sure() -> Scene:
    """It is completing for twenty minutes."""
    return _completing(1200)


def completing_without_slurmd() -> Scene:
    """It is completing for eight minutes, and its slurmd does not answer Slurm."""
    scene = _completing(10)
    scene.slurm("n2", state="idle+completing+not_responding")
    scene.run(470, {})
    return scene


SCENES: Final[dict[str, tuple[Callable[[], Scene], ...]]] = {
    "filesystem_full": (
        shared_memory_without_room,
        shared_memory_without_room_for_longer,
        shared_memory_and_more_without_room,
        temporary_files_without_room,
        temporary_files_of_a_workstation,
    ),
    "gpu_fault": (
        xids_that_stop_the_work,
        xids_of_the_machine,
        xids_to_remember,
        xids_that_leave_it_open,
        xids_of_programs,
        memory_errors,
        codes_of_the_driver,
        lost_gpu,
        fault_without_a_job,
        fault_on_an_odd_node,
    ),
    "gpu_missing": (
        missing_for_a_moment,
        missing_for_minutes,
        missing_for_sure,
        missing_at_an_unknown_place,
    ),
    "stuck_completing": (
        completing_for_minutes,
        completing_for_longer,
        completing_for_sure,
        completing_without_slurmd,
    ),
    "telemetry_lost": (
        silent_for_a_minute,
        silent_for_minutes,
        silent_for_sure,
        given_up,
        silent_gpus,
    ),
}
