"""A job whose ranks wait for one another, and none of them gets on."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.plugin import Detector, Evidence, Severity, Window, is_host_name
from gpumon_detectors.evidence.gpu_symptoms import Faults
from gpumon_detectors.evidence.gpu_use import PIPES, is_named
from gpumon_detectors.evidence.host_use import LEAST_POLL_CORES, SLEEPING_AFTER_WORK_S, host_use
from gpumon_detectors.evidence.job_commands import srun_in
from gpumon_detectors.evidence.job_context import context_of
from gpumon_detectors.evidence.machine_commands import ask_node
from gpumon_detectors.evidence.phrases import counted, span
from gpumon_detectors.evidence.stretch import began_with_job, since_words
from gpumon_detectors.evidence.watched import surest
from gpumon_detectors.ranks.pauses import doubts_of, fell_silent, only_spins, output_age_s
from gpumon_detectors.ranks.standstill import PAST_S, State, may_be_stalled, standstill_of
from gpumon_detectors.ranks.suspects import suspects_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.plugin import Finding, JobLook, View
    from gpumon_detectors.ranks.standstill import Standstill
    from gpumon_detectors.ranks.suspects import Suspects

_SUSPECTED_AFTER_S: Final = 180.0
"""A hang of a job that was seen at work may be suspected after so long (docs/detectors.md)."""

_SUPPORTED_AFTER_S: Final = 270.0
"""Five minutes since it began, less what passes until that is seen: at a sample in ten seconds one
in which it begins, and one until the next look (measured: 10 to 28 s)."""

_UNSEEN_AFTER_S: Final = 900.0
"""As long for one that was never seen at work: compilers and first steps take minutes."""

_SILENT_AFTER_S: Final = 120.0
"""As long for one that stands still since it was first seen, where its output is silent for as long
as one that was never seen at work must be: checkpoints take less (the longest reported, 96 s)."""

_LONE_AFTER_S: Final = 600.0
"""As long for a job of one GPU, beside which nobody waits (DLRover and ByteRobust alarm then)."""

_PAUSES: Final = 2.0
"""A standstill must last so many times as long as the job's own longest pause before."""

_FALL: Final = 0.6
"""SM activity and power must have fallen to this share of those of the work before, or lower: a
lighter stage of the same work falls less (our choice; see `standstill`). Of power that which a GPU
of the job draws at rest is taken off first, where one rests: it is up to a third of a board's."""


_EVIDENT: Final = tuple(zip(PIPES, ("SMs", "tensor cores", "memory"), strict=True))
"""What shows that nothing is computed, in words; memory of a lone GPU alone."""


