"""A job holds GPUs and has not touched one since it began."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpumon.detect.contract import Detector
from gpumon.model.finding import Confidence, Evidence, Severity, Window
from gpumon_detectors.evidence.gpu_use import (
    NEEDS,
    PAST_S,
    PAUSE_S,
    gpu_use,
    is_still_now,
    was_ever_above,
)
from gpumon_detectors.evidence.host_use import host_use
from gpumon_detectors.evidence.job_commands import look_inside
from gpumon_detectors.evidence.job_context import is_interactive
from gpumon_detectors.evidence.phrases import counted, gib, span
from gpumon_detectors.evidence.stretch import began_with_job, is_open, since_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.detect.view import JobLook, View
    from gpumon.model.finding import Finding
    from gpumon_detectors.evidence.gpu_use import GpuUse
    from gpumon_detectors.evidence.host_use import HostUse


class NeverStarted(Detector):
    """Claims that a job has not touched one of its GPUs since it began.

    Signature: at every sample since the job holds them, all its GPUs have no process, utilisation
    0 and less than `idle_mem_ratio` of their memory in use, and through the window the job's CPUs
    are idle (2 % of what it was given, or less) and nothing is read or written (1 MB/s a node, or
    less). The window begins after the last two minutes in which the job did something.

    *Supported* after 15 minutes: the shortest after which a site warns of idle GPUs
    (Northeastern's IdleBot). *Established* after 60: there the same bot cancels, and Princeton's
    Job Defense Shield warns. Where the job's start was not watched, it is *supported* at most.

    What looks alike: an image that is pulled, packages that are installed, data that are staged:
    CPU or traffic show it. Preprocessing on CPUs, or a program that never finds its GPUs, is
    `cpu_only`. A GPU that was used before is `idle_tail`. A shell or notebook that waits for its
    user is `interactive_idle`. Where no CPU time can be seen the claim stays a *hypothesis*, as
    none of these can be told apart.

    All GPU-seconds of the window are lost.
    """

    name = "never_started"
    version = "1"
    finding_classes = ("never_started",)
    needs = NEEDS
    supported_after_s = 900.0
    established_after_s = 3600.0
    every_s = 10.0

    def __init__(self, idle_mem_ratio: float = 0.01) -> None:
        self.idle_mem_ratio = idle_mem_ratio

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job whose GPUs were never used and that does nothing else either."""
        for job in view.jobs:
            if not is_still_now(job) or (job.latest("process_count") > 0).any():
                continue
            if is_interactive(job):
                continue
            use = gpu_use(job, PAST_S, self.idle_mem_ratio)
            if use is None or use.was_used:
                continue
            if was_ever_above(job, use, ("gpu_util_ratio", "process_count")):
                continue
            host = host_use(view, job, PAST_S)
            first = max(use.empty_row(), use.row_at(host.quiet_since))
            if first < len(use.table.times):
                finding = self._finding(view, job, use, host, first)
                if finding is not None:
                    yield finding

    def _finding(
        self, view: View, job: JobLook, use: GpuUse, host: HostUse, first: int
    ) -> Finding | None:
        window = use.window(first, host.quiet_since)
        length_s = window.end - window.start
        if length_s < PAUSE_S and (job.age_s or 0.0) < self.supported_after_s:
            return None
        count = len(job.gpus)
        is_watched = _is_watched(job, use)
        is_from_start = is_watched and began_with_job(job, use.table, window.start)
        since = (
            f"since it began ({span(length_s)} observed)"
            if is_from_start
            else since_words(window, is_open(job, use, host, first))
        )
        most = Confidence.ESTABLISHED if is_watched else Confidence.SUPPORTED
        return view.finding(
            self,
            subject=job.subject,
            severity=Severity.CRITICAL,
            summary=f"{counted(count, 'GPU')} held and not touched {since}",
            window=window,
            evidence=_evidence(job, use, host, window),
            advice=(
                "Look into the job's output: it may wait for input, a lock, a licence or a peer.",
                "Stage data and install software in a job without GPUs, or use a prebuilt image.",
                *look_inside(job),
            ),
            gpu_seconds=count * length_s,
            at_most=most if host.is_seen else Confidence.HYPOTHESIS,
        )


def _is_watched(job: JobLook, use: GpuUse) -> bool:
    """Whether the GPUs were seen from about the job's start on."""
    times = job.window(job.uuids[0], "process_count", PAST_S).times
    first = min(float(times[0]) if len(times) else float("inf"), float(use.table.begins[0]))
    return began_with_job(job, use.table, first)


def _evidence(job: JobLook, use: GpuUse, host: HostUse, window: Window) -> list[Evidence]:
    most = float(np.nanmax(use.table.columns["mem_used_bytes"]))
    age = "" if job.age_s is None else f", the job is {span(job.age_s)} old"
    return [
        Evidence(
            "process_count",
            job.subject,
            f"{counted(len(job.gpus), 'GPU')}: no process, utilisation 0 %, at most "
            f"{gib(most)} of memory in use, {counted(window.samples, 'sample')}{age}",
            0.0,
        ),
        host.evidence(job, window.start),
    ]
