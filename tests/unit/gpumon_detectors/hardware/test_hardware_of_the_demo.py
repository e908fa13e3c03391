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


@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_labelled_is_found_and_nothing_else(seed):
    clock = Hasty(1_760_000_000.0)
    source = DemoSource("demo:", 8, 8, seed, clock, 20.0)
    tick = Sampler([source], clock, 20.0, History).sample_for(3000.0)
    view = view_of(tick)
    findings = [finding for detector in DETECTORS for finding in detector().evaluate(view)]
    broken = {
        (label.finding_class, label.subject)
        for label in source.fleet.labels(clock.time)
        if label.subject.startswith(("gpu:", "node:")) and label.finding_class != "throttled"
    }
    assert len(broken) == 3
    assert {(finding.finding_class, finding.subject) for finding in findings} == broken
    assert {finding.confidence for finding in findings} == {Confidence.ESTABLISHED}
