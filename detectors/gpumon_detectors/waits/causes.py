"""What the GPUs of a job wait for, as far as its hosts tell: one cause at a time."""

from __future__ import annotations

from enum import StrEnum
from math import isfinite
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import ReferenceType, ref

import numpy as np

from gpumon_detectors.evidence.gpu_use import BUSY_COPIES_BYTES_PER_S
from gpumon_detectors.waits.gpu_rows import LEAST_BUSY, comes_back, copied, gpu_rows, mean
from gpumon_detectors.waits.host_rows import (
    READS,
    WRITES,
    host_rows,
    may_wait,
    may_wait_for_program,
    program_rows,
)
from gpumon_detectors.waits.pauses import (
    LEAST_PAUSES,
    goes_on,
    joined,
    moves_more,
    pauses_of,
    stir_of,
)
from gpumon_detectors.waits.steady import full_cpus, full_loaders, full_program, slow_storage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.plugin import JobLook, UserHold, View
    from gpumon_detectors.waits.gpu_rows import GpuRows
    from gpumon_detectors.waits.host_rows import HostRows
    from gpumon_detectors.waits.pauses import Pauses, Stir
    from gpumon_detectors.waits.steady import Scarce

LEAST_SHARE: Final = 0.1
"""Share of the time from which checkpoints are a loss (the taxonomy: healthy ones take less than
8 %)."""

_SOME_SHARE: Final = 0.07
_GLANCE_S: Final = 1800.0
"""Over so long a job must show anything at all for a closer look: two checkpoints of a quarter of
an hour; so much of it pauses must take at least (our choices, below what any rule asks for)."""

_SAVING_CORES: Final = 2.0
"""CPUs for each rank that write a checkpoint: one that packs it, one that sends it (our choice).
With more, something is computed in the pauses."""

_COMPILING_CORES: Final = (0.7, 4.5)
"""CPUs for each rank that a compiler keeps busy: at least about one, and a few workers (our
choice)."""

_COMPILATIONS: Final = 5
"""So many pauses make a program compile again and again (our choice)."""

_LONGEST_COMPILATION_S: Final = 150.0
_MOST_OF: Final = 90.0
"""Percentile of the pauses' lengths, and how long it is at most: compilers of PyTorch take tens of
seconds for a graph, while requests and cells come minutes apart (our choice)."""

_IRREGULAR: Final = 0.2
"""Spread of the pauses' lengths over their mean, at least: each new shape takes its own time, while
a program that prepares the next piece of its work takes about as long each time (our choice)."""

_RESTING: Final = 0.1
"""Mean utilisation in pauses in which no kernel runs."""

_CALM_IO: Final = 0.1
"""Share of the time that tasks wait for I/O from which storage may be the reason (our choice)."""

_STARTING_S: Final = 1800.0
"""In the first half hour programs compile, whatever they are."""

_FIRST_S: Final = 600.0
"""What comes in the first ten minutes is never counted: every program compiles once (our choice,
the taxonomy's limit for starts)."""

_CROWD: Final = 2.0
"""Processes of a job beside its ranks for each of its CPUs from which they are too many: loaders
are as many as CPUs where they are many (our choice)."""

_LOADERS: Final = 16
"""Loaders and other workers for each GPU up to which a job has as many as are usual, four to
sixteen: where they are too many for its CPUs, it is these that are too few (our choice)."""

_QUEUE: Final = 3.0
"""Tasks that run or want to for each CPU of a job from which its threads are too many (our
choice)."""

_CROWDED: Final = 0.4
"""Share of the time that some task waits for a CPU, at least, where so many want one (our
choice)."""

_SERVANTS: Final = 3
"""Processes that Slurm adds on each node: its step daemon, the script, the launcher."""


class Cause(StrEnum):
    """What GPUs wait for."""

    CHECKPOINTS = "checkpoints"
    STORAGE = "storage"
    CROWD = "crowd"
    DATA = "data"
    PROGRAM = "program"
    """The one that drives the GPU works on a CPU itself, for whatever."""
    COMPILER = "compiler"


class Waits(NamedTuple):
    """How a job's GPUs wait, and for what."""

    cause: Cause
    rows: GpuRows
    host: HostRows
    first: int
    """Row since which it does."""
    lost_share: float
    """Part of the time since then in which the GPUs wait."""
    pauses: Pauses | None = None
    """For checkpoints and compilers: the pauses."""
    stir: Stir | None = None
    """What goes on in them."""
    loaders: int = 0
    """For data: processes that prepare it and never rest, where CPUs are left; 0: all are full."""


