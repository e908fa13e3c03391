from __future__ import annotations

import pytest

from gpumon.detect.scene import WORKING, Scene
from gpumon.model.records.cluster import Allocation
from gpumon_detectors.requests.overasked import Overasked

HOUR = 3600.0
GIB = 2.0**30


def findings(scene, **parameters):
    return list(Overasked(**parameters).evaluate(scene.view()))


def asking(seconds, *, gpus=1, cpus=96, mem_gib=64.0, cores=6.0, peak_gib=40.0, node=True):
    """A job on a node of 8 GPUs, 128 CPUs and 1 TiB that asked for so much and uses so much."""
    scene = Scene(period_s=30.0, span_s=24 * HOUR)
    uuids = scene.node("n", 8)
    if node:
        scene.slurm("n", gpu_count=8, cpu_count=128, mem_bytes=1024 * GIB)
    held = (Allocation("n", gpus, None, cpus),)
    scene.job("42", uuids[:gpus], allocations=held, cpu_count=cpus, mem_bytes=mem_gib * GIB)
    scene.cgroup(
        "42",
        job_cpu_cores_used=cores,
        job_mem_peak_bytes=None if peak_gib is None else peak_gib * GIB,
        job_mem_limit_bytes=mem_gib * GIB,
    )
    scene.run(seconds, dict.fromkeys(uuids[:gpus], WORKING))
    return scene


@pytest.mark.parametrize(
    ("seconds", "confidence"),
    [(1800, "hypothesis"), (4200, "supported"), (4.5 * HOUR, "established")],
)
def test_the_claim_grows_with_the_window_as_observed(seconds, confidence):
    (finding,) = findings(asking(seconds))
    assert finding.confidence == confidence


def test_cpus_that_block_gpus_are_told_with_the_right_number():
    (finding,) = findings(asking(4200))
    assert (finding.subject, finding.severity) == ("job:42", "info")
    assert finding.summary.startswith("uses 6 % of its CPUs and keeps 5 GPUs of the node from oth")
    assert [e.text for e in finding.evidence] == [
        "on one node 6.0 of 96 CPUs used at most; the rest keeps 5.0 of its GPUs from other jobs"
    ]
    assert finding.advice == (
        "Next time ask for 8 CPUs a node: sbatch --cpus-per-task",
        "What it asked for: scontrol show job -d 42",
    )
    assert finding.gpu_seconds is None


def test_memory_that_blocks_gpus_is_told_with_the_right_number():
    (finding,) = findings(asking(4200, cpus=16, mem_gib=512.0, peak_gib=40.0))
    assert finding.evidence[0].field == "job_mem_peak_bytes"
    assert finding.summary.startswith("uses 8 % of its memory and keeps 3 GPUs of the node")
    assert finding.advice[0] == "Next time ask for less memory a node: sbatch --mem=50G"


def test_what_holds_on_two_nodes_is_advised_once():
    scene = Scene(period_s=30.0, span_s=24 * HOUR)
    uuids = [scene.node(name, 8)[0] for name in ("n1", "n2")]
    for name in ("n1", "n2"):
        scene.slurm(name, gpu_count=8, cpu_count=128, mem_bytes=1024 * GIB)
    held = tuple(Allocation(name, 1, None, 96) for name in ("n1", "n2"))
    scene.job("42", uuids, allocations=held, cpu_count=192)
    scene.cgroup("42", job_cpu_cores_used=6.0, job_mem_limit_bytes=64 * GIB)
    scene.run(1800, dict.fromkeys(uuids, WORKING))
    (finding,) = findings(scene)
    assert len(finding.evidence) == 2
    assert [line.startswith("Next time") for line in finding.advice] == [True, False]


# Look-alikes


@pytest.mark.parametrize(
    "asked",
    [
        {"cpus": 16},
        {"cpus": 24},
        {"gpus": 8, "cpus": 128, "mem_gib": 1024.0},
        {"cores": 30.0},
        {"cpus": 16, "mem_gib": 512.0, "peak_gib": 200.0},
    ],
    ids=["its share", "half a GPU's more", "the whole node", "CPUs are used", "memory is used"],
)
def test_what_blocks_nobody_or_is_used(asked):
    assert findings(asking(4200, **asked)) == []


def test_cpus_that_are_used_once_an_hour_are_used():
    scene = asking(2400)
    scene.cgroup("42", job_cpu_cores_used=80.0)
    scene.run(180, {})
    scene.cgroup("42", job_cpu_cores_used=6.0)
    scene.run(2400, {})
    assert findings(scene) == []


def test_the_bound_is_a_parameter():
    scene = asking(4200, cores=24.0)
    assert findings(scene) == []
    assert len(findings(scene, used_ratio=0.3)) == 1


# What telemetry does not show


@pytest.mark.parametrize(
    "missing",
    [
        {"cores": None},
        {"cpus": 16, "mem_gib": 512.0, "peak_gib": None},
        {"node": False},
    ],
)
def test_without_the_cgroup_or_slurms_word_on_the_node_nothing_is_claimed(missing):
    assert findings(asking(4200, **missing)) == []


def test_a_limit_above_the_nodes_memory_is_none():
    assert findings(asking(4200, cpus=16, mem_gib=5000.0)) == []
