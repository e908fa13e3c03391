"""The catalogue: every measured quantity, declared once.

Sources fill frames with these keys, history stores them, JSON and OpenMetrics name them, screens
title them. A key that is not here does not exist; a test proves that the probe emits no other.
"""

from __future__ import annotations

from typing import Final

from gpumon.model.catalogue.field import ANY_COUNT, ANY_MEMORY, Field, Kind
from gpumon.model.catalogue.gpu import GPU_FIELDS
from gpumon.model.catalogue.host import (
    CGROUP_FIELDS,
    FILESYSTEM_FIELDS,
    LOCAL_FILESYSTEM_FIELDS,
    NIC_FIELDS,
    NODE_FIELDS,
)
from gpumon.model.catalogue.link import LINK_FIELDS
from gpumon.model.catalogue.process import PROCESS_FIELDS

_ACTIVITY: Final = (
    ("mig_sm_active_ratio", "SM", "SM-cycles with a warp resident", "GPM metric 2 (SM_UTIL)"),
    ("mig_sm_occupancy_ratio", "OCC", "warps that fit", "GPM metric 3 (SM_OCCUPANCY)"),
    ("mig_tensor_active_ratio", "TENS", "cycles of tensor pipes", "GPM metric 5 (ANY_TENSOR)"),
    ("mig_dram_active_ratio", "DRAM", "memory bandwidth", "GPM metric 10 (DRAM_BW)"),
)

_MEMORY: Final = (
    ("mig_mem_used_bytes", "MEM", "Memory of the instance in use.", "used"),
    ("mig_mem_total_bytes", "MEMTOT", "Memory of the instance.", "total"),
)

_IDS: Final = (
    (
        "mig_gpu_instance",
        "GI",
        "Number of the GPU instance: memory and activity belong to it.",
        "nvmlDeviceGetGpuInstanceId",
    ),
    (
        "mig_compute_instance",
        "CI",
        "Number of the compute instance within it; several share its memory.",
        "nvmlDeviceGetComputeInstanceId",
    ),
)

MIG_FIELDS: Final = (
    *(
        Field(key, "mig", Kind.ID, "", low=0, high=1024, title=title, doc=doc, origin=call)
        for key, title, doc, call in _IDS
    ),
    *(
        Field(
            key,
            "mig",
            Kind.GAUGE,
            "bytes",
            low=0,
            high=ANY_MEMORY,
            title=title,
            doc=doc,
            origin=f"nvmlDeviceGetMemoryInfo (v2).{part} of the instance",
        )
        for key, title, doc, part in _MEMORY
    ),
    *(
        Field(
            key,
            "mig",
            Kind.GAUGE,
            "ratio",
            low=0.0,
            high=1.0,
            title=title,
            doc=f"Share of the {what}, of the GPU instance.",
            origin=f"{metric}, nvmlGpmMigSampleGet",
        )
        for key, title, what, metric in _ACTIVITY
    ),
)
"""Entities are the instances' own UUIDs."""


CONTEXT_FIELDS: Final = (
    Field(
        "context_mem_used_bytes",
        "context",
        Kind.GAUGE,
        "bytes",
        low=0,
        high=ANY_MEMORY,
        title="MEM",
        doc="Device memory of one process on one GPU.",
        origin="nvmlDeviceGetComputeRunningProcesses.usedGpuMemory",
    ),
    *(
        Field(
            key,
            "context",
            Kind.GAUGE,
            "ratio",
            low=0.0,
            high=1.0,
            title=title,
            doc=f"Share of time in which the process {what} of one GPU, since its last sample.",
            origin=f"nvmlDeviceGetProcessUtilization.{name}",
            is_kept=name == "smUtil",
        )
        for key, title, what, name in (
            ("context_sm_util_ratio", "SM", "used an SM", "smUtil"),
            ("context_mem_util_ratio", "MBW", "read or wrote the memory", "memUtil"),
            ("context_encoder_util_ratio", "ENC", "used the video encoder", "encUtil"),
            ("context_decoder_util_ratio", "DEC", "used the video decoder", "decUtil"),
        )
    ),
    Field(
        "context_gpu_instance",
        "context",
        Kind.ID,
        "",
        low=0,
        high=1024,
        title="GI",
        doc="GPU instance that the process runs in, on a GPU in MIG mode.",
        origin="nvmlDeviceGetComputeRunningProcesses.gpuInstanceId",
    ),
    Field(
        "context_compute_instance",
        "context",
        Kind.ID,
        "",
        low=0,
        high=1024,
        title="CI",
        doc="Compute instance that the process runs in, on a GPU in MIG mode.",
        origin="nvmlDeviceGetComputeRunningProcesses.computeInstanceId",
    ),
)

