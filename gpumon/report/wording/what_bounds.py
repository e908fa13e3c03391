"""What bounds a job or a GPU, how far below its ceilings it is, or why that is unknown.

The page of the terminal and the JSON document are both made of this and agree.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.gpu.ceilings import (
    KEYS,
    STEPS,
    Ceiling,
    ceilings_of,
    clock_ratio,
    half_of,
    keys_of,
)
from gpumon.model.gpu.conditions import AT_WORK
from gpumon.model.gpu.pcie import pcie_bytes_per_s
from gpumon.report.facts.reference_values import sheet_of
from gpumon.report.facts.rows import block_rows
from gpumon.report.text import units

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from gpumon.model.gpu.hardware import Sheet
    from gpumon.model.records.cluster import Gpu, JobView
    from gpumon.report.facts.tick_index import Digest

SPAN_S: Final = 900.0
"""How much of the past counts unless the user chose another span (our choice)."""

BOUND: Final = 0.8
"""Share of a ceiling from which it is what bounds, and below `_FREE` latency does (our choice;
Nsight Compute's advice is generally quoted with the same limits, not checked)."""

_FREE: Final = 0.6
"""Share of the nearest ceiling below which nothing bounds (see `BOUND`)."""

_RUNNING: Final = 0.9
"""Share of the time with a kernel below which it is the pauses that are worth a word (our
choice)."""


_SLOW_CLOCK: Final = 0.95
"""Share of the peaks' clock below which the clock is worth a word (our choice)."""

_NAMES: Final = {
    "fp32": "FP32 pipes",
    "fp64": "FP64 pipes",
    "int8": "tensor cores (integers)",
    "fp64_tensor": "tensor cores (FP64)",
    "memory": "memory bandwidth",
    "nvlink": "NVLink",
    "pcie": "PCIe",
    "network": "busiest network port, now",
}

_HALF_NAME: Final = "tensor cores (as if 16 bit)"

_TENSOR_NAMES: Final = {
    "tf32": "TF32",
    "fp8": "FP8",
    "fp4": "FP4",
    "int8": "INT8",
    "fp64_tensor": "FP64",
}
"""Precisions of tensor cores beside those of 16 bits, as they are called."""

PORT_KEYS: Final = ("nic_rx_bytes_per_s", "nic_tx_bytes_per_s", "nic_speed_gbps")
"""Counters that show how near a port is to what it can carry."""


class Past(NamedTuple):
    """Fields of some GPUs over a while: by row, key and GPU."""

    values: NDArray[Any]
    start: float
    end: float
    """Unix times of its first and its last sample."""

    def means(self, rows: slice, gpus: slice) -> dict[str, float]:
        """Means by key of what is known."""
        import numpy as np

        cut = self.values[rows, :, gpus]
        known = np.isfinite(cut)
        counts = known.sum(axis=(0, 2))
        totals = np.where(known, cut, 0.0).sum(axis=(0, 2), dtype=np.float64)
        means = {
            key: float(total / count)
            for key, total, count in zip(KEYS, totals, counts, strict=True)
            if count
        }
        # Of steps a mean would be none of them; a link at rest trains down.
        return means | {
            key: float(np.nanmax(cut[:, KEYS.index(key)])) for key in STEPS & means.keys()
        }


class UnknownCeiling(NamedTuple):
    """A ceiling; how near a GPU is to it is unknown."""

    what: str
    """As in `Ceiling`; or `network`."""
    per_s: float | None
    """How high it is at the present clock; None where not even that is known."""
    published_per_s: float | None
    is_compute: bool
    why: str


class WhatBounds(NamedTuple):
    """What bounds some GPUs of one product."""

    gpu_count: int
    why_unknown: str = ""
    """Why what bounds them is unknown; empty where it is known."""
    sheet: Sheet | None = None
    """None: they have none in common that is known, and there is no more than the reason."""
    past: Past | None = None
    """None: there is none, and only the reason is given."""
    values: Mapping[str, float] = MappingProxyType({})
    """Means over past and GPUs by field."""
    ceilings: tuple[Ceiling, ...] = ()
    """What is known: pipes first, the one that does most before the others; `network` last."""
    unknown: tuple[UnknownCeiling, ...] = ()
    port: str = ""
    """Node and key of the port that `network` is about; empty where it is not shown."""
    nearest: Ceiling | None = None
    """The ceiling that they are nearest to; None where that is unknown."""
    verdict: str = ""
    """What bounds them, a sentence."""
    clock: str = ""
    """A sentence of a clock that is held down; empty where it is not."""
    note: str = ""
    """Which other work is counted as 16 bit, a sentence; empty where none is."""

    @property
    def bound_by(self) -> str | None:
        """The ceiling that they nearly reach; None where they reach none, or it is unknown."""
        nearest = self.nearest
        return None if nearest is None or nearest.ratio < BOUND else nearest.what


def what_bounds(
    digest: Digest, gpus: Sequence[Gpu], view: JobView | None, span_s: float = SPAN_S
) -> WhatBounds:
    """What bounds some GPUs, from their past and data sheet: an estimate of the most they do.

    Args:
        digest: The tick with its past.
        gpus: All of a job's, or one.
        view: The job that holds them; None: one GPU, with or without a job.
        span_s: How much of the past counts.
    """
    sheets = {sheet.product: sheet for gpu in gpus if (sheet := sheet_of(gpu)) is not None}
    products = {gpu.label("name") for gpu in gpus}
    if not gpus or len(products) > 1 or len(sheets) != 1:
        return WhatBounds(len(gpus), _unknown(gpus, products))
    (sheet,) = sheets.values()
    past = _past(digest, gpus, view, span_s)
    if past is None:
        why = "There is no past of it here, so no mean."
        unknown = _unknown_ceilings(sheet, {}, (), gpus, has_ports=view is not None)
        return WhatBounds(len(gpus), why, sheet, unknown=unknown)
    values = past.means(slice(None), slice(None))
    port, network = _network(digest, view)
    ceilings = (*ceilings_of(sheet, values), *network)
    found = WhatBounds(
        len(gpus),
        sheet=sheet,
        past=past,
        values=values,
        ceilings=ceilings,
        unknown=_unknown_ceilings(sheet, values, ceilings, gpus, has_ports=view is not None),
        port=port,
        note=_note(sheet, values),
    )
    if not any(one.is_compute or one.what == "memory" for one in ceilings):
        why = (
            "Without profiling counters it is unknown what its pipes and its memory do, and so "
            "what bounds it."
        )
        return found._replace(why_unknown=why)
    nearest = max(ceilings, key=lambda one: one.ratio)
    verdict = _verdict(nearest, sheet, values)
    return found._replace(nearest=nearest, verdict=verdict, clock=_clock(sheet, values))


def _unknown(gpus: Sequence[Gpu], products: set[str | None]) -> str:
    if not gpus:
        return "No GPU of it has values now, so its bottleneck is unknown."
    if len(products) > 1:
        return "Its GPUs are of several products, each with ceilings of its own."
    name = products.pop() or "this GPU"
    return f"No data sheet is known for {name} in this form: its bottleneck is unknown."


def _past(digest: Digest, gpus: Sequence[Gpu], view: JobView | None, span_s: float) -> Past | None:
    """What is known of the GPUs; None without a past."""
    history: Any = digest.tick.history
    if not hasattr(history, "slab"):
        return None
    end = digest.tick.at
    if view is None:
        slab = history.slab((gpus[0].uuid,), KEYS, end - span_s, end)
    else:
        # Imported here, because numpy comes with it.
        from gpumon.fleet.history.windows import job_slab

        _, slab = job_slab(history, view.job.job_id, KEYS, end - span_s, end)
    if not slab.values.size:
        return None
    return Past(slab.values, float(slab.begins[0]), float(slab.times[-1]))


def _unknown_ceilings(
    sheet: Sheet,
    values: Mapping[str, float],
    ceilings: Sequence[Ceiling],
    gpus: Sequence[Gpu],
    *,
    has_ports: bool,
) -> tuple[UnknownCeiling, ...]:
    """What else there is; `has_ports` where the network counts as well."""
    clock, nvlink = clock_ratio(sheet, values), sheet.nvlink_bytes_per_s
    memory = sheet.memory_bytes_per_s.value
    links = nvlink.value if nvlink else None
    pcie = pcie_bytes_per_s(values.get("pcie_gen"), values.get("pcie_width"))
    every: dict[str, tuple[float | None, float | None]] = {
        precision: (peak * clock if clock == clock else None, peak)
        for precision, figure in sheet.dense_tflops.items()
        for peak in (figure.value * 1e12,)
    }
    every |= {"memory": (memory, memory), "nvlink": (links, links), "pcie": (pcie, None)}
    known = {one.what for one in ceilings}
    found = [
        UnknownCeiling(what, *speeds, what in sheet.dense_tflops, _why(sheet, what, values, gpus))
        for what, speeds in every.items()
        if what not in known
    ]
    if has_ports and "network" not in known:
        why = "no port of its nodes reports its speed and traffic"
        found.append(
            UnknownCeiling(
                what="network", per_s=None, published_per_s=None, is_compute=False, why=why
            )
        )
    return tuple(found)


def _why(sheet: Sheet, what: str, values: Mapping[str, float], gpus: Sequence[Gpu]) -> str:
    """Why it is not known how near the GPUs are to a ceiling."""
    keys, counted = keys_of(sheet, what), half_of(sheet).upper()
    if not keys:
        if what in ("bf16", "fp16", *_TENSOR_NAMES) and counted:
            return f"no counter separates it from {counted}, so it counts as that"
        return "no counter reports how long it works"
    if what == "nvlink" and sheet.nvlink_bytes_per_s is None:
        return "its data sheet lists no NVLink"
    if not any(key in values or CATALOGUE[key].is_kept for key in keys if "clock" not in key):
        as_what = f", so it is counted as {counted}" if counted else ""
        return f"its counter is not stored over time{as_what}"
    missing = [key for key in keys if key not in values]
    for key in missing:
        for gpu in gpus:
            reason = gpu.reason(key)
            if reason is not None:
                return f"no value of {key}: {reason}"
    return f"no value of {' or '.join(missing)} in the time that counts"


def _network(digest: Digest, view: JobView | None) -> tuple[str, list[Ceiling]]:
    """The busiest port of the job's nodes now: what it carries may be others' on shared nodes."""
    found = []
    for name in view.job.nodes if view is not None else ():
        node = digest.tick.nodes.get(name)
        for row in block_rows(node, "nic") if node is not None and not node.is_stale else ():
            speed = row.value("nic_speed_gbps")
            known = [value for key in PORT_KEYS[:2] if (value := row.value(key)) is not None]
            if speed and known:
                carried = float(speed) * 1e9 / 8
                one = Ceiling("network", max(known) / carried, carried, carried, is_compute=False)
                found.append((f"{name}/{row.key}", one))
    if not found:
        return "", []
    port, busiest = max(found, key=lambda pair: pair[1].ratio)
    return port, [busiest]


def _verdict(nearest: Ceiling, sheet: Sheet, values: Mapping[str, float]) -> str:
    """What bounds it, in words."""
    share = f"{units.percent(min(1.0, nearest.ratio))} %"
    name = name_of(nearest.what, sheet)
    spoken = name if name[0].isupper() else f"the {name}"
    if nearest.ratio >= BOUND:
        return f"Bound by {spoken}: {share} of its ceiling."
    if nearest.ratio >= _FREE:
        return (
            f"Near the ceiling of {spoken}: {share} of it, so at most {1.0 / nearest.ratio:.1f} "
            "times as fast."
        )
    return f"Bound by none of these: {share} of {spoken} is the nearest{_latency(values)}."


def _clock(sheet: Sheet, values: Mapping[str, float]) -> str:
    """A clock that is held down, in words; at rest a low one is no fault."""
    clock = clock_ratio(sheet, values)
    if not (clock < _SLOW_CLOCK and values.get("gpu_util_ratio", 0.0) >= AT_WORK):
        return ""
    usual = values["sm_clock_mhz"] / clock
    return (
        f"The SM clock is at {values['sm_clock_mhz']:.0f} of {usual:.0f} MHz, so the pipes' "
        f"ceilings lie {units.percent(1.0 - clock)} % below the data sheet's."
    )


def _latency(values: Mapping[str, float]) -> str:
    """What else its time goes to, as far as counters show."""
    util, sm = values.get("gpu_util_ratio"), values.get("sm_active_ratio")
    if util is not None and util < _RUNNING:
        return f". Kernels run for {units.percent(util)} % of the time only, the rest is waiting"
    if sm is not None and sm < _FREE:
        return f". Kernels run all the time, and have work on {units.percent(sm)} % of the SMs"
    return ". Kernels fill the SMs and wait, for memory or for one another"


def name_of(what: str, sheet: Sheet) -> str:
    """What may bound a GPU, in words."""
    if what == half_of(sheet):
        return _HALF_NAME
    return _NAMES.get(what) or f"tensor cores ({what.upper()})"


def _note(sheet: Sheet, values: Mapping[str, float]) -> str:
    """Which other work of tensor cores is counted as 16 bit, and why."""
    half = half_of(sheet)
    if not half or not set(keys_of(sheet, half)) <= values.keys():
        return ""
    others = [what for what in _TENSOR_NAMES if what in sheet.dense_tflops]
    alike = [_TENSOR_NAMES[what] for what in others if not keys_of(sheet, what)]
    unstored = [
        _TENSOR_NAMES[what]
        for what in others
        if (keys := keys_of(sheet, what)[:1]) and not CATALOGUE[keys[0]].is_kept
    ]
    why = []
    if alike:
        why.append(f"no counter separates {' and '.join(alike)}")
    if unstored:
        those = "those" if alike else "the counters"
        why.append(f"{those} of {' and '.join(unstored)} are not stored over time")
    if not why:
        return ""
    return f"All tensor work counts as 16 bit: {'; '.join(why)}."
