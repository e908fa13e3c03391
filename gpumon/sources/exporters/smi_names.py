"""Names of nvidia_gpu_exporter, which asks nvidia-smi, and what each is in the catalogue.

Its names are those of nvidia-smi's queries (`nvidia-smi --help-query-gpu`) with units at their
ends; its page as its documentation shows it.
"""

from __future__ import annotations

import re
from typing import Final

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.sources.exporters.dcgm_names import Metric, metric_for

PREFIX: Final = "nvidia_smi_"

INFO: Final = f"{PREFIX}gpu_info"
"""Its labels are what a board says of itself."""

BARE_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""It leaves out what NVML's UUIDs begin with."""

_NAMES: Final = {
    "index": ("index", 1.0),
    "utilization_gpu_ratio": ("gpu_util_ratio", 1.0),
    "utilization_memory_ratio": ("mem_activity_ratio", 1.0),
    "utilization_encoder_ratio": ("encoder_util_ratio", 1.0),
    "utilization_decoder_ratio": ("decoder_util_ratio", 1.0),
    "memory_total_bytes": ("mem_total_bytes", 1.0),
    "memory_used_bytes": ("mem_used_bytes", 1.0),
    "memory_reserved_bytes": ("mem_reserved_bytes", 1.0),
    "power_draw_watts": ("power_w", 1.0),
    "enforced_power_limit_watts": ("power_limit_w", 1.0),
    "power_default_limit_watts": ("power_limit_default_w", 1.0),
    "power_min_limit_watts": ("power_limit_min_w", 1.0),
    "power_max_limit_watts": ("power_limit_max_w", 1.0),
    "temperature_gpu": ("temp_c", 1.0),
    "temperature_memory": ("mem_temp_c", 1.0),
    "clocks_current_sm_clock_hz": ("sm_clock_mhz", 1e-6),
    "clocks_max_sm_clock_hz": ("sm_clock_max_mhz", 1e-6),
    "clocks_current_graphics_clock_hz": ("graphics_clock_mhz", 1e-6),
    "clocks_max_graphics_clock_hz": ("graphics_clock_max_mhz", 1e-6),
    "clocks_current_memory_clock_hz": ("mem_clock_mhz", 1e-6),
    "clocks_max_memory_clock_hz": ("mem_clock_max_mhz", 1e-6),
    "clocks_event_reasons_active": ("clock_event_reasons", 1.0),
    "clocks_throttle_reasons_active": ("clock_event_reasons", 1.0),
    "pcie_link_gen_current": ("pcie_gen", 1.0),
    "pcie_link_gen_max": ("pcie_gen_max", 1.0),
    "pcie_link_width_current": ("pcie_width", 1.0),
    "pcie_link_width_max": ("pcie_width_max", 1.0),
    "pstate": ("perf_state", 1.0),
    "fan_speed_ratio": ("fan_speed_ratio", 1.0),
    "persistence_mode": ("persistence_mode", 1.0),
    "ecc_mode_current": ("ecc_mode", 1.0),
    "mig_mode_current": ("mig_mode", 1.0),
    "ecc_errors_corrected_volatile_total": ("ecc_corrected_volatile_count", 1.0),
    "ecc_errors_uncorrected_volatile_total": ("ecc_uncorrected_volatile_count", 1.0),
    "ecc_errors_corrected_aggregate_total": ("ecc_corrected_aggregate_count", 1.0),
    "ecc_errors_uncorrected_aggregate_total": ("ecc_uncorrected_aggregate_count", 1.0),
}
"""Field and scale by what follows the prefix."""


def _metrics() -> dict[str, Metric]:
    named = enumerate(_NAMES.items())
    return {
        PREFIX + name: metric_for(CATALOGUE[key], scale, rank)
        for rank, (name, (key, scale)) in named
    }


SMI: Final = _metrics()
"""What each name means."""
