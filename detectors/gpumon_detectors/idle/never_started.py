"""A job holds GPUs and has not touched one since it began."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpumon.plugin import Confidence, Detector, Evidence, Severity
from gpumon_detectors.evidence.gpu_use import (
    NEEDS,
    PAST_S,
    gpu_use,
    is_still_now,
    no_process,
    was_ever_above,
)
from gpumon_detectors.evidence.host_use import host_use
from gpumon_detectors.evidence.job_commands import inspect_commands
from gpumon_detectors.evidence.job_context import is_interactive
from gpumon_detectors.evidence.phrases import counted, gib, span
from gpumon_detectors.evidence.stretch import began_with_job, is_open, since_words
from gpumon_detectors.idle.rest import computes_on_cpus, cpu_evidence, rest_of
from gpumon_detectors.idle.unwatched import unwatched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.plugin import Finding, JobLook, View
    from gpumon_detectors.evidence.gpu_use import GpuUse
    from gpumon_detectors.evidence.host_use import HostUse
    from gpumon_detectors.idle.rest import Rest
    from gpumon_detectors.idle.unwatched import Unwatched


class NeverStarted(Detector):
    """Claims that a job has not touched one of its GPUs since it began.

    Signature: since the job holds them, all its GPUs have no process, utilisation 0 and less than
    `idle_mem_ratio` of their memory in use, and the job's CPUs are idle (2 % of what it was given,
    or less) and nothing is read or written above the node's own background. The window begins
    after the last two minutes in which the job did something.

    *Supported* after 15 minutes: the shortest after which a site warns of idle GPUs (Northeastern's
    IdleBot). *Established* after 60: there the same bot cancels, and Princeton's Job Defense Shield
    warns. Where the job's start was not watched, it is *supported* at most, and only where the CPU
    time that the job has used since it began is what it uses at rest: no GPU can have worked for
    long then, and where the job sleeps that is claimed at once, as a *hypothesis*. Where that time
    shows work, the GPUs were used (`idle_tail`); in between, and where it is not known, the claim
    is a *hypothesis*.

    What looks alike: an image that is pulled, packages that are installed, data that are staged.
    Where CPUs or traffic show such work, or a neighbour's traffic could be it, the claim comes
    after 15 minutes, stays a *hypothesis* and says so; where no more than a CPU in ten spins it is
    *supported* after two hours. A neighbour's traffic that came and went for half an hour, while
    the job's own CPUs did not follow it, is not the job's: then the claim is *supported*, and no
    more, as a daemon may move data for a job. So is what processes of other jobs, on their GPUs,
    are counted to read and write. Of what flows all the time a third may be the job's, as far as
    its CPU time suffices. Preprocessing on CPUs, or a program that never finds its GPUs, is
    `cpu_only`. A GPU that was used before is `idle_tail`. A session that waits for its
    user is `interactive_idle`. Where no CPU time can be seen the claim stays a *hypothesis* for
    four hours.

    The loss is the seconds for which the GPUs were seen to rest.
    """

    name = "never_started"
    version = "2"
    finding_classes = ("never_started",)
    needs = NEEDS
    supported_after_s = 900.0
    established_after_s = 3600.0
    every_s = 10.0

    def __init__(self, idle_mem_ratio: float = 0.01, portal_names: str = "") -> None:
        self.idle_mem_ratio = idle_mem_ratio
        self.portal_names = portal_names

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job whose GPUs were never used and that does nothing else either."""
        for job in view.jobs:
            if not is_still_now(job) or (job.latest("compute_process_count") > 0).any():
                continue
            if is_interactive(job, self.portal_names):
                continue
            use = gpu_use(view, job, PAST_S, self.idle_mem_ratio)
            if use is None or use.was_used:
                continue
            if was_ever_above(job, use, ("gpu_util_ratio", "compute_process_count")):
                continue
            host = host_use(view, job, PAST_S)
            first = use.empty_row()
            if first == len(use.past.times) or computes_on_cpus(host, use):
                continue
            rest = rest_of(self, view, job, use, host, first)
            if rest is None:
                continue
            before = rest.before or unwatched(job, use.past, host, rest.window.start)
            if before is None or not before.has_worked:
                yield self._finding(view, job, use, host, rest, before)

    def _finding(
        self,
        view: View,
        job: JobLook,
        use: GpuUse,
        host: HostUse,
        rest: Rest,
        before: Unwatched | None,
    ) -> Finding:
        is_watched = before is None
        is_from_start = is_watched and began_with_job(job, use.past, rest.window.start)
        since = (
            f"since it began ({span(rest.known_s)} observed)"
            if is_from_start
            else since_words(
                rest.window, is_open(job, use, host, rest.first), rest.known_s, rest.before_s
            )
        )
        evidence = _evidence(job, use, host, rest)
        most = Confidence.ESTABLISHED
        if before is not None:
            evidence.append(before.evidence(job))
            most = Confidence.SUPPORTED if before.has_rested else Confidence.HYPOTHESIS
        return view.finding(
            self,
            subject=job.subject,
            severity=Severity.CRITICAL,
            summary=f"{counted(len(job.gpus), 'GPU')} held and not touched {since}{rest.but}",
            window=rest.window,
            evidence=evidence,
            advice=(
                "Look at the job's output: it may wait for input, a lock, a licence or a peer.",
                "Stage data and install software in a job without GPUs, or use a prebuilt image.",
                *inspect_commands(job),
            ),
            gpu_seconds=rest.gpu_seconds,
            onset=rest.began_at,
            at_most=min(most, rest.at_most, key=lambda step: step.rank),
        )


def _evidence(job: JobLook, use: GpuUse, host: HostUse, rest: Rest) -> list[Evidence]:
    most = float(np.nanmax(use.past.columns["mem_used_bytes"]))
    age = "" if job.age_s is None else f", the job is {span(job.age_s)} old"
    return [
        Evidence(
            "compute_process_count",
            job.subject,
            f"{counted(len(job.gpus), 'GPU')}: {no_process(job)}, utilisation 0 %, at most "
            f"{gib(most)} of memory in use, {counted(rest.window.samples, 'sample')}{age}",
            0.0,
        ),
        *cpu_evidence(job, host, rest),
        *rest.evidence,
    ]
