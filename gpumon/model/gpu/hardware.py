"""Data sheets: what a GPU could do, so that what it does can be put beside it.

A sheet is found by the exact product name that NVML prints, the memory that it reports, and a
power limit that the product can have; nothing is guessed from a part of a name. A GPU without a
sheet is unknown, and then nothing may be reported of its share of a peak.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.units import GIB

if TYPE_CHECKING:
    from collections.abc import Mapping

GB: Final = 1e9
"""Bytes of the gigabyte that data sheets count memory and links in."""
SMALLEST_SHARE: Final = 0.9
"""NVML reports no less than this share of the advertised memory: ECC takes a sixteenth on GDDR."""
LARGEST_SHARE: Final = 1.02
"""And no more than this, where the vendor's gigabytes are taken for GiB, as some of them are."""
HIGHEST_LIMIT: Final = 1.25
"""A 500 W version of a 400 W board is the widest margin that is sold under one name."""


class Basis(StrEnum):
    """How well a figure is known."""

    SEEN = "seen"
    """Read in the source that is named beside it."""
    GENERAL = "general"
    """From public data sheets as generally quoted; not checked again, so not to be called fact."""


class Figure(NamedTuple):
    """One number of a data sheet and where it comes from."""

    value: float
    source: str
    basis: Basis


class Sheet(NamedTuple):
    """What one product offers. Throughputs are dense: structured sparsity is not counted."""

    product: str
    names: tuple[str, ...]
    """Names that NVML prints for it; empty where none is known for sure."""
    memory_bytes: Figure
    """As advertised. NVML's total lies a few per cent below or above it."""
    memory_bytes_per_s: Figure
    tdp_w: Figure
    """Highest where a product is sold with several."""
    dense_tflops: Mapping[str, Figure]
    """Peak by precision: `fp64`, `fp64_tensor` (tensor cores), `fp32`, `tf32`, `bf16`, `fp16`,
    `fp8`, `fp4`; of `int8` 10^12 operations. 16 bits and less on tensor cores that add up in
    fp32."""
    achievable_tflops: Mapping[str, Figure]
    """Largest matrix product that was measured, by precision; empty where none was measured."""
    peak_clock_mhz: Figure | None
    """SM clock at which the peaks are reached; None where the vendor does not give it."""
    nvlink_links: Figure | None
    nvlink_bytes_per_s: Figure | None
    """All links together, one direction."""
    has_bridge_only: bool
    """NVLink exists only where two boards are joined by a bridge."""
    pcie_gen: Figure | None
    pcie_lanes: Figure | None
    mig_slices: int
    """Most instances that MIG cuts it into; 0: it has none of that (NVIDIA's MIG user guide, the
    table of supported GPUs, as generally quoted)."""
    has_shared_memory: bool = False
    """Whether it has the host's memory: NVML then reports no total."""

    @property
    def link_bytes_per_s(self) -> float | None:
        """One NVLink, one direction; None where the number of links is not known."""
        if self.nvlink_links is None or self.nvlink_bytes_per_s is None:
            return None
        return self.nvlink_bytes_per_s.value / self.nvlink_links.value


_ENGINEERING: Final = "stas00/ml-engineering 744d01e1, compute/accelerator/README.md"
_PUBLIC: Final = "public data sheet"
_MAMF: Final = _ENGINEERING + ", maximum achievable matmul"


def _seen(value: float, _key: str = "") -> Figure:
    return Figure(value, _ENGINEERING, Basis.SEEN)


def _general(document: str, notes: Mapping[str, str], value: float, key: str = "") -> Figure:
    source = f"{document}: {notes[key]}" if key in notes else document
    return Figure(value, source, Basis.GENERAL)


