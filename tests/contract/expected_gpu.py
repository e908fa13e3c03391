"""What a scripted stand-in GPU must arrive as: for every field the driver's number and its unit.

The driver's own units are those of nvml.h: mW, mJ, KiB, MB/s, nanoseconds, percent.
Numbers differ from field to field and from GPU to GPU, so that fields that are mixed up show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.lab.standin.state import State

    Raw = Mapping[str, float]
    Reckon = Callable[[Raw], float]

GAP_S: Final = 50
"""Time between the two reports: every tier has its turn in both."""

MODES: Final = {
    "persistence_mode": (1, 0, 0),
    "ecc_mode": (0, 1, 0),
    "retired_pending": (1, 0, 1),
    "remapped_pending": (0, 0, 1),
    "remapped_failure": (1, 1, 0),
    "event_types": (0x8 | 0x2 | 0x1, 0x8 | 0x8000, 0x8),
}
"""What hardly has values enough, for the first, second, and third GPU."""

LEVELS: Final = {
    "util_gpu": 87,
    "util_mem": 43,
    "util_encoder": 12,
    "util_decoder": 7,
    "mem_used_bytes": 61_000_000_007,
    "mem_total_bytes": 85_000_000_011,
    "mem_reserved_bytes": 591_000_013,
    "power_mw": 612_345,
    "power_limit_mw": 650_001,
    "power_enforced_limit_mw": 640_003,
    "power_default_limit_mw": 690_005,
    "power_min_limit_mw": 210_007,
    "power_max_limit_mw": 710_009,
    "energy_mj": 123_456_789_123,
    "temp_c": 64,
    "temp_mem_c": 71,
    "temp_slowdown_c": 87,
    "temp_shutdown_c": 92,
    "temp_mem_max_c": 97,
    "temp_gpu_max_c": 83,
    "temp_margin_c": 23,
    "fan_percent": 33,
    "fan_2_percent": 52,
    "sm_clock_mhz": 1755,
    "graphics_clock_mhz": 1701,
    "mem_clock_mhz": 2611,
    "video_clock_mhz": 1211,
    "sm_clock_max_mhz": 1985,
    "graphics_clock_max_mhz": 1951,
    "mem_clock_max_mhz": 2651,
    "video_clock_max_mhz": 1551,
    "clock_event_reasons": 0x44,
    "perf_state": 3,
    "pcie_gen": 2,
    "pcie_gen_max": 5,
    "pcie_gen_gpu_max": 8,
    "pcie_width": 4,
    "pcie_width_max": 16,
    "pcie_replays": 35,
    "ecc_sbe_volatile": 11,
    "ecc_dbe_volatile": 14,
    "ecc_sbe_aggregate": 17,
    "ecc_dbe_aggregate": 20,
    "retired_sbe": 23,
    "retired_dbe": 26,
    "remapped_correctable": 29,
    "remapped_uncorrectable": 32,
    "recovery_action": 41,
    "compute_mode": 44,
    "fabric_clique": 111,
    "fabric_status": 101,
    "fabric_health": 121,
}
"""Keys of the stand-in's state for the first GPU; each GPU after it has one more."""

NEW_KEYS: Final = (
    "power_enforced_limit_mw",
    "graphics_clock_mhz",
    "graphics_clock_max_mhz",
    "fabric_status",
    "fabric_health",
)
"""Not in the profiles: without them the stand-in answers with a key that is."""

COUNTERS: Final = {
    "pcie_tx_bytes": (2**61 + 1, 1_234_567),
    "pcie_rx_bytes": (2**60 + 3, 7_654_321),
    "violation_power_ns": (11_000_000_999, 250_000_000),
    "violation_thermal_ns": (12_000_000_999, 500_000_000),
    "slowdown_sw_thermal_ns": (13_000_000_999, 125_000_000),
    "slowdown_hw_thermal_ns": (14_000_000_999, 375_000_000),
    "slowdown_hw_brake_ns": (15_000_000_999, 62_500_000),
}
"""Where each stands at first, and what it gains per second; the second GPU twice as much,
and of times only a quarter."""

