"""Nodes with everything that hardware rules read, through what telemetry suffers, look by look."""

from __future__ import annotations

import random

from gpumon.detect.contract import declaration_of
from gpumon.detect.engine.finding_life import DetectorResult, Lives, subjects_of
from gpumon.detect.scene import WORKING, Scene
from gpumon.detect.series import unbroken_since
from gpumon.detect.worker.coverage import names_of, places_of
from gpumon_detectors.hardware.fabric_degraded import FabricDegraded
from gpumon_detectors.hardware.gpu_fault import GpuFault
from gpumon_detectors.hardware.gpu_missing import GpuMissing
from gpumon_detectors.hardware.network_degraded import NetworkDegraded
from gpumon_detectors.hardware.pcie_degraded import PcieDegraded
from gpumon_detectors.hardware.telemetry_lost import TelemetryLost
from gpumon_detectors.hardware.throttled import Throttled
from tests.unit.gpumon_detectors.noise import later, stretches, thinned

RULES = (
    FabricDegraded(),
    GpuFault(),
    GpuMissing(),
    NetworkDegraded(),
    PcieDegraded(),
    TelemetryLost(),
    Throttled(),
)
LOOK_EVERY_S = 180.0

FIT = {
    **WORKING,
    "gpu_util_ratio": 0.97,
    "sm_active_ratio": 0.72,
    "tensor_active_ratio": 0.38,
    "clock_event_reasons": 0x0,
    "sm_clock_mhz": 1740.0,
    "sm_clock_max_mhz": 1980.0,
    "power_w": 588.0,
    "power_limit_w": 700.0,
    "hw_thermal_us": 0.0,
    "pcie_gen": 5.0,
    "pcie_width": 16.0,
    "pcie_gen_max": 5.0,
    "pcie_width_max": 16.0,
    "pcie_replay_count": 3.0,
    "ecc_uncorrected_volatile_count": 0.0,
    "remap_failure": 0.0,
    "remap_pending": 0.0,
    "recovery_action": 0.0,
    "fabric_health": 1.0,
    "nvlink_replay_count": 4.0,
    "nvlink_recovery_count": 1.0,
    "nvlink_crc_flit_count": 11.0,
}
"""A sound GPU at work, with errors from before on its counters."""
LINK = {"link_state": 1, "link_speed_bytes_per_s": 26.5e9, "remote_type": "switch"}
PORT = {
    "state": "ACTIVE",
    "phys_state": "LinkUp",
    "nic_speed_gbps": 400.0,
    "nic_rx_bytes_per_s": 7e9,
    "nic_tx_bytes_per_s": 6e9,
    "nic_link_downed": 0,
    "nic_symbol_error": 0,
    "nearest_by": "switch",
}
LINKS = 4


class Fleet:
    """Nodes `m0`, `m1`, … under one job, which looks are taken at as time goes by."""

    def __init__(self, period_s, trouble="none", node_count=1, gpu_count=4, begun_s=0.0, fit=FIT):
        self.scene = Scene(period_s=period_s, span_s=3 * 3600.0)
        self.lives = Lives()
        self.said = []
        self.claimed = []
        self._trouble, self._begun_s, self._fit = trouble, begun_s, fit
        self._dice = random.Random(f"{period_s}{trouble}{node_count}")
        self._evaluated_at = float("-inf")
        self.uuids, self.others = [], []
        for number in range(node_count):
            held = self.scene.node(f"m{number}", gpu_count + (2 if trouble == "shared" else 0))
            self.uuids += held[:gpu_count]
            self.others += held[gpu_count:]
        start_at = self.scene.next_at - begun_s if begun_s else None
        self.scene.job("311", self.uuids, start_at=start_at)
        if self.others:
            self.scene.job("312", self.others)
        for uuid in (*self.uuids, *self.others):
            for link in range(LINKS):
                self.tell("link", uuid, link, **LINK)
        for number in range(node_count):
            for port in range(2):
                near = f"GPU-m{number}-{port}"
                self.tell("nic", f"m{number}", f"mlx5_{port}/1", **{**PORT, "nearest_gpus": near})

    def tell(self, what, *where, **values):
        """Have a GPU, a link or a port report values from now on; a function is asked for each.

        What else a scene may do to one of them is done as it stands.
        """
        if what in ("gpu", "link", "nic"):
            values = later(values, self._begun_s)
            values = thinned(values, self._dice) if self._trouble == "missing" else values
        getattr(self.scene, what)(*where, **values)

    def run(self, seconds, look_every_s=LOOK_EVERY_S):
        """Let time pass, and look now and then."""
        for _, part_s, is_hole in stretches(seconds, self._trouble, look_every_s):
            if is_hole:
                self.scene.skip(part_s)
                continue
            given = {}
            for uuid in (*self.uuids, *self.others):
                is_thin = self._trouble == "missing"
                given[uuid] = thinned(self._fit, self._dice) if is_thin else self._fit
            self.scene.run(part_s, given)
            self._evaluate()

    def _evaluate(self):
        view = self.scene.view()
        looks, self.claimed = [], []
        for rule in RULES:
            claims = tuple(rule.evaluate(view))
            self.said += claims
            self.claimed += claims
            if not any(finding.detector == rule.name for finding in self.said):
                continue
            declared = declaration_of(rule)
            blind = names_of(view, declared, places_of(view, declared)[1])
            looks.append(DetectorResult(rule.name, claims, (0, 1), blind, declared.is_instant))
        since = unbroken_since(view.history, self._evaluated_at, view.now)
        in_view = subjects_of(("311", "312"), view.gpus, view.nodes)
        self.lives.take(view.now, looks, in_view, (), since, view.observed_since)
        self._evaluated_at = view.now

    @property
    def standing(self):
        """Open findings."""
        return self.lives.standing(self._evaluated_at)

    @property
    def cleared(self):
        """Findings that were taken back."""
        return self.lives.cleared(self._evaluated_at)
