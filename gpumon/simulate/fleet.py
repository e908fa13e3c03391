"""The simulated fleet: machines, queue and programs under one seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.simulate.ailments import ailments_of
from gpumon.simulate.chance import stream
from gpumon.simulate.layout import SimNode, lay_out
from gpumon.simulate.opening import seated_requests, waiting_requests
from gpumon.simulate.schedule import Schedule, SimJob
from gpumon.simulate.services import unused
from gpumon.simulate.timeline import Reading, Spans, Stay, Timeline, Totals
from gpumon.simulate.workloads import HEALTHY, lane_of

if TYPE_CHECKING:
    from gpumon.simulate.board import Board
    from gpumon.simulate.program import Program
    from gpumon.simulate.training import Shape
    from gpumon.simulate.workloads import Workload

PAST_S: Final = 48 * 3600.0
"""How long before its origin the fleet's GPUs have been counting, seconds."""

_UNKNOWN: Final = Totals(0.0, 0.0, 0.0, ())


class Label(NamedTuple):
    """What is true of one subject over a stretch of time."""

    subject: str
    """`job:ID`, `job:ID/rank:N` or `gpu:UUID`."""
    finding_class: str
    """Class of the fault, or `healthy`."""
    start: float
    """Unix time."""
    end: float


class Fleet:
    """Everything that there is to observe, as a pure function of seed, origin and time."""

    def __init__(self, nodes: int, gpus_per_node: int, seed: int, origin: float) -> None:
        """Build the fleet and let its queue fill it.

        Args:
            nodes: Nodes that answer; Slurm lists one more, which is down.
            gpus_per_node: GPUs of each node.
            seed: What tells two fleets of one size apart.
            origin: Unix time at which the demonstration begins.
        """
        self.seed = seed
        self.origin = origin
        self.nodes = lay_out(seed, nodes, gpus_per_node)
        self.ailments = ailments_of(self.nodes)
        self.gpus_per_node = gpus_per_node
        partitions = ["" if node.is_drained else node.partition for node in self.nodes]
        self._programs: dict[tuple[object, ...], Program] = {}
        self._lines = [
            [Timeline(origin - PAST_S, self._idle(node.board)) for _ in node.gpus]
            for node in self.nodes
        ]
        self._schedule = Schedule(seed, partitions, gpus_per_node, origin)
        for seat in seated_requests(nodes, gpus_per_node):
            self._schedule.seat(*seat)
        if nodes > 6:
            self._schedule.fill()
        self._schedule.open_doors(waiting_requests(nodes, gpus_per_node))
        self._seen = 0
        self._host()

    def advance(self, until: float) -> None:
        """Let the queue play up to a time; looking back afterwards stays possible."""
        self._schedule.advance(until)
        self._host()

    def running(self, now: float) -> list[SimJob]:
        """Jobs that hold GPUs, in the order in which they were submitted."""
        self.advance(now)
        return [job for job in self._schedule.jobs if job.is_running(now)]

    def waiting(self, now: float) -> list[SimJob]:
        """Jobs, and tasks of arrays, that have not started, first in line first."""
        self.advance(now)
        return [job for job in self._schedule.jobs if job.is_waiting(now)]

    def read(self, node: SimNode, spans: Spans) -> list[Reading]:
        """All GPUs of a node, in NVML's order, at the instant of `spans`."""
        return [line.read(spans) for line in self._lines[node.number]]

    def stays(self, node: SimNode, now: float) -> list[Stay]:
        """What runs on each GPU of a node, in NVML's order."""
        return [line.stay_at(now) for line in self._lines[node.number]]

    def labels(self, until: float) -> list[Label]:
        """What is true of every job that started before a time, and of broken hardware."""
        self.advance(until)
        labels = [
            Label(f"gpu:{uuid}", truth, self.origin - PAST_S, until)
            for uuid, truth in self.ailments.known(self.nodes)
            if until > self.origin - PAST_S
        ]
        for job in self._schedule.started:
            if job.start_at is None or job.end_at is None or job.start_at > until:
                continue
            begin = job.start_at + self._onset_s(job)
            truth = job.request.truth if begin < job.end_at else HEALTHY
            labels.append(Label(f"job:{job.job_id}", truth, min(begin, job.end_at), job.end_at))
        return sorted(labels, key=lambda label: (label.finding_class == HEALTHY, label.subject))

    def _host(self) -> None:
        """Give every job that began since the last call its place on the GPUs."""
        started = self._schedule.started
        for job in started[self._seen :]:
            if job.start_at is None or job.end_at is None:
                continue
            for spot, place in enumerate(job.spots):
                node = self.nodes[place.node]
                for local, minor in enumerate(place.gpus):
                    line = self._lines[place.node][node.gpu_of_minor(minor)]
                    line.add(self._stay(job, job.start_at, node.board, spot, local))
                    line.add(Stay(job.end_at, self._idle(node.board), _UNKNOWN, None))
        self._seen = len(started)

    def _onset_s(self, job: SimJob) -> float:
        request = job.request
        if not request.workload.turns_after_start_up:
            return 0.0
        board = self.nodes[job.spots[0].node].board
        lane = 0
        return self._program(request.workload, board, request.shape, request.variant, lane).head_s

    def _stay(self, job: SimJob, start: float, board: Board, spot: int, local: int) -> Stay:
        request = job.request
        lane = lane_of(request.workload, request.shape, spot, local)
        program = (
            self._idle(board)
            if lane is None
            else self._program(request.workload, board, request.shape, request.variant, lane)
        )
        return Stay(start, program, _UNKNOWN, job, spot, local, lane is not None)

    def _idle(self, board: Board) -> Program:
        key = (board.name,)
        if key not in self._programs:
            self._programs[key] = unused(board)
        return self._programs[key]

    def _program(
        self, workload: Workload, board: Board, shape: Shape, variant: int, lane: int
    ) -> Program:
        key = (workload.kind, board.name, shape, variant, lane)
        if key not in self._programs:
            # Every lane draws the same numbers: ranks of one job differ by their lane alone.
            chance = stream(self.seed, workload.kind, shape, variant)
            self._programs[key] = workload.build(board, shape, chance, lane)
        return self._programs[key]
