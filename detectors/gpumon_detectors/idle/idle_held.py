"""Processes hold GPU memory and compute nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.plugin import Confidence, Detector, Evidence, Severity
from gpumon_detectors.evidence.gpu_symptoms import Faults
from gpumon_detectors.evidence.gpu_use import (
    NEEDS,
    PAST_S,
    gpu_use,
    is_still_now,
)
from gpumon_detectors.evidence.host_use import SLEEPING_AFTER_WORK_S, host_use
from gpumon_detectors.evidence.job_commands import inspect_commands
from gpumon_detectors.evidence.job_context import (
    LONGEST_REST_S,
    context_of,
    is_interactive,
    server_doubt,
)
from gpumon_detectors.evidence.phrases import counted, gib
from gpumon_detectors.evidence.stretch import is_open, since_words
from gpumon_detectors.evidence.watched import mean_of
from gpumon_detectors.idle.rest import computes_on_cpus, cpu_evidence, rest_of, was_used_before

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.plugin import Finding, JobLook, View
    from gpumon_detectors.evidence.gpu_use import GpuUse
    from gpumon_detectors.evidence.host_use import HostUse
    from gpumon_detectors.evidence.job_context import JobContext
    from gpumon_detectors.idle.rest import Rest

_INTERACTIVE_S: Final = 7200.0
"""What is named like a session may rest for two hours (the taxonomy's window for these)."""

_LONG_INTERACTIVE_S: Final = 14400.0
"""The sliding window of Princeton's Job Defense Shield."""

_STUCK: Final = "d_state_process_count"
_LATELY_S: Final = 600.0
"""Processes in uninterruptible sleep are counted on average over ten minutes: one that waits for a
read is gone in the next sample (our choice)."""

_ADVICE: Final = (
    "Look at the job's output: it may wait for input, a peer or a lock, or be done.",
    "If the work is done, let the program exit, so that the job ends. A server can exit when idle.",
)


class IdleHeld(Detector):
    """Claims that processes of a job keep GPU memory and let no GPU compute.

    Signature: all its GPUs rest, a process or more than `idle_mem_ratio` of the memory is on at
    least one of them, CPUs are idle (2 % of what the job was given, or less) and nothing is copied,
    read or written above the node's and the GPUs' own background. A GPU rests while its utilisation
    is 0, and its video engines do nothing, in 99 % of the known time, or while its utilisation
    never exceeds 1 % and is below .2 % on average; nine tenths of its samples must be known.

    *Supported* after 30 minutes, and after 120 where the job is named like a session (the
    taxonomy's windows for batch and interactive jobs), *established* after 120 minutes, when
    Princeton's Job Defense Shield cancels, and after 240 for these, the sliding window in which it
    warns. A session itself, as Slurm or the site's portal has it, is `interactive_idle`.

    What looks alike: a server between two requests. Three bursts of work within four hours, none
    longer than 22 minutes, recognise 97 % of real serving windows: such a job is not claimed before
    258 minutes of rest, the longest in the published trace, and is then a *hypothesis*. A job whose
    name or program is a server's stays one too. A batch job stays a *hypothesis* until it was
    watched for four hours, or was seen to work and then rested for 62 minutes, as only one rest in
    a hundred of that trace; after two hours of rest it is *supported* all the same. Checkpoints and
    evaluations copy, write or use CPUs: then the claim comes after 30 minutes, stays a *hypothesis*
    and says so, but where no more than a CPU in ten spins it is *supported* after two hours. A
    neighbour's traffic on a shared node caps the claim alike, unless it came and went for half an
    hour and the job's own CPUs did not follow it, nor suffice for more than a third of what flows
    all the time: to move a byte costs CPU time. Then the claim is
    *supported*, and no more. So it is where GPU processes of other jobs are counted to read and
    write all of that traffic. A job that computes on CPUs and never used its GPUs is `cpu_only`. A
    program stopped in a debugger is mostly in an interactive job; one that is named like a notebook
    is given a session's time. A hang spins: its utilisation is not 0; where the ranks of a parallel
    job worked and now poll on about a CPU each they may hang asleep, and that is `hang`'s to claim.
    Where the driver reports a fault of one of the GPUs from about then on, that is what stopped the
    job (`gpu_fault`). With MIG, and without utilisation, nothing is claimed; without CPU time it is
    a *hypothesis* for four hours.

    A job that rests when gpumon first sees it is claimed at once, as a *hypothesis*, where its
    control group has used next to no CPU time since it began, and uses none now: half a minute for
    each GPU beside what it uses at rest. No GPU can have been at work for long then.

    The loss is the seconds for which the GPUs were seen to rest.
    """

    name = "idle_held"
    version = "2"
    finding_classes = ("idle_held",)
    needs = NEEDS
    supported_after_s = 1800.0
    established_after_s = 7200.0
    every_s = 10.0

    def __init__(self, idle_mem_ratio: float = 0.01, portal_names: str = "") -> None:
        self.idle_mem_ratio = idle_mem_ratio
        self.portal_names = portal_names

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job that holds memory of GPUs and uses none of them."""
        faults = Faults(view)
        for job in view.jobs:
            if not is_still_now(job) or is_interactive(job, self.portal_names):
                continue
            use = gpu_use(view, job, PAST_S, self.idle_mem_ratio)
            if use is None or use.is_empty[-1].all():
                continue
            first = max(use.rest_row(), use.held_row())
            if first == len(use.past.times):
                continue
            host = host_use(view, job, PAST_S)
            was_used = use.has_worked or was_used_before(job, use)
            if not was_used and computes_on_cpus(host, use):
                continue
            rest = rest_of(self, view, job, use, host, first)
            if rest is not None and not faults.stopped(job, rest.window.start):
                yield from self._findings(view, job, use, host, rest)

    def _findings(
        self, view: View, job: JobLook, use: GpuUse, host: HostUse, rest: Rest
    ) -> Iterator[Finding]:
        context = context_of(job, self.portal_names)
        may_hang = _may_hang(job, context, host, rest)
        if context.is_bursty and rest.known_s < LONGEST_REST_S:
            return
        used = use.newest("mem_used_bytes")
        is_open_still = is_open(job, use, host, rest.first)
        since = since_words(rest.window, is_open_still, rest.known_s, rest.before_s)
        yield view.finding(
            self,
            subject=job.subject,
            severity=Severity.CRITICAL,
            summary=f"{counted(len(job.gpus), 'GPU')} idle with {gib(float(used.sum()))} of memory "
            f"held {since}{rest.but}",
            window=rest.window,
            evidence=_evidence(job, use, host, context, rest, may_hang=may_hang),
            advice=(*_ADVICE, *inspect_commands(job)),
            gpu_seconds=rest.gpu_seconds,
            onset=rest.began_at,
            at_most=min(
                _most(context, rest.known_s, may_hang=may_hang),
                rest.at_most,
                key=lambda step: step.rank,
            ),
        )


def _most(context: JobContext, rest_s: float, *, may_hang: bool) -> Confidence:
    """The surest claim that the context allows."""
    if context.is_serving or may_hang:
        return Confidence.HYPOTHESIS
    if context.sounds_interactive:
        if rest_s < _INTERACTIVE_S:
            return Confidence.HYPOTHESIS
        return Confidence.SUPPORTED if rest_s < _LONG_INTERACTIVE_S else Confidence.ESTABLISHED
    return context.rests_for_sure(rest_s)


def _may_hang(job: JobLook, context: JobContext, host: HostUse, rest: Rest) -> bool:
    """Whether its ranks, which worked, poll on about a CPU each: they may wait for one another."""
    count = len(job.gpus)
    is_parallel = count > 1 and context.worked_s >= SLEEPING_AFTER_WORK_S
    gone = int((job.latest("compute_process_count") == 0).sum())
    if not is_parallel:
        return False
    # One that waits in the kernel does not poll either, and nobody says whose process that is.
    halted = gone + _stuck(job)
    return host.polls(rest.window.start, count, halted)


def _stuck(job: JobLook) -> int:
    """Processes of its nodes in uninterruptible sleep of late; whose they are nobody says."""
    past = job.hosts_past((_STUCK,), _LATELY_S)
    if not len(past.times):
        return 0
    count = np.nansum(mean_of(past, _STUCK))
    return int(count + 0.5)


def _evidence(
    job: JobLook, use: GpuUse, host: HostUse, context: JobContext, rest: Rest, *, may_hang: bool
) -> list[Evidence]:
    used, total = (use.newest(key) for key in ("mem_used_bytes", "mem_total_bytes"))
    found = [
        Evidence(
            "gpu_util_ratio",
            job.subject,
            f"{counted(len(job.gpus), 'GPU')}: utilisation 0 %, "
            f"{counted(rest.window.samples, 'sample')}",
            0.0,
        ),
        Evidence(
            "mem_used_bytes",
            job.subject,
            f"{gib(float(used.sum()))} of {gib(float(total.sum()))} of memory held",
            float(used.sum()),
        ),
        *cpu_evidence(job, host, rest),
        *rest.evidence,
    ]
    if rest.before is not None:
        found.append(rest.before.evidence(job))
    if may_hang:
        text = "may hang asleep: its ranks worked, and poll on about a CPU each"
        found.append(Evidence("job_cpu_cores_used", job.subject, text))
    doubt = server_doubt(job, context)
    if doubt is not None:
        found.append(doubt)
    return found