class _Known:
    """What is known of the jobs of one evaluation: each rule asks, and it is the same for all."""

    def __init__(self) -> None:
        self._evaluated: ReferenceType[Sequence[JobLook]] | None = None
        self._found: dict[str, Waits | None] = {}
        self._rows: dict[str, GpuRows | None] = {}
        self._pauses: dict[str, Pauses | None] = {}

    def of(self, view: View, job: JobLook) -> Waits | None:
        """The waits of a job; what is known of an earlier evaluation is forgotten."""
        self._begin(view)
        if job.subject not in self._found:
            self._found[job.subject] = _waits(view, job)
        return self._found[job.subject]

    def rows(self, view: View, job: JobLook) -> GpuRows | None:
        """What a job's GPUs did."""
        self._begin(view)
        if job.subject not in self._rows:
            self._rows[job.subject] = gpu_rows(job)
        return self._rows[job.subject]

    def pauses(self, view: View, job: JobLook) -> Pauses | None:
        """The pauses of a job's GPUs."""
        rows = self.rows(view, job)
        if job.subject not in self._pauses:
            self._pauses[job.subject] = None if rows is None else pauses_of(rows)
        return self._pauses[job.subject]

    def _begin(self, view: View) -> None:
        if self._evaluated is None or self._evaluated() is not view.running:
            self._evaluated = ref(view.running)
            self._found, self._rows, self._pauses = {}, {}, {}


_KNOWN: Final = _Known()


def waits_of(view: View, job: JobLook) -> Waits | None:
    """What a job's GPUs wait for; None where they do not, or nothing tells for what."""
    return _KNOWN.of(view, job)


def _waits(view: View, job: JobLook) -> Waits | None:
    is_scarce = may_wait(view, job, _GLANCE_S)
    if not is_scarce and not may_wait_for_program(job):
        return None
    rows = _KNOWN.rows(view, job)
    if rows is None:
        return None
    host = host_rows(view, job, rows)
    if not is_scarce:
        return _for_program(job, rows, host)
    pauses = _KNOWN.pauses(view, job)
    found = None if pauses is None else _saving(rows, host, pauses)
    return found or _steadily(job, rows, host)


def waits_of_hold(view: View, hold: UserHold) -> Waits | None:
    """What a GPU waits for that users hold without a job.

    Its whole node tells, where nobody else holds a GPU of it, or the program on the GPU itself.
    """
    rows = gpu_rows(hold)
    if rows is None:
        return None
    host = host_rows(view, hold, rows, has_group=False)
    found = _steadily(hold, rows, host) if hold.is_alone else None
    if found is not None and found.cause is not Cause.PROGRAM:
        return found
    own = program_rows(view, hold, host, rows)
    return found if own is None else _for_program(hold, rows, own)


def _steadily(job: JobLook, rows: GpuRows, host: HostRows) -> Waits | None:
    """What is scarce all the while."""
    scarce = slow_storage(rows, host)
    if scarce is not None:
        return _steady(Cause.STORAGE, rows, host, scarce)
    scarce = full_cpus(rows, host)
    if scarce is None:
        scarce = full_loaders(rows, host)
        if scarce is not None:
            return _steady(Cause.DATA, rows, host, scarce)
        return _for_program(job, rows, host)
    cause = Cause.CROWD if is_crowded(job, host) else Cause.DATA
    return _steady(cause, rows, host, scarce)


def _for_program(job: JobLook, rows: GpuRows, host: HostRows) -> Waits | None:
    """Whether the program that drives a GPU is what it waits for."""
    scarce = full_program(rows, host)
    if scarce is None or _is_copying(job, rows, scarce.first):
        return None
    return _steady(Cause.PROGRAM, rows, host, scarce)


def _is_copying(job: JobLook, rows: GpuRows, first: int) -> bool:
    """Whether so much has gone over PCIe since a row that a GPU may wait for it.

    Or as much back as there: input goes one way, and what comes back is saved, or computed with.
    """
    moved = mean(copied(job, rows)[first:], rows.seconds[first:])
    return moved >= BUSY_COPIES_BYTES_PER_S or comes_back(job, rows, first) > 0.0