EVENT_FIELDS: Final = (
    Field(
        "xid",
        "event",
        Kind.ID,
        "",
        low=0,
        high=2**32,
        title="XID",
        doc="The driver's error number; missing where the event is of another type.",
        origin="nvmlEventSetWait_v2.eventData, else /dev/kmsg",
        dcgm="DCGM_FI_DEV_XID_ERRORS",
    ),
    Field(
        "event_type",
        "event",
        Kind.MASK,
        "",
        low=0,
        high=ANY_COUNT,
        title="TYPE",
        doc="NVML's event type: 0x8 Xid, 0x2 uncorrected ECC error, 0x8000 recovery action "
        "changed.",
        origin="nvmlEventSetWait_v2.eventType",
    ),
    Field(
        "event_age_s",
        "event",
        Kind.GAUGE,
        "s",
        low=0,
        high=ANY_COUNT,
        title="AGE",
        doc="Time since it was reported: for half a minute by the driver, for an hour by the "
        "kernel's log.",
        origin="nvmlEventSetWait_v2, /dev/kmsg",
    ),
)

_WITHOUT_HISTORY: Final = frozenset(
    {
        # What hardly ever changes, or names something.
        *("index", "open_error", "minor_number", "fabric_clique", "watched_events", "uptime_s"),
        *("persistence_mode", "compute_mode", "mig_mode", "ecc_mode", "nic_numa_node"),
        "gpu_numa_node",
        *("link_version", "link_effective_ber", "link_symbol_ber", "load_5m", "load_15m"),
        *("mig_gpu_instance", "mig_compute_instance"),
        *("context_gpu_instance", "context_compute_instance"),
        *("uid", "start_time_s", "parent_pid", "inner_pid"),
        # Counters whose rate or share is stored.
        *("pcie_tx_bytes", "pcie_rx_bytes", "nvlink_tx_bytes", "nvlink_rx_bytes"),
        *("link_tx_bytes", "link_rx_bytes", "nic_tx_bytes", "nic_rx_bytes"),
        *("cpu_busy_ticks", "cpu_iowait_ticks", "cpu_total_ticks"),
        *("net_rx_bytes", "net_tx_bytes", "disk_read_bytes", "disk_write_bytes"),
        *("fs_read_bytes", "fs_write_bytes", "fs_read_ops", "fs_write_ops"),
        *("fs_read_rtt_us", "fs_read_exec_us", "fs_write_rtt_us", "fs_write_exec_us"),
        *("job_io_read_bytes", "job_io_write_bytes", "job_output_bytes"),
        *("process_cpu_us", "process_cpu_wait_us", "process_tree_cpu_us"),
        *("process_io_read_bytes", "process_io_write_bytes"),
    }
)
"""Fields that history does not store, besides those that are declared so."""

CATALOGUE: Final = {
    field.key: field._replace(is_kept=field.is_kept and field.key not in _WITHOUT_HISTORY)
    for field in (
        *GPU_FIELDS,
        *LINK_FIELDS,
        *MIG_FIELDS,
        *PROCESS_FIELDS,
        *CONTEXT_FIELDS,
        *EVENT_FIELDS,
        *NODE_FIELDS,
        *NIC_FIELDS,
        *FILESYSTEM_FIELDS,
        *LOCAL_FILESYSTEM_FIELDS,
        *CGROUP_FIELDS,
    )
}
"""Every field by its key."""

LABELS: Final = {
    "gpu": (
        "name",
        "pci_bus_id",
        "common_ancestors",
        "architecture",
        "compute_capability",
        "serial",
        "board_part",
        "vbios",
        "fabric_cluster",
        "label_jobs",
        "label_pods",
    ),
    "link": ("remote_type", "remote"),
    "mig": ("parent", "profile"),
    "process": (
        *("name", "job_id", "sluid", "step", "task", "rank_vars", "container"),
        *("state", "cpus_allowed", "cpu_numa_nodes", "user"),
    ),
    "context": ("type",),
    "event": (),
    "node": (
        "driver_version",
        "nvml_version",
        "boot_id",
        "host_name",
        "kernel_log",
        "numa_distances",
        "slowest_call",
        "awaited_call",
    ),
    "nic": (
        "state",
        "phys_state",
        "link_layer",
        "net_device",
        "pci_bus_id",
        "nearest_by",
        "nearest_gpus",
    ),
    "filesystem": ("fstype", "device"),
    "local_filesystem": ("type",),
    "cgroup": (),
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
