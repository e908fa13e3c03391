"""How a GPU without SM counters does less than before in the same run: by its energy counter.

The counter is exact on average, whatever happens between two samples, so that its levels are steady
where glances at utilisation are not; these show in the long run that the GPU rests longer.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon_detectors.evidence.gpu_use import FAINT_RATIO, PAST_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpumon.plugin import JobLook, Past

    Floats = NDArray[np.float64]
    Rows = NDArray[np.bool_]

_SLICE_S: Final = 300.0
"""Length of a slice. Our choice: the counter may be read every half a minute only."""

_STRETCH: Final = 4
"""Slices in a row that tell a level: twenty minutes, as where SM activity is known."""

LEAST_FALL: Final = 0.1
"""Greyhound's check: a mean shift of 10 % at least."""

MOST_FALL: Final = 0.67
"""A larger fall is other work, or the end of it, and no drift (our choice)."""

_STEADY: Final = 0.04
"""Spread of a level within a stretch, as a share of it: training is steadier, load is not."""

_STAYS_SHARE: Final = 0.9
"""Share of the slices since the change that must be low: a fall that comes and goes is load (our
choice)."""

_MOST_REST_POWER: Final = 0.5
"""What a GPU draws at most while it rests between kernels, over what it draws with them: a held
board draws a tenth to a third (our choice). What falls otherwise than the time with kernels is
other work."""

_ALIKE: Final = 0.1
"""How far apart what is left of utilisation, of power and of the memory's use may lie beside that:
glances are inexact (our choice)."""

_SURE_FALL: Final = 3.0
"""Standard errors of glances that the fall of utilisation must exceed."""

LONGEST_PAUSE_S: Final = 90.0
"""A longer one beside the change is a new part of the run, not a drift (the longest checkpoint
pauses reported are about 96 s)."""

BESIDE_S: Final = 600.0
"""Pauses, and links that are slow, count within ten minutes of the change (our choice: a level is
known to some windows)."""

_PAUSED: Final = 0.775
"""What such a pause leaves of a slice's power, where a GPU at rest draws a quarter (our choice)."""

_FINE_S: Final = 15.0
"""Samples no further apart tell a pause from glances that meet no kernel by chance: six of them in
a row (our choice)."""

LOW_CLOCK: Final = 0.97
"""Share of its earlier SM clock below which the clock explains the fall: boost clocks move by a per
cent or two with temperature (our choice)."""

_LEAST_MEMORY: Final = 0.02
"""Use of the memory from which it shows what kind of work runs (our choice)."""

_ENERGY: Final = "energy_j"
_KEYS: Final = ("gpu_util_ratio", "mem_activity_ratio", "sm_clock_mhz", _ENERGY)


class EnergyFall(NamedTuple):
    """A GPU that draws less on average since some time, as it rests longer in between."""

    start: float
    """Unix time since when."""
    end: float
    samples: int
    known_s: float
    before_w: float
    now_w: float
    loss: float
    """Share of the time since then that is lost, at least: what it draws at rest is not counted."""
    util: tuple[float, float]
    """Utilisation before and since."""