def _sheet(
    product: str,
    names: tuple[str, ...],
    memory: tuple[float, float],
    tdp_w: float,
    tflops: Mapping[str, float],
    *,
    is_seen: bool = False,
    document: str = _PUBLIC,
    also: Mapping[str, float] | None = None,
    achievable: Mapping[str, float] | None = None,
    clock: float | None = None,
    nvlink: tuple[float, int | None] | None = None,
    bridge: bool = False,
    pcie: tuple[int | None, int | None] = (None, None),
    mig: int = 0,
    notes: Mapping[str, str] | None = None,
    is_shared: bool = False,
) -> Sheet:
    """A sheet from figures as they are printed.

    Args:
        product: What people call it.
        names: Exact names of NVML.
        memory: GB and TB/s.
        tdp_w: Watts.
        tflops: Dense peak by precision.
        is_seen: Whether throughput and memory were read in `_ENGINEERING`.
        document: Where the other figures are, those of `also` and of links among them.
        also: Further peaks by precision.
        achievable: Measured TFLOPS by precision.
        clock: MHz at which the peaks hold, as read in `_ENGINEERING`.
        nvlink: GB/s of both directions of all links, as advertised, and the number of links.
        bridge: NVLink by a bridge between two boards only.
        pcie: Generation and lanes.
        mig: Most instances of MIG.
        notes: Remarks on a figure's source, by field or precision.
        is_shared: Whether it has the host's memory.
    """
    general = partial(_general, document, notes or {})
    read = _seen if is_seen else general
    (total, links), (gen, lanes) = nvlink or (None, None), pcie
    peaks = {precision: read(value, precision) for precision, value in tflops.items()}
    return Sheet(
        product=product, names=names, memory_bytes=read(memory[0] * GB, "memory"),
        memory_bytes_per_s=read(memory[1] * 1000 * GB),
        tdp_w=general(tdp_w, "tdp"),
        dense_tflops=peaks
        | {precision: general(value, precision) for precision, value in (also or {}).items()},
        achievable_tflops={
            key: Figure(value, _MAMF, Basis.SEEN) for key, value in (achievable or {}).items()
        },
        peak_clock_mhz=None if clock is None else _seen(clock),
        nvlink_links=None if links is None else general(links),
        nvlink_bytes_per_s=None if total is None else general(total / 2 * GB),
        has_bridge_only=bridge,
        pcie_gen=None if gen is None else general(gen),
        pcie_lanes=None if lanes is None else general(lanes),
        mig_slices=mig, has_shared_memory=is_shared,
    )  # fmt: skip


def _half(both: float) -> dict[str, float]:
    return {"bf16": both, "fp16": both}


_A100: Final = {"fp32": 19.5, "tf32": 156.0, **_half(312)}
_A100_MORE: Final = {"fp64": 9.7, "fp64_tensor": 19.5, "int8": 624.0}
_HOPPER: Final = {"fp32": 67.0, "tf32": 494.5, **_half(989), "fp8": 1979.0}
_HOPPER_MORE: Final = {"fp64": 34.0, "fp64_tensor": 67.0, "int8": 1979.0}
_HGX: Final = {"fp32": 75.0, "tf32": 1125.0, **_half(2250), "fp8": 4500.0}
_GRACE_BLACKWELL: Final = {"fp32": 80.0, "tf32": 1250.0, **_half(2500), "fp8": 5000.0}

_A100_SHEET: Final = "NVIDIA A100 data sheet"
_H100_SHEET: Final = "NVIDIA H100 data sheet"
_H200_SHEET: Final = "NVIDIA H200 data sheet"
_GH200_SHEET: Final = "NVIDIA GH200 data sheet"
_BLACKWELL_SHEET: Final = "NVIDIA HGX B200 and B300 and Blackwell data sheet"
_V100_SHEET: Final = "NVIDIA V100 data sheet"
_TURING: Final = "NVIDIA Turing GPU architecture whitepaper"
_GA102: Final = "NVIDIA Ampere GA102 GPU architecture whitepaper"
_ADA: Final = "NVIDIA Ada GPU architecture whitepaper"
_RTX_BLACKWELL: Final = "NVIDIA RTX Blackwell GPU architecture whitepaper"
_RTX_PRO: Final = "NVIDIA RTX PRO 6000 Blackwell data sheet"

