"""What a scene looks like to whoever reads its curves: a line of text for each field."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.model.catalogue.fields import CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from gpumon.detect.view import View
    from gpumon.model.finding import Finding

    Floats = NDArray[np.float64]

_ACROSS: Final = 56
"""Characters of a curve."""

_BARS: Final = "▁▂▃▄▅▆▇█"
_UNKNOWN: Final = "·"

_USUAL: Final = ("gpu_util_ratio", "sm_active_ratio", "tensor_active_ratio", "power_w")
"""Shown beside what the finding's evidence names."""

_MOST_FIELDS: Final = 4
_BEFORE: Final = 0.3
"""So much of the window's length is shown before it, where it was seen."""

_LEAST_S: Final = 600.0
"""Of what shows in an instant, so much is taken for its length."""

_APART: Final = 0.25
"""GPUs that lie further apart than this share of the scale have a line each for the highest and
the lowest one."""

_UNITS: Final = {"W": 1.0, "C": 1.0, "MHz": 1.0, "bytes/s": 1e-9, "bytes": 2.0**-30}
_NAMES: Final = {"C": "°C", "bytes/s": "GB/s", "bytes": "GiB"}


def trace_of(view: View, finding: Finding) -> str:
    """Fields of the GPUs that a finding is about, over its window; empty where it is about none."""
    uuids = _uuids(view, finding)
    keys = [key for key in _keys(finding) if _has_values(view, uuids, key)][:_MOST_FIELDS]
    if not uuids or not keys:
        return ""
    start, mark = _begin(view, uuids, finding)
    lines = [line for key in keys for line in _lines(view, uuids, key, start)]
    width = max(len(title) for title, _, _ in lines)
    begin, end = (datetime.fromtimestamp(at, UTC).strftime("%H:%M") for at in (start, view.now))
    rows = [f"{title:<{width}}  {curve}  {scale}" for title, curve, scale in lines]
    axis = f"{begin:<{_ACROSS - len(end)}}{end}"
    if len(begin) < mark < _ACROSS - len(end) - 1:
        axis = f"{axis[:mark]}^{axis[mark + 1 :]}"
    return "\n".join([*rows, f"{'':<{width}}  {axis}"]) + "\n"


def _begin(view: View, uuids: Sequence[str], finding: Finding) -> tuple[float, int]:
    """From when on it is shown, and under which character its window begins."""
    begin = finding.window.start
    start = begin - _BEFORE * max(view.now - begin, _LEAST_S)
    times = view.history.slab(uuids, _USUAL[:1], start, view.now).times
    start = max(start, float(times[0])) if len(times) else start
    length_s = max(view.now - start, 1.0)
    return start, round((begin - start) / length_s * (_ACROSS - 1))


def _uuids(view: View, finding: Finding) -> tuple[str, ...]:
    kind, _, name = finding.subject.partition("/")[0].partition(":")
    if kind == "gpu":
        return (name,) if name in view.gpus else ()
    return next((job.uuids for job in view.running if job.job.job_id == name), ())


def _keys(finding: Finding) -> Iterator[str]:
    """GPU fields that the evidence names, then the usual ones, each once."""
    named = [evidence.field for evidence in finding.evidence if evidence.field in CATALOGUE]
    for key in dict.fromkeys((*named, *_USUAL)):
        if CATALOGUE[key].block == "gpu" and CATALOGUE[key].unit in {"", "ratio", *_UNITS}:
            yield key


def _has_values(view: View, uuids: Sequence[str], key: str) -> bool:
    values = view.history.slab(uuids, (key,), view.now - 86400.0, view.now).values
    return bool(values.size and np.isfinite(values).any())


def _lines(
    view: View, uuids: Sequence[str], key: str, start: float
) -> Iterator[tuple[str, str, str]]:
    """Title, curve and scale: of all GPUs, or of the highest and the lowest one."""
    slab = view.history.slab(uuids, (key,), start, view.now)
    values = slab.values[:, 0].astype(np.float64)
    edges = np.linspace(start, view.now, _ACROSS + 1)
    place = np.clip(edges.searchsorted(slab.times, "left") - 1, 0, _ACROSS - 1)
    unit = CATALOGUE[key].unit
    is_ratio = unit == "ratio"
    top = 1.0 if is_ratio else float(np.nanmax(values)) or 1.0
    scale = "0 to 100 %" if is_ratio else f"0 to {_number(top, unit)}"
    title = CATALOGUE[key].title
    means = np.array([_mean(column) for column in values.T])
    order = np.argsort(means)
    ends = {title: order}
    if len(uuids) > 1 and means[order[-1]] - means[order[0]] > _APART * top:
        ends = {f"{title}, highest GPU": order[-1:], f"{title}, lowest GPU": order[:1]}
    for name, columns in ends.items():
        yield name, _curve(values[:, columns], place, top), scale


def _mean(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else 0.0


def _curve(values: Floats, place: NDArray[np.intp], top: float) -> str:
    drawn, level = [], float("nan")
    for column in range(_ACROSS):
        here = values[place == column]
        known = here[np.isfinite(here)]
        if len(known):
            level = float(known.mean()) / top
        elif len(here):
            level = float("nan")
        step = 0 if level != level else min(int(level * len(_BARS)), len(_BARS) - 1)
        drawn.append(_UNKNOWN if level != level else _BARS[max(step, 0)])
    return "".join(drawn)


def _number(value: float, unit: str) -> str:
    return f"{value * _UNITS.get(unit, 1.0):.3g} {_NAMES.get(unit, unit)}".rstrip()