def energy_fall(job: JobLook) -> EnergyFall | None:
    """The fall of a job's one GPU that lasts until now, None where there is none.

    Args:
        job: A job of one GPU: among several, one may wait for another.
    """
    past = job.past(_KEYS, PAST_S)
    if len(job.gpus) != 1 or len(past.times) < 2 * _STRETCH:
        return None
    edges, level = _levels(past)
    if len(level) < 2 * _STRETCH:
        return None
    middles = np.median(np.lib.stride_tricks.sliding_window_view(level, _STRETCH), axis=1)
    known = np.isfinite(middles[:-_STRETCH])
    if not known.any() or not np.isfinite(middles[-1]):
        return None
    best = int(np.nanargmax(middles[:-_STRETCH]))
    before, now = float(middles[best]), float(middles[-1])
    fall = 1.0 - now / before
    if not LEAST_FALL <= fall <= MOST_FALL or not (
        is_steady(level[best : best + _STRETCH]) and is_steady(level[-_STRETCH:])
    ):
        return None
    is_low = level < (1.0 - max(LEAST_FALL / 2, fall / 3)) * before
    first = lasting_from(is_low, best + _STRETCH // 2)
    if first is None or len(level) - first < _STRETCH:
        return None
    was = (past.times > edges[best]) & (past.times <= edges[first]) & _in(past, edges, ~is_low)
    since = past.times > edges[first]
    util = _rests_longer(past, was, since, now / before)
    if util is None or _is_clocked_down(past, was, since):
        return None
    is_beside = np.abs(edges[1:] - _SLICE_S / 2 - edges[first]) <= BESIDE_S
    is_paused = is_beside & (level < _PAUSED * now)
    if is_paused.any() or _has_pause(past, float(edges[first])):
        return None
    lost = np.clip(1.0 - level[first:] / before, 0.0, 1.0)
    return EnergyFall(
        start=float(edges[first]), end=float(past.times[-1]), samples=int(since.sum()),
        known_s=float(past.seconds_from(0)[since].sum()), before_w=before, now_w=now,
        loss=float(np.nanmean(lost)), util=util,
    )  # fmt: skip


def _levels(past: Past) -> tuple[Floats, Floats]:
    """Unix times of the edges of slices, and the mean power of each; NaN where it was not read."""
    energy = past.columns[_ENERGY][:, 0].astype(np.float64)
    times, energy = past.times[np.isfinite(energy)], energy[np.isfinite(energy)]
    # The counter may be read more rarely than samples are taken: rows between tell nothing new.
    is_new = np.diff(energy, prepend=-1.0) > 0.0
    times, energy = times[is_new], energy[is_new]
    if len(times) < 2:
        return np.empty(0), np.empty(0)
    count = int((past.times[-1] - times[0]) // _SLICE_S)
    edges = past.times[-1] - _SLICE_S * np.arange(count, -1, -1.0)
    level = np.diff(np.interp(edges, times, energy)) / _SLICE_S
    is_read = np.diff(times.searchsorted(edges, "right")) > 0
    return edges, np.where(is_read, level, np.nan)


def _in(past: Past, edges: Floats, is_wanted: Rows) -> Rows:
    """Rows of the slices that are wanted."""
    places = np.clip(edges.searchsorted(past.times, "left") - 1, 0, len(is_wanted) - 1)
    return np.asarray(is_wanted[places] & (past.times > edges[0]), np.bool_)


def is_steady(level: Floats) -> bool:
    """Whether a stretch has one level, but for single slices with a checkpoint."""
    low, high = np.nanpercentile(level, (20.0, 80.0))
    return bool(high - low <= 2 * _STEADY * high)


def lasting_from(is_low: Rows, least: int) -> int | None:
    """First slice since which nearly all are low; None: they are not.

    Args:
        is_low: By slice.
        least: No slice before this one.
    """
    share = np.cumsum(is_low[::-1])[::-1] / np.arange(len(is_low), 0, -1)
    found = np.flatnonzero(is_low & (share >= _STAYS_SHARE))
    found = found[found >= least]
    return int(found[0]) if len(found) else None


def _rests_longer(
    past: Past, was: Rows, since: Rows, of_power: float
) -> tuple[float, float] | None:
    """Utilisation before and since, where the same kernels run for a smaller part of the time.

    Power falls with it, less what a GPU at rest draws, and the memory is used less by that part.
    """
    util, memory = (past.columns[key][:, 0] for key in _KEYS[:2])
    before, now = util[was & np.isfinite(util)], util[since & np.isfinite(util)]
    if len(before) < 2 or len(now) < 2 or before.mean() <= 0.0:
        return None
    error = sqrt(before.var() / len(before) + now.var() / len(now))
    fallen, left = float(before.mean() - now.mean()), float(now.mean() / before.mean())
    if fallen < _SURE_FALL * error or left > 1.0 - LEAST_FALL:
        return None
    if not left - _ALIKE <= of_power <= left + _MOST_REST_POWER * (1.0 - left) + _ALIKE:
        return None
    used, uses = memory[was & np.isfinite(memory)], memory[since & np.isfinite(memory)]
    if not len(used) or not len(uses) or used.mean() < _LEAST_MEMORY:
        return None
    if abs(float(uses.mean() / used.mean()) - left) > _ALIKE:
        return None
    return float(before.mean()), float(now.mean())


def _has_pause(past: Past, at: float) -> bool:
    """Whether the GPU did nothing for long beside the change."""
    seconds = past.seconds_from(0)
    beside = (past.times >= at - BESIDE_S) & (past.times <= at + BESIDE_S)
    beside &= seconds <= _FINE_S
    is_rest = past.columns[_KEYS[0]][beside, 0] <= FAINT_RATIO
    rested_s = np.cumsum(seconds[beside] * is_rest)
    at_work_s = np.maximum.accumulate(np.where(is_rest, 0.0, rested_s))
    return bool((rested_s - at_work_s).max(initial=0.0) > LONGEST_PAUSE_S)


def _is_clocked_down(past: Past, was: Rows, since: Rows) -> bool:
    """Whether the clock is lower than before, or is not known."""
    clock = past.columns["sm_clock_mhz"][:, 0]
    before, now = clock[was & np.isfinite(clock)], clock[since & np.isfinite(clock)]
    return not len(before) or not len(now) or bool(now.mean() < LOW_CLOCK * before.mean())