_MODULE: Final = {"tdp": "up to 1000 W for the module, CPU included"}
_HALVED: Final = "half of what is printed with sparsity"

_SHEETS: Final = (
    partial(_sheet,
        "V100 SXM2 16 GB", ("Tesla V100-SXM2-16GB",), (16, 0.90), 300,
        {"fp32": 15.7, "fp16": 125, "fp64": 7.8}, document=_V100_SHEET, nvlink=(300, 6),
        pcie=(3, 16),
    ),
    partial(_sheet,
        "V100 SXM2 32 GB", ("Tesla V100-SXM2-32GB",), (32, 0.90), 300,
        {"fp32": 15.7, "fp16": 125, "fp64": 7.8}, document=_V100_SHEET, nvlink=(300, 6),
        pcie=(3, 16),
    ),
    partial(_sheet,
        "V100 PCIe 16 GB", ("Tesla V100-PCIE-16GB",), (16, 0.90), 250,
        {"fp32": 14, "fp16": 112, "fp64": 7}, document=_V100_SHEET, pcie=(3, 16),
    ),
    partial(_sheet,
        "V100 PCIe 32 GB", ("Tesla V100-PCIE-32GB",), (32, 0.90), 250,
        {"fp32": 14, "fp16": 112, "fp64": 7}, document=_V100_SHEET, pcie=(3, 16),
    ),
    partial(_sheet,
        "V100S PCIe 32 GB", ("Tesla V100S-PCIE-32GB",), (32, 1.134), 250,
        {"fp32": 16.4, "fp16": 130, "fp64": 8.2}, document=_V100_SHEET, pcie=(3, 16),
    ),
    partial(_sheet,
        "T4", ("Tesla T4",), (16, 0.32), 70,
        {"fp32": 8.1, "fp16": 65, "int8": 130}, document="NVIDIA T4 data sheet", pcie=(3, 16),
    ),
    partial(_sheet,
        "A2", ("NVIDIA A2",), (16, 0.20), 60,
        {"fp32": 4.5, "tf32": 9, **_half(18), "int8": 36}, document="NVIDIA A2 data sheet",
        pcie=(4, 8),
    ),
    partial(_sheet,
        "A10", ("NVIDIA A10",), (24, 0.60), 150,
        {"fp32": 31.2, "tf32": 62.5, **_half(125), "int8": 250}, document="NVIDIA A10 data sheet",
        pcie=(4, 16),
    ),
    partial(_sheet,
        "A10G", ("NVIDIA A10G",), (24, 0.60), 300,
        {"fp32": 31.5, "tf32": 35, **_half(70), "int8": 140}, document="NVIDIA A10G data sheet",
        pcie=(4, 16),
    ),
    partial(_sheet,
        "A16", ("NVIDIA A16",), (16, 0.20), 62.5,
        {"fp32": 4.5, "tf32": 9, **_half(17.9), "int8": 35.9}, document="NVIDIA A16 data sheet",
        notes={"tdp": "a quarter of the 250 W of a board of four GPUs"},
    ),
    partial(_sheet,
        "A30", ("NVIDIA A30",), (24, 0.933), 165,
        {"fp32": 10.3, "tf32": 82, **_half(165), "fp64": 5.2, "fp64_tensor": 10.3, "int8": 330},
        document="NVIDIA A30 data sheet", nvlink=(200, None), bridge=True, pcie=(4, 16), mig=4,
    ),
    partial(_sheet,
        "A40", ("NVIDIA A40",), (48, 0.696), 300,
        {"fp32": 37.4, "tf32": 74.8, **_half(149.7), "int8": 299.3},
        document="NVIDIA A40 data sheet", nvlink=(112.5, None), bridge=True, pcie=(4, 16),
    ),
    partial(_sheet,
        "A100 PCIe 40 GB", ("NVIDIA A100-PCIE-40GB", "A100-PCIE-40GB"), (40, 1.555), 250, _A100,
        is_seen=True, document=_A100_SHEET, also=_A100_MORE, achievable={"bf16": 253}, clock=1410,
        nvlink=(600, None), bridge=True, pcie=(4, 16), mig=7,
    ),
    partial(_sheet,
        "A100 PCIe 80 GB", ("NVIDIA A100 80GB PCIe",), (80, 1.94), 300, _A100,
        is_seen=True, document=_A100_SHEET, also=_A100_MORE, achievable={"bf16": 253}, clock=1410,
        nvlink=(600, None), bridge=True, pcie=(4, 16), mig=7,
    ),
    partial(_sheet,
        "A100 SXM 40 GB", ("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"), (40, 1.555), 400, _A100,
        is_seen=True, document=_A100_SHEET, also=_A100_MORE, achievable={"bf16": 271}, clock=1410,
        nvlink=(600, 12), pcie=(4, 16), mig=7,
    ),
    partial(_sheet,
        "A100 SXM 80 GB", ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"), (80, 2.04), 400, _A100,
        is_seen=True, document=_A100_SHEET, also=_A100_MORE, achievable={"bf16": 271}, clock=1410,
        nvlink=(600, 12), pcie=(4, 16), mig=7,
    ),
    partial(_sheet,
        "A100 SXM 64 GB", ("NVIDIA A100-SXM-64GB",), (64, 1.64), 440,
        {"fp32": 22.4, "fp64": 11.2, "fp64_tensor": 22.4},
        document="LEONARDO: a pan-European pre-exascale supercomputer (2023), custom A100",
        nvlink=(600, 12), pcie=(4, 16), mig=7,
    ),
    partial(_sheet,
        "A800 SXM 80 GB", ("NVIDIA A800-SXM4-80GB",), (80, 2.04), 400, {**_A100, **_A100_MORE},
        document="NVIDIA A800 data sheet", nvlink=(400, 8), pcie=(4, 16), mig=7,
    ),
    partial(_sheet,
        "A800 PCIe 80 GB", ("NVIDIA A800 80GB PCIe",), (80, 1.94), 300, {**_A100, **_A100_MORE},
        document="NVIDIA A800 data sheet", nvlink=(400, None), bridge=True, pcie=(4, 16), mig=7,
    ),
    partial(_sheet,
        "L4", ("NVIDIA L4",), (24, 0.30), 72,
        {"fp32": 30.3, "tf32": 60, **_half(121), "fp8": 242, "int8": 242},
        document="NVIDIA L4 data sheet", pcie=(4, 16),
    ),
    partial(_sheet,
        "L20", ("NVIDIA L20",), (48, 0.864), 275,
        {"fp32": 59.8, "tf32": 59.8, **_half(119.5), "fp8": 239, "int8": 239},
        document="NVIDIA L20 data sheet", pcie=(4, 16),
    ),
    partial(_sheet,
        "L40", ("NVIDIA L40",), (48, 0.864), 300,
        {"fp32": 90.5, "tf32": 90.5, **_half(181.05), "fp8": 362, "int8": 362},
        document="NVIDIA L40 data sheet", pcie=(4, 16),
    ),
    partial(_sheet,
        "L40S", ("NVIDIA L40S",), (48, 0.864), 350,
        {"fp32": 91.6, "tf32": 183, **_half(362), "fp8": 733}, is_seen=True,
        document="NVIDIA L40S data sheet", also={"int8": 733}, pcie=(4, 16),
    ),
    partial(_sheet,
        "RTX A5000", ("NVIDIA RTX A5000",), (24, 0.768), 230,
        {"fp32": 27.8, "tf32": 55.6, **_half(111.1), "int8": 222.2},
        document="NVIDIA RTX A5000 data sheet", nvlink=(112.5, None), bridge=True, pcie=(4, 16),
        notes={"fp16": _HALVED, "bf16": _HALVED},
    ),
    partial(_sheet,
        "RTX A6000", ("NVIDIA RTX A6000",), (48, 0.768), 300,
        {"fp32": 38.7, "tf32": 77.4, **_half(154.8), "int8": 309.7},
        document="NVIDIA RTX A6000 data sheet", nvlink=(112.5, None), bridge=True, pcie=(4, 16),
        notes={"fp16": _HALVED, "bf16": _HALVED},
    ),
    partial(_sheet,
        "RTX 6000 Ada", ("NVIDIA RTX 6000 Ada Generation",), (48, 0.96), 300,
        {"fp32": 91.1, "tf32": 182, **_half(364), "fp8": 728, "int8": 728},
        document="NVIDIA RTX 6000 Ada data sheet", pcie=(4, 16),
    ),
    partial(_sheet,
        "RTX PRO 6000 Workstation", ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition",),
        (96, 1.792), 600, {"fp32": 125, "fp4": 2000}, document=_RTX_PRO, pcie=(5, 16), mig=4,
        notes={"fp4": _HALVED},
    ),
    partial(_sheet,
        "RTX PRO 6000 Max-Q",
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",), (96, 1.792), 300,
        {"fp32": 110, "fp4": 1755}, document=_RTX_PRO, pcie=(5, 16), mig=4, notes={"fp4": _HALVED},
    ),
    partial(_sheet,
        "RTX PRO 6000 Server", ("NVIDIA RTX PRO 6000 Blackwell Server Edition",), (96, 1.597), 600,
        {"fp32": 120, "fp4": 2000}, document=_RTX_PRO, pcie=(5, 16), mig=4,
        notes={"fp4": _HALVED, "tdp": "400 to 600 W"},
    ),
    partial(_sheet,
        "GeForce RTX 2080 Ti", ("NVIDIA GeForce RTX 2080 Ti", "GeForce RTX 2080 Ti"),
        (11, 0.616), 260, {"fp32": 13.4, "fp16": 53.8, "int8": 215.2}, document=_TURING,
        pcie=(3, 16), notes={"tdp": "250 W, 260 of NVIDIA's own board"},
    ),
    partial(_sheet,
        "GeForce RTX 3080", ("NVIDIA GeForce RTX 3080",), (10, 0.76), 320,
        {"fp32": 29.8, "tf32": 29.8, **_half(59.5), "int8": 238}, document=_GA102, pcie=(4, 16),
    ),
    partial(_sheet,
        "GeForce RTX 3090", ("NVIDIA GeForce RTX 3090",), (24, 0.936), 350,
        {"fp32": 35.6, "tf32": 35.6, **_half(71), "int8": 284}, document=_GA102,
        nvlink=(112.5, None), bridge=True, pcie=(4, 16),
    ),
    partial(_sheet,
        "GeForce RTX 3090 Ti", ("NVIDIA GeForce RTX 3090 Ti",), (24, 1.008), 450,
        {"fp32": 40, "tf32": 40, **_half(80), "int8": 320}, document=_ADA, pcie=(4, 16),
    ),
    partial(_sheet,
        "GeForce RTX 4080", ("NVIDIA GeForce RTX 4080",), (16, 0.7168), 320,
        {"fp32": 48.7, "tf32": 48.7, **_half(97.5), "fp8": 194.9, "int8": 389.9}, document=_ADA,
        pcie=(4, 16),
    ),
    partial(_sheet,
        "GeForce RTX 4090", ("NVIDIA GeForce RTX 4090",), (24, 1.008), 450,
        {"fp32": 82.6, "tf32": 82.6, **_half(165.2), "fp8": 330.3, "int8": 660.6}, document=_ADA,
        pcie=(4, 16),
    ),
    partial(_sheet,
        "GeForce RTX 5080", ("NVIDIA GeForce RTX 5080",), (16, 0.96), 360,
        {"fp32": 56.3, "tf32": 56.3, **_half(112.6), "fp8": 225.1, "fp4": 900.4, "int8": 450.2},
        document=_RTX_BLACKWELL, pcie=(5, 16),
    ),
    partial(_sheet,
        "GeForce RTX 5090", ("NVIDIA GeForce RTX 5090",), (32, 1.792), 575,
        {"fp32": 104.8, "tf32": 104.8, **_half(209.5), "fp8": 419, "fp4": 1676, "int8": 838},
        document=_RTX_BLACKWELL, pcie=(5, 16),
    ),
    partial(_sheet,
        "H20", ("NVIDIA H20",), (96, 4.0), 400,
        {"fp32": 44, "tf32": 74, **_half(148), "fp8": 296, "fp64": 1, "int8": 296},
        document="NVIDIA H20 data sheet", nvlink=(900, 18), pcie=(5, 16), mig=7,
    ),
    partial(_sheet,
        "H100 PCIe", ("NVIDIA H100 PCIe",), (80, 2.0), 350,
        {"fp32": 51, "tf32": 378, **_half(756), "fp8": 1513}, is_seen=True, document=_H100_SHEET,
        also={"fp64": 26, "fp64_tensor": 51, "int8": 1513},
        nvlink=(600, None), bridge=True, pcie=(5, 16), mig=7,
    ),
    partial(_sheet,
        "H100 NVL", ("NVIDIA H100 NVL",), (94, 3.9), 400,
        {"fp32": 60, "tf32": 418, **_half(835), "fp8": 1671, "fp64": 30, "fp64_tensor": 60,
         "int8": 1671},
        document=_H100_SHEET, nvlink=(600, None), bridge=True, pcie=(5, 16),
        notes={"tdp": "350 to 400 W"}, mig=7,
    ),
    partial(_sheet,
        "H100 SXM", ("NVIDIA H100 80GB HBM3",), (80, 3.35), 700, _HOPPER, is_seen=True,
        document=_H100_SHEET, also=_HOPPER_MORE, achievable={"bf16": 794.5, "fp8": 1403},
        clock=1830, nvlink=(900, 18), pcie=(5, 16), mig=7,
    ),
    partial(_sheet,
        "H800 SXM", ("NVIDIA H800",), (80, 3.35), 700, {**_HOPPER, "fp64": 1, "int8": 1979},
        document="NVIDIA H800 data sheet", nvlink=(400, 8), pcie=(5, 16), mig=7,
    ),
    partial(_sheet,
        "H200 SXM", ("NVIDIA H200",), (141, 4.8), 700, _HOPPER, is_seen=True,
        document=_H200_SHEET, also=_HOPPER_MORE, achievable={"fp8": 1453}, clock=1830,
        nvlink=(900, 18), pcie=(5, 16), mig=7,
    ),
    partial(_sheet,
        "H200 NVL", ("NVIDIA H200 NVL",), (141, 4.8), 600,
        {"fp32": 60, "tf32": 417.5, **_half(835.5), "fp8": 1670.5, "fp64": 30, "fp64_tensor": 60,
         "int8": 1670.5},
        document=_H200_SHEET, nvlink=(900, None), bridge=True, pcie=(5, 16), mig=7,
    ),
    partial(_sheet,
        "GH200 96 GB", ("NVIDIA GH200 480GB", "NVIDIA GH200 120GB"), (96, 4.0), 1000, _HOPPER,
        is_seen=True, document=_GH200_SHEET, also=_HOPPER_MORE, achievable={"bf16": 828.6},
        nvlink=(900, 18), pcie=(5, None), notes=_MODULE, mig=7,
    ),
    partial(_sheet,
        "GH200 144 GB", ("NVIDIA GH200 144G HBM3e",), (144, 4.9), 1000,
        {**_HOPPER, **_HOPPER_MORE}, document=_GH200_SHEET, achievable={"bf16": 828.6},
        nvlink=(900, 18), pcie=(5, None), notes=_MODULE, mig=7,
    ),
    partial(_sheet,
        "B100 SXM", (), (180, 8.0), 700,
        {"fp32": 60, "tf32": 875, **_half(1750), "fp8": 3500, "fp4": 7000},
        document=_BLACKWELL_SHEET, nvlink=(1800, 18), pcie=(5, 16),
        notes={"memory": "180 to 192 GB"}, mig=7,
    ),
    partial(_sheet,
        "B200 SXM", ("NVIDIA B200",), (180, 8.0), 1000,
        {**_HGX, "fp4": 9000, "fp64": 37, "int8": 4500}, document=_BLACKWELL_SHEET,
        achievable={"bf16": 1745, "fp8": 3433}, nvlink=(1800, 18), pcie=(5, 16), mig=7,
    ),
    partial(_sheet,
        "GB200", ("NVIDIA GB200",), (186, 8.0), 1200, {**_GRACE_BLACKWELL, "fp4": 10000},
        is_seen=True, document=_BLACKWELL_SHEET, also={"fp64": 40, "int8": 5000},
        achievable={"bf16": 1822, "fp8": 3616}, nvlink=(1800, 18), mig=7,
    ),
    partial(_sheet,
        "B300 SXM", ("NVIDIA B300 SXM6 AC",), (288, 8.0), 1100,
        {**_HGX, "fp4": 13500, "fp64": 1.2}, document=_BLACKWELL_SHEET, achievable={"bf16": 1769},
        nvlink=(1800, 18), pcie=(6, None), mig=7,
        notes={"fp4": "an eighth of the 108 PFLOPS of eight, without sparsity"},
    ),
    partial(_sheet,
        "GB300", ("NVIDIA GB300",), (288, 8.0), 1400, {**_GRACE_BLACKWELL, "fp4": 15000},
        is_seen=True, document=_BLACKWELL_SHEET, also={"fp64": 1.3}, nvlink=(1800, 18),
        pcie=(6, None), mig=7,
    ),
    partial(_sheet,
        "GB10", ("NVIDIA GB10",), (128, 0.273), 140, {"fp4": 500},
        document="NVIDIA DGX Spark data sheet", notes={"fp4": _HALVED}, is_shared=True,
    ),
)  # fmt: skip
"""Every product of which the figures are known; each sheet is made when it is asked for."""

