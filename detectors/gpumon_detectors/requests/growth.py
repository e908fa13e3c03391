"""Whether memory grows without end, and when it will be full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpumon.plugin import Past

SHORTEST_S: Final = 1800.0
"""Memory that grows for less than this may be filling up as it should."""

_SPANS_S: Final = (24 * 3600.0, 12 * 3600.0, 6 * 3600.0, 3 * 3600.0, 5400.0, SHORTEST_S)
_PARTS: Final = 12
"""Parts of a window whose lowest values are compared: what is freed in between counts as freed."""

_LEAST_IN_A_PART: Final = 2
"""Known values of a part, on average: the lowest of fewer is any."""

_MOST_FALLS: Final = 1
"""Parts of the time in which it may not grow: a cache that is emptied once is still a leak's (our
choice)."""

_LEFT_BY_A_FALL: Final = 0.25
"""What a fall leaves of the growth until then, against a steady one: what gives back more than that
is a saw, whose teeth a window may cut so that it has one fall alone (our choice)."""

_LEAST_SHARE: Final = 0.02
"""Share of the limit by which it must have grown: more than rounding and small buffers."""

_LARGEST_STEP: Final = 0.4
"""Share of the growth in one part beyond which it came in jumps: an allocator's cache, a load."""

_STILL_GROWING: Final = 0.5
"""Rate of the last third against that of the whole, below which it levels off."""

_GROWING_NOW: Final = 0.55
"""Least rise through each of the last two parts against the mean one, told by the lowest values of
their later halves: of memory that was flat through the last part it is a half at most."""

_IN_THE_LAST_HOUR: Final = 0.25
"""The same for the last hour, where a part is longer than half of it (our choice: garbage that is
collected now and then hides a part of the growth)."""

_MOST_PARTS_AT_REST: Final = 1
"""Parts without work of the GPU, such as a long checkpoint; what grows in more is being loaded."""


class Growth(NamedTuple):
    """Memory of one GPU or node that grows through one window."""

    first: int
    """Row at which the window begins."""
    bytes_per_s: float
    """Over the last third of the window."""
    grown_bytes: float
    full_in_s: float
    """Seconds until the limit at that rate."""
    was_freed: bool = False
    """Whether it was as high before the window for a while, so that it fell back since."""


