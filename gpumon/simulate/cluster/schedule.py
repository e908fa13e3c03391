"""A queue that fills the fleet: who runs where and when, as far ahead as is asked."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush, nsmallest
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.simulate.cluster.people import Request, draw_request
from gpumon.simulate.physics.random_streams import stream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

FIRST_JOB_ID: Final = 48_207
"""Id of the first job. A choice: a cluster some months old."""

_BACKFILL_DEPTH: Final = 12
"""Pending jobs that are tried whenever something becomes free."""


_SUBMIT_EVERY_S: Final = 5000.0
"""Mean time between two submissions in a fleet of one node; more nodes, more people."""


class Spot(NamedTuple):
    """What a job holds on one node."""

    node: int
    """Number of the node."""
    gpus: tuple[int, ...]
    """IDX of the GPUs, in gres.conf order."""


@dataclass(slots=True)
class SimJob:
    """One job, or one task of an array, from submission to end."""

    request: Request
    submit_at: float
    array_task: int | None = None
    array_id: int = 0
    job_id: int = 0
    """0 until Slurm splits a task off its array."""
    start_at: float | None = None
    end_at: float | None = None
    spots: tuple[Spot, ...] = ()

    def is_waiting(self, now: float) -> bool:
        """Whether it is in the queue and has not started."""
        return self.submit_at <= now and (self.start_at is None or now < self.start_at)

    def is_running(self, now: float) -> bool:
        """Whether it holds its GPUs."""
        return self.start_at is not None and self.start_at <= now < (self.end_at or now)


class Schedule:
    """First come first served, driven by ends and submissions alone.

    The first job in line of a partition is promised a start; a younger one overtakes it only if
    its time limit ends before.

    Events are taken in the order of their time, so that what happens at a time does not depend on
    when, or how often, it was asked for.
    """

    def __init__(
        self,
        seed: int,
        partitions: Sequence[str],
        gpus: int,
        origin: float,
        draw: Callable[[Random, dict[str, int], int], Request] = draw_request,
    ) -> None:
        """Prepare an empty fleet.

        Args:
            seed: Seed of everything that is drawn.
            partitions: Partition of each node; empty for one that takes no jobs.
            gpus: GPUs per node.
            origin: Unix time at which the queue begins to move.
            draw: What people ask for, from chance, nodes of each partition, GPUs of each.
        """
        self._draw = draw
        self.jobs: list[SimJob] = []
        self.started: list[SimJob] = []
        """Jobs in the order in which they took their GPUs."""
        self._gpus = gpus
        self._free = [list(range(gpus)) if partition else [] for partition in partitions]
        self._open: dict[str, list[int]] = {}
        for node, partition in enumerate(partitions):
            if partition:
                self._open.setdefault(partition, []).append(node)
        self._members = {partition: tuple(nodes) for partition, nodes in self._open.items()}
        self._nodes = {partition: len(nodes) for partition, nodes in self._members.items()}
        self._chance = stream(seed, "queue")
        self._pending: list[SimJob] = []
        self._ends: list[tuple[float, int, SimJob]] = []
        self._next_id = FIRST_JOB_ID
        self._now = origin
        self._backlog = max(5, len(partitions) // 25)
        self._next_submit = origin + 60.0

    def seat(self, request: Request, age_s: float, left_s: float) -> SimJob | None:
        """Let a job have started before the queue begins to move; None where it does not fit."""
        spots = self._place(request)
        if not spots:
            return None
        start = self._now - age_s
        job = SimJob(request, start - self._chance.uniform(5.0, 2400.0))
        self.jobs.append(job)
        self._begin(job, start, self._now + left_s, spots)
        return job

    def fill(self) -> None:
        """Seat jobs until hardly anything fits, as in a fleet that has been busy for days."""
        misses = 0
        while misses < 12 and any(self._open.values()):
            request = self._draw(self._chance, self._nodes, self._gpus)
            age_s = request.run_s * self._chance.random()
            seated = self.seat(request._replace(array_tasks=1), age_s, request.run_s - age_s)
            misses = 0 if seated else misses + 1

    def open_doors(self, waiting: Sequence[tuple[Request, float]]) -> None:
        """Number the seated jobs as they were submitted, and queue those that wait.

        Args:
            waiting: Requests with the seconds for which each has been waiting.
        """
        lines: list[tuple[float, SimJob | Request]] = [(job.submit_at, job) for job in self.jobs]
        lines += [(self._now - age_s, request) for request, age_s in waiting]
        for submit_at, line in sorted(lines, key=lambda item: item[0]):
            if isinstance(line, SimJob):
                self._number(line)
            else:
                self._submit(line, submit_at)
        self._start_what_fits(self._now)

    def advance(self, until: float) -> None:
        """Play all ends and submissions up to a time."""
        while True:
            end_at = self._ends[0][0] if self._ends else float("inf")
            at = min(end_at, self._next_submit)
            if at > until:
                return
            self._now = at
            if end_at <= self._next_submit:
                self._release(heappop(self._ends)[2])
                self._start_what_fits(at)
                continue
            self._next_submit = at + self._chance.expovariate(len(self._free) / _SUBMIT_EVERY_S)
            # People read the queue, too: once it is long, no one adds to it.
            if len(self._pending) < self._backlog:
                self._submit(self._draw(self._chance, self._nodes, self._gpus), at)
                self._start_what_fits(at)

    def _submit(self, request: Request, at: float) -> None:
        if request.array_tasks == 1:
            job = SimJob(request, at)
            self._number(job)
            self.jobs.append(job)
            self._pending.append(job)
            return
        array_id = self._take_id()
        tasks = [
            SimJob(request, at, array_task=task, array_id=array_id)
            for task in range(request.array_tasks)
        ]
        self.jobs += tasks
        self._pending += tasks

    def _number(self, job: SimJob) -> None:
        if not job.job_id:
            job.job_id = self._take_id()

    def _take_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def _start_what_fits(self, at: float) -> None:
        reserved: dict[str, float] = {}
        tried = 0
        for job in list(self._pending):
            request = job.request
            is_late = at + request.limit_s > reserved.get(request.partition, float("inf"))
            if is_late or self._is_throttled(job):
                continue
            spots = self._place(request)
            if spots:
                self._pending.remove(job)
                self._number(job)
                self._begin(job, at, at + self._run_s(job), spots)
            elif request.partition not in reserved:
                reserved[request.partition] = self._expected_start(request)
            tried += 1
            if tried == _BACKFILL_DEPTH:
                return

    def _expected_start(self, request: Request) -> float:
        """When a request fits at the latest, should every running job use up its time limit."""
        releases: dict[int, list[tuple[float, int]]] = {}
        for _, _, job in self._ends:
            ends_by = (job.start_at or 0.0) + job.request.limit_s
            for spot in job.spots:
                releases.setdefault(spot.node, []).append((ends_by, len(spot.gpus)))
        ready = []
        for node in self._members[request.partition]:
            free, at = len(self._free[node]), 0.0
            for ends_by, gpus in sorted(releases.get(node, [])):
                if free >= request.shape.gpus:
                    break
                free, at = free + gpus, ends_by
            ready.append(at)
        return sorted(ready)[request.shape.nodes - 1]

    def _run_s(self, job: SimJob) -> float:
        # Tasks of a sweep differ in what they try, so they do not end together.
        spread = 1.0 if job.array_task is None else self._chance.uniform(0.6, 1.4)
        return spread * job.request.run_s

    def _is_throttled(self, job: SimJob) -> bool:
        if job.array_task is None:
            return False
        running = sum(
            other.array_id == job.array_id for _, _, other in self._ends if other.array_id
        )
        return running >= job.request.array_throttle

    def _begin(self, job: SimJob, start_at: float, end_at: float, spots: tuple[Spot, ...]) -> None:
        job.start_at, job.end_at, job.spots = start_at, end_at, spots
        self.started.append(job)
        # Two jobs may end at one instant: the order in which they began decides.
        heappush(self._ends, (end_at, len(self.started), job))

    def _place(self, request: Request) -> tuple[Spot, ...]:
        open_nodes = self._open.get(request.partition, [])
        wanted = request.shape
        fitting = [node for node in open_nodes if len(self._free[node]) >= wanted.gpus]
        if len(fitting) < wanted.nodes:
            return ()
        # The fullest node that still fits leaves whole nodes free for large jobs.
        chosen = nsmallest(wanted.nodes, fitting, key=lambda node: (len(self._free[node]), node))
        spots = []
        for node in sorted(chosen):
            free = self._free[node]
            spots.append(Spot(node, tuple(free[: wanted.gpus])))
            del free[: wanted.gpus]
            if not free:
                open_nodes.remove(node)
        return tuple(spots)

    def _release(self, job: SimJob) -> None:
        open_nodes = self._open[job.request.partition]
        for spot in job.spots:
            self._free[spot.node] = sorted((*self._free[spot.node], *spot.gpus))
            if spot.node not in open_nodes:
                open_nodes.append(spot.node)
        open_nodes.sort()
