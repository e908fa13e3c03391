"""Numbers as people read them: one way to write a size, a rate, a power, a share, a duration."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from gpumon.model.units import DAY_S, HOUR_S, KWH_J
from gpumon.model.units import counted as counted
from gpumon.model.units import period as period

if TYPE_CHECKING:
    from gpumon.model.records.cluster import Gpu

MISSING: Final = "–"
"""The sign for a value that is not known; its reason is shown where there is room."""

_GIB: Final = 2**30
_SIZES: Final = ((_GIB, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_STEPS: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def percent(ratio: float | None) -> str:
    """A share of 1 as whole percent without the sign: `87`; a share above 0 is never `0`."""
    if ratio is None:
        return MISSING
    if 0 < ratio < 0.005:
        return "<1"
    return f"{ratio * 100:.0f}"


def fine_percent(ratio: float | None) -> str:
    """A share of 1 in percent with a decimal, without the sign: `12.3`."""
    return MISSING if ratio is None else f"{ratio * 100:.1f}"


def percent_off(ratio: float) -> str:
    """How far a number is from another, as a share of it: `+12 %`, `-3 %`."""
    return f"{ratio * 100:+.0f} %"


def gib(size_bytes: float | None) -> str:
    """Device or host memory in GiB, one decimal below 10: `61`, `7.5`."""
    if size_bytes is None:
        return MISSING
    value = size_bytes / _GIB
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def size(size_bytes: float | None, beside: float = 0.0) -> str:
    """A size with the largest unit of which it is one at least: `61 GiB`, `37 MiB`; 0 in GiB.

    Args:
        size_bytes: The size.
        beside: Another one that it is read with, such as the top of its scale: both in one unit.
    """
    if size_bytes is None:
        return MISSING
    largest = max(abs(size_bytes), beside)
    step, unit = next((s for s in _SIZES if largest >= 0.9995 * s[0]), (1, "B"))
    if unit == "GiB" or not largest:
        return f"{gib(size_bytes)} GiB"
    value = size_bytes / step
    text = f"{value:.1f}" if unit != "B" and 0 < abs(value) < 9.95 else f"{value:.0f}"
    return f"{text} {unit}"


def mib(size_bytes: float, places: int = 0) -> str:
    """A size in MiB without the unit: `180`."""
    return f"{size_bytes / 2**20:.{places}f}"


def decimal_size(size_bytes: float) -> str:
    """A size with a decimal prefix: `1.2 GB`, `340 MB`."""
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.0f} MB"


def memory(used_bytes: float | None, total_bytes: float | None) -> str:
    """Memory in use and in all, GiB: `61/80`; only the part that is known."""
    if used_bytes is None:
        return MISSING
    return gib(used_bytes) if total_bytes is None else f"{gib(used_bytes)}/{gib(total_bytes)}"


def short_rate(bytes_per_s: float | None) -> str:
    """Bytes per second with a decimal prefix, as data sheets count: `312G`, `4.5M`, `0`."""
    if bytes_per_s is None:
        return MISSING
    for step, prefix in _STEPS:
        if bytes_per_s >= step * 0.9995:
            value = bytes_per_s / step
            return f"{value:.1f}{prefix}" if value < 9.95 else f"{value:.0f}{prefix}"
    return f"{bytes_per_s:.0f}"


def rate(bytes_per_s: float | None) -> str:
    """Bytes per second with the unit: `312 GB/s`."""
    text = short_rate(bytes_per_s)
    if text == MISSING:
        return text
    return f"{text[:-1]} {text[-1]}B/s" if text[-1].isalpha() else f"{text} B/s"


def tera(value: float) -> str:
    """A number in units of 10^12, two decimals, as data sheets print bandwidths: `3.35`."""
    return f"{value / 1e12:.2f}"


def watts(power_w: float | None) -> str:
    """Power in whole watts, without the unit: `412`."""
    return MISSING if power_w is None else f"{power_w:.0f}"


def power(power_w: float | None, limit_w: float | None) -> str:
    """Power and its limit in watts: `412/700`; only the part that is known."""
    if power_w is None:
        return MISSING
    return watts(power_w) if limit_w is None else f"{watts(power_w)}/{watts(limit_w)}"


def slurm_duration(seconds: float | None) -> str:
    """A duration as squeue prints it: `14:05`, `2:03:04`, `1-02:03:04`."""
    if seconds is None:
        return MISSING
    whole = max(0, int(seconds))
    days, rest = divmod(whole, 86400)
    full_hours, rest = divmod(rest, 3600)
    minutes, secs = divmod(rest, 60)
    if days:
        return f"{days}-{full_hours:02}:{minutes:02}:{secs:02}"
    return f"{full_hours}:{minutes:02}:{secs:02}" if full_hours else f"{minutes}:{secs:02}"


def short_duration(seconds: float | None) -> str:
    """A duration in its two largest units: `42s`, `14m`, `2h14m`, `3d04h`."""
    if seconds is None:
        return MISSING
    whole = max(0, int(seconds))
    if whole < 100:
        return f"{whole}s"
    if whole < 6000:
        return f"{whole // 60}m"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02}h"


def span(seconds: float) -> str:
    """A length of time in the largest unit of which it is two at least: `24 h`, `31 days`."""
    for unit_s, name in ((DAY_S, "days"), (HOUR_S, "h")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.3g} {name}"
    return f"{seconds / 60:.0f} min"


def seconds(value: float, places: int = 0) -> str:
    """Seconds with the unit: `12 s`."""
    return f"{value:.{places}f} s"


def milliseconds(value_s: float, places: int = 0) -> str:
    """Seconds in thousandths with the unit: `12 ms`."""
    return f"{value_s * 1000:.{places}f} ms"


def hours(value_s: float, places: int = 2) -> str:
    """Seconds in hours without the unit, always as many decimals: `1,234.56`."""
    return f"{value_s / HOUR_S:,.{places}f}"


def gpus(count: int) -> str:
    """How many: `1 GPU`, `1,024 GPUs`."""
    return counted(count, "GPU")


def gpu_time(gpu_seconds: float | None) -> str:
    """GPU time, always in the unit of the ledger: `3.40 GPU-h`, `<0.01 GPU-h`."""
    return MISSING if gpu_seconds is None else f"{gpu_hours(gpu_seconds)} GPU-h"


def gpu_hours(gpu_seconds: float) -> str:
    """GPU time in hours without the unit, two decimals below 10: `0.25`, `12.4`, `1,320`."""
    value = gpu_seconds / HOUR_S
    if 0 < value < 0.005:
        return "<0.01"
    if value < 9.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"


def gpus_lost(gpus: float) -> str:
    """How many GPUs' time is lost, with a decimal below 10 where it is no whole: `25`, `3.4`."""
    if 0 < gpus < 0.05:
        return "<0.1"
    return tenths(gpus).removesuffix(".0") if gpus < 9.95 else tenths(gpus)


