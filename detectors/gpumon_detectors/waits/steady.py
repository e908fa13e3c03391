"""What is scarce on a job's hosts all the while, and since when: CPUs, or what is read."""

from __future__ import annotations

from math import ceil, isfinite, log, nan
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import GAP_PERIODS
from gpumon_detectors.waits.by_chance import NO_ORDER, SURE_ORDER, order_of
from gpumon_detectors.waits.gpu_rows import MOST_BUSY, mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpumon_detectors.waits.gpu_rows import GpuRows
    from gpumon_detectors.waits.host_rows import HostRows

FULL: Final = 0.85
"""Share of a job's CPUs from which they are what it waits for (the taxonomy's signature)."""

_SOME_WAIT: Final = 0.02
"""Share of the time that some task waits for a CPU below which CPUs are not scarce, however busy
they are (our choice: in a full cpuset some task waits for more than that)."""

_NEARLY: Final = 0.08
_NEARLY_WHOLE: Final = 0.2
"""How far, over all, the CPU time of loaders that never rest is from whole CPUs, and from what it
was (our choice; four of an H200's training: 4.06, spread .04); from whole CPUs never more than a
fifth of one: of many loaders every number would be near enough to a whole one."""

_AWAKE: Final = 0.25
"""Part of the GPUs' rests in which the program that drives them may be awake: one that is awake for
more works itself, or launches small kernels one by one, and waits for nobody. Nothing tells which
of its CPU time falls into them, so all of it counts as if it did (our choice; on an H200 one that
waits for loaders has .06 of a CPU, one that launches small kernels .99)."""

_WHOLE: Final = 0.9
"""CPUs that a program keeps busy that never sleeps: one, less what is lost to a neighbour (our
choice; one of an H200's that prepares its own batches shows 1.00)."""

_OTHERS: Final = 0.5
"""CPUs busy beside it up to which nothing else works: a logger, a daemon (our choice)."""

_HALF: Final = 0.5
"""Share of the time in which kernels run from which the rests beside a busy program may be those
between its launches (our choice)."""

_FILLED: Final = 0.5
"""Share of the SMs from which kernels fill the GPU while they run, the complement of `small_batch`;
an H200's showed more beside a program that prepares its batches, .36 with small kernels."""

_STILL_FULL: Final = 0.75
"""Share, over a minute, down to which they stay so: a checkpoint, or what ends a pass, takes less
(our choice)."""

_FULL_OVER_S: Final = 60.0
_IO_OVER_S: Final = 180.0
"""Over so long what is judged is averaged: pressure is that of ten seconds, and waits for storage
come in lumps (our choices)."""

_LULL_S: Final = 300.0
"""So long it may be otherwise (our choice: three times the longest pause for a checkpoint that is
told of, 96 s, as an evaluation may take)."""

_LATELY_S: Final = 300.0
"""What is newest is averaged over twice as long: ten minutes (our choice)."""

_STILL_BUSY: Final = 0.92
"""Share of the last ten minutes in which kernels run from which the waits are over: halfway from
what is claimed to work without waits, as so few samples tell no more exactly (our choice)."""

CALM_CPU: Final = 0.7
"""Share of its CPUs up to which a job that waits for storage keeps them busy (our choice: with
more its loaders compute, too)."""

_LEAST_IO: Final = 0.1
_IO_OF_WAIT: Final = 0.3
"""Share of the time that tasks wait for I/O, at least, and over that in which GPUs wait: where a
file system is the cause its readers wait about as long as the GPUs do (our choice: a third of it,
as what is read ahead and what the kernel counts as a wait differ by file system)."""


_PART_S: Final = 120.0
_PART_ROWS: Final = 6
_PARTS_AT_WORK: Final = 0.9
"""Of parts of two minutes, or of six samples, nine in ten must show work: what waits in each step
does, what hangs or saves does not (our choice)."""


_MOMENTS_S: Final = 30.0
"""So far apart are the samples whose order is judged: steps take less mostly, while work and rest
that go on for minutes are those of chunks, requests and trials (our choice)."""

_WORKS: Final = 0.3
"""Part of the highest utilisation from which a sample shows work (our choice)."""

_MISSED: Final = 0.02
"""Chance with which work as rare as it was before may be missed (our choice)."""

_TIMES_LONGEST: Final = 1.5
"""Rest lasts for longer than before where it takes so many times as long as the longest (our
choice): samples in a beat with the steps miss their work for long, again and again."""


