"""The catalogue: every measured quantity, declared once.

Sources fill frames with these keys, history keeps them, JSON and OpenMetrics name them, screens
title them. A key that is not here does not exist; a test proves that the probe emits no other.
"""

from __future__ import annotations

from typing import Final

from gpumon.model.field import ANY_COUNT, ANY_MEMORY, Field, Kind
from gpumon.model.gpu_fields import GPU_FIELDS

PROCESS_FIELDS: Final = (
    Field(
        "uid",
        "process",
        Kind.ID,
        "",
        0,
        2**32,
        "UID",
        "Owner of the process.",
        "st_uid of /proc/PID",
    ),
    Field(
        "start_time_s",
        "process",
        Kind.GAUGE,
        "s",
        0,
        ANY_COUNT,
        "START",
        "Start of the process, seconds since boot: with the PID it names one process for ever.",
        "/proc/PID/stat field 22",
    ),
)

CONTEXT_FIELDS: Final = (
    Field(
        "context_mem_used_bytes",
        "context",
        Kind.GAUGE,
        "bytes",
        0,
        ANY_MEMORY,
        "MEM",
        "Device memory of one process on one GPU.",
        "nvmlDeviceGetComputeRunningProcesses.usedGpuMemory",
    ),
)

NODE_FIELDS: Final = (
    Field("cpu_count", "node", Kind.GAUGE, "", 0, 65536, "CPUS", "Logical CPUs.", "/proc/cpuinfo"),
    Field(
        "load_1m",
        "node",
        Kind.GAUGE,
        "",
        0,
        1e6,
        "LOAD",
        "Load average over a minute.",
        "/proc/loadavg",
    ),
    Field(
        "host_mem_total_bytes",
        "node",
        Kind.GAUGE,
        "bytes",
        0,
        ANY_COUNT,
        "HOSTMEM",
        "Memory of the host.",
        "/proc/meminfo MemTotal",
    ),
    Field(
        "host_mem_available_bytes",
        "node",
        Kind.GAUGE,
        "bytes",
        0,
        ANY_COUNT,
        "HOSTFREE",
        "Host memory that a new process could use.",
        "/proc/meminfo MemAvailable",
    ),
)

CATALOGUE: Final = {
    field.key: field for field in (*GPU_FIELDS, *PROCESS_FIELDS, *CONTEXT_FIELDS, *NODE_FIELDS)
}
"""Every field by its key."""

LABELS: Final = {
    "gpu": ("name", "pci_bus_id"),
    "process": ("name", "job_id", "step", "task", "rank_vars", "container"),
    "context": (),
    "node": ("driver_version", "nvml_version", "boot_id", "host_name"),
}
"""Text that a block may carry per entity, by block."""

CLOCK_EVENT_REASONS: Final = {
    0x001: "idle",
    0x002: "application clocks",
    0x004: "software power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "software thermal slowdown",
    0x040: "hardware thermal slowdown",
    0x080: "hardware power brake",
    0x100: "display clocks",
}
"""Bits of `clock_event_reasons` (nvml.h, nvmlClocksEventReasons)."""


def clock_event_names(mask: int) -> tuple[str, ...]:
    """Names of the bits that are set, unknown bits as hexadecimal."""
    known = tuple(name for bit, name in CLOCK_EVENT_REASONS.items() if mask & bit)
    rest = mask & ~sum(CLOCK_EVENT_REASONS)
    return (*known, f"0x{rest:x}") if rest else known
