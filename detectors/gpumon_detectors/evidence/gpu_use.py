"""Whether a job's GPUs are used: kernels, video engines, copies, processes, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from gpumon.plugin import bridged

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpumon.plugin import JobLook, Past, View

NEEDS: Final = ("compute_process_count", "mem_used_bytes", "mem_total_bytes", "gpu_util_ratio")
"""Without these a GPU's idleness cannot be told; NVML gives them on every GPU without MIG.
What only draws, as a desktop does, neither uses a GPU nor keeps it for a job."""

ENGINES: Final = ("encoder_util_ratio", "decoder_util_ratio")
"""Video engines, which work without the SMs."""

PIPES: Final = ("sm_active_ratio", "tensor_active_ratio", "dram_active_ratio")
"""What shows how hard a GPU works: SMs, tensor cores and memory."""

SM_NOISE_RATIO: Final = 0.01
"""An idle GPU's SM counter may show as much."""

UNTOUCHED_MEMORY: Final = 0.002
"""Share of the memory's cycles below which kernels compute nothing, and wait: one that spins shows
.00001, small kernels .02 to .03 (both on an H200)."""

COPY_KEYS: Final = ("pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s")

SLOWEST_COPY: Final = 0.15
"""Share of what its link carries that a copy reaches at least: what is copied takes no longer than
at that rate, and of pauses that are longer something else is the reason (our choice)."""

USUAL_PAUSE: Final = 0.05
"""Share of the time in which no kernel runs where nobody complains of it (our choice)."""

FALLS_BEHIND: Final = 0.05
"""A GPU must be at work for so much less of the time than its peers before the difference is
charged (our choice: one step of the utilisation's noise)."""

_KEYS: Final = (
    "gpu_util_ratio",
    "sm_active_ratio",
    "encoder_util_ratio",
    "decoder_util_ratio",
    *NEEDS[:3],
    *COPY_KEYS,
)
PEAKS: Final = 4
"""Of the first fields the largest value counts: kernels and video engines."""

BUSY_COPIES_BYTES_PER_S: Final = 1e9
"""A GPU that moves more over PCIe is at work, whatever its utilisation (KempnerPulse's class)."""

PAST_S: Final = 24 * 3600.0
"""As far back as history reaches: a shorter look back would end a long rest too late."""

PAUSE_S: Final = 120.0
"""Working GPUs may rest this long: the longest checkpoint pauses reported are about 96 s."""

SPINNING_UTIL: Final = 0.9
"""A kernel that waits is one that runs: utilisation reads 1, but for a sample now and then."""

SPINNING_POWER: Final = 0.6
"""Share of the power of a job's work up to which a GPU without profiling counters only spins.
Reports of hangs tell of a third and less (marin-community/marin#7344: GPUs at 100 % after 984 W;
NVIDIA/nccl#968: 70 W at 100 %); lighter kernels of real work draw more (our choice)."""

FAINT_RATIO: Final = 0.01
"""Utilisation that tools which ask a GPU for its state leave behind: one step of NVML's."""

_FAINT_MEAN_RATIO: Final = 0.002
"""Mean utilisation up to which a GPU that never shows more than `FAINT_RATIO` rests. Our choice:
seven seconds an hour, less than any training step that is worth a GPU."""

_MOST_BUSY_SHARE: Final = 0.01
"""Share of the known time in which a resting GPU may show work. Our choice: a stray sample in a
hundred moves no verdict, and it is never charged."""

_LONGEST_FLICKER_S: Final = 60.0
"""Work without a break for longer ends a rest, however small its share of a long one: shorter are
checks of a node's health and single samples at the longest usual period."""

_LONGEST_HOLE_S: Final = 3600.0
"""A hole in the telemetry that is longer ends the evidence. Our choice: a whole run may hide in it,
and rests of servers are shorter."""

LEAST_KNOWN: Final = 0.9
"""Share of a window that must be known for a judgement over it."""