class Hang(Detector):
    """Claims that a job hangs: nothing is computed on any of its GPUs, and its processes wait.

    Nothing is computed on a GPU whose SM activity stays below .25, the share of SMs that a waiting
    collective may fill, with tensor cores below .005, memory below .05 and links below 100 MB/s.
    Without profiling counters it is one at 60 % of the power of the job's own work, or less. *All*
    GPUs that worked before make no progress, and at least half of them spin: utilisation 90 % and
    more, as a collective that waits shows. Or all rest, behind ten minutes of steady work, and each
    rank polls on about one CPU, or one of the GPUs fell off the bus just before: they wait asleep.
    One GPU, or one in four, may spin or report nothing beside these, and ranks that are stopped or
    wait in the kernel need not poll, if they are fewer than half.

    Suspected after 3 minutes, *supported* after nearly 5, *established* after 10 (DLRover and
    ByteRobust alarm then). Without profiling counters, and where ranks sleep that never paused for
    a minute in 20 minutes of work, *supported* after 10; where others sleep, after 30. There, too,
    nearly 5 are enough where it is known why the others wait: the driver reported a fault of one of
    the GPUs just before, one rank's process is stopped, or is gone while others of the job still
    run. They are also enough where a GPU rests beside others that spin and the job's output has
    been silent since, and where ranks sleep whose output was written every minute of 20 minutes of
    work, and not since. A job that was never seen at work stays a *hypothesis*, after 15 minutes,
    and only if its output is silent too. The time before gpumon started counts towards these 15 if
    its output was silent for so long and the job has done nothing since it was first seen, for two
    minutes at least.

    What looks alike: a checkpoint, an evaluation, a compilation. A standstill must last twice as
    long as any earlier pause of this job. Where CPUs compute, or something is read, written or
    printed meanwhile, it is named, and the claim stays a *hypothesis* for half an hour. A session
    is never more. What a neighbour moves on a shared node counts for ten minutes at most, and only
    if it is more than in the hour before. A server between requests rests, and is not claimed. GPUs
    cut by MIG are not looked at.

    One GPU may go on with a kernel that never ends: the same in each sample, without tensor cores,
    which its work before used. As one rank alone may also evaluate, that is a *hypothesis* for half
    an hour, or for ten minutes where the output is silent since; for nearly 5 where that output was
    written every minute of 20 minutes of work without a pause.

    In a job of one GPU no rank waits for another, so only such a kernel is claimed there: behind 20
    minutes of steady work on tensor cores, without traffic of its memory and links, and only where
    the output was written every minute before, and not since. After ten minutes that is a
    *hypothesis*, *supported* after half an hour. Where it is unknown what it printed before, and it
    has printed nothing since, it stays a *hypothesis*: of a kernel on less than .25 of the SMs that
    does not touch the memory (.002), behind ten minutes of work without pauses, and of no server.
    One that rests is `idle_tail`'s.

    Which rank: a GPU for which the driver reports a fault, no more than ten minutes old then, is
    named before any other (what it costs is `gpu_fault`'s); then ranks whose processes are stopped,
    or in uninterruptible sleep, at every reading of most of the time since then. A GPU, or a node's
    GPUs, that rest or are silent while the others spin are named, also one that runs such a kernel,
    or that no process is left on; so is a node on which processes wait in the kernel since then.
    Where all look alike none is named.

    The loss is all GPU time of the job since its GPUs stopped computing.
    """

    name = "hang"
    version = "1"
    finding_classes = ("hang",)
    needs = ("gpu_util_ratio", "power_w", "compute_process_count")
    supported_after_s = _SUPPORTED_AFTER_S
    established_after_s = 600.0
    every_s = 10.0

    def __init__(self, portal_names: str = "") -> None:
        self.portal_names = portal_names

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job that stands still."""
        faults = Faults(view)
        for job in view.jobs:
            if not is_named(job) or not may_be_stalled(job):
                continue
            still = standstill_of(job)
            if still is None or not _is_long(job, still):
                continue
            if len(job.gpus) == 1:
                if still.places(State.ENDLESS) and self._is_stalled(job, still):
                    yield from self._finding(view, job, still, is_asleep=False)
                continue
            if len(still.members) < 2:
                continue
            spinning = still.places(State.SPINS)
            if 2 * len(spinning) >= len(still.members):
                if _has_fallen(still, spinning):
                    yield from self._finding(view, job, still, is_asleep=False)
            elif _may_sleep(job, still, faults):
                yield from self._finding(view, job, still, is_asleep=True)

    def _is_stalled(self, job: JobLook, still: Standstill) -> bool:
        """Whether the kernel of a job's only GPU gets nowhere, as far as anything tells."""
        if fell_silent(job, still):
            return True
        return only_spins(job, still) and not context_of(job, self.portal_names).is_serving

    def _finding(
        self, view: View, job: JobLook, still: Standstill, *, is_asleep: bool
    ) -> Iterator[Finding]:
        host = host_use(view, job, PAST_S)
        context = context_of(job, self.portal_names)
        is_provable = still.worked_s or (still.has_counters and not is_asleep)
        if not is_provable or not (still.worked_s or output_age_s(job) >= still.known_s):
            return
        suspects = suspects_of(view, job, still)
        if is_asleep and not suspects.is_broken:
            halted = suspects.halted_count
            polls = host.polls(still.window_start, len(still.members), halted)
            if context.is_bursty or not polls:
                return
        doubts = doubts_of(
            job, host, still, context, is_asleep=is_asleep, is_explained=suspects.is_explained
        )
        window = Window(
            still.window_start, float(still.past.times[-1]), len(still.past.times) - still.first
        )
        before_s = _silent_before_s(job, still)
        most = min((doubt.most for doubt in doubts), key=lambda step: step.rank)
        yield view.finding(
            self,
            subject=job.subject,
            severity=Severity.CRITICAL,
            summary=_summary(still, window, suspects, before_s, is_asleep=is_asleep),
            window=window,
            evidence=(
                *_evidence(job, still, is_asleep=is_asleep),
                *(doubt.evidence for doubt in doubts if doubt.evidence is not None),
                host.evidence(job, still.window_start),
                *_silence(job, before_s),
                *suspects.evidence,
            ),
            advice=tuple(_advice(job, suspects)),
            machine_advice=tuple(_machine_advice(view, suspects)),
            gpu_seconds=still.known_s * len(job.gpus),
            onset=window.start - before_s,
            at_most=surest(self, still.known_s, window.samples, most),
        )


def _is_long(job: JobLook, still: Standstill) -> bool:
    """Whether it lasts longer than any pause of the job itself, and than what is ever told."""
    if still.worked_s:
        least_s = _SUSPECTED_AFTER_S if len(job.gpus) > 1 else _LONE_AFTER_S
        return still.known_s >= max(least_s, _PAUSES * still.longest_pause_s)
    is_watched = still.known_s >= _SILENT_AFTER_S
    return is_watched and still.known_s + _silent_before_s(job, still) >= _UNSEEN_AFTER_S


def _silent_before_s(job: JobLook, still: Standstill) -> float:
    """Seconds of silent output before a standstill that was on already when it was first seen."""
    if still.worked_s or still.first > 0 or began_with_job(job, still.past, still.window_start):
        return 0.0
    silent_s = output_age_s(job)
    if not silent_s > still.known_s:
        return 0.0
    start_at = job.job.start_at or 0.0
    return max(0.0, still.window_start - max(start_at, float(still.past.times[-1]) - silent_s))