_BY_NAME: Final = {name: at for at, sheet in enumerate(_SHEETS) for name in sheet.args[1]}


@cache
def _made(at: int) -> Sheet:
    return _SHEETS[at]()


def sheets() -> tuple[Sheet, ...]:
    """Every product of which the figures are known; the others are unknown GPUs."""
    return tuple(_made(at) for at in range(len(_SHEETS)))


def sheet_named(name: str | None) -> Sheet | None:
    """The data sheet of the product of exactly this name; nothing else about the GPU counts."""
    at = _BY_NAME.get(name or "")
    return None if at is None else _made(at)


def sheet_for(
    name: str | None, mem_total_bytes: float | None, power_limit_w: float | None
) -> Sheet | None:
    """The data sheet of a GPU, None for one that is not known for sure.

    Args:
        name: Product name exactly as NVML prints it.
        mem_total_bytes: Memory as NVML reports it; None: a slice looks like the whole,
            unless the product has the host's memory and no total of its own.
        power_limit_w: Power limit; one beyond the product's means another product of that name,
            one below it is a cap. None: not known.
    """
    sheet = sheet_named(name)
    if sheet is None:
        return None
    if mem_total_bytes is None:
        return sheet if sheet.has_shared_memory else None
    advertised_gb = sheet.memory_bytes.value / GB
    lowest = SMALLEST_SHARE * advertised_gb * GB
    if not lowest <= mem_total_bytes <= LARGEST_SHARE * advertised_gb * GIB:
        return None
    if power_limit_w is not None and power_limit_w > HIGHEST_LIMIT * sheet.tdp_w.value:
        return None
    return sheet
