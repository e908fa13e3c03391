"""The idle classes side by side: one job is of one class."""

from __future__ import annotations

import pytest

from gpumon.detect.scene import HELD
from gpumon.model.finding_classes import merge
from gpumon.model.records.cluster import Allocation
from gpumon_detectors.idle.cpu_only import CpuOnly
from gpumon_detectors.idle.idle_held import IdleHeld
from gpumon_detectors.idle.idle_tail import IdleTail
from gpumon_detectors.idle.interactive_idle import InteractiveIdle
from gpumon_detectors.idle.never_started import NeverStarted
from gpumon_detectors.idle.partial_gpus_idle import PartialGpusIdle
from gpumon_detectors.requests.overasked import Overasked
from gpumon_detectors.requests.oversized_gpu import OversizedGpu
from tests.unit.gpumon_detectors.idle_scenes import all_of, job_scene, unused, work

HOUR = 3600.0
RULES = (
    CpuOnly(),
    IdleHeld(),
    IdleTail(),
    InteractiveIdle(),
    NeverStarted(),
    OversizedGpu(),
    PartialGpusIdle(),
)


def classes(scene):
    view = scene.view()
    return sorted(f.finding_class for rule in RULES for f in rule.evaluate(view))


def never_started():
    scene, _ = job_scene()
    unused(scene, 5 * HOUR)
    return scene


def cpu_only():
    scene, _ = job_scene()
    scene.cgroup("42", job_cpu_cores_used=8.0)
    unused(scene, 5 * HOUR)
    return scene


def idle_tail():
    scene, uuids = job_scene()
    work(scene, uuids, 4 * HOUR)
    unused(scene, 1.5 * HOUR)
    return scene


def idle_held():
    scene, uuids = job_scene()
    work(scene, uuids, 4 * HOUR)
    scene.run(1.5 * HOUR, all_of(uuids, HELD))
    return scene


def some_left_at_work():
    scene, uuids = job_scene(4)
    work(scene, uuids[:2], 5 * HOUR)
    return scene


def at_work():
    scene, uuids = job_scene(4)
    work(scene, uuids, 5 * HOUR)
    return scene


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (never_started, ["never_started"]),
        (cpu_only, ["cpu_only"]),
        (idle_tail, ["idle_tail"]),
        (idle_held, ["idle_held"]),
        (some_left_at_work, ["partial_gpus_idle"]),
        (at_work, []),
    ],
)
def test_a_batch_job_is_of_one_idle_class(make, expected):
    assert classes(make()) == expected


def test_a_session_that_rests_on_its_memory_is_of_one_class():
    scene, uuids = job_scene(is_interactive=True)
    scene.run(5 * HOUR, all_of(uuids, HELD))
    assert classes(scene) == ["interactive_idle"]


def test_a_job_that_rests_and_asked_for_too_much_is_charged_to_its_rest():
    held = (Allocation("n", 2, None, 96),)
    scene, uuids = job_scene(8)
    scene.end("42")
    scene.slurm("n", gpu_count=8, cpu_count=128, mem_bytes=2.0**40)
    scene.job("42", uuids[:2], allocations=held, cpu_count=96)
    scene.cgroup(
        "42", job_cpu_cores_used=0.01, job_mem_peak_bytes=2.0**30, job_mem_limit_bytes=2.0**36
    )
    unused(scene, 2 * HOUR)
    view = scene.view()
    found = [f for rule in (NeverStarted(), Overasked()) for f in rule.evaluate(view)]
    assert {f.finding_class for f in found} == {"never_started", "overasked"}
    assert merge(found)["job:42"].main.finding_class == "never_started"