def compiling(view: View, job: JobLook) -> Waits | None:
    """Irregular pauses of a job without I/O in which each rank keeps about a CPU busy.

    Nothing of its hosts shows beforehand that a job may compile, so this is dear.
    """
    start_at = job.job.start_at
    if start_at is None or view.now - start_at < _STARTING_S or not _may_pause(job):
        return None
    rows, pauses = _KNOWN.rows(view, job), _KNOWN.pauses(view, job)
    if rows is None or pauses is None or not pauses.may_be:
        return None
    ages_s = [float(rows.begins[one.first]) - start_at for one in pauses.found]
    if sum(age_s >= _STARTING_S for age_s in ages_s) < _COMPILATIONS:
        return None
    # Few jobs come so far, and to ask what else a job waits for takes most of the time.
    known = waits_of(view, job)
    if known is not None and known.cause is not Cause.PROGRAM:
        return None
    pairs = zip(pauses.found, ages_s, strict=True)
    late = [one for one, age_s in pairs if age_s >= _FIRST_S]
    host = host_rows(view, job, rows)
    stir, found = stir_of(pauses, rows, host), pauses.only(late)
    if not host.is_own or found.is_over(rows) or not _computes_alone(rows, host, pauses, stir):
        return None
    if goes_on(pauses, copied(job, rows)) or moves_more(pauses, host):
        return None
    share, lengths = found.share(rows), found.lengths()
    is_long = float(np.percentile(lengths, _MOST_OF)) > _LONGEST_COMPILATION_S
    if share <= LEAST_SHARE or is_long or lengths.std() < _IRREGULAR * lengths.mean():
        return None
    return Waits(
        cause=Cause.COMPILER,
        rows=rows,
        host=host,
        first=found.found[0].first,
        lost_share=share,
        pauses=found,
        stir=stir,
    )


def _may_pause(job: JobLook) -> bool:
    """Whether a job's utilisation of late leaves room for pauses; spares most the rest."""
    past = job.past(("gpu_util_ratio",), _GLANCE_S)
    util = past.columns["gpu_util_ratio"]
    if not np.isfinite(util).any():
        return False
    return LEAST_BUSY <= float(np.nanmean(util)) <= 1.0 - _SOME_SHARE


def _computes_alone(rows: GpuRows, host: HostRows, pauses: Pauses, stir: Stir) -> bool:
    """Whether a CPU or some of each rank are busy in the pauses, and nothing else goes on."""
    low, high = (limit * len(rows.members) for limit in _COMPILING_CORES)
    util = mean(rows.util[pauses.is_low], rows.seconds[pauses.is_low])
    moved = max(len(stir.written), len(stir.read), len(stir.waited))
    return (
        low <= stir.cores <= high
        and util <= _RESTING
        and 2 * moved <= len(pauses.found)
        and not mean(host.io_pressure, rows.seconds) >= _CALM_IO
    )


def _steady(cause: Cause, rows: GpuRows, host: HostRows, scarce: Scarce) -> Waits:
    return Waits(
        cause=cause,
        rows=rows,
        host=host,
        first=scarce.first,
        lost_share=scarce.lost_share,
        loaders=scarce.loaders,
    )


def _saving(rows: GpuRows, host: HostRows, pauses: Pauses) -> Waits | None:
    """Pauses in which more is written than read, or in which tasks wait for some I/O."""
    stir = stir_of(pauses, rows, host)
    if len(stir.read) >= LEAST_PAUSES and stir.read_bytes_per_s > stir.written_bytes_per_s:
        return None
    if host.is_own_io and len(stir.waited) < LEAST_PAUSES:
        # What is written in them is another job's: no task of this one waits.
        return None
    is_written = len(stir.written) >= LEAST_PAUSES
    if not (is_written or pauses.may_be):
        return None
    saving = joined(rows, stir.written if is_written else stir.waited)
    if len(saving) < LEAST_PAUSES or stir.cores > _SAVING_CORES * len(rows.members):
        return None
    saves = pauses.only(saving)
    share = saves.share(rows)
    if saves.usual_share(rows) <= LEAST_SHARE or saves.is_over(rows):
        return None
    return Waits(
        cause=Cause.CHECKPOINTS,
        rows=rows,
        host=host,
        first=saves.found[0].first,
        lost_share=share,
        pauses=saves,
        stir=stir,
    )


def is_crowded(job: JobLook, host: HostRows) -> bool:
    """Whether a job has many more processes, or tasks that want to run, than CPUs."""
    nodes = max(1, len(job.job.nodes))
    workers = host.processes - _SERVANTS * nodes - len(job.gpus)
    waited = host.cpu_pressure[np.isfinite(host.cpu_pressure)]
    if len(waited) and float(np.median(waited)) < _CROWDED:
        return False
    usual = _LOADERS * len(job.gpus)
    if isfinite(workers) and workers >= max(_CROWD * host.allowed, usual + 1):
        return True
    return host.is_alone and host.load >= max(_QUEUE * host.allowed, usual + 1)


def moved_bytes_per_s(waits: Waits, *, is_read: bool) -> float:
    """What is read, or written, a second since the waits began, where most is counted."""
    rates = [
        mean(waits.host.moved[key][waits.first :], waits.rows.seconds[waits.first :])
        for key in (READS if is_read else WRITES)
        if key in waits.host.moved
    ]
    known = [rate for rate in rates if np.isfinite(rate)]
    return max(known, default=float("nan"))
