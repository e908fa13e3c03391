"""The simulated fleet's broken hardware is found, and nothing is wrong with the rest of it."""

from __future__ import annotations

import pytest

from gpumon.detect.scene import view_of
from gpumon.fleet.history.history import History
from gpumon.fleet.sampler.sampler import Sampler
from gpumon.model.finding import Confidence
from gpumon.sources.demo import DemoSource
from gpumon_detectors.hardware.fabric_degraded import FabricDegraded
from gpumon_detectors.hardware.gpu_fault import GpuFault
from gpumon_detectors.hardware.gpu_missing import GpuMissing
from gpumon_detectors.hardware.network_degraded import NetworkDegraded
from gpumon_detectors.hardware.pcie_degraded import PcieDegraded
from gpumon_detectors.hardware.telemetry_lost import TelemetryLost
from gpumon_detectors.hardware.throttled import Throttled
from gpumon_detectors.idle.slow_startup import SlowStartup
from gpumon_detectors.requests.memory_leak import MemoryLeak
from tests.worlds.clocks import Hasty

pytestmark = pytest.mark.slow

DETECTORS = (
    FabricDegraded,
    GpuFault,
    GpuMissing,
    MemoryLeak,
    NetworkDegraded,
    PcieDegraded,
    SlowStartup,
    TelemetryLost,
    Throttled,
)
FOUND_BY = {
    "nvlink_degraded": "fabric_degraded",
    "nic_port_down": "network_degraded",
    "row_remap_pending": "gpu_fault",
}


@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_labelled_is_found_and_nothing_else(seed):
    clock = Hasty(1_760_000_000.0)
    source = DemoSource("demo:", 8, 8, seed, clock, 20.0)
    tick = Sampler([source], clock, 20.0, History).look(3000.0)
    view = view_of(tick)
    findings = [finding for detector in DETECTORS for finding in detector().evaluate(view)]
    broken = {
        label.subject.removeprefix("gpu:"): FOUND_BY[label.finding_class]
        for label in source.fleet.labels(clock.time)
        if label.finding_class in FOUND_BY
    }
    wanted = {
        (name, f"node:{view.gpus[uuid].node}" if name == "network_degraded" else f"gpu:{uuid}")
        for uuid, name in broken.items()
    }
    assert len(wanted) == len(FOUND_BY)
    assert {(finding.detector, finding.subject) for finding in findings} == wanted
    assert {finding.confidence for finding in findings} == {Confidence.ESTABLISHED}
