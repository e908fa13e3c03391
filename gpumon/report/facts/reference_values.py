"""What a GPU's values are to be compared with: its limits, its links, its data sheet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.model.gpu.ceilings import half_of
from gpumon.model.gpu.hardware import sheet_for
from gpumon.model.gpu.pcie import pcie_bytes_per_s
from gpumon.report.text import units

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpumon.model.gpu.hardware import Sheet
    from gpumon.model.records.cluster import Gpu

LOW_RATIO: Final = 0.10
"""Below this share of its capacity a running GPU counts as hardly used, as nvitop's colours do."""


def sheet_of(gpu: Gpu) -> Sheet | None:
    """The GPU's data sheet; its last known total and limit will do, they hardly change."""
    total, limit = (gpu.block.value(key, gpu.row) for key in ("mem_total_bytes", "power_limit_w"))
    return sheet_for(gpu.label("name"), total, limit)


def of_text(gpu: Gpu, key: str, sheet: Sheet | None) -> str:
    """What a field is to be compared with, empty where nothing is known."""
    found = _OF.get(key)
    return found(gpu, sheet) if found else ""


def _limit(key: str, words: str) -> Callable[[Gpu, Sheet | None], str]:
    """Another field of the same GPU."""

    def text(gpu: Gpu, _sheet: Sheet | None) -> str:
        value = gpu.value(key)
        if value is None:
            return ""
        return words.format(units.quantity(value, _UNITS[key.rpartition("_")[2]]))

    return text


_UNITS: Final = {"w": "W", "c": "C", "mhz": "MHz", "bytes": "bytes"}


def _power_limit(gpu: Gpu, sheet: Sheet | None) -> str:
    default, low, high = (
        gpu.value(f"power_limit_{which}_w") for which in ("default", "min", "max")
    )
    parts = []
    if default is not None:
        parts.append(f"default {default:.0f}")
    if low is not None and high is not None:
        parts.append(f"{low:.0f}-{high:.0f}")
    if not parts and sheet is not None:
        parts.append(f"data sheet {sheet.tdp_w.value:.0f}")
    return f"{', '.join(parts)} W" if parts else ""


def _temperature(gpu: Gpu, _sheet: Sheet | None) -> str:
    slow, off = gpu.value("temp_slowdown_c"), gpu.value("temp_shutdown_c")
    parts = [] if slow is None else [f"slows {slow:.0f}"]
    if off is not None:
        parts.append(f"off {off:.0f}")
    return f"{', '.join(parts)} °C" if parts else ""


def _pcie(gpu: Gpu, _sheet: Sheet | None) -> str:
    peak = pcie_bytes_per_s(gpu.value("pcie_gen"), gpu.value("pcie_width"))
    return "" if peak is None else f"of {units.rate(peak)} as linked"


def _nvlink(_gpu: Gpu, sheet: Sheet | None) -> str:
    peak = None if sheet is None else sheet.nvlink_bytes_per_s
    return "" if peak is None else f"of {units.rate(peak.value)}"


def _dram(gpu: Gpu, sheet: Sheet | None) -> str:
    ratio = gpu.value("dram_active_ratio")
    if sheet is None or ratio is None:
        return ""
    peak = sheet.memory_bytes_per_s.value
    return f"{units.tera(ratio * peak)} of {units.tera(peak)} TB/s"


def _tensor(gpu: Gpu, sheet: Sheet | None) -> str:
    ratio, peak = gpu.value("tensor_active_ratio"), tensor_peak(sheet)
    if ratio is None or peak is None:
        return ""
    precision, tflops, _ = peak
    return f"≤{ratio * tflops:.0f}/{tflops:.0f} TFLOPS {precision}"


def tensor_peak(sheet: Sheet | None) -> tuple[str, float, float | None] | None:
    """Precision, dense peak and achievable TFLOPS of the tensor pipes."""
    precision = "" if sheet is None else half_of(sheet)
    if sheet is None or not precision:
        return None
    reached = sheet.achievable_tflops.get(precision)
    peak = sheet.dense_tflops[precision].value
    return precision, peak, None if reached is None else reached.value


def sheet_words(gpu: Gpu, sheet: Sheet | None) -> str:
    """The data sheet's tensor pipes and memory, or that there is none."""
    if sheet is None:
        return "unknown GPU: no data sheet, so no share of a peak"
    parts = []
    peak = tensor_peak(sheet)
    if peak is not None:
        precision, tflops, reached = peak
        part = f"{precision} {tflops:.0f} TFLOPS dense"
        if reached is not None:
            part += f", {reached:.0f} ({units.percent(reached / tflops)} %) achievable"
            ratio = gpu.value("tensor_active_ratio")
            if ratio is not None:
                part += f", now at most {units.percent(ratio * tflops / reached)} % of that"
        parts.append(part)
    parts.append(f"memory {units.tera(sheet.memory_bytes_per_s.value)} TB/s")
    return f"{sheet.product} data sheet: {'; '.join(parts)}"


_OF: Final[Mapping[str, Callable[[Gpu, Sheet | None], str]]] = {
    "mem_used_bytes": _limit("mem_total_bytes", "of {}"),
    "power_w": _limit("power_limit_w", "of {} limit"),
    "power_limit_w": _power_limit,
    "temp_c": _temperature,
    "mem_temp_c": _limit("mem_temp_max_c", "highest {}"),
    "sm_clock_mhz": _limit("sm_clock_max_mhz", "of {}"),
    "mem_clock_mhz": _limit("mem_clock_max_mhz", "of {}"),
    "graphics_clock_mhz": _limit("graphics_clock_max_mhz", "of {}"),
    "pcie_gen": lambda gpu, _s: _most(gpu, "pcie_gen_max", "of {}, lower when idle"),
    "pcie_width": lambda gpu, _s: _most(gpu, "pcie_width_max", "of {}"),
    "pcie_tx_bytes_per_s": _pcie,
    "pcie_rx_bytes_per_s": _pcie,
    "nvlink_tx_bytes_per_s": _nvlink,
    "nvlink_rx_bytes_per_s": _nvlink,
    "dram_active_ratio": _dram,
    "tensor_active_ratio": _tensor,
}


def _most(gpu: Gpu, key: str, words: str) -> str:
    value = gpu.value(key)
    return "" if value is None else words.format(f"{value:.0f}")
