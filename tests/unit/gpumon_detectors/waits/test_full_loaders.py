"""Loaders that never rest while CPUs are left: what an H200 that waited for four of them showed."""

from __future__ import annotations

import pytest

from gpumon.detect.scene import WORKING, Scene
from gpumon_detectors.waits.checkpoint_stall import CheckpointStall
from gpumon_detectors.waits.input_bound import InputBound
from tests.unit.gpumon_detectors.idle_scenes import QUIET_HOST
from tests.unit.gpumon_detectors.wait_scenes import Job, Part, played, work

ROOMY = Job(gpus=1, cpus=14, processes=7, cpu_pressure=0.0)


def waiting(loaders, spread=0.0):
    """Steps of a second and a bit, for which so many loaders work without a break."""
    return [Part(0.83, cores=loaders + spread), work(0.21, cores=loaders + 0.1 - spread)]


def findings(parts, driver_cores, job=ROOMY, seconds=2400.0, period_s=10.0):
    scene, mine = played(period_s, "none", [(seconds, parts)], job)
    if driver_cores is not None:
        own = {"process_cpu_cores_used": driver_cores}
        scene.process(300, mine, job_id="42", name="python3", **own)
    scene.cgroup("42", job_cpu_cores_used=parts[0].cores, job_cpu_count=14.0, job_process_count=10)
    scene.run(period_s, {mine[0]: {"gpu_util_ratio": 0.2, "sm_active_ratio": 0.15}})
    return list(InputBound().evaluate(scene.view()))


@pytest.mark.parametrize("loaders", [1, 3, 6])
def test_loaders_that_never_rest_are_what_the_gpu_waits_for(loaders):
    (finding,) = findings(waiting(loaders), 0.08)
    assert finding.confidence == "established"
    named = f"{loaders} loader{'s' if loaders > 1 else ''}"
    assert f"its {named} never rest" in finding.summary
    assert f"and {loaders} in other processes of the job" in finding.evidence[-2].text
    assert finding.advice[0] == (
        f"Start more loaders: {14 - loaders} CPUs of the job are left (num_workers=…)."
    )


@pytest.mark.parametrize(
    ("parts", "driver_cores"),
    [
        pytest.param(waiting(3), 0.97, id="it launches kernels, or computes itself"),
        pytest.param(
            [Part(0.41, cores=2.7), work(0.62, cores=2.72)],
            0.7,
            id="as awake while the GPU rests as while it works",
        ),
        pytest.param(waiting(3.3), 0.3, id="awake for more than a quarter of the rests"),
        pytest.param(waiting(3), None, id="nobody tells what it does"),
        pytest.param(waiting(3.4), 0.0, id="no whole number of them"),
        pytest.param(waiting(8.7), 0.0, id="no whole number of many"),
        pytest.param([Part(97.0, cores=5.0), work(83.0, cores=1.0)], 0.1, id="now and then"),
        pytest.param([Part(0.02, cores=3.0), work(0.9, cores=3.0)], 0.1, id="nothing waits"),
        pytest.param(
            [Part(0.83, cores=3.0, io=0.7), work(0.21, cores=3.0, io=0.7)], 0.1, id="reads"
        ),
    ],
)
def test_what_looks_alike_is_not_claimed(parts, driver_cores):
    assert findings(parts, driver_cores) == []


def test_there_must_be_so_many_other_processes():
    """Threads of the one that holds the GPU wait for each other, and look as busy."""
    scene, mine = played(10.0, "none", [(2400.0, waiting(4))], ROOMY._replace(processes=0))
    own = {"process_cpu_cores_used": 0.1}
    scene.process(300, mine, job_id="42", name="python3", **own)
    scene.cgroup("42", job_cpu_cores_used=4.0, job_cpu_count=14.0, job_process_count=2)
    scene.run(10.0, {mine[0]: {"gpu_util_ratio": 0.2, "sm_active_ratio": 0.15}})
    assert list(InputBound().evaluate(scene.view())) == []


