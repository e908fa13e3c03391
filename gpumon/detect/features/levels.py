"""Features of each GPU, and of a job their mean: how busy, with what, how much of what it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.detect.features.feature import (
    LONG_S,
    NO_PROFILING,
    NO_SHEET,
    NOT_REPORTED,
    SHORT_S,
    TOO_SHORT,
    USUAL_S,
    Feature,
    deviation,
    mean,
    ratio,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpumon.detect.features.feature import Floats
    from gpumon.detect.features.samples import Samples

AT_REST: Final = 0.01
"""Utilisation of a step below which no kernel ran in it, but for one of a display."""

AT_WORK: Final = 0.3
"""Utilisation of a step from which a burst of work has begun (our choice)."""

_SINGLE: Final = (
    ("util", "Utilisation", ("gpu_util_ratio",), NOT_REPORTED),
    ("sm", "SM activity", ("sm_active_ratio",), NO_PROFILING),
    ("tensor", "Tensor activity", ("tensor_active_ratio",), NO_PROFILING),
    ("dram", "Memory activity", ("dram_active_ratio",), NO_PROFILING),
    ("fp64", "Activity of the fp64 pipes", ("fp64_active_ratio",), NO_PROFILING),
    ("fp32", "Activity of the fp32 pipes", ("fp32_active_ratio",), NO_PROFILING),
    ("power", "Power as a share of the limit", ("power_w", "power_limit_w"), NOT_REPORTED),
    ("mem", "Memory in use as a share of all", ("mem_used_bytes", "mem_total_bytes"), NOT_REPORTED),
    ("clock", "SM clock as a share of the highest", ("sm_clock_mhz", "sm_clock_max_mhz"),
     NOT_REPORTED),
    ("rx", "Host to GPU, as a share of what the PCIe link carries",
     ("pcie_rx_bytes_per_s", "pcie_gen", "pcie_width"), NOT_REPORTED),
    ("tx", "GPU to host, as a share of what the PCIe link carries",
     ("pcie_tx_bytes_per_s", "pcie_gen", "pcie_width"), NOT_REPORTED),
    ("nvlink", "NVLink traffic of the busier direction, as a share of the data sheet's peak",
     ("nvlink_tx_bytes_per_s", "nvlink_rx_bytes_per_s"), NO_SHEET),
    ("engines", "Encoder or decoder, the busier one",
     ("encoder_util_ratio", "decoder_util_ratio"), NOT_REPORTED),
)  # fmt: skip
"""Curves: name, title, fields, what absence means."""

_FIELDS: Final = {name: fields for name, _, fields, _ in _SINGLE}
_ABSENCE: Final = {name: absence for name, _, _, absence in _SINGLE}


def curves_of(samples: Samples) -> dict[str, Floats]:
    """Step by GPU, as shares of what there is: what the other features are made of."""
    gpus, peaks = samples.gpus, samples.peaks
    found = {name: gpus[fields[0]] for name, fields in _FIELDS.items() if len(fields) == 1}
    for name in ("power", "mem", "clock"):
        found[name] = ratio(*(gpus[field] for field in _FIELDS[name]))
    found["rx"] = ratio(gpus["pcie_rx_bytes_per_s"], peaks["pcie"])
    found["tx"] = ratio(gpus["pcie_tx_bytes_per_s"], peaks["pcie"])
    moved = np.fmax(gpus["nvlink_tx_bytes_per_s"], gpus["nvlink_rx_bytes_per_s"])
    found["nvlink"] = ratio(moved, peaks["nvlink"])
    found["engines"] = np.fmax(gpus["encoder_util_ratio"], gpus["decoder_util_ratio"])
    return found


def _feature(key: str, unit: str, doc: str, *curves: str) -> Feature:
    fields = tuple(dict.fromkeys(field for curve in curves for field in _FIELDS[curve]))
    absences = dict.fromkeys(_ABSENCE[curve] for curve in curves)
    return Feature(
        key=key, unit=unit, doc=doc, fields=fields, absence="; or ".join((*absences, TOO_SHORT))
    )


_LONG: Final = ("util", "sm", "power", "mem")
_MOVING: Final = ("util", "sm", "power")
_PARTS: Final = (("sm", "util"), ("tensor", "sm"), ("dram", "sm"), ("fp32", "sm"), ("power", "sm"))

_TITLES: Final = {name: title for name, title, _, _ in _SINGLE}


def _usual() -> Iterator[Feature]:
    for name in _TITLES:
        yield _feature(f"{name}_15m", "ratio", f"{_TITLES[name]}, mean of 15 minutes.", name)
    for name in _MOVING:
        text = f"{_TITLES[name]}, standard deviation of 15 minutes."
        yield _feature(f"{name}_unrest_15m", "ratio", text, name)
    for part, whole in _PARTS:
        text = f"{_TITLES[part]} over {_TITLES[whole].lower()}, means of 15 minutes."
        yield _feature(f"{part}_per_{whole}_15m", "ratio", text, part, whole)
    text = f"Share of 15 minutes in which utilisation is below {AT_REST}."
    yield _feature("rest_share_15m", "ratio", text, "util")


def _long() -> Iterator[Feature]:
    for name in _LONG:
        yield _feature(f"{name}_60m", "ratio", f"{_TITLES[name]}, mean of an hour.", name)
    for name in _MOVING:
        text = f"{_TITLES[name]}, mean of 5 minutes minus the mean of an hour."
        yield _feature(f"{name}_change", "ratio", text, name)
    text = f"Share of an hour in which utilisation is below {AT_REST}."
    yield _feature("rest_share_60m", "ratio", text, "util")
    text = f"How often utilisation rises from below {AT_REST} to above {AT_WORK}."
    yield _feature("bursts_60m", "1/h", text, "util")
    yield _feature("mem_peak_60m", "ratio", "Highest memory in use, as a share of all.", "mem")
    text = "Memory in use: mean of the last 15 minutes of an hour minus that of the first 15."
    yield _feature("mem_growth_60m", "ratio", text, "mem")


USUAL: Final = tuple(_usual())
LONG: Final = tuple(_long())


def usual_of(samples: Samples, curves: Mapping[str, Floats]) -> Floats:
    """Feature by GPU, in the order of `USUAL`."""
    usual = {name: samples.last(curve, USUAL_S) for name, curve in curves.items()}
    means = {name: mean(curve) for name, curve in usual.items()}
    rows = [means[name] for name in _TITLES]
    rows += [deviation(usual[name]) for name in _MOVING]
    rows += [ratio(means[part], means[whole]) for part, whole in _PARTS]
    rows.append(mean(_rests(usual["util"])))
    return np.stack(rows)


def long_of(samples: Samples, curves: Mapping[str, Floats]) -> Floats:
    """Feature by GPU, in the order of `LONG`."""
    means = {name: mean(samples.last(curves[name], LONG_S)) for name in _LONG}
    rows = [means[name] for name in _LONG]
    rows += [mean(samples.last(curves[name], SHORT_S)) - means[name] for name in _MOVING]
    util, mem = curves["util"], curves["mem"]
    rows.append(mean(_rests(samples.last(util, LONG_S))))
    rows.append(_bursts(util, samples.step_s))
    rows.append(np.fmax.reduce(mem, axis=0))
    first = mem[: max(1, round(USUAL_S / samples.step_s))]
    rows.append(mean(samples.last(mem, USUAL_S)) - mean(first))
    return np.stack(rows)


def _rests(util: Floats) -> Floats:
    """1 where no kernel ran, 0 where one did, NaN where nobody knows."""
    return np.where(np.isfinite(util), util < AT_REST, np.nan)


def _bursts(util: Floats, step_s: float) -> Floats:
    """Rises an hour of what is known."""
    state = np.where(util < AT_REST, 0.0, np.where(util >= AT_WORK, 1.0, np.nan))
    rows = np.arange(len(util))[:, None]
    newest = np.maximum.accumulate(np.where(np.isfinite(state), rows, 0), axis=0)
    held = np.take_along_axis(state, newest, axis=0)
    rises = ((held[1:] == 1.0) & (held[:-1] == 0.0)).sum(axis=0)
    known_s = np.isfinite(util).sum(axis=0) * step_s
    return np.where(known_s >= SHORT_S, rises * 3600.0 / np.maximum(known_s, 1.0), np.nan)
