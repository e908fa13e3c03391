"""What a job did over the last two hours, in a few cells of one line."""

from __future__ import annotations

from math import isnan, nan
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.report.text import units
from gpumon.report.text.cells import Cell, Tone, text_width

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumon.model.records.cluster import JobView
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Line

TREND_S: Final = 7200.0
"""So much of the past a trend shows, and the curve of a job at a glance."""

CELLS: Final = 12
"""A cell is ten minutes: a hang, a decay and an idle tail show at a glance."""

MOST_GPUS: Final = 16
"""GPUs of a job that its trend is the mean of; of a larger job every n-th."""

RENEWED_S: Final = 60.0
"""How often a trend is read again: each of its cells is ten minutes."""

_ACTIVITY: Final = ("sm_active_ratio", "gpu_util_ratio")
BARS: Final = "▁▂▃▄▅▆▇█"
_UNKNOWN: Final = "·"
_NOT_YET: Final = " "


class Measure(NamedTuple):
    """What a trend is of."""

    title: str
    keys: tuple[str, ...]
    """Fields of GPUs: the first one of which anything is known is drawn."""
    now: Callable[[float], str]
    """Its value now, in words."""
    bound: str = ""
    """Field whose value is a full bar; empty: 1 of a ratio, else the most that was seen."""


MEASURES: Final = (
    Measure("SM", _ACTIVITY, lambda value: f"{units.percent(value)} %"),
    Measure("tensor", ("tensor_active_ratio",), lambda value: f"{units.percent(value)} %"),
    Measure("NVLink", ("nvlink_rx_bytes_per_s", "nvlink_tx_bytes_per_s"), units.rate),
    Measure("power", ("power_w",), lambda value: f"{units.watts(value)} W", "power_limit_w"),
)


def trend_text(digest: Digest, view: JobView) -> str:
    """SM activity, or the duty cycle where no GPU has that counter; 12 cells, the newest last.

    A low bar is nothing, a full one everything; `·`: not observed; blank before the job held its
    GPUs. Cells begin at whole ten minutes, so they do not move as time passes.
    """
    return _trend(digest, view, _ACTIVITY, 1.0, CELLS)


def trend_lines(digest: Digest, view: JobView, width: int) -> list[Line]:
    """SM, tensor cores, NVLink and power side by side, each with its value now; one line at most.

    Nothing where no GPU of the job is known, or there is no past.
    """
    cells = 2 * CELLS if width >= _WIDE else CELLS
    line: list[Cell] = []
    taken = 0
    for measure in MEASURES:
        value = next((v for key in measure.keys if (v := digest.mean(view, key)) is not None), None)
        if value is None:
            continue
        ceiling = digest.mean(view, measure.bound) if measure.bound else None
        if CATALOGUE[measure.keys[0]].unit == "ratio":
            ceiling = 1.0
        bars = _trend(digest, view, measure.keys, ceiling, cells)
        text = f"{measure.title} {bars} {measure.now(value)}"
        if not bars.strip() or taken + text_width(text) + 2 > width:
            continue
        line += [Cell(f"{measure.title} ", Tone.DIM), Cell(bars, Tone.PAST)]
        line.append(Cell(f" {measure.now(value)}  "))
        taken += text_width(text) + 2
    return [tuple(line)] if line else []


_WIDE: Final = 150
"""Cells of a line from which on trends have twice as many."""


def _trend(
    digest: Digest, view: JobView, keys: tuple[str, ...], ceiling: float | None, cells: int
) -> str:
    if not view.gpu_uuids:
        return ""
    minute = int(digest.tick.at // RENEWED_S)
    what = ("trend", view.job.job_id, view.gpu_uuids, keys, cells, minute)
    return digest.lasting(what, lambda: _text(digest, view, keys, ceiling, cells))


def _text(
    digest: Digest, view: JobView, keys: tuple[str, ...], ceiling: float | None, cells: int
) -> str:
    history: Any = digest.tick.history
    if not hasattr(history, "slab"):
        return ""
    # Imported here, because numpy comes with it.
    from gpumon.fleet.history.windows import job_spread

    cell_s = TREND_S / cells
    now = digest.tick.at
    start = (now // cell_s + 1) * cell_s - TREND_S
    # No further than the tick: a past that is replayed holds what came after it.
    times, found = job_spread(history, view.job.job_id, keys, start, now, most=MOST_GPUS)
    curves = [mean for mean, _, _ in found]
    values = next((one for one in curves if any(not isnan(value) for value in one)), curves[0])
    held = history.intervals(view.job.job_id)
    first = min((interval.start for interval in held), default=now)
    means = _means(times, values, start, cell_s, cells)
    most = max((mean for mean in means if not isnan(mean)), default=0.0)
    return _bars(means, ceiling or most or 1.0, first - start, cell_s)


def _means(
    times: Sequence[float], values: Sequence[float], start: float, cell_s: float, cells: int
) -> list[float]:
    """Mean of what is known in each cell, NaN where nothing is."""
    known: list[list[float]] = [[] for _ in range(cells)]
    for at, value in zip(times, values, strict=True):
        if not isnan(value):
            known[min(cells - 1, max(0, int((at - start) // cell_s)))].append(value)
    return [sum(cell) / len(cell) if cell else nan for cell in known]


def _bars(means: Sequence[float], ceiling: float, first_s: float, cell_s: float) -> str:
    """A bar for each; `first_s` after its beginning the job held its first GPU."""
    text = ""
    for number, mean in enumerate(means):
        if isnan(mean):
            text += _UNKNOWN if (number + 1) * cell_s > first_s else _NOT_YET
        else:
            text += BARS[max(0, min(len(BARS) - 1, int(mean / ceiling * len(BARS))))]
    return text