def test_loaders_of_several_nodes_are_counted_together():
    scene = Scene(10.0, span_s=24 * 3600.0)
    gpus = [scene.node(name, 1)[0] for name in ("n1", "n2")]
    scene.job("42", gpus, cpu_count=28)
    group = {
        "job_cpu_cores_used": 1.15,
        "job_cpu_count": 14.0,
        "job_process_count": 6.0,
        "job_cpu_pressure_some_ratio": 0.0,
        "job_io_pressure_some_ratio": 0.0,
    }
    for number, (name, gpu) in enumerate(zip(("n1", "n2"), gpus, strict=True)):
        scene.host(name, **QUIET_HOST)
        scene.cgroup("42", name, **group)
        scene.process(300 + number, [gpu], job_id="42", name="python3", process_cpu_cores_used=0.15)
    waits = {**WORKING, "gpu_util_ratio": 0.2, "sm_active_ratio": 0.15}
    scene.run(2400.0, dict.fromkeys(gpus, waits))
    (finding,) = InputBound().evaluate(scene.view())
    assert "its 2 loaders never rest" in finding.summary


LONE = Job(gpus=1, cpus=6, processes=1, cpu_pressure=0.0)


def alone(*, rest_s=1.9, kernel=0.97, sm=0.71, cores=1.0, **other):
    """One program that prepares a batch by itself, and then has its GPU work on it."""
    return [
        Part(rest_s, cores=cores, **other),
        work(0.34, kernel=kernel, sm=sm, cores=cores, rx=2e8),
    ]


@pytest.mark.parametrize("period_s", [5.0, 10.0, 30.0])
def test_a_program_that_prepares_its_data_itself_is_a_guess(period_s):
    (finding,) = findings(alone(), 1.0, LONE, period_s=period_s)
    assert finding.confidence == "hypothesis"
    assert "for its program, which works on a CPU meanwhile" in finding.summary
    assert any("by design" in line.text for line in finding.evidence)
    assert finding.advice[0].startswith("Let other processes prepare the data")
    assert finding.gpu_seconds == pytest.approx(2400.0 * 0.84, rel=0.1)


def test_threads_that_help_it_now_and_then_change_nothing():
    parts = [*12 * alone(cores=1.0), *12 * alone(cores=1.6)]
    assert [one.confidence for one in findings(parts, 1.3, LONE)] == ["hypothesis"]


@pytest.mark.parametrize(("cores", "count"), [(1.0, 1), (0.4, 0), (2.1, 0)])
def test_on_a_node_of_its_own_it_is_told_without_a_control_group(cores, count):
    scene, _ = played(10.0, "none", [(2400.0, alone(cores=cores))], LONE._replace(has_group=False))
    found = list(InputBound().evaluate(scene.view()))
    assert [one.confidence for one in found] == ["hypothesis"] * count


@pytest.mark.parametrize(
    ("parts", "driver_cores", "job"),
    [
        # It sleeps in the rests; nobody tells; others of the job are as busy.
        (alone(cores=0.4), 0.4, LONE),
        (alone(), None, LONE),
        (alone(cores=2.1), 1.0, LONE),
        # Small kernels one by one, and kernels without rests.
        (alone(kernel=0.9, sm=0.12), 1.0, LONE),
        (alone(rest_s=0.03), 1.0, LONE),
        (alone(rest_s=0.2), 1.0, LONE),
        # Copies, or a file system, take the time.
        (alone(rx=7e9), 1.0, LONE),
        (alone(tx=4e8), 1.0, LONE),
        (alone(io=0.6), 1.0, LONE),
        # Ranks poll for one another on a CPU each.
        (alone(), 2.0, LONE._replace(gpus=2)),
    ],
)
def test_what_keeps_a_cpu_full_for_another_reason_is_not_claimed(parts, driver_cores, job):
    assert findings(parts, driver_cores, job) == []


def test_a_cpu_that_is_full_says_nothing_of_who_writes_to_the_node():
    """Pauses of a GPU whose job waits for no I/O, beside a file system that others write to."""
    parts = [work(138.0, cores=1.3), Part(22.0, cores=1.3, written=4e8)]
    scene, _ = played(30.0, "none", [(2700.0, parts)], LONE._replace(has_pressure=False))
    assert list(CheckpointStall().evaluate(scene.view())) == []