class Scarce(NamedTuple):
    """A time until now in which something of the hosts is scarce and GPUs wait."""

    first: int
    """Its first row."""
    lost_share: float
    """Part of the time in which the GPUs wait."""
    loaders: int = 0
    """Processes without a GPU that keep a CPU each full; 0: nobody asked."""


def full_cpus(rows: GpuRows, host: HostRows) -> Scarce | None:
    """Since when a job keeps its CPUs full while its GPUs wait; None where it does not."""
    share = host.cpu_share
    if not np.isfinite(share[-_rows_within(rows, _LULL_S) :]).any():
        return None
    first = _since(rows, smoothed(rows, share, _FULL_OVER_S) >= _STILL_FULL)
    found = _waiting(rows, first)
    if found is None or mean(share[found.first :], rows.seconds[found.first :]) < FULL:
        return None
    if mean(host.cpu_pressure[found.first :], rows.seconds[found.first :]) < _SOME_WAIT:
        return None
    return None if _io_explains(rows, host, found) else found


def full_loaders(rows: GpuRows, host: HostRows) -> Scarce | None:
    """Since when a job's loaders are full, however many more CPUs it has; None where they are not.

    As many processes that hold no GPU as whole CPUs are busy, at every moment the same number,
    while those that hold one sleep in most of their GPUs' rests: they wait for the others.
    """
    lately = mean(*_lately(rows, host.cores))
    loaders = round(lately - host.driver_cores) if isfinite(lately - host.driver_cores) else 0
    drivers = len(rows.members)
    if not (host.is_own and 1 <= loaders <= host.processes - drivers):
        return None
    if abs(lately - host.driver_cores - loaders) > min(_NEARLY_WHOLE, _NEARLY * loaders):
        return None
    cores = smoothed(rows, host.cores, _FULL_OVER_S)
    found = _waiting(rows, _since(rows, abs(cores - lately) <= _NEARLY * lately))
    if found is None or host.driver_cores > drivers * _AWAKE * (1.0 - rows.busy(found.first)):
        return None
    return None if _io_explains(rows, host, found) else found._replace(loaders=loaders)


def full_program(rows: GpuRows, host: HostRows) -> Scarce | None:
    """Since when the program on a job's only GPU works while the GPU rests; None: it does not.

    It never sleeps, nobody else of the job is as busy, and its kernels fill the GPU when they run:
    it does not launch small ones one by one. Of several ranks each may poll for the others.
    """
    lately = mean(*_lately(rows, host.cores))
    if len(rows.members) > 1 or not rows.has_counters:
        return None
    driver = host.driver_cores
    if not host.is_own:
        # Nobody tells whose processes they are: one CPU alone is busy on the whole node.
        driver = min(lately, 1.0) if host.is_alone else nan
    if not (driver >= _WHOLE and lately - driver <= _OTHERS):
        return None
    found = _waiting(rows, _since(rows, smoothed(rows, host.cores, _FULL_OVER_S) >= _WHOLE))
    if found is None or _io_explains(rows, host, found):
        return None
    if rows.busy(found.first) > _HALF:
        return None
    seconds = rows.seconds[found.first :]
    util, sms = (mean(values[found.first :], seconds) for values in (rows.util, rows.sms))
    return None if sms < _FILLED * util else found


def slow_storage(rows: GpuRows, host: HostRows) -> Scarce | None:
    """Since when tasks of a job wait for I/O while its GPUs do; None where they do not."""
    pressure = smoothed(rows, host.io_pressure, _IO_OVER_S)
    lately = mean(*_lately(rows, host.io_pressure))
    if not lately >= _LEAST_IO:
        return None
    found = _waiting(rows, _since(rows, pressure >= max(_LEAST_IO / 2, lately / 2)))
    if found is None or not _io_explains(rows, host, found):
        return None
    cpu = mean(host.cpu_share[found.first :], rows.seconds[found.first :])
    return None if cpu > CALM_CPU else found


def _io_explains(rows: GpuRows, host: HostRows, found: Scarce) -> bool:
    """Whether tasks wait for I/O for a good part of the time in which GPUs wait."""
    waits = mean(host.io_pressure[found.first :], rows.seconds[found.first :])
    return waits >= max(_LEAST_IO, _IO_OF_WAIT * found.lost_share)


