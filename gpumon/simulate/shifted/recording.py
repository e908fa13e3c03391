"""The entrance: what the shifted fleet reports, sample by sample, and what is true of it."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.model.records.label import HEALTHY, Label
from gpumon.simulate.shifted.fleet import fleet_of
from gpumon.simulate.shifted.frames import NodeFrames
from gpumon.simulate.shifted.ranges import Draw
from gpumon.simulate.shifted.sensors import played
from gpumon.simulate.shifted.slurm import ASKED_S, Slurm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.model.records.frame import Frame
    from gpumon.simulate.shifted.fleet import Fleet, Placed, Plan


LEAST_S: Final = 1.0
"""Labels of less are of nothing that anybody could have seen."""

_BESIDE: Final = frozenset({"stuck_completing", "telemetry_lost", "overasked", "program_error"})
"""Classes beside which a job may be healthy all the same."""


class ShiftedFleet:
    """One recording: the same plan gives the same frames and labels, in every process."""

    def __init__(self, plan: Plan) -> None:
        """Place all jobs and work out what each does; frames are made as they are asked for."""
        self.plan = plan
        self.origin = f"slurm:shifted-{plan.seed}"
        self._fleet = fleet_of(plan)
        self._slurm = Slurm(self._fleet, self.origin)
        count = int(plan.for_s / plan.period_s) + 1
        self._times = np.arange(count, dtype=np.float64) * plan.period_s
        jobs = {job.number: played(job, self._times, plan.period_s) for job in self._fleet.jobs}
        self._nodes = [
            NodeFrames(self._fleet, machine, jobs, self._slurm.who, self._times, self.origin)
            for machine in self._fleet.machines
        ]
        for quiet in self._fleet.silences:
            at = self._fleet.machines.index(quiet.machine)
            self._nodes[at].silence(quiet.since_s, quiet.until_s)
        self._blink()

    def _blink(self) -> None:
        """Let some nodes miss a report or two, shorter than anybody calls silence."""
        draw = Draw(self.plan.seed, "blinks")
        longest_s = max(0.0, min(110.0, 2.2 * self.plan.period_s))
        for node in self._nodes:
            if draw.happens(0.3):
                since = draw.between(0.0, self.plan.for_s)
                node.silence(since, since + min(draw.of("blink_s"), longest_s))

    def samples(self) -> Iterator[tuple[float, list[Frame]]]:
        """Unix time and frames of every sample."""
        asked_s = -ASKED_S
        for sample, now_s in enumerate(self._times.tolist()):
            frames = [frame for node in self._nodes if (frame := node.frame(sample)) is not None]
            if now_s - asked_s >= ASKED_S:
                asked_s = now_s
                frames.insert(0, self._slurm.frame(now_s))
            yield self.plan.start + now_s, frames

    def labels(self) -> list[Label]:
        """What is true of it."""
        return labels_of(self._fleet, self._slurm.ids)


def labels_of(fleet: Fleet, job_ids: list[str]) -> list[Label]:
    """All labels of a recording, jobs in their order."""
    made = [
        label
        for job in fleet.jobs
        for label in _of_job(job, job_ids[job.number], fleet.plan.start, fleet.plan.for_s)
    ]
    for quiet in fleet.silences:
        since, until = fleet.plan.start + quiet.since_s, fleet.plan.start + quiet.until_s
        made.append(
            Label(
                subject=f"node:{quiet.machine.name}",
                finding_class="telemetry_lost",
                start=since,
                end=until,
                gpu_seconds=0.0,
            )
        )
    return sorted(made, key=lambda label: (label.subject, label.start, label.finding_class))


def _of_job(job: Placed, job_id: str, start: float, for_s: float) -> Iterator[Label]:
    story = job.story
    begin, end = max(0.0, job.start_s), min(for_s, job.end_s)
    first = min((fault.from_s for fault in story.faults), default=inf) + job.start_s
    has_job_time = any(fault.finding_class not in _BESIDE for fault in story.faults)
    good_until = min(end, first) if has_job_time else end
    if good_until - begin >= LEAST_S:
        yield Label(f"job:{job_id}", HEALTHY, start + begin, start + good_until)
    counted = _lost_gpu_s(job, for_s)
    for fault in story.faults:
        since = max(begin, job.start_s + fault.from_s)
        until = min(for_s, job.start_s + fault.to_s)
        if fault.finding_class != "stuck_completing":
            until = min(until, end)
        # A board that is out and a link that dropped out stay so when their job has ended.
        if fault.subject == "gpu" and (story.out_s == inf or story.down_links):
            until = for_s
        if until - since < LEAST_S:
            continue
        lost = counted if fault.lost_gpu_s is None else fault.lost_gpu_s
        also = tuple(_subject(job, job_id, kind, at) for kind, at in fault.also)
        subject = _subject(job, job_id, fault.subject, fault.at)
        yield Label(
            subject=subject,
            finding_class=fault.finding_class,
            start=start + since,
            end=start + until,
            gpu_seconds=round(lost, 3),
            also=also,
        )


def _subject(job: Placed, job_id: str, kind: str, at: int) -> str:
    if kind == "job":
        return f"job:{job_id}"
    if kind == "node":
        return f"node:{job.machines[at].name}"
    machine, gpu = job.place_of(at)
    return f"gpu:{machine.uuid(gpu)}" if kind == "gpu" else f"job:{job_id}/rank:{at}"


def _lost_gpu_s(job: Placed, for_s: float) -> float:
    """GPU-seconds that the phases count as lost, within the recording and the job."""
    story = job.story
    begin_s, end_s = max(0.0, -job.start_s), min(job.length_s, for_s - job.start_s)
    by_tape = [tape.lost_s(story.phases, begin_s, end_s) for tape in story.tapes]
    if all(tape is None for tape in story.tape_of):
        # No process is on any of them, and all are lost alike.
        return by_tape[0] * len(story.tape_of)
    return sum(by_tape[tape] for tape in story.tape_of if tape is not None)
