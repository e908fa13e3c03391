"""Tables of the page about hardware: data sheets and the driver's error numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.model.gpu.hardware import GB, Basis, sheets
from gpumon.model.gpu.xid import XIDS, Cause

if TYPE_CHECKING:
    from gpumon.model.gpu.hardware import Figure, Sheet

PRECISIONS: Final = (
    *("fp64", "fp64_tensor", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8"),
)
GENERAL: Final = "~"
"""Stands before a figure that is general knowledge and was not checked again."""


def sheet_rows() -> list[tuple[str, ...]]:
    """One row per product."""
    return [_row(sheet) for sheet in sheets()]


SHEET_HEAD: Final = (
    *("product", "names of NVML", "memory GB", "TB/s", "W"),
    *PRECISIONS,
    *("measured bf16", "measured fp8", "NVLinks", "NVLink GB/s", "PCIe", "MIG slices"),
)


def _row(sheet: Sheet) -> tuple[str, ...]:
    lanes = "" if sheet.pcie_lanes is None else f" x{sheet.pcie_lanes.value:g}"
    bridge = " (bridge)" if sheet.has_bridge_only else ""
    return (
        sheet.product,
        ", ".join(f"`{name}`" for name in sheet.names) or "none known",
        _shown(sheet.memory_bytes, GB),
        _shown(sheet.memory_bytes_per_s, 1000 * GB),
        _shown(sheet.tdp_w),
        *(_shown(sheet.dense_tflops.get(precision)) for precision in PRECISIONS),
        *(_shown(sheet.achievable_tflops.get(precision)) for precision in ("bf16", "fp8")),
        _shown(sheet.nvlink_links),
        _shown(sheet.nvlink_bytes_per_s, GB) + (bridge if sheet.nvlink_bytes_per_s else ""),
        _shown(sheet.pcie_gen) + lanes,
        f"{GENERAL}{sheet.mig_slices}" if sheet.mig_slices else "",
    )


def _shown(figure: Figure | None, unit: float = 1) -> str:
    if figure is None:
        return ""
    return f"{GENERAL if figure.basis is Basis.GENERAL else ''}{figure.value / unit:g}"


XID_HEAD: Final = ("Xid", "meaning", "what to do now", "and then", "whose fault")


_WHOSE: Final = {
    Cause.MACHINE: "the machine's",
    Cause.PROGRAM: "usually a program's",
    Cause.OPEN: "the machine's or a program's",
    Cause.NONE: "no one's: an event",
}


def xid_rows() -> list[tuple[str, ...]]:
    """One row per error number."""
    return [
        (str(x.number), x.meaning, x.action.value, x.later.value, _WHOSE[x.cause])
        for x in XIDS.values()
    ]
