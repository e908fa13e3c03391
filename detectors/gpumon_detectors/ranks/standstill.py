"""Since when nothing is computed on any GPU of a job that computed before, and what each shows."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import LINK_BUSY_BYTES_PER_S, SOME_MEMORY, SOME_TENSOR, SPINNING_SM
from gpumon_detectors.evidence.gpu_use import (
    ENGINES,
    FAINT_RATIO,
    PEAKS,
    PIPES,
    SPINNING_POWER,
    SPINNING_UTIL,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gpumon.plugin import JobLook, Past

PAST_S: Final = 6 * 3600.0
"""How far back a job's own pauses and its own level are looked for (our choice)."""

_LONE_PAST_S: Final = 24 * 3600.0
"""As far for a job of one GPU, which is told by its work before alone: it may hang overnight."""

_LINKS: Final = (
    *("nvlink_rx_bytes_per_s", "nvlink_tx_bytes_per_s"),
    *("pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s"),
)
_KEYS: Final = (*PIPES, "gpu_util_ratio", *ENGINES, "power_w", *_LINKS)

_RESTING_UTIL: Final = 0.02
_STATE_SHARE: Final = 0.9
"""Share of the known samples that makes a GPU one that spins, or rests (our choice)."""

_LEAST_KNOWN: Final = 0.5
"""Share of the samples that must be known: a GPU with fewer is silent (our choice)."""

_LEVEL_ROWS: Final = 5
"""So many samples must have drawn as much for it to be the level of a job's work (our choice)."""

_LONGEST_HOLE_S: Final = 300.0
"""What lasts as long as a claim may hide in a longer hole of the telemetry."""

_LEAST_WORK_ROWS: Final = 3
"""Samples with work that show a GPU takes part: one or two may be an old step's end (our
choice)."""

_FLAT: Final = 0.15
"""A kernel that never ends shows the same in each sample: SM activity spreads by no more than this
share of its mean (our choice; steps of real work, with pauses for input, spread further)."""


class State(StrEnum):
    """What a GPU of a job does on which nothing is computed."""

    SPINS = "spins"
    """A kernel runs without a break and does nothing: it waits for others."""
    RESTS = "rests"
    """No kernel runs."""
    SILENT = "silent"
    """It tells nothing any more."""
    ENDLESS = "endless"
    """One kernel runs on it without an end, unlike its work before: no tensor cores, no copies."""
    OTHER = "other"


class Standstill(NamedTuple):
    """A stretch until now in which no GPU of a job computes."""

    past: Past
    is_work: NDArray[np.bool_]
    """By row and GPU whether it computes."""
    first: int
    """Its first row."""
    members: tuple[int, ...]
    """Positions of the GPUs that computed before; of all, where none was seen to."""
    states: tuple[State, ...]
    """Of these, since then."""
    known_s: float
    """Seconds of the stretch of which it is known that nothing was computed."""
    worked_s: float
    """Seconds of work that were seen before, of the GPU that worked most."""
    longest_pause_s: float
    """The longest time without work between work that was seen before."""
    has_counters: bool
    """Whether profiling counters tell it, not power and utilisation alone."""

    @property
    def window_start(self) -> float:
        """Unix time since when nothing is computed, as far as it was observed."""
        return float(self.past.begins[self.first])

    def places(self, state: State) -> tuple[int, ...]:
        """Positions of the members in one state."""
        pairs = zip(self.members, self.states, strict=True)
        return tuple(place for place, own in pairs if own is state)

    def mean(self, key: str, places: tuple[int, ...]) -> float:
        """Mean of a field of some GPUs since then, NaN where it is not known."""
        return _mean(self.past.columns[key][self.first :, list(places)])

    def mean_before(self, key: str, places: tuple[int, ...]) -> float:
        """Mean of a field of some GPUs in the rows before in which they computed."""
        rows = slice(None, self.first)
        values = self.past.columns[key][rows, list(places)]
        return _mean(np.where(self.is_work[rows, list(places)], values, np.nan))


