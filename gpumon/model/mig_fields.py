"""The catalogue's fields of one MIG instance, each with its NVML origin."""

from __future__ import annotations

from typing import Final

from gpumon.model.field import ANY_MEMORY, Field, Kind

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
    *(Field(key, "mig", Kind.ID, "", 0, 1024, title, doc, call) for key, title, doc, call in _IDS),
    *(
        Field(
            key,
            "mig",
            Kind.GAUGE,
            "bytes",
            0,
            ANY_MEMORY,
            title,
            doc,
            f"nvmlDeviceGetMemoryInfo (v2).{part} of the instance",
        )
        for key, title, doc, part in _MEMORY
    ),
    *(
        Field(
            key,
            "mig",
            Kind.GAUGE,
            "ratio",
            0.0,
            1.0,
            title,
            f"Share of the {what}, of the GPU instance.",
            f"{metric}, nvmlGpmMigSampleGet",
        )
        for key, title, what, metric in _ACTIVITY
    ),
)
"""Entities are the instances' own UUIDs."""
