"""What was seen of a past, whatever is missing in it for a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpumon.plugin import LEAST_EVIDENCE_S, Window, honest_confidence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpumon.plugin import Confidence, Past, Windows

_LONGEST_HOLE_S: Final = LEAST_EVIDENCE_S
"""A hole in the telemetry that is longer ends the evidence: what lasts as long can be a claim."""


def surest(detector: Windows, known_s: float, samples: int, at_most: Confidence) -> Confidence:
    """What so many seconds of evidence allow a detector to claim, whatever lies between them."""
    allowed = honest_confidence(Window(0.0, known_s, samples), detector)
    return min(allowed, at_most, key=lambda step: step.rank)


def unbroken(past: Past) -> Past:
    """The part of a past behind its last long hole."""
    longest_s = max(_LONGEST_HOLE_S, past.longest_s)
    holes = np.flatnonzero(past.begins[1:] - past.times[:-1] > longest_s)
    return past.since_row(int(holes[-1]) + 1) if len(holes) else past


def window_of(past: Past) -> Window:
    """From the first to the last sample."""
    return Window(float(past.times[0]), float(past.times[-1]), len(past.times))


def seen_s(past: Past) -> float:
    """Seconds from the first to the last row that no hole took."""
    return float(past.seconds[1:].sum())


def known_share(past: Past, key: str) -> NDArray[np.float64]:
    """Per entity the share of the time from the first to the last row in which a field is known."""
    known_s = past.seconds[1:] @ np.isfinite(past.columns[key][1:])
    length_s = float(past.times[-1] - past.times[0])
    share: NDArray[np.float64] = known_s / length_s if length_s > 0 else np.zeros_like(known_s)
    return share


def mean_of(past: Past, key: str) -> NDArray[np.float64]:
    """Per entity the mean of a field over the time in which it is known, NaN where it never is."""
    values = past.columns[key]
    seconds = past.seconds_from(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: NDArray[np.float64] = (seconds @ np.nan_to_num(values)) / (
            seconds @ np.isfinite(values)
        )
    return means


def mean_over(values: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Per column the mean of what is known, NaN without any."""
    is_known = np.isfinite(values)
    if len(values) and is_known.all():
        mean: NDArray[np.float64] = values.sum(axis=0, dtype=np.float64) / len(values)
        return mean
    known = is_known.sum(axis=0)
    total = np.where(is_known, values, 0.0).sum(axis=0, dtype=np.float64)
    return np.where(known > 0, total / np.maximum(known, 1), np.nan)


def newest_of(past: Past, key: str) -> NDArray[np.float64]:
    """Per entity the newest value of a field, NaN where it was last known too long ago."""
    values = past.columns[key]
    rows = np.arange(len(values))[:, None]
    last = np.where(np.isfinite(values), rows, 0).max(axis=0)
    is_old = past.times[-1] - past.times[last] > past.longest_s
    newest: NDArray[np.float64] = values[last, np.arange(values.shape[1])].astype(np.float64)
    newest[is_old] = np.nan
    return newest


def levels(past: Past, values: NDArray[np.float32]) -> NDArray[np.float32]:
    """One column of levels with what is missing for a moment filled in.

    Between two known values a line is drawn; behind the newest one it stays.
    """
    is_known = np.isfinite(values)
    if is_known.all() or not is_known.any():
        return values
    rows = np.arange(len(values))
    before = np.maximum.accumulate(np.where(is_known, rows, -1))
    after = np.minimum.accumulate(np.where(is_known, rows, len(rows) - 1)[::-1])[::-1]
    away_s = past.times[after] - past.times[np.maximum(before, 0)]
    drawn = np.interp(past.times, past.times[is_known], values[is_known])
    found: NDArray[np.float32] = np.where(
        (before >= 0) & (away_s <= past.longest_s), drawn, values
    ).astype(np.float32)
    return found
