"""Pretend nodes: complete key/value sets for the stand-in driver's state file.

Numbers follow the vendor's data sheets (memory, power limits, clocks, links). What a product does
not have is left out: the stand-in then answers NOT_SUPPORTED, as the driver does.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Values = dict[str, str]

XID_AND_ECC_EVENTS = 0x1 | 0x2 | 0x8 | 0x8000
GPM_PERCENT_METRICS = range(1, 14)

# Symbols that a driver of the 470 branch does not export.
R470_MISSING = (
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetSupportedClocksEventReasons",
    "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetProcessesUtilizationInfo",
    "nvmlDeviceGetRunningProcessDetailList",
    "nvmlDeviceGetGpuFabricInfoV",
    "nvmlDeviceGetDriverModel_v2",
    "nvmlDeviceGetNumaNodeId",
    "nvmlGpmQueryDeviceSupport",
    "nvmlGpmSampleAlloc",
    "nvmlGpmSampleFree",
    "nvmlGpmSampleGet",
    "nvmlGpmMigSampleGet",
    "nvmlGpmMetricsGet",
    "nvmlGpmQueryIfStreamingEnabled",
    "nvmlGpmSetStreamingEnabled",
)

# Bus numbers as found on eight-GPU machines: not contiguous, ascending.
_BUSES = (0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF)

_COMMON: dict[str, object] = {
    "persistence_mode": 1,
    "compute_mode": 0,
    "display_active": 0,
    "display_mode": 0,
    "util_gpu": 0,
    "util_mem": 0,
    "util_encoder": 0,
    "util_decoder": 0,
    "mem_used_bytes": 0,
    "energy_mj": 0,
    "perf_state": 0,
    "clock_event_reasons": 1,
    "violation_power_ns": 0,
    "violation_thermal_ns": 0,
    "pcie_width": 16,
    "pcie_width_max": 16,
    "pcie_tx_bytes_per_s": 0,
    "pcie_rx_bytes_per_s": 0,
    "pcie_replays": 0,
}

_DATA_CENTRE: dict[str, object] = {
    **_COMMON,
    "brand": 14,
    "mig_mode": 0,
    "ecc_mode": 1,
    "ecc_sbe_volatile": 0,
    "ecc_dbe_volatile": 0,
    "ecc_sbe_aggregate": 0,
    "ecc_dbe_aggregate": 0,
    "remapped_correctable": 0,
    "remapped_uncorrectable": 0,
    "remapped_pending": 0,
    "remapped_failure": 0,
    "remap_rows_high": 0,
    "remap_rows_partial": 0,
    "remap_rows_low": 0,
    "remap_rows_none": 0,
    "util_jpg": 0,
    "util_ofa": 0,
    "pcie_tx_bytes": 0,
    "pcie_rx_bytes": 0,
    "nvlink_switch": 1,
    "nvlink_tx_bytes_per_s": 0,
    "nvlink_rx_bytes_per_s": 0,
    "event_types": XID_AND_ECC_EVENTS,
}

_H100: dict[str, object] = {
    **_DATA_CENTRE,
    "name": "NVIDIA H100 80GB HBM3",
    "architecture": 9,
    "cc_major": 9,
    "cc_minor": 0,
    "cores": 16896,
    "memory_bus_bits": 5120,
    "pci_device_id": 0x233010DE,
    "pci_subsystem_id": 0x16C110DE,
    "vbios": "96.00.74.00.01",
    "mem_total_bytes": 85520809984,
    "mem_reserved_bytes": 591396864,
    "bar1_total_bytes": 137438953472,
    "bar1_used_bytes": 1048576,
    "power_mw": 70000,
    "power_limit_mw": 700000,
    "power_default_limit_mw": 700000,
    "power_min_limit_mw": 200000,
    "power_max_limit_mw": 700000,
    "temp_c": 30,
    "temp_mem_c": 40,
    "temp_slowdown_c": 87,
    "temp_shutdown_c": 92,
    "temp_mem_max_c": 95,
    "temp_gpu_max_c": 85,
    "temp_margin_c": 57,
    "sm_clock_mhz": 345,
    "sm_clock_busy_mhz": 1980,
    "sm_clock_max_mhz": 1980,
    "mem_clock_mhz": 2619,
    "mem_clock_max_mhz": 2619,
    "video_clock_mhz": 765,
    "video_clock_max_mhz": 1545,
    "slowdown_sw_thermal_ns": 0,
    "slowdown_hw_thermal_ns": 0,
    "slowdown_hw_brake_ns": 0,
    "pcie_gen": 5,
    "pcie_gen_max": 5,
    "pcie_gen_gpu_max": 5,
    "nvlink_count": 18,
    "nvlink_speed_mbps": 26562,
    "nvlink_version": 6,
    "remap_rows_max": 2560,
    "recovery_action": 0,
    "fabric_state": 3,
    "fabric_clique": 0,
    "gpm_supported": 1,
}

_A100: dict[str, object] = {
    **_DATA_CENTRE,
    "name": "NVIDIA A100-SXM4-80GB",
    "architecture": 7,
    "cc_major": 8,
    "cc_minor": 0,
    "cores": 6912,
    "memory_bus_bits": 5120,
    "pci_device_id": 0x20B210DE,
    "pci_subsystem_id": 0x146310DE,
    "vbios": "92.00.36.00.02",
    "mem_total_bytes": 85899345920,
    "mem_reserved_bytes": 645922816,
    "bar1_total_bytes": 137438953472,
    "bar1_used_bytes": 1048576,
    "power_mw": 60000,
    "power_limit_mw": 400000,
    "power_default_limit_mw": 400000,
    "power_min_limit_mw": 100000,
    "power_max_limit_mw": 400000,
    "temp_c": 30,
    "temp_mem_c": 38,
    "temp_slowdown_c": 89,
    "temp_shutdown_c": 92,
    "temp_mem_max_c": 95,
    "temp_gpu_max_c": 85,
    "sm_clock_mhz": 210,
    "sm_clock_busy_mhz": 1410,
    "sm_clock_max_mhz": 1410,
    "mem_clock_mhz": 1593,
    "mem_clock_max_mhz": 1593,
    "video_clock_mhz": 585,
    "video_clock_max_mhz": 1290,
    "pcie_gen": 4,
    "pcie_gen_max": 4,
    "pcie_gen_gpu_max": 4,
    "nvlink_count": 12,
    "nvlink_speed_mbps": 25000,
    "nvlink_version": 4,
    "remap_rows_max": 640,
    "recovery_action": 0,
    "gpm_supported": 0,
}

_V100: dict[str, object] = {
    **_DATA_CENTRE,
    "name": "Tesla V100-SXM2-32GB",
    "architecture": 5,
    "cc_major": 7,
    "cc_minor": 0,
    "cores": 5120,
    "memory_bus_bits": 4096,
    "pci_device_id": 0x1DB510DE,
    "pci_subsystem_id": 0x124910DE,
    "vbios": "88.00.48.00.02",
    "mig_mode": "n/a",
    **dict.fromkeys(("remapped_correctable", "remapped_uncorrectable"), "n/a"),
    **dict.fromkeys(("remapped_pending", "remapped_failure"), "n/a"),
    "retired_sbe": 0,
    "retired_dbe": 0,
    "retired_pending": 0,
    "mem_total_bytes": 34359738368,
    "mem_reserved_bytes": 335544320,
    "bar1_total_bytes": 34359738368,
    "bar1_used_bytes": 1048576,
    "power_mw": 40000,
    "power_limit_mw": 300000,
    "power_default_limit_mw": 300000,
    "power_min_limit_mw": 150000,
    "power_max_limit_mw": 300000,
    "temp_c": 33,
    "temp_mem_c": 32,
    "temp_slowdown_c": 87,
    "temp_shutdown_c": 90,
    "temp_mem_max_c": 85,
    "temp_gpu_max_c": 83,
    "sm_clock_mhz": 135,
    "sm_clock_busy_mhz": 1530,
    "sm_clock_max_mhz": 1530,
    "mem_clock_mhz": 877,
    "mem_clock_max_mhz": 877,
    "video_clock_mhz": 555,
    "video_clock_max_mhz": 1372,
    "pcie_gen": 3,
    "pcie_gen_max": 3,
    "pcie_gen_gpu_max": 3,
    "nvlink_count": 6,
    "nvlink_speed_mbps": 25781,
    "nvlink_version": 2,
    "nvlink_switch": 0,
    "gpm_supported": 0,
}

_NOT_SUPPORTED = 3

# Fields of NVLink up to 4 that NVLink 5 does not have, and what it counts in their place.
_NVLINK_4_FIELDS = (38, 45, 52, 59, 160, 161, 162, 163)
_NVLINK_5_FIELDS = (208, 212, 213, 214, 215, 219, 220, 221, 222)
_PCIE_ERROR_FIELDS = (169, *range(173, 183))

_B200: dict[str, object] = {
    **_H100,
    "name": "NVIDIA B200",
    "architecture": 10,
    "cc_major": 10,
    "cores": 18944,
    "memory_bus_bits": 8192,
    "pci_device_id": 0x290110DE,
    "vbios": "97.00.5E.00.01",
    "mem_total_bytes": 192265846784,
    "power_mw": 140000,
    "power_limit_mw": 1000000,
    "power_default_limit_mw": 1000000,
    "power_max_limit_mw": 1000000,
    "sm_clock_busy_mhz": 1965,
    "sm_clock_max_mhz": 1965,
    "mem_clock_mhz": 3996,
    "mem_clock_max_mhz": 3996,
    "nvlink_speed_mbps": 53125,
    "nvlink_version": 7,
    **{f"field_error.{field}": _NOT_SUPPORTED for field in _NVLINK_4_FIELDS},
    **{f"field.{field}": 0 for field in (*_NVLINK_5_FIELDS, *_PCIE_ERROR_FIELDS)},
}

_A100_PCIE: dict[str, object] = {
    **_A100,
    "name": "NVIDIA A100 80GB PCIe",
    "pci_device_id": 0x20B510DE,
    "pci_subsystem_id": 0x153310DE,
    "power_limit_mw": 300000,
    "power_default_limit_mw": 300000,
    "power_min_limit_mw": 150000,
    "power_max_limit_mw": 300000,
    "mem_clock_mhz": 1512,
    "mem_clock_max_mhz": 1512,
    "nvlink_count": "n/a",
    "nvlink_switch": "n/a",
    "nvlink_speed_mbps": "n/a",
    "nvlink_version": "n/a",
}

_RTX: dict[str, object] = {
    **_COMMON,
    "name": "NVIDIA GeForce RTX 4090",
    "brand": 5,
    "architecture": 8,
    "cc_major": 8,
    "cc_minor": 9,
    "cores": 16384,
    "memory_bus_bits": 384,
    "pci_device_id": 0x268410DE,
    "vbios": "95.02.3C.00.01",
    "mem_total_bytes": 25757220864,
    "mem_reserved_bytes": 451936256,
    "bar1_total_bytes": 34359738368,
    "bar1_used_bytes": 1048576,
    "power_mw": 20000,
    "power_limit_mw": 450000,
    "power_default_limit_mw": 450000,
    "power_min_limit_mw": 150000,
    "power_max_limit_mw": 600000,
    "temp_c": 34,
    "temp_slowdown_c": 97,
    "temp_shutdown_c": 100,
    "temp_gpu_max_c": 83,
    "fan_percent": 30,
    "sm_clock_mhz": 210,
    "sm_clock_busy_mhz": 2520,
    "sm_clock_max_mhz": 3105,
    "mem_clock_mhz": 405,
    "mem_clock_max_mhz": 10501,
    "video_clock_mhz": 1185,
    "video_clock_max_mhz": 2415,
    "perf_state": 8,
    "pcie_gen": 1,
    "pcie_gen_max": 4,
    "pcie_gen_gpu_max": 4,
    "event_types": 0x8,
    "gpm_supported": 0,
}


def _node(
    gpu: dict[str, object],
    gpus: int,
    minors: Sequence[int] | None,
    node: str,
    with_numa: bool = True,
) -> Values:
    """One node of equal GPUs; `node` seeds UUIDs and serials, so that nodes never share them."""
    values: Values = {
        "driver_version": "570.124.06",
        "nvml_version": "12.570.124.06",
        "cuda_version": "12080",
        "devices": "on",
        "counters_live": "1",
        "gpu_count": str(gpus),
    }
    order = list(range(gpus)) if minors is None else list(minors)
    for index in range(gpus):
        identity = uuid.uuid5(uuid.NAMESPACE_DNS, f"{node}/gpu{index}")
        bus = _BUSES[index] if gpus <= len(_BUSES) else index + 1
        own: dict[str, object] = {
            **gpu,
            "uuid": f"GPU-{identity}",
            "pci_bus_id": f"00000000:{bus:02X}:00.0",
            "minor": order[index],
        }
        if with_numa:
            own["serial"] = str(1650000000000 + identity.int % 10**9)
            own["numa_node"] = index * 2 // max(gpus, 2)
            own["module_id"] = index + 1
        values.update({f"gpu.{index}.{key}": str(value) for key, value in own.items()})
        if gpu.get("gpm_supported") == 1:
            values.update({f"gpu.{index}.gpm.{metric}": "0" for metric in GPM_PERCENT_METRICS})
    return values


def h100(gpus: int = 8, minors: Sequence[int] | None = None, node: str = "node1") -> Values:
    """H100 SXM: 18 NVLinks to switches, GPM, samples must lie 100 ms apart."""
    return {**_node(_H100, gpus, minors, node), "gpm_min_interval_ms": "100"}


def b200(gpus: int = 8, minors: Sequence[int] | None = None, node: str = "node1") -> Values:
    """B200 SXM: NVLink 5, whose errors have fields of their own, and PCIe error counters."""
    return {**_node(_B200, gpus, minors, node), "gpm_min_interval_ms": "100"}


# Slices of one GPU: GPU instance, compute instance, profile, GiB. Two share one GPU instance.
_INSTANCES = ((1, 0, "3g.40gb", 40), (5, 0, "1c.2g.20gb", 20), (5, 1, "1c.2g.20gb", 20))


def mig(gpus: int = 2, minors: Sequence[int] | None = None, node: str = "node1") -> Values:
    """H100 in MIG mode, cut into three instances each; the GPU's own use is not supported."""
    values = h100(gpus, minors, node)
    for index in range(gpus):
        values[f"gpu.{index}.mig_mode"] = "1"
        for place, (gi, ci, profile, gib) in enumerate(_INSTANCES):
            identity = uuid.uuid5(uuid.NAMESPACE_DNS, f"{node}/gpu{index}/mig{place}")
            own: dict[str, object] = {
                "uuid": f"MIG-{identity}",
                "name": f"{_H100['name']} MIG {profile}",
                "gpu_instance": gi,
                "compute_instance": ci,
                "mem_total_bytes": gib << 30,
                "mem_used_bytes": 0,
                "sm_percent": 0,
                "occupancy_percent": 0,
                "tensor_percent": 0,
                "dram_percent": 0,
            }
            prefix = f"gpu.{index}.mig.{place}."
            values.update({prefix + key: str(value) for key, value in own.items()})
    return values


