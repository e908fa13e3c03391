"""Jobs that compute in fp32 beside unused tensor cores, and those that have to."""

from __future__ import annotations

import pytest

from gpumon.detect.scene import Scene
from gpumon_detectors.work.no_tensor_cores import NoTensorCores
from tests.unit.gpumon_detectors.idle_scenes import all_of
from tests.unit.gpumon_detectors.work_scenes import (
    EXCHANGES,
    FP32,
    GIB,
    PIPES,
    SMALL,
    TRAINS,
    all_do,
    running,
    wavy,
)

RAYS = {**FP32, "fp32_active_ratio": 0.33, "dram_active_ratio": 0.11}
"""Light that is traced waits for latencies, not for the memory's bandwidth (Guthe, Eurographics
2014, doi 10.2312/egsh.20141013)."""

MOLECULES = {
    **FP32,
    "mem_used_bytes": 5.5 * GIB,
    "sm_active_ratio": 0.72,
    "fp32_active_ratio": 0.34,
    "dram_active_ratio": 0.29,
}
"""Two million atoms of 3 kB each (NAMD's guide): passes over memory, but little of it."""

CONVOLVES = {
    **FP32,
    "mem_used_bytes": 33.0 * GIB,
    "sm_active_ratio": 0.9,
    "fp32_active_ratio": 0.36,
    "dram_active_ratio": 0.38,
}
"""A network of convolutions in fp32: normalisations and activations pass over memory in between."""


def findings(scene):
    return list(NoTensorCores().evaluate(scene.view()))


def claims(values, seconds=2700.0, *, gpus=2, **how):
    return findings(running(values, seconds, gpus=gpus, **how))


def test_dense_fp32_is_claimed_with_what_it_costs():
    (finding,) = claims(FP32)
    assert (finding.subject, finding.confidence) == ("job:42", "supported")
    assert finding.summary.startswith("computes in fp32 beside unused tensor cores since")
    assert finding.evidence[0].text.startswith("tensor cores 0.0 %; SMs 80 %, fp32 pipes 55 %")
    # Twice as fast on tensor cores.
    assert finding.gpu_seconds == pytest.approx(2 * 2700.0 * 0.485, rel=0.1)


def test_a_little_that_takes_tensor_cores_unasked_changes_nothing():
    """Attention of a training in fp32 did: .023 on an H200."""
    assert len(claims({**FP32, "tensor_active_ratio": 0.03})) == 1


def test_it_grows_surer_with_time():
    steps = {1200.0: "hypothesis", 2700.0: "supported", 8400.0: "established"}
    for seconds, confidence in steps.items():
        assert [f.confidence for f in claims(FP32, seconds, period_s=30.0)] == [confidence]


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(TRAINS, id="healthy"),
        pytest.param({**FP32, "tensor_active_ratio": 0.05}, id="some tensor work"),
        pytest.param({**FP32, "fp64_active_ratio": 0.25}, id="solver in fp64"),
        pytest.param({**FP32, "fp32_active_ratio": 0.12}, id="integers or graphs"),
        pytest.param(RAYS, id="rays of light"),
        pytest.param({**FP32, "dram_active_ratio": 0.72}, id="bound by memory"),
        pytest.param({**FP32, "mem_used_bytes": 2.0 * GIB}, id="molecular dynamics"),
        pytest.param(MOLECULES, id="molecules that outgrow the caches"),
        pytest.param({**MOLECULES, "mem_total_bytes": 40.0 * GIB}, id="the same on half the board"),
        pytest.param({**CONVOLVES, "dram_active_ratio": 0.17}, id="neither dense nor over memory"),
        pytest.param({**CONVOLVES, "fp32_active_ratio": 0.2}, id="mostly passes over memory"),
        pytest.param({**FP32, "sm_active_ratio": 0.4, "fp32_active_ratio": 0.3}, id="waits"),
        pytest.param({**FP32, "encoder_util_ratio": 0.3}, id="video"),
        pytest.param(SMALL, id="small kernels"),
        pytest.param(EXCHANGES, id="bound by its exchange"),
    ],
)
def test_what_looks_alike_is_not_claimed(values):
    assert claims(values) == []


def doubt(finding):
    assert finding.confidence == "hypothesis"
    return finding.evidence[-1].text


def test_where_nothing_speaks_for_matrices_it_is_a_hypothesis():
    (finding,) = claims({**FP32, "mem_used_bytes": 20.0 * GIB, "dram_active_ratio": 0.15})
    assert doubt(finding) == (
        "may multiply no matrices: it uses 25 % of the memory and 15 % of its cycles"
    )


def test_convolutions_and_passes_over_memory_in_turn_are_a_hypothesis():
    """Neither fills the time, so no share of the SMs' is dense; together they do."""
    (finding,) = claims(CONVOLVES)
    assert doubt(finding) == (
        "fp32 pipes are busy for 40 % of what the SMs are, and it passes over memory: so do "
        "convolutions between normalisations, solvers on grids, and renderers"
    )


def test_rays_that_keep_the_memory_as_busy_as_a_network_are_no_more_than_a_guess():
    """Nothing that is measured tells them apart: it is never booked as wasted, and says so."""
    (finding,) = claims({**FP32, "fp32_active_ratio": 0.33})
    assert finding.confidence == "hypothesis"
    assert "renderers" in doubt(finding)


def test_on_a_large_board_a_network_of_a_size_takes_less_than_a_tenth_of_the_memory():
    large = {"mem_total_bytes": 180.0 * GIB, "mem_used_bytes": 13.0 * GIB}
    assert [f.confidence for f in claims({**FP32, **large})] == ["supported"]
    assert [f.confidence for f in claims({**CONVOLVES, **large})] == ["hypothesis"]


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("fp32_active_ratio", "which pipes compute is not reported: it may be integers"),
        ("fp64_active_ratio", "whether fp64 pipes compute is not reported"),
    ],
)
def test_without_the_counters_of_a_pipe_it_is_a_hypothesis(key, words):
    told = {name: value for name, value in FP32.items() if name != key}
    scene = Scene(10.0, span_s=24 * 3600.0)
    uuids = scene.node("n", 2)
    scene.job("42", uuids)
    scene.run(2700.0, all_of(uuids, told))
    (finding,) = findings(scene)
    assert doubt(finding).startswith(words)


@pytest.mark.parametrize(
    ("product", "confidence"),
    [("NVIDIA H200", "supported"), ("NVIDIA Z1 Unheard", "hypothesis")],
)
def test_a_product_must_have_tensor_cores(product, confidence):
    scene = Scene(10.0, span_s=24 * 3600.0)
    uuids = scene.node("n", 2, product)
    scene.job("42", uuids)
    scene.run(2700.0, all_of(uuids, wavy(FP32)))
    assert [f.confidence for f in findings(scene)] == [confidence]


def test_servers_and_sessions_lose_as_much():
    for fields in ({"name": "inference"}, {"is_interactive": True}):
        assert [f.confidence for f in claims(FP32, **fields)] == ["supported"]


def test_without_profiling_counters_nothing_is_said():
    plain = {key: value for key, value in FP32.items() if key not in PIPES}
    assert claims(all_do(plain)) == []
