"""The simulated fleet: machines, queue and programs under one seed."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final

from gpumon.model.finding_classes import CLASSES, Loss
from gpumon.model.records.label import HEALTHY, Label
from gpumon.simulate.cluster.hardware_faults import ailments_of, xids_between
from gpumon.simulate.cluster.job_faults import (
    CRASH,
    CRASH_XID,
    HANG,
    NARROW,
    STRAGGLER,
    STUCK,
    THROTTLED,
    after,
    slowed_share,
    well_again,
)
from gpumon.simulate.cluster.mix import DEMO, Mix
from gpumon.simulate.cluster.schedule import Schedule, SimJob
from gpumon.simulate.cluster.timeline import Reading, Spans, Stay, Timeline, Totals
from gpumon.simulate.cluster.workloads import Holds, gpus_used, lane_of
from gpumon.simulate.physics.phase import LOST
from gpumon.simulate.physics.program import Turned
from gpumon.simulate.physics.random_streams import stream
from gpumon.simulate.physics.services import unused

if TYPE_CHECKING:
    from gpumon.simulate.cluster.job_faults import Trouble
    from gpumon.simulate.cluster.layout import SimNode
    from gpumon.simulate.cluster.people import Request
    from gpumon.simulate.cluster.workloads import Workload
    from gpumon.simulate.physics.board import Board
    from gpumon.simulate.physics.program import Program
    from gpumon.simulate.physics.training import Shape

PAST_S: Final = 48 * 3600.0
"""How long before its origin the fleet's GPUs have been counting, seconds."""

SILENT: Final = "telemetry_lost"
FULL: Final = "filesystem_full"

_UNKNOWN: Final = Totals(0.0, 0.0, 0.0, ())
"""Entry of a stay before `Timeline.add` computes it."""


