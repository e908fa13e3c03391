"""One rank of a job is slower than its peers, and all of them wait for it in every step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import Confidence, Detector, Evidence, Severity, Window, is_host_name
from gpumon_detectors.evidence import machine_commands as commands
from gpumon_detectors.evidence.gpu_use import PAST_S, is_named
from gpumon_detectors.evidence.job_commands import srun_in
from gpumon_detectors.evidence.phrases import counted, listed
from gpumon_detectors.evidence.stretch import since_words
from gpumon_detectors.evidence.watched import mean_over, surest
from gpumon_detectors.ranks.late_ranks import Way, late_ranks
from gpumon_detectors.ranks.peers import (
    common_name,
    jobs_apart,
    name_of,
    rank_of,
    shared_by,
    worlds_of,
)
from gpumon_detectors.ranks.slow_causes import causes_of
from gpumon_detectors.ranks.work_windows import work_windows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumon.plugin import Finding, JobLook, View
    from gpumon_detectors.ranks.late_ranks import LateRanks
    from gpumon_detectors.ranks.slow_causes import Causes
    from gpumon_detectors.ranks.work_windows import WorkWindows

_GRAVE_LOSS: Final = 0.25
"""Share of the job's time from which a straggler is *critical*: NVRx reports ranks below .75 of the
speed of the others."""

_LISTED: Final = 8
"""Most GPUs, jobs or processes that a finding names: more would fill its page (our choice)."""


class _Who(NamedTuple):
    """Whom a finding is about."""

    subject: str
    words: str
    domain: str
    """What all of them share and no other has, in words; empty without."""


class Straggler(Detector):
    """Claims that all ranks of a job wait for a slower one in every step.

    A slow rank looks busiest, not idlest: it computes while the others spin in a collective. One
    whose host is slow is the idlest: its GPU rests while the others spin. Ranks of one world are
    compared with each other and with themselves before, over windows of a minute. A rank is claimed
    if it computes 10 % longer beside the others than before, or rests 8 % of the time longer, while
    all the others do less than before, all alike, and none of them rests more. It must be so in
    most windows for five minutes (Minder: four minutes; Greyhound: a mean shift of 10 %).

    *Supported* after 5 minutes, *established* after 15. Where the job was not seen before, a rank
    is named only as a *hypothesis*, and only if its GPU rests while the others spin, or its own
    clock, power limit or PCIe link is below that of its like: a stage with more to do runs into the
    power limit, and so at a lower clock. These counters are needed to see which GPU is busy. That a
    GPU rests, utilisation shows as surely.

    What looks alike: stages of a pipeline, other roles, products or limits differ from the start on
    and are no stragglers (`stage_imbalance` speaks of stages). While one rank evaluates or writes a
    checkpoint the others do nothing at all: such windows do not count. Where another rank is the
    slowest in each window, or those that wait differ as much among themselves, no rank is claimed.
    Replicas of a server have loads of their own, and rest where they have none. GPUs that are not
    used are not compared; jobs of fewer than three GPUs, and those cut by MIG, are not looked at. A
    rank that slows a job to less than a third has stopped it (`hang`).

    What all slow ranks share, and no other rank has, is named in their place: a node, the switch or
    the block of nodes that they hang on. Why they are slow is looked up: clock, power limit, PCIe,
    NVLinks, ports, what waits on their node, CPUs that were taken away.

    The loss is the part of the others' work that is gone, or the time that they spin for a GPU that
    rests, of all GPUs of the world. Where its clock is held down `throttled` charges that, and the
    straggler nothing. `critical` from a quarter on.
    """

    name = "straggler"
    version = "1"
    finding_classes = ("straggler",)
    needs = ("gpu_util_ratio", "sm_active_ratio")
    supported_after_s = 300.0
    established_after_s = 900.0
    every_s = 30.0

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per world with slow ranks."""
        apart = jobs_apart(view)
        for number, job in zip(view.numbers, view.jobs, strict=True):
            if not apart[number] or not is_named(job):
                continue
            windows = work_windows(view, job, PAST_S)
            shared = shared_by(view, job)
            for world in worlds_of(job):
                late = late_ranks(windows, world, shared) if len(windows.ends) else None
                if late is not None:
                    yield from self._finding(view, job, windows, late, shared)

    def _finding(
        self,
        view: View,
        job: JobLook,
        windows: WorkWindows,
        late: LateRanks,
        shared: Sequence[Sequence[str]],
    ) -> Iterator[Finding]:
        start = float(windows.begins[late.first])
        causes = causes_of(view, job, late.late, late.waiting, start)
        most = _surest(late, causes)
        if most is None:
            return
        window = Window(start, float(windows.ends[-1]), _samples(job, start))
        who = _who(job, late, shared)
        gpus = [job.uuids[place] for place in sorted((*late.late, *late.waiting))]
        lost = 0.0 if causes.is_throttled else late.loss
        is_sure = most is not Confidence.HYPOTHESIS
        yield view.finding(
            self,
            subject=who.subject,
            severity=Severity.CRITICAL if late.loss >= _GRAVE_LOSS else Severity.WARNING,
            summary=_summary(who, late, causes, window),
            window=window,
            evidence=(*_evidence(job, windows, late, who), *causes.evidence),
            advice=tuple(_advice(view, job, late, is_sure=is_sure)),
            machine_advice=tuple(_machine_advice(view, job, late, is_sure=is_sure)),
            gpu_seconds=lost * min(late.known_s, window.end - window.start) * len(gpus),
            at_most=surest(self, late.known_s, window.samples, most),
            gpus=gpus,
        )


