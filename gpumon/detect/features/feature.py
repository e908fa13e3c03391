"""What a feature is: one number about a GPU or a job over a window until now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SHORT_S: Final = 300.0
"""Shortest window, seconds: what a first verdict has of evidence."""
USUAL_S: Final = 900.0
"""Window of most features, seconds. A choice: some checkpoints or epochs of a common job."""
LONG_S: Final = 3600.0
"""Longest window, seconds: history holds every sample for an hour."""

STEP_S: Final = 10.0
"""Values are means over so long: what is sampled more often looks as if it were not, so that a
feature means the same at every period up to here (our choice; history's own beat of all but
GPUs)."""

LEAST_KNOWN: Final = 0.5
"""Share of a window that must be known for a number about it."""


class Feature(NamedTuple):
    """One number, NaN where it is unknown."""

    key: str
    unit: str
    """`ratio`, `s`, `1/h`, `log10 B/s`, ...; empty: a count or a correlation."""
    doc: str
    fields: tuple[str, ...]
    """Keys of the catalogue that it is made of; empty: of the queue alone."""
    absence: str
    """What it means that it is missing."""


def feature_text(value: float, feature: Feature) -> str:
    """A feature's value in words of its unit."""
    if feature.unit == "ratio":
        return f"{100 * value:.0f} %"
    if feature.unit.startswith("log10 "):
        return f"{10**value:.3g} {feature.unit[6:]}"
    if feature.unit == "log2":
        return f"{2**value:.0f}"
    return f"{value:.3g} {feature.unit}".rstrip()


NO_PROFILING: Final = "no profiling counters, or they are in use"
NOT_REPORTED: Final = "the driver does not report it"
TOO_SHORT: Final = "too little of the window was observed"
NO_SHEET: Final = "no data sheet of the board, or no such link"


def mean(values: Floats, axis: int = 0) -> Floats:
    """Mean of what is known along an axis, NaN where less than `LEAST_KNOWN` of it is."""
    is_known = np.isfinite(values)
    count = is_known.sum(axis=axis)
    total = np.where(is_known, values, 0.0).sum(axis=axis)
    return enough(total / np.maximum(count, 1), count, values.shape[axis])


def deviation(values: Floats, axis: int = 0) -> Floats:
    """Standard deviation of what is known along an axis, as `mean`."""
    centre = np.expand_dims(mean(values, axis), axis)
    return np.sqrt(mean((values - centre) ** 2, axis))


def enough(value: Floats, count: NDArray[np.intp], of: int) -> Floats:
    """The value where at least `LEAST_KNOWN` of so many are counted, else NaN."""
    return np.where((count > 0) & (count >= LEAST_KNOWN * of), value, np.nan)


def ratio(part: Floats, whole: Floats) -> Floats:
    """Part of a whole, NaN where the whole is 0 or not known."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share: Floats = part / np.where(whole > 0, whole, np.nan)
    return share


def correlation(one: Floats, other: Floats) -> Floats:
    """Along the first axis, of what is known of both; NaN where one of them does not move."""
    is_known = np.isfinite(one) & np.isfinite(other)
    one, other = (np.where(is_known, part, np.nan) for part in (one, other))
    one, other = one - mean(one)[None], other - mean(other)[None]
    spread = np.sqrt(mean(one**2) * mean(other**2))
    return np.clip(ratio(mean(one * other), np.where(spread > 1e-9, spread, np.nan)), -1.0, 1.0)
