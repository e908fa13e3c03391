"""Jobs whose kernels are too small to fill a GPU, and those that only look so."""

from __future__ import annotations

import pytest

from gpumon_detectors.work.small_batch import SmallBatch
from tests.unit.gpumon_detectors.idle_scenes import serve
from tests.unit.gpumon_detectors.work_scenes import (
    EXCHANGES,
    FP32,
    GIB,
    PIPES,
    SMALL,
    TRAINS,
    all_do,
    glances,
    running,
)


def findings(scene):
    return list(SmallBatch().evaluate(scene.view()))


def claims(values, seconds=2400.0, *, gpus=1, cores=1.4, **how):
    return findings(running(values, seconds, gpus=gpus, cores=cores, **how))


def test_small_kernels_are_claimed_with_what_they_cost():
    (finding,) = claims(SMALL, gpus=2, cores=2.8)
    assert (finding.subject, finding.confidence) == ("job:42", "supported")
    assert finding.summary.startswith("kernels too small for the GPU, 20 % of the SMs active since")
    texts = [line.text for line in finding.evidence]
    assert "at most 26 % of the memory in use" in texts
    assert "205 W of 700" in texts
    # Usual work keeps half of the SMs active at least.
    assert finding.gpu_seconds == pytest.approx(2 * 2400.0 * 0.6, rel=0.1)


def test_it_grows_surer_with_time():
    steps = {600.0: "hypothesis", 1500.0: "supported", 4500.0: "established"}
    for seconds, confidence in steps.items():
        assert [f.confidence for f in claims(SMALL, seconds)] == [confidence]


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(TRAINS, id="healthy"),
        pytest.param({**SMALL, "gpu_util_ratio": 0.3}, id="hardly at work"),
        pytest.param({**SMALL, "gpu_util_ratio": 0.55, "sm_active_ratio": 0.45}, id="waits"),
        pytest.param({**SMALL, "sm_active_ratio": 0.6}, id="half of the SMs"),
        pytest.param({**SMALL, "dram_active_ratio": 0.42}, id="decoder of tokens"),
        pytest.param({**SMALL, "mem_used_bytes": 70 * GIB}, id="a full cache"),
        pytest.param({**SMALL, "fp32_active_ratio": 0.19}, id="molecular dynamics"),
        pytest.param({**SMALL, "power_w": 400.0}, id="draws much"),
        pytest.param({**SMALL, "encoder_util_ratio": 0.4}, id="transcoding"),
        pytest.param({**SMALL, "pcie_rx_bytes_per_s": 14e9}, id="bound by copies"),
        pytest.param(EXCHANGES, id="bound by its exchange"),
        pytest.param(FP32, id="dense in fp32"),
    ],
)
def test_what_looks_alike_is_not_claimed(values):
    assert claims(values) == []


@pytest.mark.parametrize(("share", "confidence"), [(0.66, "supported"), (0.3, None)])
def test_glances_at_utilisation_once_a_minute_tell_in_the_long_run(share, confidence):
    found = claims({**SMALL, "gpu_util_ratio": glances(share, 5)}, 3600.0, period_s=60.0)
    assert [one.confidence for one in found] == ([confidence] if confidence else [])


def test_ranks_that_wait_for_one_another_are_not_claimed():
    waits = {
        **SMALL,
        "gpu_util_ratio": 1.0,
        "sm_active_ratio": 0.08,
        "tensor_active_ratio": 0.0,
        "dram_active_ratio": 0.01,
    }
    assert claims(waits, gpus=4, cores=5.0) == []


def test_a_kernel_that_spins_is_no_small_one():
    """It touches no memory; so it was on an H200."""
    spins = {**SMALL, "gpu_util_ratio": 1.0, "sm_active_ratio": 0.13, "tensor_active_ratio": 0.0}
    assert len(claims({**spins, "dram_active_ratio": 0.01}, cores=1.0)) == 1
    assert claims({**spins, "dram_active_ratio": 0.0001}, cores=1.0) == []


def test_cpus_at_their_limit_set_the_pace():
    assert claims(SMALL, cores=14.0) == []


def test_simulators_beside_the_gpu_make_it_a_hypothesis():
    (finding,) = claims(SMALL, cores=6.0)
    assert finding.confidence == "hypothesis"
    assert "6.0 CPUs busy for each GPU" in finding.evidence[-1].text


def test_processes_that_wait_for_files_make_it_a_hypothesis():
    scene = running(SMALL, 60.0, gpus=1)
    scene.cgroup("42", job_cpu_cores_used=1.2, job_io_pressure_some_ratio=0.4)
    scene.run(2400.0, {"GPU-n-0": SMALL})
    (finding,) = findings(scene)
    assert finding.confidence == "hypothesis"
    assert finding.evidence[-1].text == "its processes wait for files in 40 % of the time"


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"name": "triton-embed"}, "may be a server"),
        ({"is_interactive": True}, "a session"),
        ({"partition": "gpu-dev"}, "may be a session"),
    ],
)
def test_servers_and_sessions_are_hypotheses(fields, word):
    (finding,) = claims(SMALL, **fields)
    assert finding.confidence == "hypothesis"
    assert any(word in line.text for line in finding.evidence)


def test_bursts_of_requests_are_not_claimed():
    scene = running(TRAINS, 60.0, gpus=1)
    serve(scene, ["GPU-n-0"], 7200.0)
    assert findings(scene) == []


def test_without_profiling_counters_nothing_is_said():
    plain = {key: value for key, value in SMALL.items() if key not in PIPES}
    assert claims(all_do(plain)) == []


def test_one_gpu_of_several_that_works_well_spares_the_job():
    assert claims(lambda place: TRAINS if place == 1 else SMALL, gpus=3, cores=4.0) == []