def may_have_grown(
    used: NDArray[np.float32], limit_bytes: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Per column whether its values lie so far apart that `growth_of` may find a growth.

    Most memory keeps its level: this spares whoever looks at a fleet the windows of all that does.
    """
    if not len(used):
        return np.zeros(used.shape[1], np.bool_)
    low, high = np.fmin.reduce(used, axis=0), np.fmax.reduce(used, axis=0)
    risen: NDArray[np.bool_] = high - low >= _LEAST_SHARE * limit_bytes
    return risen


def growth_of(
    past: Past,
    used: NDArray[np.float32],
    limit_bytes: float,
    is_at_work: NDArray[np.bool_] | None = None,
) -> Growth | None:
    """The longest window up to now in which memory grows steadily; None where there is none.

    Windows are as long as they were seen: what a hole takes lies before.

    Args:
        past: The rows.
        used: Lowest memory in use behind each row, NaN where it is missing.
        limit_bytes: What there is of it.
        is_at_work: Rows in which whatever uses it worked; None: not known.
    """
    times = past.times
    if not limit_bytes > 0 or not len(times) or not np.isfinite(used[-1]):
        return None
    behind_s = np.cumsum(past.seconds[::-1])[::-1] - past.seconds
    firsts = behind_s.size - np.searchsorted(behind_s[::-1], _SPANS_S, "left") - 1
    for first in dict.fromkeys(np.maximum(firsts, 0).tolist()):
        if behind_s[first] < SHORTEST_S:
            continue
        if not _has_risen(times[first:], used[first:], limit_bytes):
            continue
        at_work = None if is_at_work is None else is_at_work[first:]
        if at_work is not None and _parts_at_rest(times[first:], at_work) > _MOST_PARTS_AT_REST:
            continue
        found = _steady(times[first:], used[first:], limit_bytes)
        if found is not None:
            return found._replace(first=first, was_freed=_was_freed(times, used, first, found))
    return None


def _has_risen(times: NDArray[np.float64], used: NDArray[np.float32], limit_bytes: float) -> bool:
    """Whether the lowest value of a window's last part lies above that of its first, by enough.

    Most memory keeps its level: this is asked before all that takes longer.
    """
    part_s = (times[-1] - times[0]) / _PARTS
    second, last = times.searchsorted((times[0] + part_s, times[0] + (_PARTS - 1) * part_s))
    grown = float(np.fmin.reduce(used[last:])) - float(np.fmin.reduce(used[:second]))
    return grown >= _LEAST_SHARE * limit_bytes


def _steady(
    times: NDArray[np.float64], used: NDArray[np.float32], limit_bytes: float
) -> Growth | None:
    edges = _edges(times)
    counts = _counts(np.isfinite(used), edges)
    if not counts.min() or counts.sum() < _LEAST_IN_A_PART * _PARTS:
        return None
    lows = np.fmin.reduceat(used, edges[:-1]).astype(np.float64)
    steps = np.diff(lows)
    grown = float(lows[-1] - lows[0])
    third = _PARTS // 3
    recent = float(steps[-third:].mean())
    mean = grown / (_PARTS - 1)
    is_steady = (
        grown >= _LEAST_SHARE * limit_bytes
        and int((steps <= 0).sum()) <= _MOST_FALLS
        and _stays_behind_falls(lows)
        and float(steps.max()) <= _LARGEST_STEP * grown
        and recent >= _STILL_GROWING * mean
        and _least_late_rise(times, used) >= _GROWING_NOW * mean
        and _grew_in_the_last_hour(times, used, mean)
    )
    if not is_steady:
        return None
    rate = recent * _PARTS / float(times[-1] - times[0])
    full_in_s = max(0.0, limit_bytes - float(used[-1])) / rate
    return Growth(0, rate, grown, full_in_s)


def _stays_behind_falls(lows: NDArray[np.float64]) -> bool:
    """Whether what had grown by a fall is still there behind it."""
    grown = lows - lows[0]
    falls = np.flatnonzero(np.diff(lows) <= 0) + 1
    steady = falls / (_PARTS - 1) * grown[-1]
    return bool((grown[falls] >= _LEFT_BY_A_FALL * steady).all())


def _was_freed(
    times: NDArray[np.float64], used: NDArray[np.float32], first: int, found: Growth
) -> bool:
    """Whether memory stood above the middle of a growth for a part's time before the growth."""
    is_high = used[:first] >= float(used[-1]) - found.grown_bytes / 2
    high_s = np.diff(times[: first + 1])[is_high].sum()
    return bool(high_s >= float(times[-1] - times[first]) / _PARTS)


def _edges(times: NDArray[np.float64]) -> NDArray[np.intp]:
    """First row of each part, and behind the last row."""
    inner = times.searchsorted(np.linspace(times[0], times[-1], _PARTS + 1)[1:-1])
    return np.concatenate(([0], inner, [len(times)]))


def _counts(flags: NDArray[np.bool_], edges: NDArray[np.intp]) -> NDArray[np.intp]:
    """How many rows of each part have a flag."""
    return np.diff(np.concatenate(([0], np.cumsum(flags)))[edges])


def _parts_at_rest(times: NDArray[np.float64], is_at_work: NDArray[np.bool_]) -> int:
    return int((_counts(is_at_work, _edges(times)) == 0).sum())


def _least_late_rise(times: NDArray[np.float64], used: NDArray[np.float32]) -> float:
    """The smaller rise through the last two parts; minus infinity where one cannot be told."""
    halves = np.linspace(times[0], times[-1], 2 * _PARTS + 1)
    lows = []
    for late in (-5, -3, -1):
        rows = slice(
            times.searchsorted(halves[late - 1]), times.searchsorted(halves[late], "right")
        )
        known = used[rows][np.isfinite(used[rows])]
        if not len(known):
            return float("-inf")
        lows.append(float(known.min()))
    return min(lows[1] - lows[0], lows[2] - lows[1])


def _grew_in_the_last_hour(
    times: NDArray[np.float64], used: NDArray[np.float32], mean_step: float
) -> bool:
    """Whether it still grows where the parts are too long to tell it: a day's take two hours."""
    part_s = float(times[-1] - times[0]) / _PARTS
    if part_s <= SHORTEST_S:
        return True
    halves = np.split(used, times.searchsorted(times[-1] - SHORTEST_S * np.array([2, 1])))[1:]
    known = [half[np.isfinite(half)] for half in halves]
    if not all(map(len, known)):
        return False
    least = _IN_THE_LAST_HOUR * mean_step * SHORTEST_S / part_s
    return float(known[1].min()) - float(known[0].min()) >= least
