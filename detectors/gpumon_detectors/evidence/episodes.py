"""Troubles that come and go: since when one lasts, and how dense it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon_detectors.evidence.phrases import clock_time, span

if TYPE_CHECKING:
    from numpy.typing import NDArray

MINUTE_S: Final = 60.0
"""Seconds."""
HOUR_S: Final = 3600.0
"""Seconds."""

REST_S: Final = 180.0
"""Longest quiet within one episode: at 0.6 events a minute, the rate above which events are
counted as one trouble, five in a hundred pauses are longer."""

LEAST_SHARE: Final = 0.6
"""Share of the minutes in which the trouble must show: 0.6 events a minute over 10 minutes is what
operators of large clusters alarm at."""

SURE_S: Final = 600.0
"""So long it must have been counted before it is more than a *hypothesis*."""


def episode_row(
    times: NDArray[np.float64],
    is_bad: NDArray[np.bool_],
    begins: NDArray[np.float64] | None = None,
) -> int | None:
    """Row of the first event of the episode that lasts until the end, None where there is none.

    Events no further apart than `REST_S` belong together, and the last one must lie no further
    back than that. Fewer than two events are none: one may be anything. `begins` are the first
    samples of rows that hold many: between two of these lies what is not in either.
    """
    rows = np.flatnonzero(is_bad)
    if len(rows) < 2 or times[-1] - times[rows[-1]] > REST_S:
        return None
    firsts = times if begins is None else begins
    breaks = np.flatnonzero(firsts[rows[1:]] - times[rows[:-1]] > REST_S)
    first = int(breaks[-1]) + 1 if len(breaks) else 0
    if len(rows) - first < 2:
        return None
    return int(rows[first])


def is_dense(
    times: NDArray[np.float64],
    is_bad: NDArray[np.bool_],
    begins: NDArray[np.float64] | None = None,
) -> bool:
    """Whether events fall into at least `LEAST_SHARE` of the minutes from the first row on.

    `begins` are the first samples of rows that hold many: each stands for all of its minutes.
    """
    firsts = times if begins is None else begins
    first, last = ((at - firsts[0]) // MINUTE_S for at in (firsts[is_bad], times[is_bad]))
    minutes = int((times[-1] - firsts[0]) // MINUTE_S) + 1
    # Runs of minutes, the one after the other: what a run shares with the one before counts once.
    reached = np.maximum.accumulate(np.concatenate(([-1.0], last[:-1])))
    hit = np.maximum(0.0, last - np.maximum(first - 1, reached)).sum()
    return bool(hit >= LEAST_SHARE * minutes)


def is_oftener(
    times: NDArray[np.float64], counter: NDArray[np.float32], a_minute: float
) -> NDArray[np.bool_]:
    """Rows at the end of a minute, or of a longer period, in which a counter grew too fast."""
    total = known_so_far(counter)
    before = np.maximum(times.searchsorted(times - MINUTE_S, "right") - 1, 0)
    # Of the first rows no whole minute is known: what they show is taken for one.
    seconds = np.maximum(times - times[before], MINUTE_S)
    return np.asarray((total - total[before]) * MINUTE_S > a_minute * seconds, np.bool_)


def known_so_far(counter: NDArray[np.float32]) -> NDArray[np.float64]:
    """What a counter has grown by up to each row.

    A missing value is the one before, and a counter that was set back begins again.
    """
    known = np.flatnonzero(np.isfinite(counter))
    grown = np.zeros(len(counter))
    if len(known):
        grown[known[1:]] = np.maximum(np.diff(counter[known].astype(np.float64)), 0.0)
    total: NDArray[np.float64] = np.cumsum(grown)
    return total


def grown_by(counter: NDArray[np.float32], row: int) -> float:
    """What a counter has grown by since the row before one."""
    total = known_so_far(counter)
    return float(total[-1] - total[max(0, row - 1)])


def row_seconds(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds that each row stands for: since the row before, none for the first."""
    return np.diff(times, prepend=times[:1])


def over_words(times: NDArray[np.float64], row: int, *, is_scattered: bool = False) -> str:
    """Over which time events were counted: `since 14:03`, or `in the last hour`.

    Args:
        times: Of the window that was looked through.
        row: Of the first event.
        is_scattered: Whether events come far apart: those before it may just have left the window.

    Returns:
        An onset only where a quiet time before it was seen; else the window, which moves on.
    """
    length_s = float(times[-1] - times[0])
    is_full = abs(length_s - HOUR_S) < MINUTE_S
    has_moved_on = is_scattered and is_full
    if not has_moved_on and times[row] - times[0] > REST_S:
        return f"since {clock_time(float(times[row]))}"
    return f"in the last {'hour' if is_full else span(length_s)}"
