"""Faults that a driver tells of reach a finding: driver, probe, source, sampler, detector."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumon.detect.scene import view_of
from gpumon.fleet.history.history import History
from gpumon.fleet.sampler.sampler import Sampler
from gpumon_detectors.hardware.fabric_degraded import FabricDegraded
from gpumon_detectors.hardware.gpu_fault import GpuFault
from gpumon_detectors.hardware.pcie_degraded import PcieDegraded
from gpumon_detectors.hardware.telemetry_lost import TelemetryLost
from gpumon_detectors.hardware.throttled import Throttled
from tests.unit.fleet.factories import DEVICES, job, node, queue
from tests.worlds.probe_clock import Stepped

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from pathlib import Path

    from gpumon.model.finding import Finding
    from gpumon.model.records.frame import Frame
    from tests.lab.standin.driver import Standin

    Start = Callable[..., Standin]

BEGIN = 1_760_000_000.0
PERIOD_S = 20.0
FAULT_S = 400.0
GPUS = 4
DETECTORS = (Throttled, PcieDegraded, FabricDegraded, GpuFault, TelemetryLost)

LOADED = {
    "util_gpu": 95,
    "sm_clock_mhz": 1600,
    "clock_event_reasons": 0x4,
    "power_mw": 690_000,
    "pcie_gen": 5,
}


class Clock:
    """Time that passes only where somebody waits."""

    def __init__(self) -> None:
        self.passed_s = 0.0

    def now(self) -> float:
        return BEGIN + self.passed_s

    def monotonic(self) -> float:
        return self.passed_s

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.passed_s += max(0.0, seconds)
        return event.is_set()


class Cluster:
    """Node n1 with the stand-in driver and a job, n2 without GPUs; n1 breaks after a while."""

    url = "test:"

    def __init__(self, probe: Stepped, clock: Clock, breaks: Callable[[], None]) -> None:
        self._probe = probe
        self._clock = clock
        self._breaks: Callable[[], None] | None = breaks
        self._asked_s = -PERIOD_S
        self.is_silent = False

    def start(self, wake: Callable[[], None]) -> None:
        wake()

    def poll(self) -> list[Frame]:
        now_s = self._clock.passed_s
        if now_s - self._asked_s < PERIOD_S:
            return []
        self._asked_s = now_s
        if now_s >= FAULT_S and self._breaks:
            self._breaks()
            self._breaks = None
        frame = self._probe.frame(now_s)
        other = frame._replace(node="n2", blocks={"node": frame.block("node")})
        nodes = [node("n1", DEVICES[:GPUS]), node("n2")]
        held = job("42", {"n1": tuple(range(GPUS))}, start_at=BEGIN)
        records = frame._replace(node="", blocks={}, errors=(), queue=queue([held], nodes))
        own = () if self.is_silent else (frame._replace(node="n1"),)
        return [*own, other, records]

    def pending(self) -> bool:
        return False

    def wish(self, wish: object) -> None:
        """Nothing is zoomed into."""

    def close(self) -> None:
        """The probe is closed where it was opened."""


def findings(
    standin: Start, root: Path, seconds: float, fault: Callable[[Standin, Cluster], object]
) -> list[Finding]:
    """What all detectors say after so long, where a fault begins at `FAULT_S`."""
    driver = standin("h100", gpus=GPUS, node="n1")
    driver.state.set(counters_live=0, gpm_min_interval_ms=0)
    for gpu in range(GPUS):
        driver.state.gpu(gpu, **LOADED)
    driver.state.write()

    def breaks() -> None:
        fault(driver, cluster)
        driver.state.write()

    clock = Clock()
    with Stepped(root) as probe:
        cluster = Cluster(probe, clock, breaks)
        sampler = Sampler([cluster], clock, PERIOD_S, History)
        tick = sampler.sample_for(seconds)
        sampler.close()
    view = view_of(tick)
    assert [len(look.gpus) for look in view.jobs] == [GPUS]
    return [finding for detector in DETECTORS for finding in detector().evaluate(view)]


@pytest.mark.parametrize(
    ("detector", "fault", "words"),
    [
        (
            "throttled",
            lambda driver, _: driver.state.gpu(2, clock_event_reasons=0x40, sm_clock_mhz=800),
            "hardware thermal slowdown, 50 % of the clock lost",
        ),
        (
            "pcie_degraded",
            lambda driver, _: driver.state.gpu(2, pcie_width=4),
            "PCIe gen 5 x4 under load instead of gen 5 x16",
        ),
        (
            "fabric_degraded",
            lambda driver, _: driver.state.link(2, 7, state=0),
            "1 of 18 NVLinks inactive",
        ),
        (
            "gpu_fault",
            lambda driver, _: driver.state.gpu(2, ecc_dbe_volatile=2),
            "2 uncorrected memory errors",
        ),
        (
            "gpu_fault",
            lambda driver, _: driver.state.gpu(2, recovery_action=1),
            "the driver asks for recovery: reset the GPU",
        ),
        ("gpu_fault", lambda driver, _: driver.state.lose(2), "fell off the bus"),
    ],
)
def test_a_broken_gpu_is_found_with_its_onset_and_nothing_else_is(
    detector, fault, words, standin, tmp_path
):
    (finding,) = findings(standin, tmp_path, 1100.0, fault)
    assert finding.detector == detector
    assert "n1 GPU 2" in finding.summary
    assert words in finding.summary
    # What the probe reads every 30 s may come a sample later.
    assert 0 <= finding.onset - (BEGIN + FAULT_S) <= 2 * PERIOD_S
    assert finding.confidence != "hypothesis"


def test_an_xid_is_found_while_the_driver_tells_of_it(standin, tmp_path):
    (finding,) = findings(standin, tmp_path, FAULT_S + 20, lambda d, _: d.state.event(2, 79))
    assert finding.detector == "gpu_fault"
    assert "Xid 79" in finding.summary
    assert finding.onset == BEGIN + FAULT_S


def test_a_programs_xid_is_told_as_such(standin, tmp_path):
    (finding,) = findings(standin, tmp_path, FAULT_S + 20, lambda d, _: d.state.event(2, 31))
    assert (finding.finding_class, finding.severity) == ("program_error", "info")


def test_a_node_that_vanishes_is_found(standin, tmp_path):
    def vanish(_, cluster):
        cluster.is_silent = True

    (finding,) = findings(standin, tmp_path, 1100.0, vanish)
    assert (finding.detector, finding.subject) == ("telemetry_lost", "node:n1")
    assert finding.onset == BEGIN + FAULT_S
    assert finding.confidence == "established"


def test_a_sound_cluster_has_no_findings(standin, tmp_path):
    assert findings(standin, tmp_path, 1100.0, lambda *_: None) == []
