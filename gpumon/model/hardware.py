"""Data sheets: what a GPU could do, so that what it does can be put beside it.

A sheet is found by the exact product name that NVML prints, the memory that it reports, and a
power limit that the product can have; nothing is guessed from a part of a name. A GPU without a
sheet is unknown, and then nothing may be said of its share of a peak.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

GB: Final = 1e9
GIB: Final = 2.0**30

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
    """Peak by precision: `fp32`, `tf32`, `bf16`, `fp16`, `fp8`, `fp4`, `nvfp4`."""
    achievable_tflops: Mapping[str, Figure]
    """Largest matrix product that was measured, by precision; empty where nobody has said."""
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

    @property
    def link_bytes_per_s(self) -> float | None:
        """One NVLink, one direction; None where the number of links is not known."""
        if self.nvlink_links is None or self.nvlink_bytes_per_s is None:
            return None
        return self.nvlink_bytes_per_s.value / self.nvlink_links.value


_ENGINEERING: Final = "stas00/ml-engineering 744d01e1, compute/accelerator/README.md"
_PUBLIC: Final = "public data sheet"
_MAMF: Final = _ENGINEERING + ", maximum achievable matmul"


def _seen(value: float) -> Figure:
    return Figure(value, _ENGINEERING, Basis.SEEN)


def _general(value: float, note: str = "") -> Figure:
    return Figure(value, f"{_PUBLIC}: {note}" if note else _PUBLIC, Basis.GENERAL)


def _sheet(
    product: str,
    names: tuple[str, ...],
    memory: tuple[float, float],
    tdp_w: float,
    tflops: Mapping[str, float],
    *,
    is_seen: bool,
    achievable: Mapping[str, float] | None = None,
    nvlink: tuple[float, int | None] | None = None,
    bridge: bool = False,
    pcie: tuple[int | None, int | None] = (None, None),
    mig: int = 0,
    notes: Mapping[str, str] | None = None,
) -> Sheet:
    """A sheet from figures as they are printed.

    Args:
        product: What people call it.
        names: Exact names of NVML.
        memory: GB and TB/s.
        tdp_w: Watts.
        tflops: Dense peak by precision.
        is_seen: Whether throughput and memory were read in `_ENGINEERING`.
        achievable: Measured TFLOPS by precision.
        nvlink: GB/s of both directions of all links, as advertised, and the number of links.
        bridge: NVLink by a bridge between two boards only.
        pcie: Generation and lanes.
        mig: Most instances of MIG.
        notes: Remarks on a figure's source, by field.
    """
    figure = _seen if is_seen else _general
    told = notes or {}
    total, links = nvlink or (None, None)
    gen, lanes = pcie
    memory_gb = figure(memory[0] * GB)
    if "memory" in told:
        memory_gb = memory_gb._replace(source=f"{memory_gb.source}: {told['memory']}")
    return Sheet(
        product,
        names,
        memory_gb,
        figure(memory[1] * 1000 * GB),
        _general(tdp_w, told.get("tdp", "")),
        {precision: figure(value) for precision, value in tflops.items()},
        {key: Figure(value, _MAMF, Basis.SEEN) for key, value in (achievable or {}).items()},
        None if links is None else _general(links),
        None if total is None else _general(total / 2 * GB),
        bridge,
        None if gen is None else _general(gen),
        None if lanes is None else _general(lanes),
        mig,
    )


def _half(both: float) -> dict[str, float]:
    return {"bf16": both, "fp16": both}


_A100: Final = {"fp32": 19.5, "tf32": 156.0, **_half(312)}
_HOPPER: Final = {"fp32": 67.0, "tf32": 494.5, **_half(989), "fp8": 1979.0}
_BLACKWELL: Final = {"fp32": 80.0, "tf32": 1125.0, **_half(2250), "fp8": 4500.0}
_GRACE_BLACKWELL: Final = {"fp32": 80.0, "tf32": 1250.0, **_half(2500), "fp8": 5000.0}

SHEETS: Final = (
    _sheet(
        "V100 SXM2 16 GB", ("Tesla V100-SXM2-16GB",), (16, 0.90), 300,
        {"fp32": 15.7, "fp16": 125}, is_seen=False, nvlink=(300, 6), pcie=(3, 16),
    ),
    _sheet(
        "V100 SXM2 32 GB", ("Tesla V100-SXM2-32GB",), (32, 0.90), 300,
        {"fp32": 15.7, "fp16": 125}, is_seen=False, nvlink=(300, 6), pcie=(3, 16),
    ),
    _sheet(
        "T4", ("Tesla T4",), (16, 0.32), 70,
        {"fp32": 8.1, "fp16": 65}, is_seen=False, pcie=(3, 16),
    ),
    _sheet(
        "A10", ("NVIDIA A10",), (24, 0.60), 150,
        {"fp32": 31.2, "tf32": 62.5, **_half(125)}, is_seen=False, pcie=(4, 16),
    ),
    _sheet(
        "A30", ("NVIDIA A30",), (24, 0.933), 165,
        {"fp32": 10.3, "tf32": 82, **_half(165)}, is_seen=False,
        nvlink=(200, None), bridge=True, pcie=(4, 16), mig=4,
    ),
    _sheet(
        "A100 PCIe 40 GB", ("NVIDIA A100-PCIE-40GB", "A100-PCIE-40GB"), (40, 1.555), 250, _A100,
        is_seen=True, achievable={"bf16": 253}, nvlink=(600, None), bridge=True, pcie=(4, 16),
        mig=7,
    ),
    _sheet(
        "A100 PCIe 80 GB", ("NVIDIA A100 80GB PCIe",), (80, 1.94), 300, _A100,
        is_seen=True, achievable={"bf16": 253}, nvlink=(600, None), bridge=True, pcie=(4, 16),
        mig=7,
    ),
    _sheet(
        "A100 SXM 40 GB", ("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"), (40, 1.555), 400, _A100,
        is_seen=True, achievable={"bf16": 271}, nvlink=(600, 12), pcie=(4, 16), mig=7,
    ),
    _sheet(
        "A100 SXM 80 GB", ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"), (80, 2.04), 400, _A100,
        is_seen=True, achievable={"bf16": 271}, nvlink=(600, 12), pcie=(4, 16), mig=7,
    ),
    _sheet(
        "L4", ("NVIDIA L4",), (24, 0.30), 72,
        {"fp32": 30.3, "tf32": 60, **_half(121), "fp8": 242}, is_seen=False, pcie=(4, 16),
    ),
    _sheet(
        "L40S", ("NVIDIA L40S",), (48, 0.864), 350,
        {"fp32": 91.6, "tf32": 183, **_half(362), "fp8": 733}, is_seen=True, pcie=(4, 16),
    ),
    _sheet(
        "RTX 6000 Ada", ("NVIDIA RTX 6000 Ada Generation",), (48, 0.96), 300,
        {"fp32": 91.1, "tf32": 182, **_half(364), "fp8": 728}, is_seen=False, pcie=(4, 16),
    ),
    _sheet(
        "H100 PCIe", ("NVIDIA H100 PCIe",), (80, 2.0), 350,
        {"fp32": 51, "tf32": 378, **_half(756), "fp8": 1513}, is_seen=True,
        nvlink=(600, None), bridge=True, pcie=(5, 16), mig=7,
    ),
    _sheet(
        "H100 NVL", ("NVIDIA H100 NVL",), (94, 3.9), 400,
        {"fp32": 60, "tf32": 418, **_half(835), "fp8": 1671}, is_seen=False,
        nvlink=(600, None), bridge=True, pcie=(5, 16), notes={"tdp": "350 to 400 W"}, mig=7,
    ),
    _sheet(
        "H100 SXM", ("NVIDIA H100 80GB HBM3",), (80, 3.35), 700, _HOPPER, is_seen=True,
        achievable={"bf16": 794.5, "fp8": 1403}, nvlink=(900, 18), pcie=(5, 16), mig=7,
    ),
    _sheet(
        "H200 SXM", ("NVIDIA H200",), (141, 4.8), 700, _HOPPER, is_seen=True,
        achievable={"fp8": 1453}, nvlink=(900, 18), pcie=(5, 16), mig=7,
    ),
    _sheet(
        "GH200 96 GB", ("NVIDIA GH200 480GB",), (96, 4.0), 1000, _HOPPER, is_seen=True,
        achievable={"bf16": 828.6}, nvlink=(900, None), pcie=(5, None),
        notes={"tdp": "up to 1000 W for the module, CPU included"}, mig=7,
    ),
    _sheet(
        "GH200 141 GB", ("NVIDIA GH200 144G HBM3e",), (141, 4.8), 1000, _HOPPER, is_seen=True,
        achievable={"bf16": 828.6}, nvlink=(900, None), pcie=(5, None),
        notes={"tdp": "up to 1000 W for the module, CPU included"}, mig=7,
    ),
    _sheet(
        "B100 SXM", (), (180, 8.0), 700,
        {"fp32": 60, "tf32": 875, **_half(1750), "fp8": 3500, "fp4": 7000}, is_seen=False,
        nvlink=(1800, 18), pcie=(5, 16), notes={"memory": "180 to 192 GB"}, mig=7,
    ),
    _sheet(
        "B200 SXM", ("NVIDIA B200",), (180, 8.0), 1000, {**_BLACKWELL, "fp4": 9000}, is_seen=True,
        achievable={"bf16": 1745, "fp8": 3433}, nvlink=(1800, 18), pcie=(5, 16), mig=7,
    ),
    _sheet(
        "GB200", ("NVIDIA GB200",), (186, 8.0), 1200, {**_GRACE_BLACKWELL, "fp4": 10000},
        is_seen=True, achievable={"bf16": 1822, "fp8": 3616}, nvlink=(1800, None), mig=7,
    ),
    _sheet(
        "B300 SXM", ("NVIDIA B300 SXM6 AC",), (288, 8.0), 1400,
        {**_BLACKWELL, "fp4": 12600, "nvfp4": 15000}, is_seen=True,
        achievable={"bf16": 1769}, nvlink=(1800, None), pcie=(6, None),
        notes={"tdp": "1100 to 1400 W"}, mig=7,
    ),
    _sheet(
        "GB300", ("NVIDIA GB300",), (288, 8.0), 1400, {**_GRACE_BLACKWELL, "fp4": 15000},
        is_seen=True, nvlink=(1800, None), pcie=(6, None), mig=7,
    ),
)  # fmt: skip
"""Every product of which the figures are known; the others are unknown GPUs."""

_BY_NAME: Final = {name: sheet for sheet in SHEETS for name in sheet.names}


def sheet_named(name: str | None) -> Sheet | None:
    """The data sheet of the product of exactly this name, whatever else is known of the GPU."""
    return _BY_NAME.get(name or "")


def sheet_for(
    name: str | None, mem_total_bytes: float | None, power_limit_w: float | None
) -> Sheet | None:
    """The data sheet of a GPU, None for one that is not known for sure.

    Args:
        name: Product name exactly as NVML prints it.
        mem_total_bytes: Memory as NVML reports it; None: a slice cannot be told from the whole.
        power_limit_w: Power limit; one beyond the product's means another product of that name,
            one below it is a cap. None: not looked at.
    """
    sheet = _BY_NAME.get(name or "")
    if sheet is None or mem_total_bytes is None:
        return None
    advertised_gb = sheet.memory_bytes.value / GB
    lowest = SMALLEST_SHARE * advertised_gb * GB
    if not lowest <= mem_total_bytes <= LARGEST_SHARE * advertised_gb * GIB:
        return None
    if power_limit_w is not None and power_limit_w > HIGHEST_LIMIT * sheet.tdp_w.value:
        return None
    return sheet