def _surest(late: LateRanks, causes: Causes) -> Confidence | None:
    """How sure it may be; None: it may be meant so."""
    if late.has_before:
        return Confidence.ESTABLISHED
    return Confidence.HYPOTHESIS if causes.is_of_gpu or late.way is Way.IDLE else None


def _samples(job: JobLook, start: float) -> int:
    """How many samples a window that begins then holds."""
    return int((job.past(("gpu_util_ratio",), PAST_S).times >= start).sum())


def _who(job: JobLook, late: LateRanks, shared: Sequence[Sequence[str]]) -> _Who:
    """The one rank, else the node that all share, else the job with all that are slow."""
    places = late.late
    on, switches, blocks = shared
    waiting = {*late.waiting}
    nodes = [name if place in {*places, *waiting} else "" for place, name in enumerate(on)]
    if len(places) == 1:
        number, place = rank_of(job, places[0]), job.gpus[places[0]].place
        if number is not None:
            return _Who(f"{job.subject}/rank:{number}", f"rank {number} ({place})", "")
        return _Who(job.subject, place, "")
    node = common_name(nodes, places)
    if node:
        return _Who(f"node:{node}", f"{node} with its {counted(len(places), 'GPU')}", "")
    names = [name_of(job, place) for place in places]
    for kind, values in (("switch", switches), ("block", blocks)):
        domain = common_name(values, places)
        if domain:
            many = counted(len({on[place] for place in places}), "node")
            return _Who(job.subject, f"{many} of {kind} {domain}", f"{kind} {domain}")
    few = names if len(names) <= _LISTED else [counted(len(names), "GPU")]
    return _Who(job.subject, listed(few), "")


def _summary(who: _Who, late: LateRanks, causes: Causes, window: Window) -> str:
    since = since_words(window, not late.has_before, late.known_s)
    count = counted(len(late.waiting), "other GPU")
    holds, computes, rests = ("keep", "compute", "rest")
    if len(late.late) == 1 or who.subject.startswith("node:"):
        holds, computes, rests = ("keeps", "computes", "rests")
    if late.way is Way.BUSY:
        how = f"{computes} {100 * late.shift:.0f} % longer than they do"
    else:
        how = f"{rests} {100 * late.shift:.0f} % of the time while they spin"
    why = f", because of {causes.because}" if causes.because else ""
    return f"{who.words} {holds} {count} waiting {since}: {how}{why}"


def _evidence(job: JobLook, windows: WorkWindows, late: LateRanks, who: _Who) -> Iterator[Evidence]:
    """What the slow ones and the others show since then, and what it costs."""
    since = late.is_work & (np.arange(len(late.is_work)) >= late.first)
    means = {key: mean_over(values[since]) for key, values in windows.means.items()}
    theirs = {key: float(np.median(mean[list(late.waiting)])) for key, mean in means.items()}
    for place in late.late[:_LISTED]:
        figures = []
        for key, word, factor, unit in (
            ("tensor_active_ratio", "tensor cores", 100, "%"),
            ("sm_active_ratio", "SMs", 100, "%"),
            ("gpu_util_ratio", "utilisation", 100, "%"),
            ("power_w", "power", 1, "W"),
        ):
            mine = float(means[key][place])
            if np.isfinite(mine) and np.isfinite(theirs[key]):
                figures.append(
                    f"{word} {factor * mine:.0f} {unit} (the others {factor * theirs[key]:.0f})"
                )
        field = "gpu_util_ratio" if late.way is Way.IDLE else windows.measure
        text = f"{name_of(job, place)}: {', '.join(figures)}"
        yield Evidence(field, job.gpus[place].subject, text, float(means[field][place]))
    if who.domain:
        yield Evidence("job", job.subject, f"all of them, and no others, are in {who.domain}")
    compared = "before" if late.has_before else "without it; earlier steps are not known"
    text = f"each step takes {1.0 / (1.0 - late.loss):.2f} times as long as {compared}"
    yield Evidence(windows.measure, job.subject, text, late.loss)


def _advice(view: View, job: JobLook, late: LateRanks, *, is_sure: bool) -> Iterator[str]:
    node = job.gpus[late.late[0]].node
    within = srun_in(job.job)
    if late.way is Way.IDLE and within is not None and is_host_name(node):
        yield f"See what its host is busy with: {within} -w {node} top -b -n 1"
    if is_sure:
        yield from commands.leave_out(view, node)
    yield from commands.report_to_admins(view, node)


def _machine_advice(view: View, job: JobLook, late: LateRanks, *, is_sure: bool) -> Iterator[str]:
    gpu = job.gpus[late.late[0]]
    if late.way is Way.BUSY:
        yield from commands.ask_gpu(view, gpu, "-q -d PERFORMANCE,CLOCK,POWER,TEMPERATURE")
    yield from commands.ask_node(view, gpu.node)
    if is_sure:
        yield "Run a test of the node on its own before the next large job gets it."