class GpuUse(NamedTuple):
    """All GPUs of a job over one window, the newest sample included; rows by GPUs."""

    past: Past
    is_known: NDArray[np.bool_]
    """Whether it can be told, also of a moment between two rows of which it can."""
    busy: NDArray[np.float64]
    """Part of the row's time in which the GPU worked; 0 where that is not known."""
    is_loud: NDArray[np.bool_]
    """Whether it showed more than `FAINT_RATIO`, or another sign of work."""
    is_empty: NDArray[np.bool_]
    """Without process, its memory free, and at rest."""
    was_used: bool
    """Whether a GPU was seen that is not empty, however long ago and beyond gaps."""

    def rest_row(self) -> int:
        """Row since which all GPUs rest; the number of rows where one does not."""
        return max(self.rest_rows(), default=len(self.past.times))

    def empty_row(self) -> int:
        """Row since which all GPUs are empty; the number of rows where one is not."""
        return max(self.empty_rows(), default=len(self.past.times))

    def rest_rows(self) -> list[int]:
        """Row since which each GPU rests; the number of rows where it does not."""
        if self.is_known.all() and not self.busy.any():
            return [self._hole_row] * self.busy.shape[1]
        return self._rows_without(self.busy)

    def empty_rows(self) -> list[int]:
        """Row since which each GPU is empty; the number of rows where it is not."""
        if self.is_empty.all():
            return [self._hole_row] * self.busy.shape[1]
        taken = np.where(self.is_known & ~self.is_empty, 1.0, 0.0)
        return self._rows_without(np.maximum(self.busy, np.where(self._is_faint, 0.0, taken)))

    def held_row(self) -> int:
        """Row since which at least one GPU is not empty."""
        gone: NDArray[np.bool_] = np.logical_and.reduce(self.is_known & self.is_empty, axis=1)
        seconds = self.past.seconds * gone
        return _row_after_run(gone, seconds)

    def row_at(self, at: float) -> int:
        """First row that was taken at a Unix time or later."""
        return int(self.past.times.searchsorted(at, "left"))

    def idle_seconds(self, first: int) -> NDArray[np.float64]:
        """Per GPU the seconds from a row on for which it is known that it did not work.

        What tools leave behind that ask it for its state is no work.
        """
        idle = self.is_known[first:] * (1.0 - self.busy[first:] * self.is_loud[first:])
        seconds: NDArray[np.float64] = self.past.seconds_from(first) @ idle
        return seconds

    def newest(self, key: str) -> NDArray[np.float32]:
        """Newest known value of a field for each GPU, NaN where there never was one."""
        values = self.past.columns[key]
        rows = np.arange(len(values))[:, None]
        last = np.where(np.isfinite(values), rows, 0).max(axis=0)
        newest: NDArray[np.float32] = values[last, np.arange(values.shape[1])]
        return newest

    def idle_seconds_from_rows(self) -> NDArray[np.float64]:
        """The same for every row, row by GPU."""
        idle = self.is_known * (1.0 - self.busy * self.is_loud)
        return _from_row_on(self.past.seconds, self.past.times - self.past.begins, idle)

    @property
    def has_worked(self) -> bool:
        """Whether one of the GPUs was seen to work, for longer than a stray sample."""
        return bool((self.past.seconds @ (self.busy * self.is_loud) > PAUSE_S).any())

    @property
    def _hole_row(self) -> int:
        """First row behind the last hole that is too long, 0 where there is none."""
        holes = np.flatnonzero(self.past.begins[1:] - self.past.times[:-1] > _LONGEST_HOLE_S)
        return int(holes[-1]) + 1 if len(holes) else 0

    @property
    def _is_faint(self) -> NDArray[np.bool_]:
        """Rows in which nothing but faint utilisation speaks against an empty GPU."""
        processes, used = (self.past.columns[key] for key in NEEDS[:2])
        return (self.busy > 0) & ~self.is_loud & ~(processes > 0) & np.isfinite(used)

    def _rows_without(self, busy: NDArray[np.float64]) -> list[int]:
        """Per GPU the first row of the rest that lasts until now; the number of rows without one.

        Args:
            busy: Part of each row's time that is no rest, row by GPU; `self.busy` or more.
        """
        past = self.past
        rows, count = busy.shape
        if not rows:
            return [0] * count
        is_loud = self.is_loud | (busy > self.busy)
        own = past.times - past.begins
        util = np.nan_to_num(past.columns["gpu_util_ratio"])
        whole = np.ones((rows, count))
        whole_s, known_s, busy_s, util_s = np.moveaxis(
            _from_row_on(past.seconds, own, np.stack((whole, self.is_known, busy, util), axis=1)),
            1,
            0,
        )
        loud_ahead = np.logical_or.accumulate(is_loud[::-1])[::-1]
        is_faint = ~loud_ahead & (util_s <= _FAINT_MEAN_RATIO * known_s)
        is_rest = (busy_s <= _MOST_BUSY_SHARE * known_s) | is_faint
        is_rest &= (known_s >= LEAST_KNOWN * whole_s) & self.is_known & (busy == 0)
        is_rest[: self._hole_row] = False
        is_rest[:, ~self.is_known[-1]] = False
        is_run = is_loud & (busy > 0)
        for column in np.flatnonzero(is_rest.any(axis=0) & is_run.any(axis=0)):
            run_end = _row_after_run(is_run[:, column], past.seconds * busy[:, column])
            is_rest[:run_end, column] = False
        firsts: list[int] = np.where(is_rest.any(axis=0), is_rest.argmax(axis=0), rows).tolist()
        return firsts