def tenths(value: float) -> str:
    """A number with a decimal below 10: `3.4`, `25`, `1,320`."""
    return f"{value:.1f}" if value < 9.95 else f"{value:,.0f}"


def money(amount: float | None) -> str:
    """A sum of money, without its currency: `1,234.50`."""
    return MISSING if amount is None else f"{amount:,.2f}"


def kilowatt_hours(energy_j: float | None) -> str:
    """Energy in kWh, without the unit: `1,234.5`."""
    return MISSING if energy_j is None else f"{energy_j / KWH_J:,.1f}"


def clock_time(unix_s: float | None, with_seconds: bool = False) -> str:
    """Local time of day: `14:03`."""
    if unix_s is None:
        return MISSING
    return time.strftime("%H:%M:%S" if with_seconds else "%H:%M", time.localtime(unix_s))


def quantity(value: float | None, unit: str) -> str:
    """A catalogue value with its unit, which is one of `model.field.Field.unit`."""
    if value is None:
        return MISSING
    if unit == "ratio":
        return f"{percent(value)} %"
    if unit == "bytes":
        return size(value)
    if unit == "bytes/s":
        return rate(value)
    if unit == "J":
        return f"{kilowatt_hours(value)} kWh" if value >= KWH_J else f"{value / 1000:,.0f} kJ"
    if unit == "C":
        return f"{value:.0f} °C"
    text = f"{value:.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:.2f}"
    return f"{text} {unit}" if unit else text


def index_text(gpu: Gpu | None) -> str:
    """NVML's index of a GPU on its node."""
    index = gpu.nvml_index if gpu else None
    return MISSING if index is None else str(index)
