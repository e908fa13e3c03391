"""Exporters' names of what the catalogue knows of GPUs, and how they count.

The catalogue has one DCGM name of each field; here is what else it is called, before and after 4.6
and by nvidia-smi, and in which unit.
"""

from __future__ import annotations

import re
from math import nextafter
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.units import MIB

if TYPE_CHECKING:
    from gpumon.model.catalogue.field import Field

PREFIX: Final = "DCGM_"
"""With this begins every metric of dcgm-exporter, also those of its own (`DCGM_EXP_…`)."""

_DEV: Final = "DCGM_FI_DEV_"
_PROF: Final = "DCGM_FI_PROF_"

_OTHERS: Final = {
    "gpu_util_ratio": (_DEV + "GPU_UTIL_RATIO",),
    "sm_active_ratio": (_PROF + "SM_UTIL_RATIO",),
    "sm_occupancy_ratio": (_PROF + "SM_OCCUPANCY_RATIO",),
    "tensor_active_ratio": (_PROF + "TENSOR_UTIL_RATIO",),
    "dram_active_ratio": (_PROF + "DRAM_UTIL_RATIO",),
    "graphics_active_ratio": (_PROF + "GR_ENGINE_UTIL_RATIO",),
    "int_active_ratio": (_PROF + "INT_UTIL_RATIO",),
    "tensor_dfma_active_ratio": (_PROF + "DFMA_UTIL_RATIO",),
    "tensor_hmma_active_ratio": (_PROF + "HMMA_UTIL_RATIO",),
    "tensor_imma_active_ratio": (_PROF + "IMMA_UTIL_RATIO",),
    "fp64_active_ratio": (_PROF + "FP64_UTIL_RATIO",),
    "fp32_active_ratio": (_PROF + "FP32_UTIL_RATIO",),
    "fp16_active_ratio": (_PROF + "FP16_UTIL_RATIO",),
    "power_w": (
        *(_DEV + "POWER_USAGE_INSTANT", _DEV + "BOARD_POWER_RAW_WATTS"),
        *(_DEV + "POWER_USAGE", _DEV + "BOARD_POWER_WATTS"),
    ),
    "power_limit_w": (
        *(_DEV + "ENFORCED_POWER_LIMIT", _DEV + "BOARD_POWER_LIMIT_ENFORCED_WATTS"),
        *(_DEV + "POWER_MGMT_LIMIT", _DEV + "BOARD_POWER_LIMIT_REQUESTED_WATTS"),
    ),
    "power_limit_default_w": (_DEV + "BOARD_POWER_LIMIT_DEFAULT_WATTS",),
    "power_limit_min_w": (_DEV + "BOARD_POWER_LIMIT_MIN_WATTS",),
    "power_limit_max_w": (_DEV + "BOARD_POWER_LIMIT_MAX_WATTS",),
    "temp_c": (_DEV + "GPU_TEMP_CELSIUS",),
    "mem_temp_c": (_DEV + "MEMORY_TEMP_CELSIUS",),
    "temp_slowdown_c": (_DEV + "GPU_TEMP_SLOWDOWN_CELSIUS",),
    "temp_shutdown_c": (_DEV + "GPU_TEMP_SHUTDOWN_CELSIUS",),
    "temp_max_c": (_DEV + "GPU_MAX_OP_TEMP_CELSIUS",),
    "mem_temp_max_c": (_DEV + "MEMORY_MAX_OP_TEMP_CELSIUS",),
    "temp_margin_c": (_DEV + "GPU_TEMP_LIMIT",),
    "clock_event_reasons": (_DEV + "CLOCK_THROTTLE_REASONS",),
    "sw_power_cap_us": (_DEV + "CLOCKS_EVENT_REASON_SW_POWER_CAP_NS",),
    "perf_state": (_DEV + "GPU_PSTATE",),
    "pcie_replay_count": (_DEV + "PCIE_REPLAY_TOTAL",),
    "pcie_correctable_error_count": (_DEV + "PCIE_CORRECTABLE_ERROR_TOTAL",),
    "nvlink_crc_flit_count": (_DEV + "NVLINK_CRC_FLIT_ERROR_TOTAL",),
    "nvlink_crc_data_count": (_DEV + "NVLINK_CRC_DATA_ERROR_TOTAL",),
    "nvlink_replay_count": (_DEV + "NVLINK_REPLAY_ERROR_TOTAL",),
    "nvlink_recovery_count": (_DEV + "NVLINK_RECOVERY_ERROR_TOTAL",),
    "nvlink_ecc_data_count": (_DEV + "NVLINK_ECC_ERROR_TOTAL",),
    "retired_pages_corrected_count": (_DEV + "PAGE_RETIRED_SBE_TOTAL",),
    "retired_pages_uncorrected_count": (_DEV + "PAGE_RETIRED_DBE_TOTAL",),
    "retired_pages_pending": (_DEV + "PAGE_RETIRED_PENDING",),
    "remapped_rows_correctable_count": (_DEV + "ROW_REMAP_CORRECTABLE_TOTAL",),
    "remapped_rows_uncorrectable_count": (_DEV + "ROW_REMAP_UNCORRECTABLE_TOTAL",),
    "remap_failure": (_DEV + "ROW_REMAP_FAILED",),
    "ecc_mode": (_DEV + "ECC_MODE",),
    "xid": (_DEV + "XID_ERROR",),
}
"""What each field is called besides the catalogue's name, the best first: the names of 4.6 (its
`dcgm_fields.py`), and where two quantities are one field, the one that the catalogue means."""

