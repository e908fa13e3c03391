"""What bounds a job or a GPU, how far below it is, and its roofline: an estimate."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpumon.model.gpu.ceilings import (
    KEYS,
    STEPS,
    Ceiling,
    ceilings_of,
    clock_ratio,
    half_of,
    memory_bytes_per_s,
    operations_per_s,
)
from gpumon.report.facts.reference_values import sheet_of
from gpumon.report.facts.rows import block_rows
from gpumon.report.text import units
from gpumon.report.text.cells import Cell, Tone, fit, paragraph

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from gpumon.model.gpu.hardware import Sheet
    from gpumon.model.records.cluster import Gpu, JobView
    from gpumon.report.charts.roofline import Roof
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Line

BOUND: Final = 0.8
"""Share of a ceiling from which it is what bounds, and below `_FREE` latency does (our choice;
Nsight Compute's advice is generally quoted with the same limits, not checked)."""

_FREE: Final = 0.6

_RUNNING: Final = 0.9
"""Share of the time with a kernel below which it is the pauses that are worth a word (our
choice)."""

_AT_WORK: Final = 0.5
"""Share of the time with a kernel from which the clock is that of work (our choice)."""

_SLOW_CLOCK: Final = 0.95
"""Share of the peaks' clock below which the clock is worth a word (our choice)."""

_DOTS: Final = 400
"""Dots that show the spread, at most: each GPU one, of few GPUs stretches of time."""

_BAR: Final = 20
_NAME: Final = 28
_WIDE: Final = 100
"""Cells from which there is room for a bar."""

_SEEN: Final = 0.005
"""Share from which a pipe beside the busiest one has a line: half a per cent."""

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
_SIZES: Final = ((1e15, "P"), (1e12, "T"), (1e9, "G"))

_HALF_NAME: Final = "tensor cores (as if 16 bit)"


class SpeedOfLight(NamedTuple):
    """A page: lines, and the roofline below them, where there is one."""

    lines: list[Line]
    roof: Roof | None


class _Past(NamedTuple):
    """Fields of some GPUs over a while: by row, key and GPU."""

    values: NDArray[Any]

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


def speed_of_light(
    digest: Digest, gpus: Sequence[Gpu], view: JobView | None, span_s: float, width: int
) -> SpeedOfLight:
    """The page about some GPUs.

    Args:
        digest: The picture with its past.
        gpus: All of a job's, or one.
        view: The job whose they are; None: one GPU, whoever holds it.
        span_s: How much of the past counts.
        width: Cells across.
    """
    sheets = {sheet.product: sheet for gpu in gpus if (sheet := sheet_of(gpu)) is not None}
    products = {gpu.label("name") for gpu in gpus}
    if not gpus or len(products) > 1 or len(sheets) != 1:
        return SpeedOfLight(paragraph(_unknown(gpus, products), width, Tone.DIM), None)
    (sheet,) = sheets.values()
    past = _past(digest, gpus, view, span_s)
    if past is None:
        text = "There is no past of it here, so no mean."
        return SpeedOfLight(paragraph(text, width, Tone.DIM), None)
    values = past.means(slice(None), slice(None))
    found = [*ceilings_of(sheet, values), *_network(digest, view)]
    lines = _head(len(gpus), span_s, width) + _verdict(sheet, values, found, width)
    pipes = [one for one in found if one.is_compute]
    quiet = [one for one in pipes[1:] if one.ratio < _SEEN]
    lines += [_ceiling_line(one, sheet, width) for one in found if one not in quiet]
    return SpeedOfLight(lines, _roof(sheet, values, pipes, past) if pipes else None)


def _unknown(gpus: Sequence[Gpu], products: set[str | None]) -> str:
    if not gpus:
        return "No GPU of it tells anything now, so nothing can be said of what bounds it."
    if len(products) > 1:
        return "Its GPUs are of several products; open one of them for its own roofline."
    name = products.pop() or "this GPU"
    return f"No data sheet is known of {name} as it is here: what bounds it cannot be told."


def _past(digest: Digest, gpus: Sequence[Gpu], view: JobView | None, span_s: float) -> _Past | None:
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
    return _Past(slab.values) if slab.values.size else None


def _network(digest: Digest, view: JobView | None) -> list[Ceiling]:
    """The busiest port of the job's nodes now: what it carries may be others' on shared nodes."""
    found = []
    for name in view.job.nodes if view is not None else ():
        node = digest.tick.nodes.get(name)
        for row in block_rows(node, "nic") if node is not None and not node.is_stale else ():
            speed = row.value("nic_speed_gbps")
            moved = [row.value(f"nic_{way}_bytes_per_s") for way in ("rx", "tx")]
            known = [value for value in moved if value is not None]
            if speed and known:
                carried = float(speed) * 1e9 / 8
                ratio = max(known) / carried
                found.append(Ceiling("network", ratio, carried, carried, is_compute=False))
    return [max(found, key=lambda port: port.ratio)] if found else []


def _head(count: int, span_s: float, width: int) -> list[Line]:
    whose = f"mean of {count} GPUs" if count > 1 else "one GPU"
    said = f"{whose} over the last {units.short_duration(span_s)}: an estimate of the most"
    return [(Cell("Speed of light ", Tone.STRONG), Cell(fit(said, max(0, width - 15)), Tone.DIM))]


def _verdict(
    sheet: Sheet, values: Mapping[str, float], found: Sequence[Ceiling], width: int
) -> list[Line]:
    """What bounds it, in words."""
    if not any(one.is_compute or one.what == "memory" for one in found):
        text = (
            "Without profiling counters nothing tells what its pipes and its memory do: what "
            "bounds it cannot be told."
        )
        return paragraph(text, width, Tone.WARN)
    nearest = max(found, key=lambda one: one.ratio)
    share, name = f"{units.percent(min(1.0, nearest.ratio))} %", _spoken(nearest, sheet)
    if nearest.ratio >= BOUND:
        text = f"Bound by {name}: {share} of what there is."
    elif nearest.ratio >= _FREE:
        text = (
            f"Near the ceiling of {name}: {share} of it, so at most "
            f"{1.0 / nearest.ratio:.1f} times as fast as it is."
        )
    else:
        text = f"Bound by none of these: {share} of {name} is the nearest{_latency(values)}."
    lines = paragraph(text, width, Tone.INFO)
    clock = clock_ratio(sheet, values)
    # At rest a low clock is no fault.
    if clock < _SLOW_CLOCK and values.get("gpu_util_ratio", 0.0) >= _AT_WORK:
        usual = values["sm_clock_mhz"] / clock
        text = (
            f"The SM clock is at {values['sm_clock_mhz']:.0f} of {usual:.0f} MHz, so the pipes' "
            f"ceilings lie {100 * (1.0 - clock):.0f} % below the data sheet's."
        )
        lines += paragraph(text, width, Tone.INFO)
    return lines


def _latency(values: Mapping[str, float]) -> str:
    """What else its time goes to, as far as counters tell."""
    util, sm = values.get("gpu_util_ratio"), values.get("sm_active_ratio")
    if util is not None and util < _RUNNING:
        return f". Kernels run for {units.percent(util)} % of the time only, the rest is waiting"
    if sm is not None and sm < _FREE:
        return f". Kernels run all the time, and have work on {units.percent(sm)} % of the SMs"
    return ". Kernels fill the SMs and wait, for memory or for one another"


def name_of(ceiling: Ceiling, sheet: Sheet) -> str:
    """What may bound a GPU, in words."""
    return _HALF_NAME if ceiling.what == half_of(sheet) else _NAMES[ceiling.what]


def _spoken(ceiling: Ceiling, sheet: Sheet) -> str:
    """Its name within a sentence."""
    name = name_of(ceiling, sheet)
    return name if name[0].isupper() else f"the {name}"


def _ceiling_line(one: Ceiling, sheet: Sheet, width: int) -> Line:
    """A name, a bar, a share, and what it does of what it could."""
    full = round(_BAR * min(1.0, one.ratio))
    tone = Tone.WARN if one.ratio >= BOUND else Tone.PLAIN
    cells = [Cell(fit(name_of(one, sheet), _NAME))]
    if width >= _WIDE:
        cells += [Cell("█" * full, tone), Cell("░" * (_BAR - full), Tone.DIM)]
    cells.append(Cell(f" {units.percent(min(1.0, one.ratio)):>4} %", tone))
    text = f"   {_amount(one, one.reached_per_s)} of {_amount(one, one.per_s)}"
    if one.is_compute and width >= _WIDE:
        text += f" (data sheet {_amount(one, one.published_per_s)})"
    return (*cells, Cell(text, Tone.DIM))


def _amount(one: Ceiling, per_s: float) -> str:
    if not one.is_compute:
        return units.rate(per_s)
    noun = "OPS" if one.what == "int8" else "FLOPS"
    size, sign = next((pair for pair in _SIZES if per_s >= pair[0]), _SIZES[-1])
    return f"{per_s / size:.3g} {sign}{noun}"


def _roof(sheet: Sheet, values: Mapping[str, float], pipes: Sequence[Ceiling], past: _Past) -> Roof:
    """The roofline: two ceilings of pipes at most, the fastest and the one that does the most."""
    # Imported here, because numpy comes with it.
    from gpumon.report.charts.roofline import Place, Roof

    fastest = max(pipes, key=lambda one: one.per_s)
    shown = {one.what: one for one in (fastest, *pipes)}
    kept = sorted(list(shown.values())[:2], key=lambda one: -one.per_s)
    memory = sheet.memory_bytes_per_s.value
    return Roof(
        memory,
        tuple((f"{name_of(one, sheet)} {_amount(one, one.per_s)}", one.per_s) for one in kept),
        f"memory {units.rate(memory)}",
        Place(*_place(sheet, values)),
        tuple(Place(*_place(sheet, part)) for part in _parts(past)),
    )


def _parts(past: _Past) -> list[dict[str, float]]:
    """Means of each GPU, of few GPUs over stretches of time."""
    rows, _, count = past.values.shape
    every = -(-count // _DOTS)
    stretches = min(rows, max(1, _DOTS // count))
    edges = [rows * number // stretches for number in range(stretches + 1)]
    return [
        past.means(slice(first, last), slice(gpu, gpu + 1))
        for gpu in range(0, count, every)
        for first, last in pairwise(edges)
    ]


def _place(sheet: Sheet, values: Mapping[str, float]) -> tuple[float, float]:
    """Operations for each byte, NaN where nothing is moved, and each second."""
    done, moved = operations_per_s(sheet, values), memory_bytes_per_s(sheet, values)
    return done / moved if moved > 0.0 else float("nan"), done