GPM: Final = {
    1: 71.5,
    2: 61.5,
    3: 31.5,
    4: 22.25,
    5: 47.25,
    6: 3.5,
    7: 41.5,
    8: 5.5,
    9: 9.5,
    10: 36.5,
    11: 17.5,
    12: 25.5,
    13: 51.5,
}
"""Percent by metric id; one more on each GPU after the first."""

FIELD_VALUES: Final = {
    186: 598_765,
    185: 577_123,
    169: 51,
    173: 54,
    174: 57,
    175: 60,
    176: 63,
    177: 66,
    178: 69,
    179: 72,
    180: 75,
    181: 78,
    182: 81,
}
"""By field id, what no key of the state tells apart: power in mW, PCIe errors."""

LINK_COUNTS: Final = ("tx_bytes", "rx_bytes", "replays", "recoveries", "crc_flit", "crc_data")
NEWER_LINK_FIELDS: Final = (208, 212, 213, 214, 215, 219, 220, 221, 222)
SLEEPING: Final = 1
"""The link that is in state 2 instead of 1, and therefore has no speed."""


def link_raw(gpu: int, link: int, step: int) -> dict[str, float]:
    """One NVLink as the driver has it; KiB are whole, for the driver counts in them."""
    own = 100 * gpu + link
    return {
        "state": 2 if link == SLEEPING else 1,
        "speed_mbps": 20_011 + own,
        "version": 1 + link + 40 * gpu,
        "tx_bytes": 1024 * (100_001 + own + step * GAP_S * (11 + own)),
        "rx_bytes": 1024 * (200_003 + own + step * GAP_S * (1_011 + own)),
        "replays": 1_000 + own,
        "recoveries": 2_000 + own,
        "crc_flit": 3_000 + own,
        "crc_data": 4_000 + own,
        "ecc_data": 5_000 + own,
    }


def newer_link_value(gpu: int, link: int, field: int) -> int:
    """What an error field of NVLink 5 says; the first link has its own, the others share one."""
    return 7_000 + 10 * field + 3 * gpu + (1 if link == 0 else 0)


def gpu_raw(gpu: int, step: int) -> dict[str, float]:
    """Every number of one GPU in the driver's units."""
    raw: dict[str, float] = {key: level + gpu for key, level in LEVELS.items()}
    raw.update({key: values[gpu] for key, values in MODES.items()})
    for key, (base, gain) in COUNTERS.items():
        raw[key] = base + gpu + step * GAP_S * gain * (gpu + 1) // (4 if key.endswith("ns") else 1)
    raw.update({f"gpm.{metric}": percent + gpu for metric, percent in GPM.items()})
    raw.update({f"field.{field}": value + gpu for field, value in FIELD_VALUES.items()})
    raw.update(index=gpu, minor=(5, 3, 7)[gpu], fabric_state=3)
    return raw


def script(state: State, step: int, gpus: int) -> None:
    """Make the stand-in say it; what its profile does not have stays away."""
    newest = int(state.values.get("field_id_max", "9999"))
    for gpu in range(gpus):
        for key, value in gpu_raw(gpu, step).items():
            if key.startswith("field."):
                number = int(key[6:])
                is_told = number in (185, 186) or f"gpu.{gpu}.{key}" in state.values
                if is_told and number <= newest:
                    state.field(gpu, number, value)
            elif key in NEW_KEYS or state.values.get(f"gpu.{gpu}.{key}", "n/a") != "n/a":
                state.gpu(gpu, **{key: value})
        for link in range(_links(state, gpu)):
            state.link(gpu, link, **link_raw(gpu, link, step))
            for field in NEWER_LINK_FIELDS:
                if f"gpu.{gpu}.field.{field}" in state.values and link < 2:
                    scope = link if link == 0 else None
                    state.field(gpu, field, newer_link_value(gpu, link, field), scope)


def _links(state: State, gpu: int) -> int:
    count = state.values.get(f"gpu.{gpu}.nvlink_count", "n/a")
    return 0 if count == "n/a" else int(count)