FREE: Final = _DEV + "FB_FREE"
"""Memory that is free, which is no field: with what is used it makes the whole, where the exporter
does not report that, as it does not by default."""

_SCALES: Final = {"J": 1e-3, "us": 1e-3}
"""DCGM counts millijoules and nanoseconds; some exporters' help says microseconds, wrongly."""


ZERO_IS_NONE: Final = frozenset({"mem_temp_c"})
"""Fields of which DCGM reports 0 where the board has no such sensor (seen of a T4 and an L40S): no
memory at work is as cold as that."""


class Metric(NamedTuple):
    """What one name of DCGM means."""

    field: Field
    scale: float
    """By this the value is multiplied."""
    rank: int
    """Of several names of one field the lowest counts."""
    low: float
    high: float
    """Between them a value in the catalogue's unit is no garbage."""
    is_whole: bool
    """Whether frames hold it as a whole number."""
    mig_key: str
    """The field of a MIG instance that it is where the series is about one; empty: none."""

    @property
    def is_of_instance(self) -> bool:
        """Whether a series about an instance shows nothing of the whole GPU."""
        return bool(self.mig_key) or self.field.unit in ("ratio", "bytes", "bytes/s")


def _scale(field: Field, name: str) -> float:
    if field.unit == "ratio":
        # Utilisation by NVML is in per cent, also where 4.6 calls it a ratio.
        return 0.01 if name.startswith(_DEV) else 1.0
    if "_FB_" in name:
        return MIB
    return _SCALES.get(field.unit, 1.0)


def metric_for(field: Field, scale: float, rank: int, mig_key: str = "") -> Metric:
    """What a name means that has a field in some unit."""
    is_whole = field.kind.is_integer
    # Beyond a whole column's largest number lies no value; the next float below it is one.
    high = min(field.high, nextafter(2.0**63, 0.0)) if is_whole else field.high
    low = nextafter(0.0, 1.0) if field.key in ZERO_IS_NONE else field.low
    return Metric(
        field=field, scale=scale, rank=rank, low=low, high=high, is_whole=is_whole, mig_key=mig_key
    )


def _mig_key(key: str) -> str:
    """The field of an instance that is the same as one of a GPU; empty: there is none."""
    return f"mig_{key}" if f"mig_{key}" in CATALOGUE else ""