class Fleet:
    """Everything that there is to observe, as a pure function of seed, origin and time."""

    def __init__(
        self,
        nodes: int,
        gpus_per_node: int,
        seed: int,
        origin: float,
        opened_s: float = 0.0,
        mix: Mix = DEMO,
    ) -> None:
        """Build the fleet and let its queue fill it.

        Args:
            nodes: Nodes that answer; Slurm lists one more, which is down.
            gpus_per_node: GPUs of each node.
            seed: What makes two fleets of one size differ.
            origin: Unix time at which the demonstration begins.
            opened_s: How much later it is opened; troubles begin shortly before that.
            mix: What it is made of.
        """
        self.seed = seed
        self.origin = origin
        self._opened_at = origin + opened_s
        self.nodes = mix.lay_out(seed, nodes, gpus_per_node)
        self.ailments = ailments_of(self.nodes)
        self._silence = mix.silence(seed, self.nodes, opened_s)
        self._full = mix.full(seed, self.nodes, opened_s)
        self.gpus_per_node = gpus_per_node
        partitions = ["" if node.is_drained else node.partition for node in self.nodes]
        self._programs: dict[tuple[object, ...], Program] = {}
        self._turns: dict[tuple[Request, int, bool], Turned] = {}
        self._lines = [
            [Timeline(origin - PAST_S, self._idle(node.board)) for _ in node.gpus]
            for node in self.nodes
        ]
        draw = partial(mix.draw, seed)
        self._schedule = Schedule(seed, partitions, gpus_per_node, origin, draw)
        for seat in mix.seated(nodes, gpus_per_node, opened_s):
            self._schedule.seat(*seat)
        if not mix.is_full(nodes):
            self._schedule.fill()
        self._schedule.open_doors(mix.waiting(nodes, gpus_per_node))
        self._seen = 0
        self._host()

    def advance(self, until: float) -> None:
        """Let the queue play up to a time; earlier times can be read afterwards."""
        self._schedule.advance(until)
        self._host()

    def running(self, now: float) -> list[SimJob]:
        """Jobs that hold GPUs, in the order in which they were submitted."""
        self.advance(now)
        return [job for job in self._schedule.jobs if job.is_running(now)]

    def ended(self, since: float, now: float) -> list[SimJob]:
        """Jobs that ran, and gave their GPUs back within that time."""
        self.advance(now)
        return [job for job in self._schedule.started if since <= (job.end_at or now + 1.0) <= now]

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
        """What is true between the origin and a time, of every job and of broken hardware."""
        self.advance(until)
        # Counters show broken hardware; no job is slower for it.
        labels = [
            Label(
                subject=subject, finding_class=truth, start=self.origin, end=until, gpu_seconds=0.0
            )
            for subject, truth in self.ailments.known(self.nodes)
        ]
        for truth, trouble in ((SILENT, self._silence), (FULL, self._full)):
            if trouble is not None and self.origin + trouble[1] < until:
                node, after_s = trouble
                begin = self.origin + after_s
                labels.append(
                    Label(
                        subject=f"node:{self.nodes[node].name}",
                        finding_class=truth,
                        start=begin,
                        end=until,
                        gpu_seconds=0.0,
                    )
                )
        for job in self._schedule.started:
            seen_until = min(until, self._seen_until(job))
            if job.start_at is None or job.end_at is None or job.start_at > seen_until:
                continue
            if job.end_at >= self.origin:
                labels += self._labels_of(job, job.start_at, job.end_at, seen_until)
        return sorted(labels, key=lambda label: (label.finding_class == HEALTHY, label.subject))

    def is_silent(self, node: SimNode, now: float) -> bool:
        """Whether nothing comes from a node any more."""
        return self._has_begun(self._silence, node, now)

    def is_full(self, node: SimNode, now: float) -> bool:
        """Whether a node's shared memory has no room any more."""
        return self._has_begun(self._full, node, now)

    def _has_begun(self, trouble: tuple[int, float] | None, node: SimNode, now: float) -> bool:
        """Whether what befalls one node after a while befalls this one now."""
        if trouble is None or trouble[0] != node.number:
            return False
        return now >= self.origin + trouble[1]

    def _seen_until(self, job: SimJob) -> float:
        """Unix time from which on nothing is heard of a job's GPUs; infinity: they are heard of."""
        if self._silence is None or any(spot.node != self._silence[0] for spot in job.spots):
            return inf
        return self.origin + self._silence[1]

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

    def _labels_of(self, job: SimJob, start: float, end: float, until: float) -> list[Label]:
        subject, trouble = f"job:{job.job_id}", job.request.trouble
        first, last = max(start, self.origin), min(end, until)
        if trouble is None:
            held_from, held_until = self._held(job, start, end)
            if job.request.truth == HEALTHY or held_from >= end:
                return [Label(subject, HEALTHY, first, last)]
            begin, until = min(max(first, held_from), last), min(held_until, last)
            if until < begin:
                # What was true of it was over before the fleet was opened.
                return []
            lost_s = self._lost_s(job, begin - start, until - start)
            return [
                Label(
                    subject=subject,
                    finding_class=job.request.truth,
                    start=begin,
                    end=until,
                    gpu_seconds=lost_s,
                )
            ]
        onset = trouble.begins_at(start, self._opened_at)
        over = trouble.ends_at(start, self._opened_at)
        if onset >= last or over <= first:
            return [Label(subject, HEALTHY, first, last)]
        begin, over = max(first, onset), min(last, over)
        well = [Label(subject, HEALTHY, *span) for span in ((first, begin), (over, last))]
        labels = [label for label in well if label.start < label.end]
        return [*labels, *self._troubled(job, trouble, begin, over)]

    def _troubled(self, job: SimJob, trouble: Trouble, begin: float, last: float) -> list[Label]:
        """What is true of a job in trouble, and of the rank and the GPU that cause it."""
        subject, gpu = f"job:{job.job_id}", f"gpu:{self._uuid_of(job, trouble)}"
        lost_s = job.request.shape.world * (last - begin)
        rank = trouble.spot * gpus_used(job.request.workload, job.request.shape.gpus)
        cause = f"{subject}/rank:{rank + trouble.local}"
        if trouble.finding_class == HANG:
            # All ranks lose all of their time; mostly one makes the others wait.
            return [
                Label(
                    subject=subject,
                    finding_class=HANG,
                    start=begin,
                    end=last,
                    gpu_seconds=lost_s,
                    also=() if trouble.is_alike else (cause,),
                )
            ]
        if trouble.finding_class == STUCK:
            node = self.nodes[job.spots[trouble.spot].node].name
            return [
                Label(
                    subject=f"node:{node}",
                    finding_class=STUCK,
                    start=begin,
                    end=last,
                    gpu_seconds=0.0,
                )
            ]
        if trouble.finding_class == CRASH:
            return [
                Label(
                    subject=gpu,
                    finding_class=CRASH,
                    start=begin,
                    end=last,
                    gpu_seconds=0.0,
                    also=(subject,),
                )
            ]
        lost_s *= self._slowed_share(job, trouble)
        slow = Label(
            subject=cause, finding_class=STRAGGLER, start=begin, end=last, gpu_seconds=lost_s
        )
        if trouble.finding_class == STRAGGLER and not trouble.is_hot:
            return [slow]
        # What the slow rank costs is the heat's, or the slot's, doing, and counted once.
        fault = NARROW if trouble.finding_class == NARROW else THROTTLED
        return [
            slow._replace(gpu_seconds=0.0),
            Label(subject=gpu, finding_class=fault, start=begin, end=last, gpu_seconds=lost_s),
        ]

    def _lost_s(self, job: SimJob, begin_s: float, end_s: float) -> float:
        """GPU-seconds that a job's truth loses between two ages."""
        if CLASSES[job.request.truth].loss is Loss.NONE:
            return 0.0
        lost_s, known = 0.0, dict[tuple[str, int], float]()
        for spot, place in enumerate(job.spots):
            board = self.nodes[place.node].board
            for local in range(len(place.gpus)):
                lane = lane_of(job.request.workload, job.request.shape, spot, local)
                if lane is None:
                    lost_s += end_s - begin_s
                    continue
                if (board.name, lane) not in known:
                    known[board.name, lane] = self._lost_by(
                        job.request, board, lane, begin_s, end_s
                    )
                lost_s += known[board.name, lane]
        return lost_s

    def _lost_by(
        self, request: Request, board: Board, lane: int, begin_s: float, end_s: float
    ) -> float:
        program = self._program(request.workload, board, request.shape, request.variant, lane)
        first, last = (program.at(age_s).integrals[LOST] for age_s in (begin_s, end_s))
        return last - first

    def _slowed_share(self, job: SimJob, trouble: Trouble) -> float:
        board = self.nodes[job.spots[trouble.spot].node].board
        request = job.request
        chance = stream(self.seed, request.workload.kind, request.shape, request.variant)
        return slowed_share(trouble, board, request.shape, chance)

    def _uuid_of(self, job: SimJob, trouble: Trouble) -> str:
        spot = job.spots[trouble.spot]
        node = self.nodes[spot.node]
        return node.gpus[node.gpu_of_minor(spot.gpus[trouble.local])].uuid

    def cooling_lost(self, stay: Stay) -> tuple[float, float] | None:
        """Unix times between which heat lowers the clock of the stay's GPU; None: never."""
        trouble, begins_at = _caused_by(stay), self._begins_at(stay.job)
        if trouble is None or trouble.finding_class != STRAGGLER or not trouble.is_hot:
            return None
        return None if begins_at is None else (begins_at, begins_at + trouble.lasts_s)

    def is_narrow(self, stay: Stay, now: float) -> bool:
        """Whether most lanes of the slot of the stay's GPU are gone."""
        trouble = _caused_by(stay)
        begins_at = self._begins_at(stay.job)
        is_narrow = trouble is not None and trouble.finding_class == NARROW
        return is_narrow and begins_at is not None and begins_at <= now

    def hung_at(self, job: SimJob) -> float | None:
        """Unix time from which on a job makes no step any more; None: it does."""
        trouble = job.request.trouble
        return (
            self._begins_at(job) if trouble is not None and trouble.finding_class == HANG else None
        )

    def over_at(self, job: SimJob) -> float | None:
        """Unix time from which on a job is over and its node not given back; None: it works."""
        trouble = job.request.trouble
        is_stuck = trouble is not None and trouble.finding_class == STUCK
        return self._begins_at(job) if is_stuck else None

    def _begins_at(self, job: SimJob | None) -> float | None:
        """Unix time at which a job's trouble begins; None: it has none, or has not started."""
        if job is None or job.request.trouble is None or job.start_at is None:
            return None
        return job.request.trouble.begins_at(job.start_at, self._opened_at)

    def events_between(
        self, node: SimNode, after: float, until: float
    ) -> list[tuple[float, int, int]]:
        """What the driver of a node reported of late: Unix time, the GPU's position, Xid."""
        found: list[tuple[float, int, int]] = []
        memory = self.ailments.memory
        if memory is not None and memory.node == node.number:
            found = [(at, memory.gpu, xid) for at, xid in xids_between(after, until, self.origin)]
        for row, line in enumerate(self._lines[node.number]):
            stay = line.stay_at(until)
            trouble, at = _caused_by(stay), self._begins_at(stay.job)
            is_crash = trouble is not None and trouble.finding_class == CRASH
            if is_crash and at is not None and after < at <= until:
                found.append((at, row, CRASH_XID))
        return sorted(found)

    def is_stuck(self, stay: Stay, now: float) -> bool:
        """Whether a rank waits for storage that does not answer, so that its job hangs."""
        trouble = None if stay.job is None else stay.job.request.trouble
        if stay.job is None or trouble is None or not trouble.is_of(stay.spot, stay.local):
            return False
        if trouble.is_alike:
            return False
        hung_at = self.hung_at(stay.job)
        return hung_at is not None and hung_at <= now

    def _held(self, job: SimJob, start: float, end: float) -> tuple[float, float]:
        """Unix times between which the truth about a job holds."""
        request = job.request
        if request.workload.holds is Holds.ALWAYS:
            return start, end
        board = self.nodes[job.spots[0].node].board
        program = self._program(request.workload, board, request.shape, request.variant, 0)
        turns_at = start + program.head_s
        return (start, turns_at) if request.workload.holds is Holds.HEAD else (turns_at, end)

    def _stay(self, job: SimJob, start: float, board: Board, spot: int, local: int) -> Stay:
        request = job.request
        lane = lane_of(request.workload, request.shape, spot, local)
        if lane is None:
            return Stay(
                start=start,
                program=self._idle(board),
                entry=_UNKNOWN,
                job=job,
                spot=spot,
                local=local,
            )
        program = self._program(request.workload, board, request.shape, request.variant, lane)
        if request.trouble is None:
            return Stay(
                start=start,
                program=program,
                entry=_UNKNOWN,
                job=job,
                spot=spot,
                local=local,
                is_used=True,
            )
        is_cause = request.trouble.is_of(spot, local)
        key = (request, lane, is_cause)
        if key not in self._turns:
            at_s = max(0.0, request.trouble.begins_at(start, self._opened_at) - start)
            turned = Turned(
                program, at_s, self._after(request, request.trouble, board, lane, is_cause=is_cause)
            )
            over_s = request.trouble.ends_at(start, self._opened_at) - start
            self._turns[key] = (
                turned
                if over_s == inf
                else Turned(turned, over_s, self._again(request, board, lane))
            )
        return Stay(
            start=start,
            program=self._turns[key],
            entry=_UNKNOWN,
            job=job,
            spot=spot,
            local=local,
            is_used=True,
        )

    def _after(
        self, request: Request, trouble: Trouble, board: Board, lane: int, *, is_cause: bool
    ) -> Program:
        chance = stream(self.seed, request.workload.kind, request.shape, request.variant)
        return after(trouble, board, request.shape, chance, lane, is_cause=is_cause)

    def _again(self, request: Request, board: Board, lane: int) -> Program:
        chance = stream(self.seed, request.workload.kind, request.shape, request.variant)
        return well_again(board, request.shape, chance, lane)

    def _idle(self, board: Board) -> Program:
        key: tuple[object, ...] = board.kind
        if key not in self._programs:
            self._programs[key] = unused(board)
        return self._programs[key]

    def _program(
        self, workload: Workload, board: Board, shape: Shape, variant: int, lane: int
    ) -> Program:
        key = (workload.kind, board.kind, shape, variant, lane)
        if key not in self._programs:
            # Every lane draws the same numbers: ranks of one job differ by their lane alone.
            chance = stream(self.seed, workload.kind, shape, variant)
            self._programs[key] = workload.build(board, shape, chance, lane)
        return self._programs[key]


def _caused_by(stay: Stay) -> Trouble | None:
    """The trouble of a job of which this GPU's rank is the cause; None: it is not."""
    trouble = None if stay.job is None else stay.job.request.trouble
    return trouble if trouble is not None and trouble.is_of(stay.spot, stay.local) else None
