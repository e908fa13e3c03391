"""Pauses of all of a job's GPUs that come again and again, and what its hosts do in them."""

from __future__ import annotations

from itertools import pairwise
from math import sqrt
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import bridged
from gpumon_detectors.waits.by_chance import SURE_ORDER, order_of
from gpumon_detectors.waits.gpu_rows import mean
from gpumon_detectors.waits.host_rows import READS, WRITES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gpumon_detectors.waits.gpu_rows import GpuRows
    from gpumon_detectors.waits.host_rows import HostRows

_LEVEL: Final = 80.0
"""Percentile of a job's rows that is taken for its work: pauses may take most of the time, but not
four fifths of it (our choice)."""

_FALL: Final = 0.4
"""Part of its level by which a row must fall to belong to a pause (our choice: a period that a
pause fills by less than that is counted with the row beside it)."""

_EDGE: Final = 0.05
"""Part by which a row beside a pause must fall to count with it."""

_BETWEEN_S: Final = 60.0
"""Work between two pauses lasts at least so long, mostly; what pauses oftener waits in each step
or so (our choice)."""

LEAST_PAUSES: Final = 3
"""So many make them come again and again (the taxonomy's three cycles)."""

_LONGEST_S: Final = 1800.0
"""What lasts longer is no pause of a job at work (our choice: no checkpoint that is told of takes
half an hour)."""

_HELD: Final = 0.5
"""Share of its memory that a program keeps while it pauses; with less it has ended."""

_WHOLE: Final = 0.95
"""Part of its level by which the mean over a whole row must fall for all of it to be a pause (our
choice: what runs beside, as a health check, takes less)."""

_COPYING_BYTES_PER_S: Final = 100e6
"""Copies over PCIe from which it tells something that they go on (our choice: training that reads
its batches moves less, and then nothing is concluded)."""

_FEWER: Final = 0.5
"""Part of what is copied between the pauses down to which it must fall in them (our choice: rates
are means since the sample before, and the first sample of a pause tells of work, too)."""

_USUAL_TIMES: Final = 3.0
"""So many times the middle one a pause may last and still be one of them: saves vary with what else
the file system does (our choice)."""

_FLOORS: Final = {"bytes": 20e6, "pressure": 0.1, "stuck": 1.0}
"""From here on something of the host is seen at all. Our choice: 20 MB/s is more than logs and
health checks of nodes, a tenth of the time more than page faults."""

_TIMES: Final = 3.0
"""So many times as much as between the pauses must go on in them."""

_INSIDE: Final = 0.4
_OUTSIDE: Final = 0.3
"""Share of the pauses' rows that must show it, and how much of that share others may: what a
neighbour writes comes as often beside the pauses as in them (our choices)."""


_SURE_TIMES: Final = 3.0
"""Standard errors beyond which what differs on average is no chance (one of 700 such, by the normal
distribution)."""


class Pause(NamedTuple):
    """One time in which none of a job's GPUs works."""

    first: int
    """Its first row, and its last."""
    last: int
    lost_s: float


class Pauses(NamedTuple):
    """Pauses of one job, the oldest first, with whole rounds of work in between."""

    found: tuple[Pause, ...]
    is_in: NDArray[np.bool_]
    """Rows that belong to one."""
    is_low: NDArray[np.bool_]
    """Rows that are in one for most of their time."""
    order: float
    """How far rest and work are from the order of chance, `order_of`; NaN: too few to tell."""
    is_whole: bool
    """Whether most of them fill whole rows whose mean is known: samples of a moment do not."""

    @property
    def are_sure(self) -> bool:
        """Whether they are no quick waits that a sample of a moment met by chance."""
        return self.is_whole or self.order <= SURE_ORDER

    @property
    def may_be(self) -> bool:
        """Whether anything at all speaks for them, rather than for quick waits."""
        return self.is_whole or self.order < 0.0

    def share(self, rows: GpuRows) -> float:
        """Share of the time that they take, over whole rounds of work and pause."""
        begin, end = (float(rows.begins[one.first]) for one in (self.found[0], self.found[-1]))
        return sum(one.lost_s for one in self.found[:-1]) / (end - begin) if end > begin else 0.0

    def usual_share(self, rows: GpuRows) -> float:
        """The same if none were longer than a few times the middle one: one is not all."""
        most = _USUAL_TIMES * float(np.median(self.lengths()))
        usual = (one._replace(lost_s=min(one.lost_s, most)) for one in self.found)
        return self.only(tuple(usual)).share(rows)

    def lengths(self) -> NDArray[np.float64]:
        """Seconds of each."""
        return np.array([one.lost_s for one in self.found])

    def rounds(self, rows: GpuRows) -> NDArray[np.float64]:
        """Seconds from the begin of each to that of the next."""
        return np.diff([float(rows.begins[one.first]) for one in self.found])

    def is_over(self, rows: GpuRows) -> bool:
        """Whether the next one has been due for so long that they have stopped."""
        last = float(rows.times[self.found[-1].last])
        return float(rows.times[-1]) - last > 2.5 * float(self.rounds(rows).max())

    def only(self, pauses: Sequence[Pause]) -> Pauses:
        """Some of them."""
        return self._replace(found=tuple(pauses))