def _from_row_on(
    seconds: NDArray[np.float64],
    own: NDArray[np.float64],
    weights: NDArray[np.floating[Any] | np.bool_],
) -> NDArray[np.float64]:
    """Weighted seconds from each row to the last, of the row itself those of its own samples.

    Args:
        seconds: What each row stands for.
        own: What its own samples span.
        weights: By row, and what else; so is the result.
    """
    of_rows = (-1, *(1,) * (weights.ndim - 1))
    weighted = seconds.reshape(of_rows) * weights
    behind = np.cumsum(weighted[::-1], axis=0)[::-1] - weighted
    total: NDArray[np.float64] = behind + own.reshape(of_rows) * weights
    return total


def _row_after_run(is_busy: NDArray[np.bool_], busy_s: NDArray[np.float64]) -> int:
    """Row behind the last run of rows whose seconds add up to more than a flicker."""
    edges = np.flatnonzero(np.diff(is_busy, prepend=False, append=False))
    begins, ends = edges[::2], edges[1::2]
    if not len(begins):
        return 0
    total = np.concatenate(([0.0], np.cumsum(busy_s)))
    long = np.flatnonzero(total[ends] - total[begins] > _LONGEST_FLICKER_S)
    return int(ends[long[-1]]) if len(long) else 0


def is_named(job: JobLook) -> bool:
    """Whether telemetry names all the job's GPUs and none of them is cut by MIG."""
    is_known = bool(job.gpus) and not job.gpus_unknown
    return is_known and not any(gpu.value("mig_mode") == 1 for gpu in job.gpus)


def is_still_now(job: JobLook) -> bool:
    """Whether no GPU's newest utilisation is more than faint; spares the others the window.

    One that misses a sample is no ground to look away: what was known right before tells.
    """
    newest = job.latest("gpu_util_ratio")
    is_heard = np.isfinite(newest).any() or any(not gpu.is_stale for gpu in job.gpus)
    return bool(is_heard) and not bool((newest > FAINT_RATIO).any()) and is_named(job)


def no_process(job: JobLook, place: int | None = None) -> str:
    """That nothing computes, in words: on one of a job's GPUs, or on all of them.

    What only draws may be there all the same, and is not denied.
    """
    count = job.latest("process_count")
    is_drawn_on = count > 0 if place is None else count[place : place + 1] > 0
    return "no compute process" if is_drawn_on.any() else "no process"


class _Uses(dict[tuple[str, float, float], GpuUse | None]):
    """Those of one evaluation: each rule about idle GPUs asks for the same."""


def gpu_use(view: View, job: JobLook, seconds: float, idle_mem_ratio: float) -> GpuUse | None:
    """The use of all GPUs of a job; None where one of them is unnamed, cut by MIG or unseen.

    Args:
        view: What is seen.
        job: The job.
        seconds: How far to look back, no further than the job held all its GPUs.
        idle_mem_ratio: Share of the memory below which it counts as free.
    """
    known = view.shared.setdefault(_Uses, _Uses())
    assert isinstance(known, _Uses)
    asked = job.subject, seconds, idle_mem_ratio
    if asked not in known:
        known[asked] = use_of(job, seconds, idle_mem_ratio) if is_named(job) else None
    return known[asked]


def use_of(job: JobLook, seconds: float, idle_mem_ratio: float) -> GpuUse | None:
    """As `gpu_use`, of the GPUs that telemetry names, however many there are besides."""
    past = job.past(_KEYS, seconds, PEAKS)
    if not len(past.times) or not job.gpus:
        return None
    processes, used, total, util = (past.columns[key] for key in NEEDS)
    is_reported = np.isfinite(processes) & np.isfinite(used) & (total > 0) & np.isfinite(util)
    busy = np.zeros(util.shape)
    is_loud = np.zeros(util.shape, np.bool_)
    for key in _KEYS[:PEAKS]:
        noise = SM_NOISE_RATIO if key == "sm_active_ratio" else 0.0
        if not (past.peaks[key] > noise).any():
            continue
        busy = np.maximum(busy, busy_share(past.columns[key], past.peaks[key], noise))
        faint = FAINT_RATIO if key == "gpu_util_ratio" else noise
        is_loud |= past.peaks[key] > faint + _ROUNDING
    for key in COPY_KEYS:
        is_copying = past.columns[key] > BUSY_COPIES_BYTES_PER_S
        busy, is_loud = np.where(is_copying, 1.0, busy), is_loud | is_copying
    busy = np.where(is_reported, busy, 0.0)
    is_resting = is_reported & (busy == 0)
    is_empty = is_resting & (processes == 0) & (used < idle_mem_ratio * total)
    is_used = is_reported & is_loud | (processes > 0) | (used >= idle_mem_ratio * total)
    was_used = bool(is_used[_own_row(job, past) :].any())
    is_known = is_reported | carried(past, is_resting, is_reported)
    is_empty |= carried(past, is_empty, is_reported)
    return GpuUse(
        past=past,
        is_known=is_known,
        busy=busy,
        is_loud=is_loud & is_reported,
        is_empty=is_empty,
        was_used=was_used,
    )


