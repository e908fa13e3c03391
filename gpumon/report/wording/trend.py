"""A job's activity over the last two hours in twelve cells, for one line of a table."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.model.records.cluster import JobView
    from gpumon.report.facts.tick_index import Digest

TREND_S: Final = 7200.0
CELLS: Final = 12
"""A cell is ten minutes: a hang, a decay and an idle tail show at a glance."""

MOST_GPUS: Final = 16
"""GPUs of a job that its trend is the mean of; of a larger job every n-th."""

RENEWED_S: Final = 60.0
"""So often a trend is read anew: its cells stand for ten minutes each."""

_KEYS: Final = ("sm_active_ratio", "gpu_util_ratio")
_BARS: Final = "▁▂▃▄▅▆▇█"
_UNKNOWN: Final = "·"
_NOT_YET: Final = " "


def trend_text(digest: Digest, view: JobView) -> str:
    """SM activity, or the duty cycle where no GPU has that counter; 12 cells, the newest last.

    A low bar is nothing, a full one everything; `·` where nobody looked, blank before the job held
    its GPUs. Cells begin at whole ten minutes, so that they stand still while time goes on.
    """
    if not view.gpu_uuids:
        return ""
    minute = int(digest.tick.at // RENEWED_S)
    what = ("trend", view.job.job_id, view.gpu_uuids, minute)
    return digest.lasting(what, lambda: _text(digest, view))


def _text(digest: Digest, view: JobView) -> str:
    history: Any = digest.tick.history
    if not hasattr(history, "slab"):
        return ""
    # Imported here, because numpy comes with it.
    from gpumon.fleet.history.windows import job_spread

    cell_s = TREND_S / CELLS
    end = (digest.tick.at // cell_s + 1) * cell_s
    start = end - TREND_S
    times, found = job_spread(history, view.job.job_id, _KEYS, start, end, most=MOST_GPUS)
    curves = [mean for mean, _, _ in found]
    values = next((one for one in curves if any(not isnan(value) for value in one)), curves[0])
    held = history.intervals(view.job.job_id)
    first = min((interval.start for interval in held), default=digest.tick.at)
    return "".join(_bars(times, values, start, cell_s, first))


def _bars(
    times: Sequence[float], values: Sequence[float], start: float, cell_s: float, first: float
) -> list[str]:
    cells: list[list[float]] = [[] for _ in range(CELLS)]
    for at, value in zip(times, values, strict=True):
        if not isnan(value):
            cells[min(CELLS - 1, max(0, int((at - start) // cell_s)))].append(value)
    found = []
    for number, cell in enumerate(cells):
        if cell:
            mean = sum(cell) / len(cell)
            found.append(_BARS[min(len(_BARS) - 1, int(mean * len(_BARS)))])
        else:
            has_begun = start + (number + 1) * cell_s > first
            found.append(_UNKNOWN if has_begun else _NOT_YET)
    return found
