"""Which catalogue field of a GPU is in which section, and under which name."""

from __future__ import annotations

from typing import Final

USE: Final = {
    "sm_active_ratio": "SM active",
    "sm_occupancy_ratio": "SM occupancy",
    "tensor_active_ratio": "tensor pipes",
    "tensor_hmma_active_ratio": "tensor half prec.",
    "tensor_imma_active_ratio": "tensor integer",
    "tensor_dmma_active_ratio": "tensor DMMA",
    "tensor_dfma_active_ratio": "tensor DFMA",
    "dram_active_ratio": "DRAM bandwidth",
    "fp64_active_ratio": "FP64 pipe",
    "fp32_active_ratio": "FP32 pipe",
    "fp16_active_ratio": "FP16 pipe",
    "int_active_ratio": "integer pipe",
    "graphics_active_ratio": "any engine",
    "gpu_util_ratio": "util: any kernel",
    "mem_activity_ratio": "util: any access",
    "encoder_util_ratio": "video encoder",
    "decoder_util_ratio": "video decoder",
}

MEMORY: Final = {
    "mem_used_bytes": "in use",
    "mem_reserved_bytes": "driver's own",
    "mem_total_bytes": "total",
}

POWER: Final = {
    "power_w": "power",
    "power_average_w": "power mean of 1 s",
    "power_limit_w": "power limit",
    "energy_j": "energy so far",
    "temp_c": "core temperature",
    "temp_margin_c": "left until slowed",
    "mem_temp_c": "memory temperature",
    "fan_speed_ratio": "fastest fan",
    "sm_clock_mhz": "SM clock",
    "graphics_clock_mhz": "graphics clock",
    "mem_clock_mhz": "memory clock",
    "perf_state": "performance state",
    "sw_power_cap_ratio": "time: power cap",
    "thermal_violation_ratio": "time: any heat",
    "sw_thermal_ratio": "time: heat (driver)",
    "hw_thermal_ratio": "time: heat (board)",
    "power_brake_ratio": "time: power brake",
}

PCIE: Final = {
    "pcie_gen": "generation",
    "pcie_width": "lanes",
    "pcie_tx_bytes_per_s": "to the host",
    "pcie_rx_bytes_per_s": "from the host",
}

NVLINK: Final = {
    "nvlink_tx_bytes_per_s": "sent by all links",
    "nvlink_rx_bytes_per_s": "got by all links",
    "fabric_state": "fabric",
    "fabric_health": "fabric health",
}

HEALTH: Final = {
    "recovery_action": "driver asks for",
    "remap_pending": "row remap waits",
    "remap_failure": "row remap failed",
    "retired_pages_pending": "page waits",
    "ecc_mode": "ECC",
}

COUNTERS: Final = {
    "PCIe": {
        "pcie_replay_count": "replays",
        "pcie_recovery_count": "retrainings",
        "pcie_correctable_error_count": "correctable",
        "pcie_nonfatal_error_count": "not fatal",
        "pcie_fatal_error_count": "fatal",
        "pcie_receiver_error_count": "receiver",
        "pcie_bad_tlp_count": "bad TLP",
        "pcie_bad_dllp_count": "bad DLLP",
        "pcie_lcrc_error_count": "LCRC",
        "pcie_nak_sent_count": "NAK sent",
        "pcie_nak_received_count": "NAK received",
        "pcie_unsupported_request_count": "unknown requests",
    },
    "NVLink": {
        "nvlink_crc_flit_count": "CRC control",
        "nvlink_crc_data_count": "CRC data",
        "nvlink_replay_count": "replays",
        "nvlink_recovery_count": "recoveries",
        "nvlink_ecc_data_count": "ECC data",
    },
    "Health": {
        "ecc_corrected_volatile_count": "ECC corrected",
        "ecc_uncorrected_volatile_count": "ECC uncorrected",
        "ecc_corrected_aggregate_count": "ECC corrected ever",
        "ecc_uncorrected_aggregate_count": "ECC uncorrected ever",
        "remapped_rows_correctable_count": "rows remapped corrected",
        "remapped_rows_uncorrectable_count": "rows remapped uncorrected",
        "retired_pages_corrected_count": "pages retired corrected",
        "retired_pages_uncorrected_count": "pages retired uncorrected",
    },
}
"""Counters that a section prints side by side; above 0 they are marked."""

SECTIONS: Final = {
    "Use": USE,
    "Memory": MEMORY,
    "Power and clocks": POWER,
    "PCIe": PCIE,
    "NVLink": NVLINK,
    "Health": HEALTH,
}

BESIDE: Final = frozenset(
    {
        "index",
        "open_error",
        "sm_clock_max_mhz",
        "mem_clock_max_mhz",
        "graphics_clock_max_mhz",
        "power_limit_default_w",
        "power_limit_min_w",
        "power_limit_max_w",
        "temp_slowdown_c",
        "temp_shutdown_c",
        "temp_max_c",
        "mem_temp_max_c",
        "clock_event_reasons",
        "pcie_gen_max",
        "pcie_width_max",
        "process_count",
        "compute_process_count",
    }
)
"""Fields that other lines show: limits beside what they limit, the reasons of a low clock."""

PLACED: Final = (
    BESIDE
    | {key for section in SECTIONS.values() for key in section}
    | {key for counters in COUNTERS.values() for key in counters}
)
"""Everything that has its place; what the catalogue has besides goes to the last section."""
