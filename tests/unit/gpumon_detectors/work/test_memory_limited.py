"""Jobs that their full memory limits, and those that fill it for other reasons."""

from __future__ import annotations

import random

import pytest

from gpumon_detectors.work.memory_limited import MemoryLimited
from tests.unit.gpumon_detectors.work_scenes import (
    GIB,
    PIPES,
    TRAINS,
    all_do,
    glances,
    played,
    running,
)

FULL = {
    **TRAINS,
    "mem_used_bytes": 75.5 * GIB,
    "gpu_util_ratio": 0.44,
    "sm_active_ratio": 0.22,
    "tensor_active_ratio": 0.07,
    "dram_active_ratio": 0.2,
    "power_w": 280.0,
}


def findings(scene):
    return list(MemoryLimited().evaluate(scene.view()))


def claims(values, seconds=2700.0, *, gpus=2, cores=4.0, **how):
    return findings(running(values, seconds, gpus=gpus, cores=cores, **how))


def test_full_memory_is_claimed_with_what_it_costs():
    (finding,) = claims(FULL)
    assert (finding.subject, finding.confidence) == ("job:42", "supported")
    assert finding.summary.startswith("94 % of the memory full, and small pieces of work")
    assert "fill 50 % of the SMs meanwhile" in finding.evidence[0].text
    assert finding.gpu_seconds == pytest.approx(2 * 2700.0 * 0.51, rel=0.1)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(TRAINS, id="healthy"),
        pytest.param({**TRAINS, "mem_used_bytes": 76.0 * GIB}, id="healthy and full"),
        pytest.param({**FULL, "mem_used_bytes": 66.0 * GIB}, id="room to spare"),
        pytest.param({**FULL, "sm_active_ratio": 0.39}, id="waits for data"),
        pytest.param({**FULL, "dram_active_ratio": 0.33}, id="decodes tokens"),
        pytest.param({**FULL, "tensor_active_ratio": 0.001}, id="no model"),
        pytest.param({**FULL, "pcie_rx_bytes_per_s": 11e9}, id="offloads"),
        pytest.param({**FULL, "gpu_util_ratio": 0.05, "sm_active_ratio": 0.02}, id="rests"),
    ],
)
def test_what_looks_alike_is_not_claimed(values):
    assert claims(values) == []


def test_a_server_that_is_asked_by_chance_is_not_claimed():
    dice = random.Random(7)
    loads = [dice.choice((0.0, 0.1, 0.8, 0.95, 1.0)) for _ in range(1000)]

    def at(share):
        return lambda s: share * loads[int(s // 10)]

    def how(_place):
        return {
            **FULL,
            "gpu_util_ratio": at(0.85),
            "sm_active_ratio": at(0.45),
            "tensor_active_ratio": at(0.1),
        }

    assert claims(how) == []


@pytest.mark.parametrize(("share", "confidence"), [(0.43, "supported"), (0.86, None)])
def test_glances_at_utilisation_once_a_minute_tell_in_the_long_run(share, confidence):
    """The memory breathes as it is freed and asked for again."""
    how = {
        **FULL,
        "gpu_util_ratio": glances(share, 11),
        "mem_used_bytes": lambda s: (68.0 + 6.0 * (s % 900) / 900) * GIB,
    }
    found = claims(how, 5400.0, period_s=60.0)
    assert [one.confidence for one in found] == ([confidence] if confidence else [])


def test_cpus_at_their_limit_and_files_set_the_pace():
    assert claims(FULL, cores=29.0) == []
    scene = running(FULL, 60.0, gpus=2)
    scene.cgroup("42", job_io_pressure_some_ratio=0.3)
    scene.run(2700.0, {f"GPU-n-{place}": FULL for place in range(2)})
    assert findings(scene) == []


def test_what_worked_well_with_full_memory_before_is_limited_by_something_else():
    well = {**TRAINS, "mem_used_bytes": 73.0 * GIB}
    phases = [(900.0, all_do(well), 8.0), (2700.0, all_do(FULL), 4.0)]
    assert findings(played(10.0, "none", phases, 2)[0]) == []


def test_a_server_by_name_and_a_session_are_hypotheses():
    for fields in ({"name": "vllm"}, {"is_interactive": True}):
        assert [f.confidence for f in claims(FULL, **fields)] == ["hypothesis"]


def test_without_profiling_counters_nothing_is_said():
    plain = {key: value for key, value in FULL.items() if key not in PIPES}
    assert claims(all_do(plain)) == []


RESTS = dict.fromkeys(("gpu_util_ratio", *PIPES), 0.0)


@pytest.mark.parametrize(
    ("work_s", "rest_s", "confidence"),
    [
        (700.0, 240.0, "hypothesis"),
        (2000.0, 700.0, "hypothesis"),
        # A checkpoint of three minutes an hour.
        (3420.0, 180.0, "established"),
        (3600.0, 0.0, "established"),
    ],
)
def test_one_that_rests_for_minutes_again_and_again_may_be_a_server(work_s, rest_s, confidence):
    """Its bursts are as steady as steps are, and too few yet to know a server by."""
    phases = [(700.0, all_do(TRAINS), 4.0)]
    while sum(seconds for seconds, *_ in phases) < 7200.0:
        phases += [(work_s, all_do(FULL), 4.0), (rest_s, all_do({**FULL, **RESTS}), 1.0)]
    phases += [(2000.0, all_do(FULL), 4.0)]
    scene, _ = played(10.0, "none", [one for one in phases if one[0]], gpu_count=1)
    assert [one.confidence for one in findings(scene)] == [confidence]
