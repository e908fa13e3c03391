"""Work that is not done well, at every usual period and with what telemetry suffers."""

from __future__ import annotations

import pytest

from gpumon.model.finding import Confidence
from gpumon_detectors.work.comm_bound import CommBound
from gpumon_detectors.work.copy_bound import CopyBound
from gpumon_detectors.work.memory_limited import MemoryLimited
from gpumon_detectors.work.no_tensor_cores import NoTensorCores
from gpumon_detectors.work.small_batch import SmallBatch
from tests.unit.gpumon_detectors.work_scenes import (
    EXCHANGES,
    FP32,
    GIB,
    SMALL,
    TRAINS,
    TROUBLES,
    running,
)

RULES = (CommBound(), CopyBound(), MemoryLimited(), NoTensorCores(), SmallBatch())
QUICK = {(10.0, "missing"), (60.0, "missing"), (60.0, "restart"), (60.0, "holes")}

COPIES = {
    **TRAINS,
    "gpu_util_ratio": 0.5,
    "sm_active_ratio": 0.36,
    "tensor_active_ratio": 0.18,
    "pcie_rx_bytes_per_s": 15e9,
}
FULL = {
    **TRAINS,
    "mem_used_bytes": 75.5 * GIB,
    "gpu_util_ratio": 0.42,
    "sm_active_ratio": 0.21,
    "tensor_active_ratio": 0.07,
    "dram_active_ratio": 0.19,
}

BADLY = {
    "copy_bound": (COPIES, 3000.0, 0.45),
    "memory_limited": (FULL, 5400.0, 0.53),
    "comm_bound": (EXCHANGES, 3000.0, 0.54),
    "small_batch": (SMALL, 4200.0, 0.6),
    "no_tensor_cores": (FP32, 5400.0, 0.485),
}
"""What it shows, for how long, and the share of it that is lost."""

WELL = {
    "training": TRAINS,
    "mixture of experts": {
        **EXCHANGES,
        "sm_active_ratio": 0.5,
        "nvlink_rx_bytes_per_s": 9e10,
        "nvlink_tx_bytes_per_s": 9e10,
    },
    "decoding": {**SMALL, "dram_active_ratio": 0.5, "mem_used_bytes": 72.0 * GIB},
    "molecular dynamics": {
        **FP32,
        "sm_active_ratio": 0.6,
        "fp32_active_ratio": 0.36,
        "dram_active_ratio": 0.15,
        "mem_used_bytes": 2.0 * GIB,
    },
    "optimizer on the host": {
        **COPIES,
        "pcie_tx_bytes_per_s": 14e9,
        "mem_used_bytes": 74.0 * GIB,
    },
    "solver": {
        **FP32,
        "fp32_active_ratio": 0.03,
        "fp64_active_ratio": 0.3,
        "dram_active_ratio": 0.65,
    },
}


def everywhere(cases):
    for case in cases:
        for period_s in (1.0, 10.0, 30.0, 60.0):
            for trouble in TROUBLES:
                marks = () if (period_s, trouble) in QUICK else (pytest.mark.slow,)
                name = f"{case}, {period_s:.0f} s, {trouble}"
                yield pytest.param(case, period_s, trouble, marks=marks, id=name)


def findings(scene):
    view = scene.view()
    return [finding for rule in RULES for finding in rule.evaluate(view)]


@pytest.mark.parametrize(("case", "period_s", "trouble"), [*everywhere(BADLY)])
def test_it_is_found_and_charged(case, period_s, trouble):
    values, seconds, share = BADLY[case]
    scene = running(values, seconds, period_s=period_s, trouble=trouble, gpus=2, cores=2.6)
    (finding,) = findings(scene)
    assert finding.finding_class == case
    assert finding.confidence is not Confidence.HYPOTHESIS
    seen_s = seconds / 2 if trouble == "restart" else seconds
    assert finding.gpu_seconds == pytest.approx(2 * seen_s * share, rel=0.15)


@pytest.mark.parametrize(("case", "period_s", "trouble"), [*everywhere(WELL)])
def test_nobody_is_accused(case, period_s, trouble):
    scene = running(WELL[case], 4200.0, period_s=period_s, trouble=trouble, gpus=2, cores=2.6)
    assert findings(scene) == []