def _waiting(rows: GpuRows, first: int) -> Scarce | None:
    """The time since a row, where the GPUs wait in it and still do."""
    if first >= len(rows.times) - 1 or not rows.busy_at_most(first) <= MOST_BUSY:
        return None
    lately = max(first, len(rows.times) - _rows_within(rows, 2 * _LATELY_S))
    long = max(first, min(lately, len(rows.times) - _rows_to_see(rows, first)))
    if rows.busy(long) < rows.least_busy or not rows.busy(lately) <= _STILL_BUSY:
        return None
    if not (_goes_on(rows, first) and rows.are_alike(first)):
        return None
    return Scarce(first, rows.lost_share(first))


def _rows_to_see(rows: GpuRows, first: int) -> int:
    """How many rows show work for sure that is as rare as it has been since a row."""
    util = rows.util[first:]
    is_work = util[np.isfinite(util)] > 0.0
    share = float(is_work.mean())
    if not 0.0 < share < 1.0:
        return 1
    longest = int(np.diff(np.flatnonzero(is_work)).max(initial=1))
    return ceil(max(log(_MISSED) / log(1.0 - share), _TIMES_LONGEST * longest))


def _goes_on(rows: GpuRows, first: int) -> bool:
    """Whether the GPUs work in nearly every part of the time, and so wait in each step or so.

    Where they work so seldom that samples of a moment miss most of it, the order tells.
    """
    if waits_quickly(rows, first):
        return True
    span_s = max(_PART_S, _PART_ROWS * (rows.longest_s / GAP_PERIODS))
    parts = ((rows.times[-1] - rows.times[first:]) // span_s).astype(np.intp)
    values = np.fmax(rows.util[first:], rows.sms[first:])
    is_known = np.isfinite(values)
    known = np.bincount(parts, is_known)
    work = np.bincount(parts, np.where(is_known, values, 0.0))[known > 0]
    is_steady = len(work) > 0 and float((work > 0.0).mean()) >= _PARTS_AT_WORK
    # Means over whole rows, where they are known: moments may be in a beat with the steps.
    means = rows.sms if rows.has_counters else rows.util
    return is_steady and not _order(rows, means, first) <= SURE_ORDER


def waits_quickly(rows: GpuRows, first: int) -> bool:
    """Whether work and rest change as often as samples of a moment can show."""
    return _order(rows, rows.util, first) >= NO_ORDER


def _order(rows: GpuRows, values: NDArray[np.float64], first: int) -> float:
    """The order of work and rest in one sample each half minute."""
    known = first + np.flatnonzero(np.isfinite(values[first:]))
    slots = (rows.times[known] // _MOMENTS_S).astype(np.intp)
    distinct = values[known[np.diff(slots, prepend=-1) > 0]]
    return order_of(distinct > _WORKS * float(distinct.max(initial=0.0)))


def smoothed(rows: GpuRows, values: NDArray[np.float64], span_s: float) -> NDArray[np.float64]:
    """Mean over so long around each row, NaN where nothing is known."""
    is_known = np.isfinite(values)
    total = np.concatenate(([0.0], np.cumsum(np.where(is_known, values, 0.0))))
    count = np.concatenate(([0], np.cumsum(is_known)))
    low = rows.times.searchsorted(rows.times - span_s / 2, "left")
    high = rows.times.searchsorted(rows.times + span_s / 2, "right")
    known = count[high] - count[low]
    return np.where(known > 0, (total[high] - total[low]) / np.maximum(known, 1), np.nan)


def _since(rows: GpuRows, is_so: NDArray[np.bool_]) -> int:
    """Row since which something holds but for a lull now and then; the row count: not now."""
    holds = np.flatnonzero(is_so)
    if not len(holds) or rows.times[-1] - rows.times[holds[-1]] > _LULL_S:
        return len(rows.times)
    lulls = rows.begins[holds[1:]] - rows.times[holds[:-1]]
    longest_s = max(_LULL_S, rows.longest_s)
    breaks = np.flatnonzero(lulls > longest_s)
    return int(holds[breaks[-1] + 1]) if len(breaks) else int(holds[0])


def _lately(
    rows: GpuRows, values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    count = _rows_within(rows, 2 * _LATELY_S)
    return values[-count:], rows.seconds[-count:]


def _rows_within(rows: GpuRows, span_s: float) -> int:
    """How many of the newest rows lie within so long; at least three."""
    return max(3, len(rows.times) - int(rows.times.searchsorted(rows.times[-1] - span_s)))