def standstill_of(job: JobLook) -> Standstill | None:
    """The standstill of a job that lasts until now; None while any of its GPUs computes."""
    past = job.past(_KEYS, PAST_S if len(job.gpus) > 1 else _LONE_PAST_S, PEAKS)
    rows = len(past.times)
    if not rows:
        return None
    is_work = computes(past)
    endless = _endless(past, is_work)
    if endless is not None:
        place, row = endless
        if len(job.gpus) == 1:
            # What moved as little before was no work either: it may come back from this one, too.
            is_work &= _moves(past)
        is_work[row:, place] = False
    at_work = np.flatnonzero(is_work.any(axis=1))
    first = max(int(at_work[-1]) + 1 if len(at_work) else 0, _row_behind_hole(past))
    if first >= rows:
        return None
    worked = is_work[:first].sum(axis=0) >= _LEAST_WORK_ROWS
    members = np.flatnonzero(worked) if worked.any() else np.arange(is_work.shape[1])
    counters = np.isfinite(past.columns["sm_active_ratio"][:, members])
    has_counters = counters.any(axis=0)
    is_known = np.isfinite(past.columns["gpu_util_ratio"][first:, members])
    is_known &= counters[first:] | ~has_counters
    states = [_state(past, first, place, is_known[:, n]) for n, place in enumerate(members)]
    if endless is not None:
        states[int(members.searchsorted(endless[0]))] = State.ENDLESS
    worked_s = past.seconds[:first] @ is_work[:first]
    return Standstill(
        past=past,
        is_work=is_work,
        first=first,
        members=tuple(int(place) for place in members),
        states=tuple(states),
        known_s=_known_s(past, first, is_known, states),
        worked_s=float(worked_s.max()),
        longest_pause_s=_longest_pause(past, at_work[at_work < first]),
        has_counters=bool(has_counters.all()),
    )


def may_be_stalled(job: JobLook) -> bool:
    """Whether the newest values leave it open; spares jobs at work the look back."""
    if len(job.gpus) == 1 and not (job.latest("gpu_util_ratio") >= SPINNING_UTIL).all():
        return False
    for key, limit in zip(PIPES[1:], (SOME_TENSOR, SOME_MEMORY), strict=True):
        if (job.latest(key) >= limit).any():
            return False
    # One of them may be busy with a kernel that never ends.
    if (job.latest(PIPES[0]) >= SPINNING_SM).sum() > 1:
        return False
    return bool((job.latest("compute_process_count") > 0).any())


def computes(past: Past) -> NDArray[np.bool_]:
    """By row and GPU whether anything is computed, decoded or exchanged; no for what is unknown.

    With profiling counters these tell, by the books' floor of useful work; without them a GPU
    computes while it draws more than a share of what its work drew before.
    """
    found = (past.peaks["sm_active_ratio"] >= SPINNING_SM) | _moves(past)
    util, power = past.peaks["gpu_util_ratio"], past.columns["power_w"]
    is_loaded = util > FAINT_RATIO
    is_high = power > SPINNING_POWER * _level(np.where(is_loaded, power, np.nan))
    is_plain = ~np.isfinite(past.columns["sm_active_ratio"]).any(axis=0)
    found |= is_plain & is_loaded & is_high
    return found


def _moves(past: Past) -> NDArray[np.bool_]:
    """By row and GPU whether anything but its SMs is at work: tensor cores, memory, links."""
    found = (past.peaks["tensor_active_ratio"] > SOME_TENSOR) | (
        past.peaks["dram_active_ratio"] >= SOME_MEMORY
    )
    for key in ENGINES:
        found |= past.columns[key] > FAINT_RATIO
    for key in _LINKS:
        found |= past.columns[key] >= LINK_BUSY_BYTES_PER_S
    return found


