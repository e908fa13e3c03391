"""Hangs at every usual period, with what telemetry suffers: found, and no pause is called one."""

from __future__ import annotations

import pytest

from gpumon_detectors.ranks.hang import Hang
from tests.unit.gpumon_detectors.idle_scenes import played
from tests.unit.gpumon_detectors.noise import TROUBLES

WORKS = {
    "process_count": 1.0,
    "mem_used_bytes": 47.0 * 2**30,
    "mem_total_bytes": 80.0 * 2**30,
    "gpu_util_ratio": 0.93,
    "sm_active_ratio": 0.66,
    "tensor_active_ratio": 0.29,
    "dram_active_ratio": 0.35,
    "power_w": 510.0,
}
WAITS = {
    **WORKS,
    "gpu_util_ratio": 1.0,
    "sm_active_ratio": 0.05,
    "tensor_active_ratio": 0.0,
    "dram_active_ratio": 0.006,
    "power_w": 182.0,
}
LEFT = {**WAITS, "gpu_util_ratio": 0.0, "sm_active_ratio": 0.0, "power_w": 108.0}
WORK_S, STILL_S = 1800.0, 1020.0


def grid(*troubles):
    made = []
    for period_s in (1.0, 10.0, 30.0, 60.0):
        for trouble in troubles:
            is_quick = period_s == 60.0 or (period_s, trouble) == (10.0, "missing")
            marks = () if is_quick else (pytest.mark.slow,)
            made.append(
                pytest.param(period_s, trouble, marks=marks, id=f"{period_s:.0f}-{trouble}")
            )
    return pytest.mark.parametrize(("period_s", "trouble"), made)


def works(_place):
    return WORKS


def stands(place):
    return LEFT if place == 1 else WAITS


def claimed(period_s, trouble, *phases):
    return list(Hang().evaluate(played(period_s, trouble, phases, gpu_count=4)[0].view()))


@grid(*(trouble for trouble in TROUBLES if trouble != "restart"))
def test_a_hang_is_found_and_its_rank_named(period_s, trouble):
    (finding,) = claimed(period_s, trouble, (WORK_S, works, 14.0), (STILL_S, stands, 3.9))
    assert finding.finding_class == "hang"
    assert finding.confidence in ("supported", "established")
    assert finding.summary.endswith("perhaps for n GPU 1")
    assert 4 * 0.6 * STILL_S <= finding.gpu_seconds <= 4 * STILL_S


@grid("restart")
def test_nobody_is_sure_of_a_hang_whose_work_was_before_a_restart(period_s, trouble):
    found = claimed(period_s, trouble, (WORK_S, works, 14.0), (4 * STILL_S, stands, 3.9))
    assert {finding.confidence for finding in found} <= {"hypothesis"}


@grid(*TROUBLES)
def test_training_that_goes_on_is_no_hang(period_s, trouble):
    assert claimed(period_s, trouble, (WORK_S + STILL_S, works, 14.0)) == []


@grid(*TROUBLES)
def test_a_pause_of_two_minutes_is_no_hang(period_s, trouble):
    phases = ((WORK_S, works, 14.0), (110.0, stands, 3.9), (600.0, works, 14.0))
    found = claimed(period_s, trouble, *phases, (110.0, stands, 3.9))
    assert found == []