_OF_A_ROW: Final = 0.25
"""Part of an old row in which there was a process, from which on it is more than its first sample
(our choice: a row of five minutes has five samples at the longest usual period)."""


def _own_row(job: JobLook, past: Past) -> int:
    """First row that is the job's alone.

    The sample with which it took its GPUs may still tell of the job before: utilisation is a mean
    of the time until then, and processes take their time to leave.
    """
    if len(past.times) < 2 or past.begins[0] > job.all_held_since:
        return 0
    is_single = past.times[0] == past.begins[0]
    is_left = not bool((past.columns["compute_process_count"][0] >= _OF_A_ROW).any())
    return int(is_single or is_left)


_ROUNDING: Final = 1e-6
"""Values are kept in single precision."""


def busy_share(
    means: NDArray[np.float32], peaks: NDArray[np.float32], noise: float = 0.0
) -> NDArray[np.float64]:
    """Part of each row's time in which something worked; 0 where that is not known.

    A row of one sample is all work or all rest. Of an old row, which holds many, the mean tells
    how much of it was at the height of its largest sample.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(means > noise, np.minimum(1.0, means / peaks), 0.0)
    return np.nan_to_num(share)


def carried(
    past: Past, flags: NDArray[np.bool_], is_reported: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """By row and GPU what holds, where nothing is told as long as before and after, or now."""
    if is_reported.all():
        return flags
    found = bridged(past.times, flags & is_reported, is_reported, past.longest_s)
    rows = np.arange(len(past.times))[:, None]
    before = np.maximum.accumulate(np.where(is_reported, rows, -1), axis=0)
    is_tail = (rows > before[-1]) & (before[-1] >= 0)
    is_short = past.times[-1] - past.times[np.maximum(before[-1], 0)] <= past.longest_s
    held = np.take_along_axis(flags & is_reported, np.maximum(before[-1:], 0), axis=0)
    tailed: NDArray[np.bool_] = np.where(is_tail, is_short & held, found)
    return tailed


def filled(
    past: Past, share: NDArray[np.float64], is_reported: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Shares of work that go on where nothing is told for a moment, and where they are known.

    What lies beside work counts as work: a missing sample accuses nobody.
    """
    if is_reported.all():
        return share, is_reported
    times, rows = past.times, np.arange(len(past.times))[:, None]
    before = np.maximum.accumulate(np.where(is_reported, rows, -1), axis=0)
    after = np.minimum.accumulate(np.where(is_reported, rows, len(times))[::-1], axis=0)[::-1]
    first = np.maximum(before, 0)
    last = np.where(after < len(times), after, first)
    ends = np.where(after < len(times), times[np.minimum(last, len(times) - 1)], times[-1])
    is_short = (before >= 0) & (ends - times[first] <= past.longest_s)
    beside = np.maximum(
        np.take_along_axis(share, first, axis=0), np.take_along_axis(share, last, axis=0)
    )
    return np.where(is_reported, share, is_short * beside), is_reported | is_short


def was_ever_above(job: JobLook, use: GpuUse, keys: tuple[str, ...]) -> bool:
    """Whether a field of a GPU was above what is faint within a day of the job's hold on it.

    Args:
        job: The job.
        use: Its use, which spares the longer look where it shows it, or reaches back to the start.
        keys: Fields of `NEEDS`.
    """
    first = _own_row(job, use.past)
    if any(bool((use.past.columns[key][first:] > FAINT_RATIO).any()) for key in keys):
        return True
    if use.past.times[0] <= job.all_held_since + PAUSE_S:
        return False
    return any(
        bool((job.window(uuid, key, PAST_S).values > FAINT_RATIO).any())
        for uuid in job.uuids
        for key in keys
    )
