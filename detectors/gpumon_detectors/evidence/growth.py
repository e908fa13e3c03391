"""Whether memory grows without end, and when it will be full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHORTEST_S: Final = 1800.0
"""Memory that grows for less than this may be filling up as it should."""

_SPANS_S: Final = (24 * 3600.0, 12 * 3600.0, 6 * 3600.0, 3 * 3600.0, 5400.0, SHORTEST_S)
_PARTS: Final = 12
"""Parts of a window whose lowest values are compared: what is freed in between counts as freed."""

_MOST_FALLS: Final = 1
_LEAST_SHARE: Final = 0.02
"""Share of the limit by which it must have grown: more than rounding and small buffers."""

_LARGEST_STEP: Final = 0.4
"""Share of the growth in one part beyond which it came in jumps: an allocator's cache, a load."""

_STILL_GROWING: Final = 0.5
"""Rate of the last third against that of the whole, below which it levels off."""


class Growth(NamedTuple):
    """Memory of one GPU or node that grows through one window."""

    first: int
    """Row at which the window begins."""
    bytes_per_s: float
    """Over the last third of the window."""
    grown_bytes: float
    full_in_s: float
    """Seconds until the limit at that rate."""


def growth_of(
    times: NDArray[np.float64], used: NDArray[np.float32], limit_bytes: float
) -> Growth | None:
    """The longest window up to now in which memory grows steadily; None where there is none."""
    if not limit_bytes > 0 or not len(times) or not np.isfinite(used[-1]):
        return None
    for span_s in _SPANS_S:
        first = int(times.searchsorted(times[-1] - span_s, "left"))
        length_s = float(times[-1] - times[first])
        if length_s < SHORTEST_S or (first and length_s < 0.9 * span_s):
            continue
        found = _steady(times[first:], used[first:], limit_bytes)
        if found is not None:
            return found._replace(first=first)
    return None


def _steady(
    times: NDArray[np.float64], used: NDArray[np.float32], limit_bytes: float
) -> Growth | None:
    edges = np.linspace(times[0], times[-1], _PARTS + 1)[1:-1]
    parts = [part[np.isfinite(part)] for part in np.split(used, times.searchsorted(edges))]
    if any(len(part) < 2 for part in parts):
        return None
    lows = np.array([part.min() for part in parts], np.float64)
    steps = np.diff(lows)
    grown = float(lows[-1] - lows[0])
    third = _PARTS // 3
    recent = float(steps[-third:].mean())
    is_steady = (
        grown >= _LEAST_SHARE * limit_bytes
        and int((steps <= 0).sum()) <= _MOST_FALLS
        and float(steps.max()) <= _LARGEST_STEP * grown
        and recent >= _STILL_GROWING * grown / (_PARTS - 1)
    )
    if not is_steady:
        return None
    rate = recent * _PARTS / float(times[-1] - times[0])
    full_in_s = max(0.0, limit_bytes - float(used[-1])) / rate
    return Growth(0, rate, grown, full_in_s)