def pauses_of(rows: GpuRows) -> Pauses | None:
    """The pauses of a job; None where they do not come again and again with work in between."""
    values = rows.sms if rows.has_counters else rows.util
    known = values[np.isfinite(values)]
    level = float(np.percentile(known, _LEVEL)) if len(known) else 0.0
    if level <= 0.0:
        return None
    fall = np.clip(1.0 - values / level, 0.0, 1.0)
    is_known = np.isfinite(fall)
    is_low = bridged(
        rows.times, (np.nan_to_num(fall) >= _FALL)[:, None], is_known[:, None], rows.longest_s
    )[:, 0]
    edges = np.flatnonzero(np.diff(is_low, prepend=False, append=False))
    found = []
    for first, end in zip(edges[::2], edges[1::2], strict=True):
        low, high = int(first), int(end)
        if rows.has_counters:
            low -= int(low > 0 and fall[low - 1] > _EDGE)
            high += int(high < len(fall) and fall[min(high, len(fall) - 1)] > _EDGE)
        lost = np.where(is_known[low:high], fall[low:high], 1.0)
        found.append(Pause(low, high - 1, float((rows.seconds[low:high] * lost).sum())))
    is_in = np.zeros(len(fall), np.bool_)
    for one in found:
        is_in[one.first : one.last + 1] = True
    found = [one for one in found if one.lost_s <= _LONGEST_S and _is_held(rows, one, is_in)]
    if len(found) < LEAST_PAUSES:
        return None
    between = [
        float(rows.begins[later.first] - rows.times[before.last])
        for before, later in pairwise(found)
    ]
    if np.median(between) < _BETWEEN_S:
        return None
    whole = [bool((fall[one.first : one.last + 1] >= _WHOLE).any()) for one in found]
    is_whole = rows.has_counters and 2 * sum(whole) >= len(found)
    order = order_of(fall[is_known] < _FALL)
    return Pauses(found=tuple(found), is_in=is_in, is_low=is_low, order=order, is_whole=is_whole)


def _is_held(rows: GpuRows, one: Pause, is_in: NDArray[np.bool_]) -> bool:
    """Whether the program kept its memory meanwhile, as far as that is known."""
    inside = rows.held[one.first : one.last + 1]
    work = rows.held[~is_in]
    inside, work = inside[np.isfinite(inside)], work[np.isfinite(work)]
    return not len(inside) or not len(work) or float(inside.min()) >= _HELD * float(np.median(work))


def joined(rows: GpuRows, found: Sequence[Pause]) -> tuple[Pause, ...]:
    """The same with those put together that hardly any work lies between: they are one, seen twice.

    A glance at a GPU may meet a kernel in the middle of a pause, or a wait right behind it.
    """
    whole: list[Pause] = []
    for one in found:
        before = whole[-1] if whole else None
        if before and float(rows.begins[one.first] - rows.times[before.last]) < _BETWEEN_S:
            whole[-1] = Pause(before.first, one.last, before.lost_s + one.lost_s)
        else:
            whole.append(one)
    return tuple(whole)


def goes_on(pauses: Pauses, copied: NDArray[np.float64]) -> bool:
    """Whether as much is copied in most pauses as between them: then no program stands still.

    Args:
        pauses: Of a job.
        copied: Bytes a second over PCIe at the same rows, NaN where that is not known.
    """
    between = copied[np.isfinite(copied) & ~pauses.is_in]
    usual = float(np.median(between)) if len(between) else 0.0
    if usual < _COPYING_BYTES_PER_S:
        return False
    # What is told of the row behind a pause is a mean over its end.
    inside = [copied[one.first : one.last + 2] for one in pauses.found]
    known = [values[np.isfinite(values)] for values in inside]
    lowest = [float(values.min()) for values in known if len(values)]
    return bool(lowest) and float(np.median(lowest)) > _FEWER * usual