def _metrics() -> dict[str, Metric]:
    found = {}
    for field in CATALOGUE.values():
        others = _OTHERS.get(field.key, ())
        names = others if field.dcgm in others else (field.dcgm, *others)
        mig_key = _mig_key(field.key)
        for rank, name in enumerate(names if field.dcgm else ()):
            found[name] = metric_for(field, _scale(field, name), rank, mig_key)
    free = CATALOGUE["mem_total_bytes"]
    # It must not be taken for the whole itself.
    found[FREE] = metric_for(free._replace(key=FREE), MIB, 0, FREE)
    return found


METRICS: Final = _metrics()
"""What each name means."""


COUNTED: Final = {
    f"{name}_total": metric._replace(rank=metric.rank + len(METRICS))
    for name, metric in METRICS.items()
}
"""The same by the names that collectors give to what a page calls a counter, which a site decides
for each metric (dcgm-exporter's -f): OpenTelemetry's adds this end to it, whatever its name is
(opentelemetry-collector-contrib, pkg/translator/prometheus: `normalizeName`)."""


SMI_PREFIX: Final = "nvidia_smi_"
"""With this begins every metric of nvidia_gpu_exporter, which asks nvidia-smi: its names are those
of nvidia-smi's queries (`nvidia-smi --help-query-gpu`) with units at their ends."""

INFO: Final = f"{SMI_PREFIX}gpu_info"
"""Its labels are what a board reports of itself."""

_BARE_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""It leaves out what NVML's UUIDs begin with."""

_SMI_NAMES: Final = {
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


def _smi() -> dict[str, Metric]:
    named = enumerate(_SMI_NAMES.items())
    return {
        SMI_PREFIX + name: metric_for(CATALOGUE[key], scale, rank)
        for rank, (name, (key, scale)) in named
    }


SMI: Final = _smi()
"""What each of these names means."""


NVML_PREFIX: Final = "nvidia_gpu_"
"""With this begins every metric of nvidia_gpu_prometheus_exporter, which asks NVML."""

_NVML_NAMES: Final = {
    "duty_cycle": ("gpu_util_ratio", 0.01),
    "memory_used_bytes": ("mem_used_bytes", 1.0),
    "memory_total_bytes": ("mem_total_bytes", 1.0),
    "power_usage_milliwatts": ("power_w", 1e-3),
    "temperature_celsius": ("temp_c", 1.0),
    "pcie_rx_per_sec": ("pcie_rx_bytes_per_s", 1.0),
    "pcie_tx_per_sec": ("pcie_tx_bytes_per_s", 1.0),
    "nvlink_total_rx_per_sec": ("nvlink_rx_bytes_per_s", 1.0),
    "nvlink_total_tx_per_sec": ("nvlink_tx_bytes_per_s", 1.0),
    **{
        f"{name}_util{end}": (key, 1.0)
        for end in ("", "_percent")
        for name, key in (
            ("graphics", "graphics_active_ratio"),
            ("sm", "sm_active_ratio"),
            ("any_tensor", "tensor_active_ratio"),
            ("dram_bw", "dram_active_ratio"),
            ("fp64", "fp64_active_ratio"),
            ("fp32", "fp32_active_ratio"),
            ("fp16", "fp16_active_ratio"),
            ("integer", "int_active_ratio"),
        )
    },
}
"""Field and scale by what follows the prefix; what it calls per cent of GPM's is from 0 to 1
(its fork by PrincetonUniversity and plazonic, 2025)."""


NVML: Final = {
    NVML_PREFIX + name: metric_for(CATALOGUE[key], scale, rank, _mig_key(key))
    for rank, (name, (key, scale)) in enumerate(_NVML_NAMES.items())
}
"""What each of these names means."""


KNOWN: Final = {**METRICS, **COUNTED, **SMI, **NVML}
"""What each name of a GPU's metric means; of several with the same of one the first counts."""


def in_words_of_nvml(uuid: str) -> str:
    """A UUID with what NVML's begin with, where an exporter leaves it out."""
    return f"GPU-{uuid}" if _BARE_UUID.fullmatch(uuid) else uuid
