"""The work is done and the GPUs are not given back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.detect.contract import Detector
from gpumon.model.finding import Confidence, Evidence, Severity
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
from gpumon_detectors.evidence.job_context import LONGEST_REST_S, context_of
from gpumon_detectors.evidence.phrases import counted, gib
from gpumon_detectors.evidence.stretch import is_open, since_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.detect.view import JobLook, View
    from gpumon.model.finding import Finding
    from gpumon_detectors.evidence.gpu_use import GpuUse
    from gpumon_detectors.evidence.host_use import HostUse

_ADVICE: Final = (
    "Let the batch script end when the work does, also when a step fails: no sleep behind it.",
    "Upload and evaluate in a second job without GPUs: sbatch --dependency=afterok:ID",
)


class IdleTail(Detector):
    """Claims that a job has finished with its GPUs and still holds them.

    Signature: the job used its GPUs, and since then all of them are without process, at
    utilisation 0 and with less than `idle_mem_ratio` of their memory in use, while its CPUs are
    idle (2 % of what it was given, or less) and nothing is read or written (1 MB/s a node, or
    less). The window begins when the last of these came true.

    *Supported* after 15 minutes (the taxonomy's window; Northeastern's IdleBot writes a mail
    then), *established* after 60, when that bot cancels.

    What looks alike: a last upload, a copy to the archive, an evaluation on CPUs: traffic or CPU
    time show it, and the claim waits until they end. A pause between two programs of one script is
    shorter, or has CPU time. A server that unloads its model between requests worked in bursts,
    or is named like one. A process that keeps its memory is `idle_held`; a user who left the
    program and kept the shell is `interactive_idle`. Where no CPU time can be seen, the claim
    stays a *hypothesis*.

    All GPU-seconds of the window are lost.
    """

    name = "idle_tail"
    version = "1"
    finding_classes = ("idle_tail",)
    needs = NEEDS
    supported_after_s = 900.0
    established_after_s = 3600.0
    every_s = 10.0

    def __init__(self, idle_mem_ratio: float = 0.01) -> None:
        self.idle_mem_ratio = idle_mem_ratio

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job whose processes have left its GPUs for good, as far as one sees."""
        for job in view.jobs:
            if not is_still_now(job) or (job.latest("process_count") > 0).any():
                continue
            use = gpu_use(job, PAST_S, self.idle_mem_ratio)
            if use is None or not was_ever_above(job, use, ("gpu_util_ratio", "process_count")):
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
        context = context_of(job)
        is_resting = context.is_serving and length_s < LONGEST_REST_S
        if length_s < PAUSE_S or context.is_interactive or is_resting:
            return None
        count = len(job.gpus)
        used = use.table.columns["mem_used_bytes"][first:]
        return view.finding(
            self,
            subject=job.subject,
            severity=Severity.WARNING,
            summary=f"{counted(count, 'GPU')} done and not given back "
            f"{since_words(window, is_open(job, use, host, first))}",
            window=window,
            evidence=(
                Evidence(
                    "process_count",
                    job.subject,
                    f"{counted(count, 'GPU')}, used before: no process, utilisation 0 %, at most "
                    f"{gib(float(np.nanmax(used)))} of memory in use, "
                    f"{counted(window.samples, 'sample')}",
                    0.0,
                ),
                host.evidence(job, window.start),
            ),
            advice=(*_ADVICE, *look_inside(job)),
            gpu_seconds=count * length_s,
            at_most=Confidence.ESTABLISHED if host.is_seen else Confidence.HYPOTHESIS,
        )