def marked(pauses: Pauses, values: NDArray[np.float64], kind: str) -> tuple[Pause, ...]:
    """The pauses in which something goes on that does not between them; none where it does.

    Args:
        pauses: Of a job.
        values: What goes on, at the same rows.
        kind: `bytes` a second, `pressure` or `stuck` processes.
    """
    is_known = np.isfinite(values)
    outside = is_known & ~_widened(pauses.is_in)
    usual = float(np.median(values[outside])) if outside.any() else 0.0
    least = max(_FLOORS[kind], usual + 1.0 if kind == "stuck" else _TIMES * usual)
    hits = is_known & (np.nan_to_num(values) >= least)
    inside = is_known & pauses.is_in
    if not inside.any() or not outside.any():
        return ()
    share = float(hits[inside].mean())
    if share < _INSIDE or float(hits[outside].mean()) > _OUTSIDE * share:
        return ()
    return tuple(one for one in pauses.found if hits[max(0, one.first - 1) : one.last + 2].any())


def moves_more(pauses: Pauses, host: HostRows) -> bool:
    """Whether more bytes are moved in the pauses than around them, by any counter.

    Beside neighbours that move much, the job's own part shows in none of its pauses by itself, but
    on average over all of them.
    """
    return any(_is_more(pauses, host.moved[key]) for key in (*READS, *WRITES) if key in host.moved)


def _is_more(pauses: Pauses, values: NDArray[np.float64]) -> bool:
    """Whether values are higher in the pauses than in the work before and behind each."""
    more = []
    is_work = np.isfinite(values) & ~_widened(pauses.is_in)
    ends = [-1, *(one.last for one in pauses.found)]
    for number, one in enumerate(pauses.found):
        inside = values[one.first : one.last + 2]
        around = np.arange(ends[number] + 1, min(len(values), _begin_of(pauses, number + 1)))
        beside = values[around[is_work[around]]]
        inside = inside[np.isfinite(inside)]
        if len(inside) and len(beside):
            more.append(float(inside.mean() - beside.mean()))
    if len(more) < LEAST_PAUSES:
        return False
    error = float(np.std(more, ddof=1)) / sqrt(len(more))
    return float(np.mean(more)) >= max(_FLOORS["bytes"], _SURE_TIMES * error)


def _begin_of(pauses: Pauses, number: int) -> int:
    """First row of a pause; beyond the last one no row is."""
    return pauses.found[number].first if number < len(pauses.found) else len(pauses.is_in)


def _widened(flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """With the rows beside them: what hosts tell comes a little later than what GPUs do."""
    wide = flags.copy()
    wide[1:] |= flags[:-1]
    wide[:-1] |= flags[1:]
    wide[2:] |= flags[:-2]
    return wide


class Stir(NamedTuple):
    """What a job's hosts do in its pauses and not between them."""

    written: tuple[Pause, ...]
    """Those in which more is written."""
    written_bytes_per_s: float
    """In these, where it is most."""
    read: tuple[Pause, ...]
    read_bytes_per_s: float
    waited: tuple[Pause, ...]
    """Those in which tasks wait for I/O, whatever they do."""
    cores: float
    """CPUs busy in the pauses, NaN where it is not known."""


def stir_of(pauses: Pauses, rows: GpuRows, host: HostRows) -> Stir:
    """What goes on in a job's pauses."""
    written, written_rate = _most(pauses, rows, host, WRITES)
    read, read_rate = _most(pauses, rows, host, READS)
    waited = max(
        (
            marked(pauses, host.io_pressure, "pressure"),
            marked(pauses, host.stuck, "stuck"),
        ),
        key=len,
    )
    cores = mean(host.cores[pauses.is_low], rows.seconds[pauses.is_low])
    return Stir(
        written=written,
        written_bytes_per_s=written_rate,
        read=read,
        read_bytes_per_s=read_rate,
        waited=waited,
        cores=cores,
    )


def _most(
    pauses: Pauses, rows: GpuRows, host: HostRows, keys: tuple[str, ...]
) -> tuple[tuple[Pause, ...], float]:
    """The pauses that bytes are moved in, and how fast, by the counter that tells most."""
    best: tuple[Pause, ...] = ()
    rate = 0.0
    for key in keys:
        values = host.moved.get(key)
        if values is None:
            continue
        found = marked(pauses, values, "bytes")
        mine = mean(values[pauses.is_in], rows.seconds[pauses.is_in])
        if found and (len(found), mine) > (len(best), rate):
            best, rate = found, mine
    return best, rate
