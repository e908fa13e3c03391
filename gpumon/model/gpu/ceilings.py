"""What a GPU could do at its present clock, and which share of that it does: an estimate.

Counters show for which share of the time a pipe, the memory or a link is at work. Times what the
data sheet gives as its peak, that is what it does at most: a pipe at work may do less in a cycle
than it can. So a share is an upper bound, and what is left below the ceiling is at least that much.

    operations/s  <=  share of the time  x  dense peak  x  SM clock / clock of the peak
    bytes/s        =  share of the time  x  memory bandwidth
    intensity      =  operations/s / bytes/s

After S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model for
multicore architectures" (CACM 52:4, 2009).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.gpu.pcie import pcie_bytes_per_s

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.model.gpu.hardware import Sheet

HALVES: Final = ("bf16", "fp16")
"""Precision that tensor cores are taken to work in, the first that a sheet has: no counter shows
16 bits from TF32, which does half as much, or from FP8, which does twice as much."""

_TENSOR: Final = "tensor_active_ratio"
_DOUBLE: Final = ("tensor_dfma_active_ratio", "tensor_dmma_active_ratio")

_PIPES: Final = (
    ("fp32", "fp32_active_ratio"),
    ("fp64", "fp64_active_ratio"),
    ("int8", "tensor_imma_active_ratio"),
    ("fp64_tensor", _DOUBLE[0]),
    ("fp64_tensor", _DOUBLE[1]),
)
"""Precisions of a sheet by the counter that shows for which share of the time they are at work."""

KEYS: Final = (
    _TENSOR,
    *(key for _, key in _PIPES),
    "dram_active_ratio",
    "gpu_util_ratio",
    "sm_active_ratio",
    "sm_clock_mhz",
    "sm_clock_max_mhz",
    "nvlink_rx_bytes_per_s",
    "nvlink_tx_bytes_per_s",
    "pcie_rx_bytes_per_s",
    "pcie_tx_bytes_per_s",
    "pcie_gen",
    "pcie_width",
)
"""Fields of a GPU that are asked for."""

STEPS: Final = frozenset({"sm_clock_max_mhz", "pcie_gen", "pcie_width"})
"""Those of which the highest counts over a while, not a mean."""


class Ceiling(NamedTuple):
    """One thing that may bound a GPU, and how near it is to it."""

    what: str
    """A precision of the sheet for a pipe; else `memory`, `nvlink` or `pcie`."""
    ratio: float
    """Share of the time that it is at work, or of what a link carries; of both directions of a link
    the busier one."""
    per_s: float
    """What it could do each second at the present clock: operations, or bytes."""
    published_per_s: float
    """What the data sheet gives."""
    is_compute: bool

    @property
    def reached_per_s(self) -> float:
        """What it does each second, at most."""
        return self.ratio * self.per_s


def keys_of(sheet: Sheet, what: str) -> tuple[str, ...]:
    """Fields that show how near a GPU is to a ceiling, and how high that is; none: no counter does.

    Args:
        sheet: The GPU's data sheet.
        what: As in `Ceiling`.
    """
    if what == "memory":
        return ("dram_active_ratio",)
    if what in ("nvlink", "pcie"):
        moved = tuple(f"{what}_{way}_bytes_per_s" for way in ("rx", "tx"))
        return moved if what == "nvlink" else (*moved, "pcie_gen", "pcie_width")
    pipes = tuple(key for precision, key in _PIPES if precision == what)
    if what == half_of(sheet):
        pipes = (_TENSOR,)
    clocks = ("sm_clock_mhz",) if sheet.peak_clock_mhz else ("sm_clock_mhz", "sm_clock_max_mhz")
    return (*pipes, *clocks) if pipes else ()


def clock_ratio(sheet: Sheet, values: Mapping[str, float]) -> float:
    """Present clock over that of the published peaks; NaN where no clock is known.

    Where the vendor does not give at which clock the peaks hold, it is the highest that NVML names.
    """
    clock = values.get("sm_clock_mhz", float("nan"))
    if sheet.peak_clock_mhz is not None:
        return clock / sheet.peak_clock_mhz.value
    return clock / values.get("sm_clock_max_mhz", float("nan"))


def pipe_ratios(sheet: Sheet, values: Mapping[str, float]) -> dict[str, float]:
    """By precision the share of the time that its pipe is at work, of those that the sheet has.

    Args:
        sheet: The GPU's data sheet.
        values: Fields by key; what is not known is not there.
    """
    found: dict[str, float] = {}
    for precision, key in _PIPES:
        if key in values and precision in sheet.dense_tflops:
            # One of the two counters of double precision is always 0.
            found[precision] = found.get(precision, 0.0) + values[key]
    half = half_of(sheet)
    if half and _TENSOR in values:
        others = sum(found.get(precision, 0.0) for precision in ("int8", "fp64_tensor"))
        found[half] = max(0.0, values[_TENSOR] - others)
    return found


def half_of(sheet: Sheet) -> str:
    """The precision of 16 bits that a sheet's tensor cores have; empty without any."""
    return next((precision for precision in HALVES if precision in sheet.dense_tflops), "")


def operations_per_s(sheet: Sheet, values: Mapping[str, float]) -> float:
    """What all pipes do together, at most; NaN where nothing is known."""
    ratios = pipe_ratios(sheet, values)
    if not ratios:
        return float("nan")
    done = sum(share * sheet.dense_tflops[key].value * 1e12 for key, share in ratios.items())
    return done * clock_ratio(sheet, values)


def memory_bytes_per_s(sheet: Sheet, values: Mapping[str, float]) -> float:
    """What the memory moves; NaN where that is not known."""
    return values.get("dram_active_ratio", float("nan")) * sheet.memory_bytes_per_s.value


def ceilings_of(sheet: Sheet, values: Mapping[str, float]) -> tuple[Ceiling, ...]:
    """All that may bound a GPU and of which something is known: pipes first, then memory, links.

    Args:
        sheet: Its data sheet.
        values: Its fields by key: what is not known is not there.
    """
    clock = clock_ratio(sheet, values)
    found = []
    for precision, ratio in pipe_ratios(sheet, values).items():
        peak = sheet.dense_tflops[precision].value * 1e12
        if clock == clock:
            found.append(Ceiling(precision, ratio, peak * clock, peak, is_compute=True))
    found.sort(key=lambda pipe: -pipe.reached_per_s)
    if "dram_active_ratio" in values:
        peak = sheet.memory_bytes_per_s.value
        found.append(Ceiling("memory", values["dram_active_ratio"], peak, peak, is_compute=False))
    nvlink = sheet.nvlink_bytes_per_s
    pcie = pcie_bytes_per_s(values.get("pcie_gen"), values.get("pcie_width"))
    for what, carried in (("nvlink", nvlink.value if nvlink else None), ("pcie", pcie)):
        keys = [f"{what}_{way}_bytes_per_s" for way in ("rx", "tx")]
        moved = [values[key] for key in keys if key in values]
        if carried and moved:
            found.append(Ceiling(what, max(moved) / carried, carried, carried, is_compute=False))
    return tuple(found)
