"""What the tiers read arrives by unit, late where the driver is slow, named where it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpumon.model.missing import Reason
from tests.worlds.probe import Probe

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.frame import Frame
    from tests.lab.standin.driver import Standin

    Start = Callable[..., Standin]

STATE: dict[str, Any] = {
    "power_default_limit_mw": 900_000,
    "power_min_limit_mw": 200_000,
    "power_max_limit_mw": 950_000,
    "temp_mem_c": 71,
    "temp_margin_c": -3,
    "temp_slowdown_c": 88,
    "temp_shutdown_c": 93,
    "mem_clock_mhz": 3001,
    "perf_state": 2,
    "violation_power_ns": 12_345_678_999,
    "slowdown_hw_thermal_ns": 5_000,
    "pcie_replays": 6,
    "ecc_sbe_volatile": 1,
    "ecc_dbe_volatile": 2,
    "ecc_sbe_aggregate": 3,
    "ecc_dbe_aggregate": 4,
    "remapped_correctable": 5,
    "remapped_uncorrectable": 6,
    "remapped_pending": 1,
    "remapped_failure": 1,
    "recovery_action": 4,
    "fabric_clique": 9,
    "fabric_cluster": "00112233445566778899aabbccddeeff",
    "mig_mode": 0,
    "compute_mode": 3,
    "persistence_mode": 0,
    "part_number": "900-2G520-0000-000",
}
"""What the driver is set to, in its own units."""

WANTED = {
    "power_average_w": 140.0,
    "power_limit_default_w": 900.0,
    "power_limit_min_w": 200.0,
    "power_limit_max_w": 950.0,
    "mem_temp_c": 71,
    "temp_slowdown_c": 88,
    "temp_shutdown_c": 93,
    "temp_margin_c": -3,
    "mem_clock_mhz": 3001,
    "mem_clock_max_mhz": 3996,
    "graphics_clock_mhz": 345,
    "graphics_clock_max_mhz": 1965,
    "perf_state": 2,
    "sw_power_cap_us": 12_345_678,
    "hw_thermal_us": 5,
    "pcie_replay_count": 6,
    "pcie_correctable_error_count": 21,
    "pcie_lcrc_error_count": 22,
    "ecc_corrected_volatile_count": 1,
    "ecc_uncorrected_volatile_count": 2,
    "ecc_corrected_aggregate_count": 3,
    "ecc_uncorrected_aggregate_count": 4,
    "remapped_rows_correctable_count": 5,
    "remapped_rows_uncorrectable_count": 6,
    "remap_pending": 1,
    "remap_failure": 1,
    "recovery_action": 4,
    "fabric_state": 3,
    "fabric_clique": 9,
    "fabric_health": 1,
    "mig_mode": 0,
    "compute_mode": 3,
    "persistence_mode": 0,
    "ecc_mode": 1,
}
"""What follows, in the catalogue's."""


def value(frame: Frame, key: str, row: int = 0) -> float | int | None:
    return frame.block("gpu").value(key, row)


def reason(frame: Frame, key: str, row: int = 0) -> Reason | None:
    return frame.block("gpu").reason(key, row)


def test_a_gpu_that_waits_for_a_reset_says_so_and_the_others_are_right(standin: Start) -> None:
    node = standin("h100", gpus=2)
    with Probe() as probe:
        probe.frame()
        node.state.error("*", 16, gpu=0)
        node.state.write()
        frame = probe.next_frame(lambda frame: bool(frame.errors))
    assert {reason(frame, key) for key in ("temp_c", "power_w", "pcie_tx_bytes")} == {Reason.FAILED}
    (error,) = frame.errors
    assert "reset" in f"{error.message} {error.hint}".lower()
    assert value(frame, "temp_c", row=1) == 30


def test_a_slow_driver_is_late_but_whole(standin: Start) -> None:
    node = standin("h100", gpus=2)
    with Probe() as probe:
        probe.frame()
        node.state.latency("*", 20)
        node.state.write()
        frame = [probe.frame() for _ in range(3)][-1]
    assert frame.errors == ()
    assert [value(frame, "temp_c", row) for row in (0, 1)] == [30, 30]
    assert frame.lateness_s > 0.1


def test_what_each_tier_reads_is_right_by_unit(standin: Start) -> None:
    node = standin("b200", gpus=1)
    node.state.set(counters_live=0)
    node.state.gpu(0, **STATE)
    node.state.field(0, 173, 21)
    node.state.field(0, 182, 22)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame()
    gpus = frame.block("gpu")
    found = {key: value(frame, key) for key in WANTED}
    assert found == pytest.approx(WANTED)
    assert {label: gpus.label(label, 0) for label in gpus.labels} == {
        "name": "NVIDIA B200",
        "pci_bus_id": "00000000:1B:00.0",
        "architecture": "Blackwell",
        "compute_capability": "10.0",
        "serial": node.state.values["gpu.0.serial"],
        "board_part": "900-2G520-0000-000",
        "vbios": "97.00.5E.00.01",
        "fabric_cluster": "00112233445566778899aabbccddeeff",
    }


def test_the_share_of_time_under_a_cap_follows_from_its_counter(standin: Start) -> None:
    node = standin("h100", gpus=1)
    with Probe() as probe:
        probe.frame()
        # Far more than any time that can have passed is garbage, not a share.
        node.state.gpu(0, violation_power_ns=10**15)
        node.state.write()
        frame = probe.frame(lambda frame: value(frame, "sw_power_cap_us") == 10**12)
        assert value(frame, "sw_power_cap_ratio") is None
        frame = probe.frame()
    assert value(frame, "sw_power_cap_ratio") == 0.0
