"""A job that compiles again and again while its GPUs wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpumon.plugin import Detector, Evidence
from gpumon_detectors.evidence.job_commands import srun_in
from gpumon_detectors.evidence.job_context import context_of
from gpumon_detectors.evidence.phrases import counted, span
from gpumon_detectors.waits.causes import compiling
from gpumon_detectors.waits.claim import WaitVerdict, busy_evidence, claimed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.plugin import Finding, JobLook, View
    from gpumon_detectors.waits.causes import Waits
    from gpumon_detectors.waits.pauses import Pauses, Stir


class Recompiling(Detector):
    """Claims that a program compiles again and again while its GPUs wait.

    Signature: after the job's first half hour its GPUs pause at least five times, with a minute of
    work or more in between and for more than 10 % of the time; no kernel runs in the pauses, the
    program keeps its memory, and each rank keeps about one CPU busy, up to four and a half as
    compilers have workers; nothing is read or written, nor, beside neighbours that do, more than
    between the pauses, on average over all of them; and the pauses are of different lengths, as
    each new shape takes its own time, mostly below two and a half minutes.

    Claimed after 30 minutes, and a *hypothesis* at most: breaks between files or batches look the
    same to counters. Of sessions, and of what works in bursts as servers do, nothing is claimed.

    What looks alike: a compilation at the start is over after half an hour; a checkpoint writes; a
    program that prepares its next piece of work keeps more CPUs busy and takes about as long each
    time; a server's CPUs rest; a program that waits for copies copies in its pauses, too. Without a
    control group nothing is claimed. Samples of a moment meet quick waits at random, and that looks
    like pauses of a sample or two: where rest and work change as often as chance would have it,
    nothing is claimed; where it is hardly rarer, as with compilations that are about as long as the
    time between two samples, the claim says so.

    The loss is all the time of the pauses since the job's first ten minutes, counted over whole
    rounds of work and pause.
    """

    name = "recompiling"
    version = "1"
    finding_classes = ("recompiling",)
    needs = ("gpu_util_ratio", "job_cpu_cores_used")
    supported_after_s = 1800.0
    established_after_s = 3600.0
    every_s = 60.0
    longest_period_s = 30.0

    def __init__(self, portal_names: str = "") -> None:
        self.portal_names = portal_names

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job that pauses to compile."""
        for job in view.jobs:
            waits = compiling(view, job)
            if waits is None or waits.pauses is None or waits.stir is None:
                continue
            if waits.rows.seen_s(waits.first) < self.supported_after_s:
                continue
            context = context_of(job, self.portal_names)
            if not (context.is_interactive or context.is_bursty):
                verdict = _verdict(job, waits, waits.pauses, waits.stir)
                yield claimed(self, view, job, waits, verdict, self.portal_names)


def _verdict(job: JobLook, waits: Waits, pauses: Pauses, stir: Stir) -> WaitVerdict:
    what = f"seems to compile again and again, GPUs wait {100 * waits.lost_share:.0f} % of the time"
    lengths = pauses.lengths()
    low, high = (span(float(np.percentile(lengths, rank))) for rank in (10, 90))
    text = f"{counted(len(pauses.found), 'pause')} of {low} to {high}, memory held, nothing written"
    each = stir.cores / len(waits.rows.members)
    busy = f"{each:.1f} CPUs a rank busy in them"
    evidence = (
        busy_evidence(job, waits),
        Evidence("gpu_util_ratio", job.subject, text, float(np.median(lengths))),
        Evidence("job_cpu_cores_used", job.subject, busy, each),
    )
    return WaitVerdict(what, evidence, tuple(_advice(job)))


def _advice(job: JobLook) -> Iterator[str]:
    yield "Find out why: TORCH_LOGS=recompiles; pad shapes that change, or mark them dynamic."
    within = srun_in(job.job)
    if within is not None:
        yield f"See what it does in a pause: {within} py-spy dump --pid PID"
