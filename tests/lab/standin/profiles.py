"""Pretend nodes: complete key/value sets for the stand-in driver's state file.

Numbers follow the vendor's data sheets (memory, power limits, clocks, links). What a product does
not have is left out: the stand-in then answers NOT_SUPPORTED, as the driver does.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from tests.lab.standin.products import A100, A100_PCIE, B200, H100, RTX, V100

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Values = dict[str, str]

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
    return {**_node(H100, gpus, minors, node), "gpm_min_interval_ms": "100"}


def b200(gpus: int = 8, minors: Sequence[int] | None = None, node: str = "node1") -> Values:
    """B200 SXM: NVLink 5, whose errors have fields of their own, and PCIe error counters."""
    return {**_node(B200, gpus, minors, node), "gpm_min_interval_ms": "100"}


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
                "name": f"{H100['name']} MIG {profile}",
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
    return _node(A100_PCIE, gpus, minors, node)


def a100(gpus: int = 8, minors: Sequence[int] | None = None, node: str = "node1") -> Values:
    """A100 SXM: 12 NVLinks, no GPM."""
    return _node(A100, gpus, minors, node)


def v100(gpus: int = 8, minors: Sequence[int] | None = None, node: str = "node1") -> Values:
    """V100 SXM2: retires pages instead of remapping rows; no MIG, no GPM."""
    return _node(V100, gpus, minors, node)


def rtx(gpus: int = 2, minors: Sequence[int] | None = None, node: str = "node1") -> Values:
    """RTX 4090: no NVLink, ECC, MIG, serial number, memory temperature or PCIe byte counters."""
    return _node(RTX, gpus, minors, node, with_numa=False)


def r470(gpus: int = 8, minors: Sequence[int] | None = None, node: str = "node1") -> Values:
    """A100 under a driver of 2021; build the library with `missing=R470_MISSING` for it."""
    values = _node(A100, gpus, minors, node)
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
