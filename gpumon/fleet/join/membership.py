"""Which job held which GPU when, so that no window crosses from one job into the next."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.records.tick import Interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumon.model.records.cluster import JobView

HOLDING_STATE: Final = "RUNNING"
"""The one state in which a job computes on its GPUs; suspended and ending jobs do not."""


class _Holding(NamedTuple):
    """What one job holds now, and what it held before."""

    start_at: float | None
    """Slurm's start; another one means that the job was requeued."""
    base: float
    """Start of the intervals of the GPUs that the job began with."""
    size: int
    """GPUs named and unnamed: a change means that the job was resized."""
    uuids: tuple[str, ...]
    """GPUs held now, as the picture lists them; empty while the job does not run."""
    open: Mapping[str, float]
    """Starts of the intervals that have not ended."""
    closed: tuple[Interval, ...]

    def intervals(self) -> tuple[Interval, ...]:
        """Every interval, the ended ones first."""
        return (*self.closed, *(Interval(uuid, start, None) for uuid, start in self.open.items()))


class Membership:
    """The table of intervals, bounded to those that ended within the last `span_s` seconds.

    An interval starts at Slurm's start of the job, also where gpumon first saw the job later: what
    was recorded in between belongs to it. It starts at the picture that first showed it where
    Slurm names no start, where the job grew, and where it came back after a pause.

    It ends at the last picture that showed it, or earlier where the next job's start on that GPU is
    earlier: the queue is asked less often than the GPUs.
    """

    def __init__(self, span_s: float = 3600.0) -> None:
        self._span_s = span_s
        self._jobs: dict[str, _Holding] = {}
        self._with_past: set[str] = set()
        self._oldest_end = float("-inf")
        """No closed interval ended before it; a day of jobs is too much to search at every tick."""
        self._table: dict[str, tuple[Interval, ...]] = {}
        self._snapshot: Mapping[str, tuple[Interval, ...]] = MappingProxyType({})
        self._last_at = float("-inf")

    def update(self, at: float, jobs: Sequence[JobView]) -> None:
        """Take in the jobs of the picture of Unix time `at`."""
        running = {
            view.job.job_id: view
            for view in jobs
            if view.gpu_uuids and view.job.state == HOLDING_STATE
        }
        changed = {
            job_id: view for job_id, view in running.items() if not self._is_known(job_id, view)
        }
        opened = {
            job_id: self._starts(at, self._jobs.get(job_id), view)
            for job_id, view in changed.items()
        }
        next_start: dict[str, float] = {}
        for job_id, starts in opened.items():
            before = self._jobs.get(job_id)
            for uuid, start in starts.items():
                if before is None or before.open.get(uuid) != start:
                    next_start[uuid] = min(start, next_start.get(uuid, start))
        ended = [i for i, held in self._jobs.items() if held.uuids and i not in running]
        for job_id in ended:
            held = self._jobs[job_id]
            closed = self._close(held, {}, next_start)
            self._store(job_id, held._replace(uuids=(), open={}, closed=closed))
        for job_id, view in changed.items():
            self._store(job_id, self._holding(at, view, opened[job_id], next_start))
        self._forget(at - self._span_s)
        if ended or changed:
            self._snapshot = MappingProxyType(dict(self._table))
        self._last_at = at

    def snapshot(self) -> Mapping[str, tuple[Interval, ...]]:
        """Intervals by job id as of the last update; never changes."""
        return self._snapshot

    def _is_known(self, job_id: str, view: JobView) -> bool:
        held = self._jobs.get(job_id)
        return (
            held is not None
            and held.uuids == view.gpu_uuids
            and held.start_at == view.job.start_at
            and held.size == len(view.gpu_uuids) + view.gpus_unknown
        )

    def _starts(self, at: float, held: _Holding | None, view: JobView) -> dict[str, float]:
        """Start of the interval of each GPU that the job holds now."""
        first = min(at, at if view.job.start_at is None else view.job.start_at)
        if held is None or held.start_at != view.job.start_at:
            return dict.fromkeys(view.gpu_uuids, first)
        size = len(view.gpu_uuids) + view.gpus_unknown
        is_naming = held.uuids and size <= held.size and set(held.uuids) <= set(view.gpu_uuids)
        new = held.base if is_naming else at
        return {uuid: held.open.get(uuid, new) for uuid in view.gpu_uuids}

    def _holding(
        self, at: float, view: JobView, starts: dict[str, float], next_start: Mapping[str, float]
    ) -> _Holding:
        held = self._jobs.get(view.job.job_id)
        start_at = view.job.start_at
        base = held.base if held and held.start_at == start_at else min(at, start_at or at)
        closed = self._close(held, starts, next_start) if held else ()
        size = len(view.gpu_uuids) + view.gpus_unknown
        return _Holding(
            start_at=start_at,
            base=base,
            size=size,
            uuids=view.gpu_uuids,
            open=starts,
            closed=closed,
        )

    def _close(
        self, held: _Holding, still_open: Mapping[str, float], next_start: Mapping[str, float]
    ) -> tuple[Interval, ...]:
        """Ended intervals of a job, with those that just ended."""
        just = [
            Interval(uuid, start, min(self._last_at, next_start.get(uuid, self._last_at)))
            for uuid, start in held.open.items()
            if still_open.get(uuid) != start
        ]
        return (*held.closed, *(i for i in just if i.end is not None and i.end > i.start))

    def _store(self, job_id: str, held: _Holding) -> None:
        self._jobs[job_id] = held
        self._table[job_id] = held.intervals()
        if not held.open or held.closed:
            self._with_past.add(job_id)
            # A job that left no interval at all is forgotten at the next chance.
            ends = [i.end for i in held.closed if i.end is not None] or [float("-inf")]
            self._oldest_end = min(self._oldest_end, *ends)

    def _forget(self, before: float) -> None:
        """Drop the intervals that ended before a Unix time, and the jobs that hold nothing."""
        if self._oldest_end >= before:
            return
        for job_id in tuple(self._with_past):
            held = self._jobs[job_id]
            recent = tuple(i for i in held.closed if i.end is None or i.end >= before)
            if len(recent) != len(held.closed):
                held = held._replace(closed=recent)
                self._jobs[job_id] = held
                self._table[job_id] = held.intervals()
                self._snapshot = MappingProxyType(dict(self._table))
            if not recent:
                self._with_past.discard(job_id)
                if not held.open:
                    del self._jobs[job_id], self._table[job_id]
                    self._snapshot = MappingProxyType(dict(self._table))
        ends = (i.end for j in self._with_past for i in self._jobs[j].closed if i.end is not None)
        self._oldest_end = min(ends, default=float("inf"))