def _endless(past: Past, is_work: NDArray[np.bool_]) -> tuple[int, int] | None:
    """The one GPU that goes on while the others do not, with one kernel, and since which row.

    Its work before used tensor cores, as training does; what it runs now is the same in each sample
    and uses none: it is no evaluation and no checkpoint that the others wait for. A job's only GPU
    goes on so since it last moved anything.
    """
    is_lone = is_work.shape[1] == 1
    at_work = np.flatnonzero(is_work[-_LEAST_WORK_ROWS:].any(axis=0))
    if not is_lone and len(at_work) != 1:
        return None
    place = 0 if is_lone else int(at_work[0])
    before = _moves(past) if is_lone else np.delete(is_work, place, axis=1)
    theirs = np.flatnonzero(before.any(axis=1))
    row = int(theirs[-1]) + 1 if len(theirs) else 0
    sm, tensor = (past.columns[key][:, place] for key in PIPES[:2])
    was_training = _mean(tensor[:row][is_work[:row, place]]) > SOME_TENSOR
    known = sm[row:][np.isfinite(sm[row:])]
    if not was_training or len(known) < _LEAST_WORK_ROWS or known.std() > _FLAT * known.mean():
        return None
    since = {key: column[row:, place] for key, column in past.columns.items()}
    is_bare = [_is_mostly(since[key] <= SOME_TENSOR, since[key]) for key in PIPES[1:2]]
    is_bare += [_is_mostly(since[key] <= FAINT_RATIO, since[key]) for key in ENGINES]
    is_bare += [_is_mostly(since[key] < LINK_BUSY_BYTES_PER_S, since[key]) for key in _LINKS]
    util = since["gpu_util_ratio"]
    is_busy = np.isfinite(util).any() and _is_mostly(util >= SPINNING_UTIL, util)
    return (place, row) if is_busy and all(is_bare) else None


def _is_mostly(is_so: NDArray[np.bool_], values: NDArray[np.float32]) -> bool:
    """Whether something holds in nearly all known samples; yes where none is known."""
    known = np.isfinite(values)
    return bool(not known.any() or is_so[known].mean() >= _STATE_SHARE)


def _level(power: NDArray[np.float32]) -> NDArray[np.float32]:
    """Power that each GPU drew in its `_LEVEL_ROWS` highest samples at least."""
    if len(power) < 2 * _LEVEL_ROWS:
        return np.full(power.shape[1], np.nan, np.float32)
    drawn = np.where(np.isfinite(power), power, -np.inf)
    level: NDArray[np.float32] = np.partition(drawn, -_LEVEL_ROWS, axis=0)[-_LEVEL_ROWS]
    return level


def _row_behind_hole(past: Past) -> int:
    holes = np.flatnonzero(past.begins[1:] - past.times[:-1] > max(_LONGEST_HOLE_S, past.longest_s))
    return int(holes[-1]) + 1 if len(holes) else 0


def _state(past: Past, first: int, place: np.intp, is_known: NDArray[np.bool_]) -> State:
    """What one GPU shows since a row on."""
    util = past.columns["gpu_util_ratio"][first:, place]
    if is_known.mean() < _LEAST_KNOWN or not is_known[-3:].any():
        return State.SILENT
    known = util[is_known]
    if (known >= SPINNING_UTIL).mean() >= _STATE_SHARE:
        return State.SPINS
    return State.RESTS if (known <= _RESTING_UTIL).mean() >= _STATE_SHARE else State.OTHER


def _known_s(past: Past, first: int, is_known: NDArray[np.bool_], states: Sequence[State]) -> float:
    """Mean of the known seconds of those that still tell; one that does not takes none away."""
    seconds: NDArray[np.float64] = past.seconds_from(first) @ is_known
    is_reporting = np.array([state is not State.SILENT for state in states], np.bool_)
    return float(seconds[is_reporting].mean()) if is_reporting.any() else float(seconds.mean())


def _longest_pause(past: Past, at_work: NDArray[np.intp]) -> float:
    """Longest observed time without work between two rows with work, 0 without any."""
    if len(at_work) < 2:
        return 0.0
    total = np.concatenate(([0.0], np.cumsum(past.seconds)))
    between = total[at_work[1:]] - total[at_work[:-1] + 1]
    return float(between.max())


def _mean(values: NDArray[np.float32]) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