def _has_fallen(still: Standstill, places: tuple[int, ...]) -> bool:
    """Whether GPUs that spin show clearly less than their own work did."""
    # What a GPU of the job draws at rest is no work of the others either.
    resting = still.mean("power_w", still.places(State.RESTS))
    floors = {"power_w": resting if isfinite(resting) else 0.0}
    for key in ("sm_active_ratio", "power_w"):
        before, since, floor = (
            still.mean_before(key, places),
            still.mean(key, places),
            floors.get(key, 0.0),
        )
        if isfinite(before) and isfinite(since) and since - floor > _FALL * (before - floor):
            return False
    return True


def _may_sleep(job: JobLook, still: Standstill, faults: Faults) -> bool:
    """Whether all rest behind enough work, and their CPUs poll now, or a GPU of theirs is broken.

    Spares most jobs at rest the host's past.
    """
    if not _all_rest(still) or still.worked_s < SLEEPING_AFTER_WORK_S:
        return False
    if any(gpu.is_lost for gpu in job.gpus) or faults.stopped(job, still.window_start):
        return True
    cores = job.cgroup_past(("job_cpu_cores_used",), _SUSPECTED_AFTER_S).columns
    total = np.nansum(cores["job_cpu_cores_used"], axis=1)
    # One of them may not go on, and so not poll.
    return bool(len(total)) and float(total.max()) >= LEAST_POLL_CORES * (len(still.members) - 1)


def _all_rest(still: Standstill) -> bool:
    """Whether the members rest, but for one that the others wait for, or one in four."""
    count, resting = len(still.members), len(still.places(State.RESTS))
    odd = sum(len(still.places(state)) for state in (State.SILENT, State.ENDLESS, State.SPINS))
    return resting + odd == count and odd <= max(1, count // 4)


def _summary(
    still: Standstill, window: Window, suspects: Suspects, before_s: float, *, is_asleep: bool
) -> str:
    since = since_words(window, not still.worked_s, still.known_s, before_s)
    count = len(still.members)
    if count == 1:
        how = "one kernel runs on its GPU and never ends"
    elif is_asleep:
        how = f"{counted(count, 'GPU')} at rest, its ranks wait asleep"
    else:
        how = f"{len(still.places(State.SPINS))} of {counted(count, 'GPU')} only wait"
    who = f", perhaps for {suspects.who}" if suspects.who else ""
    return f"hangs {since}: {how}{who}"


def _silence(job: JobLook, before_s: float) -> Iterator[Evidence]:
    """What its output tells of the time before it was watched."""
    if before_s:
        silent_s = output_age_s(job)
        text = f"nothing was written to its output for {span(silent_s)}"
        yield Evidence("job_output_age_s", job.subject, text, silent_s)


def _evidence(job: JobLook, still: Standstill, *, is_asleep: bool) -> Iterator[Evidence]:
    """What the GPUs show since then, and what they showed at work."""
    is_lone = len(still.members) == 1
    places = still.members if is_asleep or is_lone else still.places(State.SPINS)
    util, power = (still.mean(key, places) for key in ("gpu_util_ratio", "power_w"))
    parts = [f"utilisation {100 * util:.0f} %"]
    for key, word in _EVIDENT[: 3 if is_lone else 2]:
        share = still.mean(key, places)
        if isfinite(share):
            parts.append(f"{word} {100 * share:.1f} %")
    if isfinite(power):
        parts.append(f"{power:.0f} W")
    what = f"{counted(len(places), 'GPU')}, nothing computed"
    if is_lone:
        what = "the same at each reading, unlike its work before"
    yield Evidence("gpu_util_ratio", job.subject, f"{what}: {', '.join(parts)}", util)
    if not still.worked_s:
        return
    before = [
        f"{word} {factor * still.mean_before(key, places):.0f} {unit}"
        for key, word, factor, unit in (
            ("sm_active_ratio", "SMs", 100, "%"),
            ("power_w", "power", 1, "W"),
        )
        if isfinite(still.mean_before(key, places))
    ]
    if before:
        yield Evidence(
            "power_w", job.subject, f"at work before: {', '.join(before)}",
            still.mean_before("power_w", places) if "power" in before[-1] else None,
        )  # fmt: skip


def _advice(job: JobLook, suspects: Suspects) -> Iterator[str]:
    within = srun_in(job.job)
    if within is not None:
        node = next(iter(suspects.nodes), "")
        where = f" -w {node}" if is_host_name(node) else ""
        pid = "PID" if suspects.pid is None else suspects.pid
        yield f"See where its processes wait: {within}{where} py-spy dump --pid {pid}"
    if len(job.gpus) == 1:
        yield (
            "Attach cuda-gdb to see which kernel runs (info cuda kernels), then cancel the job and "
            "resume from its last checkpoint."
        )
        return
    yield (
        "Save what the ranks recorded (PyTorch's flight recorder), then cancel the job and resume "
        "from its last checkpoint."
    )


def _machine_advice(view: View, suspects: Suspects) -> Iterator[str]:
    for node in suspects.stuck_nodes[:1]:
        yield "A process that waits in the kernel waits for a file system, a driver or a device."
        yield from ask_node(view, node)