def _same(key: str) -> Reckon:
    return lambda raw: raw[key]


def _times(key: str, factor: float) -> Reckon:
    return lambda raw: raw[key] * factor


def _over(key: str, divisor: float) -> Reckon:
    return lambda raw: raw[key] / divisor


def _whole(key: str, divisor: int) -> Reckon:
    return lambda raw: int(raw[key]) // divisor


GPU: Final[Mapping[str, Reckon]] = {
    "index": _same("index"),
    "open_error": lambda _raw: 0,
    "minor_number": _same("minor"),
    "gpu_util_ratio": _over("util_gpu", 100),
    "mem_activity_ratio": _over("util_mem", 100),
    "graphics_active_ratio": _over("gpm.1", 100),
    "sm_active_ratio": _over("gpm.2", 100),
    "sm_occupancy_ratio": _over("gpm.3", 100),
    "int_active_ratio": _over("gpm.4", 100),
    "tensor_active_ratio": _over("gpm.5", 100),
    "tensor_dfma_active_ratio": _over("gpm.6", 100),
    "tensor_hmma_active_ratio": _over("gpm.7", 100),
    "tensor_dmma_active_ratio": _over("gpm.8", 100),
    "tensor_imma_active_ratio": _over("gpm.9", 100),
    "dram_active_ratio": _over("gpm.10", 100),
    "fp64_active_ratio": _over("gpm.11", 100),
    "fp32_active_ratio": _over("gpm.12", 100),
    "fp16_active_ratio": _over("gpm.13", 100),
    "mem_used_bytes": _same("mem_used_bytes"),
    "mem_total_bytes": _same("mem_total_bytes"),
    "mem_reserved_bytes": _same("mem_reserved_bytes"),
    "power_w": _over("field.186", 1000),
    "power_average_w": _over("field.185", 1000),
    "power_limit_w": _over("power_enforced_limit_mw", 1000),
    "power_limit_default_w": _over("power_default_limit_mw", 1000),
    "power_limit_min_w": _over("power_min_limit_mw", 1000),
    "power_limit_max_w": _over("power_max_limit_mw", 1000),
    "energy_j": _whole("energy_mj", 1000),
    "temp_c": _same("temp_c"),
    "mem_temp_c": _same("temp_mem_c"),
    "temp_margin_c": _same("temp_margin_c"),
    "fan_speed_ratio": _over("fan_2_percent", 100),
    "temp_slowdown_c": _same("temp_slowdown_c"),
    "temp_shutdown_c": _same("temp_shutdown_c"),
    "temp_max_c": _same("temp_gpu_max_c"),
    "mem_temp_max_c": _same("temp_mem_max_c"),
    "sm_clock_mhz": _same("sm_clock_mhz"),
    "sm_clock_max_mhz": _same("sm_clock_max_mhz"),
    "mem_clock_mhz": _same("mem_clock_mhz"),
    "mem_clock_max_mhz": _same("mem_clock_max_mhz"),
    "graphics_clock_mhz": _same("graphics_clock_mhz"),
    "graphics_clock_max_mhz": _same("graphics_clock_max_mhz"),
    "clock_event_reasons": _same("clock_event_reasons"),
    "perf_state": _same("perf_state"),
    "pcie_gen": _same("pcie_gen"),
    "pcie_gen_max": _same("pcie_gen_max"),
    "pcie_width": _same("pcie_width"),
    "pcie_width_max": _same("pcie_width_max"),
    "pcie_tx_bytes": _same("pcie_tx_bytes"),
    "pcie_rx_bytes": _same("pcie_rx_bytes"),
    "pcie_tx_bytes_per_s": lambda raw: 1_234_567 * (raw["index"] + 1),
    "pcie_rx_bytes_per_s": lambda raw: 7_654_321 * (raw["index"] + 1),
    "sw_power_cap_us": _whole("violation_power_ns", 1000),
    "thermal_violation_us": _whole("violation_thermal_ns", 1000),
    "sw_thermal_us": _whole("slowdown_sw_thermal_ns", 1000),
    "hw_thermal_us": _whole("slowdown_hw_thermal_ns", 1000),
    "power_brake_us": _whole("slowdown_hw_brake_ns", 1000),
    "sw_power_cap_ratio": lambda raw: 0.25 * (raw["index"] + 1) / 4,
    "thermal_violation_ratio": lambda raw: 0.5 * (raw["index"] + 1) / 4,
    "sw_thermal_ratio": lambda raw: 0.125 * (raw["index"] + 1) / 4,
    "hw_thermal_ratio": lambda raw: 0.375 * (raw["index"] + 1) / 4,
    "power_brake_ratio": lambda raw: 0.0625 * (raw["index"] + 1) / 4,
    "encoder_util_ratio": _over("util_encoder", 100),
    "decoder_util_ratio": _over("util_decoder", 100),
    "process_count": lambda raw: raw["index"] + 1,
    "compute_process_count": lambda raw: raw["index"] + 1,
    "pcie_replay_count": _same("pcie_replays"),
    "pcie_recovery_count": _same("field.169"),
    "pcie_correctable_error_count": _same("field.173"),
    "pcie_nak_received_count": _same("field.174"),
    "pcie_receiver_error_count": _same("field.175"),
    "pcie_bad_tlp_count": _same("field.176"),
    "pcie_nak_sent_count": _same("field.177"),
    "pcie_bad_dllp_count": _same("field.178"),
    "pcie_nonfatal_error_count": _same("field.179"),
    "pcie_fatal_error_count": _same("field.180"),
    "pcie_unsupported_request_count": _same("field.181"),
    "pcie_lcrc_error_count": _same("field.182"),
    "ecc_mode": _same("ecc_mode"),
    "ecc_corrected_volatile_count": _same("ecc_sbe_volatile"),
    "ecc_uncorrected_volatile_count": _same("ecc_dbe_volatile"),
    "ecc_corrected_aggregate_count": _same("ecc_sbe_aggregate"),
    "ecc_uncorrected_aggregate_count": _same("ecc_dbe_aggregate"),
    "retired_pages_corrected_count": _same("retired_sbe"),
    "retired_pages_uncorrected_count": _same("retired_dbe"),
    "retired_pages_pending": _same("retired_pending"),
    "remapped_rows_correctable_count": _same("remapped_correctable"),
    "remapped_rows_uncorrectable_count": _same("remapped_uncorrectable"),
    "remap_pending": _same("remapped_pending"),
    "remap_failure": _same("remapped_failure"),
    "recovery_action": _same("recovery_action"),
    "fabric_state": _same("fabric_state"),
    "fabric_status": _same("fabric_status"),
    "fabric_clique": _same("fabric_clique"),
    "fabric_health": _same("fabric_health"),
    "persistence_mode": _same("persistence_mode"),
    "compute_mode": _same("compute_mode"),
    "watched_events": lambda raw: (0x8 | 0x2, 0x8 | 0x8000, 0x8)[int(raw["index"])],
}
"""Fields of a GPU that the driver tells of the GPU itself; NVLink totals follow from the links."""

LINK: Final[Mapping[str, Reckon]] = {
    "link_state": _same("state"),
    "link_speed_bytes_per_s": lambda raw: 0 if raw["state"] == 2 else raw["speed_mbps"] * 1e6,
    "link_version": _same("version"),
    "link_tx_bytes": _same("tx_bytes"),
    "link_rx_bytes": _same("rx_bytes"),
    "link_replay_count": _same("replays"),
    "link_recovery_count": _same("recoveries"),
    "link_crc_count": _same("crc_flit"),
}
"""Fields of a link up to NVLink 4."""

NEWER_LINK: Final = {
    "link_receive_error_count": 208,
    "link_transmit_discard_count": 212,
    "link_recovery_success_count": 213,
    "link_recovery_failed_count": 214,
    "link_recovery_event_count": 215,
    "link_effective_error_count": 219,
    "link_effective_ber": 220,
    "link_symbol_error_count": 221,
    "link_symbol_ber": 222,
}
"""Fields of a link that only NVLink 5 has, by the driver's field id."""