def a100_pcie(gpus: int = 8, minors: Sequence[int] | None = None, node: str = "node1") -> Values:
    """A100 for PCIe slots, without bridges: no NVLink."""
    return _node(_A100_PCIE, gpus, minors, node)


def a100(gpus: int = 8, minors: Sequence[int] | None = None, node: str = "node1") -> Values:
    """A100 SXM: 12 NVLinks, no GPM."""
    return _node(_A100, gpus, minors, node)


def v100(gpus: int = 8, minors: Sequence[int] | None = None, node: str = "node1") -> Values:
    """V100 SXM2: retires pages instead of remapping rows; no MIG, no GPM."""
    return _node(_V100, gpus, minors, node)


def rtx(gpus: int = 2, minors: Sequence[int] | None = None, node: str = "node1") -> Values:
    """RTX 4090: no NVLink, ECC, MIG, serial number, memory temperature or PCIe byte counters."""
    return _node(_RTX, gpus, minors, node, with_numa=False)


def r470(gpus: int = 8, minors: Sequence[int] | None = None, node: str = "node1") -> Values:
    """A100 under a driver of 2021; build the library with `missing=R470_MISSING` for it."""
    values = _node(_A100, gpus, minors, node)
    values.update(driver_version="470.57.02", nvml_version="11.470.57.02", cuda_version="11040")
    values["field_id_max"] = "160"
    return values


PROFILES: dict[str, Callable[..., Values]] = {
    "h100": h100,
    "b200": b200,
    "mig": mig,
    "a100": a100,
    "a100_pcie": a100_pcie,
    "v100": v100,
    "rtx": rtx,
    "r470": r470,
}
MISSING_SYMBOLS: dict[str, tuple[str, ...]] = {"r470": R470_MISSING}
