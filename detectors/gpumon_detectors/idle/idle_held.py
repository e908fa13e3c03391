"""Processes hold GPU memory and compute nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.detect.contract import Detector
from gpumon.model.finding import Confidence, Evidence, Severity
from gpumon_detectors.evidence.gpu_use import (
    NEEDS,
    PAST_S,
    PAUSE_S,
    any_since,
    gpu_use,
    is_still_now,
)
from gpumon_detectors.evidence.host_use import host_use
from gpumon_detectors.evidence.job_commands import look_inside
from gpumon_detectors.evidence.job_context import LONGEST_REST_S, SERVING_SPAN_S, context_of
from gpumon_detectors.evidence.phrases import counted, gib, span
from gpumon_detectors.evidence.stretch import is_open, since_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.detect.view import JobLook, View
    from gpumon.model.finding import Finding, Window
    from gpumon_detectors.evidence.gpu_use import GpuUse
    from gpumon_detectors.evidence.host_use import HostUse
    from gpumon_detectors.evidence.job_context import JobContext

_INTERACTIVE_S: Final = 7200.0
"""An interactive session may rest for two hours (the taxonomy's window for these)."""

_LONG_INTERACTIVE_S: Final = 14400.0
"""The sliding window of Princeton's Job Defense Shield."""

_ADVICE: Final = (
    "Look into the job's output: it may wait for input, a peer or a lock, or be done.",
    "If the work is done, let the program exit, so that the job ends. A server can exit when idle.",
)


class IdleHeld(Detector):
    """Claims that processes of a job keep GPU memory and let no GPU compute.

    Signature: all its GPUs at utilisation 0 at every sample of the window, no copies over PCIe, no
    video engine at work, a process or more than `idle_mem_ratio` of the memory on at least one of
    them, CPUs idle (2 % of what the job was given, or less) and nothing read or written.

    *Supported* after 30 minutes for batch jobs and after 120 for interactive ones (the taxonomy's
    windows), *established* after 120 minutes, when Princeton's Job Defense Shield cancels, and
    after 240 for interactive ones, the sliding window in which it warns.

    What looks alike: a server between two requests. Three bursts of work within four hours
    recognise 97 % of real serving windows, so a job that was watched for less than four hours
    stays a *hypothesis*; one that worked in such bursts, or whose name or program is a server's,
    is not claimed before 258 minutes of rest, the longest in the published trace, and is then a
    *hypothesis*. Checkpoints and evaluations copy, write or use CPUs. A program stopped in a
    debugger is mostly in an interactive job, which has its longer window. A hang spins: its
    utilisation is not 0, or it belongs to that class. With MIG, and without utilisation, nothing is
    claimed; without CPU time the claim stays a *hypothesis*.

    All GPU-seconds of the window are lost.
    """

    name = "idle_held"
    version = "1"
    finding_classes = ("idle_held",)
    needs = NEEDS
    supported_after_s = 1800.0
    established_after_s = 7200.0
    every_s = 10.0

    def __init__(self, idle_mem_ratio: float = 0.01) -> None:
        self.idle_mem_ratio = idle_mem_ratio

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job that holds memory of GPUs and uses none of them."""
        for job in view.jobs:
            if not is_still_now(job):
                continue
            use = gpu_use(job, PAST_S, self.idle_mem_ratio)
            if use is None or use.is_empty[-1].all():
                continue
            host = host_use(view, job, PAST_S)
            held_row = any_since(use.is_still & ~use.is_empty)
            first = max(use.still_row(), use.row_at(host.quiet_since), held_row)
            if first < len(use.table.times):
                finding = self._finding(view, job, use, host, first)
                if finding is not None:
                    yield finding

    def _finding(
        self, view: View, job: JobLook, use: GpuUse, host: HostUse, first: int
    ) -> Finding | None:
        window = use.window(first, host.quiet_since)
        length_s = window.end - window.start
        if length_s < PAUSE_S:
            return None
        context = context_of(job)
        if context.is_serving and length_s < LONGEST_REST_S:
            return None
        count = len(job.gpus)
        used = use.table.columns["mem_used_bytes"][-1]
        return view.finding(
            self,
            subject=job.subject,
            severity=Severity.CRITICAL,
            summary=f"{counted(count, 'GPU')} idle with {gib(float(used.sum()))} of memory held "
            f"{since_words(window, is_open(job, use, host, first))}",
            window=window,
            evidence=_evidence(job, use, host, context, window),
            advice=(*_ADVICE, *look_inside(job)),
            gpu_seconds=count * length_s,
            at_most=_most(context, host, length_s),
        )


def _most(context: JobContext, host: HostUse, length_s: float) -> Confidence:
    """The surest claim that the context allows."""
    if not host.is_seen or context.is_serving:
        return Confidence.HYPOTHESIS
    if context.is_interactive:
        if length_s < _INTERACTIVE_S:
            return Confidence.HYPOTHESIS
        return Confidence.SUPPORTED if length_s < _LONG_INTERACTIVE_S else Confidence.ESTABLISHED
    return Confidence.ESTABLISHED if context.is_settled else Confidence.HYPOTHESIS


def _evidence(
    job: JobLook, use: GpuUse, host: HostUse, context: JobContext, window: Window
) -> list[Evidence]:
    used, total = (use.table.columns[key][-1] for key in ("mem_used_bytes", "mem_total_bytes"))
    found = [
        Evidence(
            "gpu_util_ratio",
            job.subject,
            f"{counted(len(job.gpus), 'GPU')}: utilisation 0 %, "
            f"{counted(window.samples, 'sample')}",
            0.0,
        ),
        Evidence(
            "mem_used_bytes",
            job.subject,
            f"{gib(float(used.sum()))} of {gib(float(total.sum()))} of memory held",
            float(used.sum()),
        ),
        host.evidence(job, window.start),
    ]
    if context.is_serving:
        found.append(Evidence("job", job.subject, f"may be a server: {context.why}"))
    elif not context.is_settled and not context.is_interactive:
        text = (
            f"watched for {span(context.watched_s)} of the {span(SERVING_SPAN_S)} after which a "
            "server between two requests can be ruled out"
        )
        found.append(Evidence("job", job.subject, text, context.watched_s))
    return found
