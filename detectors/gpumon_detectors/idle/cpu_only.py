"""The job computes, on CPUs alone, and its GPUs stay unused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.detect.contract import Detector
from gpumon.model.finding import Confidence, Evidence, Severity, Window
from gpumon_detectors.evidence.gpu_use import NEEDS, gpu_use, is_still_now, was_ever_above
from gpumon_detectors.evidence.host_use import SLICE_S, host_use
from gpumon_detectors.evidence.job_commands import look_inside
from gpumon_detectors.evidence.job_context import context_of
from gpumon_detectors.evidence.phrases import counted, gib, span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.detect.view import JobLook, View
    from gpumon.model.finding import Finding
    from gpumon_detectors.evidence.gpu_use import GpuUse
    from gpumon_detectors.evidence.host_use import HostUse
    from gpumon_detectors.evidence.job_context import JobContext

_SPAN_S: Final = 4 * 3600.0
"""How far back the window reaches: beyond *established*."""

_CONTEXT_BYTES: Final = 2.0**30
"""A program that merely opens a GPU holds half a GiB; with more, something was loaded into it."""

_ADVICE: Final = (
    "Check that the program finds its GPUs: a build for CPUs runs all the same.",
    'If it needs none, run it without --gres or --gpus; partitions: sinfo -o "%P %G"',
    "If this is preprocessing, make it a job of its own, on which the GPU job depends.",
)


class CpuOnly(Detector):
    """Claims that a job computes on CPUs alone and leaves its GPUs unused.

    Signature: utilisation of all its GPUs 0 at every sample since the job holds them, while its
    own CPUs (its cgroup's) are busy: at least `busy_cores` cores on average over the window and
    over the last two minutes. One core is what a serial program keeps busy.

    *Supported* after 60 minutes, *established* after 120: for a utilisation of 0 Princeton's Job
    Defense Shield warns at 60 and 105 minutes and cancels at 120.

    What looks alike: a preprocessing stage, an installation or a compilation before the GPUs are
    used, which is mostly through within the hour and is why the claim is a *hypothesis* until
    then; afterwards the GPUs were held for nothing all the same. A server that polls for requests
    keeps a core busy: with more than 1 GiB loaded onto a GPU the claim needs a job that was
    watched for four hours, and is not made about one that is named like a server. A session of
    somebody who compiles is `interactive_idle`. Without the job's own CPU time nothing is claimed:
    what a whole node does may be another job's.

    All GPU-seconds of the window are lost.
    """

    name = "cpu_only"
    version = "1"
    finding_classes = ("cpu_only",)
    needs = (*NEEDS, "job_cpu_cores_used")
    supported_after_s = 3600.0
    established_after_s = 7200.0
    every_s = 10.0

    def __init__(self, busy_cores: float = 0.8, idle_mem_ratio: float = 0.01) -> None:
        self.busy_cores = busy_cores
        self.idle_mem_ratio = idle_mem_ratio

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job that is busy and never used a GPU."""
        for job in view.jobs:
            if not is_still_now(job) or not self._may_apply(job):
                continue
            use = gpu_use(job, _SPAN_S, self.idle_mem_ratio)
            if use is None or use.still_row() > 0:
                continue
            host = host_use(view, job, _SPAN_S)
            if not host.is_own or not self._is_busy(host, use):
                continue
            context = context_of(job)
            is_loaded = bool((use.table.columns["mem_used_bytes"] > _CONTEXT_BYTES).any())
            if context.is_interactive or (is_loaded and context.is_serving):
                continue
            if not was_ever_above(job, use, ("gpu_util_ratio",)):
                yield _finding(self, view, job, use, host, _most(context, is_loaded=is_loaded))

    def _may_apply(self, job: JobLook) -> bool:
        """Whether the newest CPU time alone allows the claim; spares most jobs the windows."""
        cores = job.cgroup(("job_cpu_cores_used",), SLICE_S).columns["job_cpu_cores_used"]
        return bool(len(cores)) and bool(cores.sum(axis=1).max() >= self.busy_cores)

    def _is_busy(self, host: HostUse, use: GpuUse) -> bool:
        """Whether the job's CPUs compute, over the window and now."""
        times = use.table.times
        begin, late = float(times[0]), float(times[-1]) - SLICE_S
        return min(host.mean_cores(begin), host.mean_cores(max(begin, late))) >= self.busy_cores


def _most(context: JobContext, *, is_loaded: bool) -> Confidence:
    """The surest claim that the context allows."""
    is_open = is_loaded and not context.is_settled
    return Confidence.HYPOTHESIS if is_open else Confidence.ESTABLISHED


def _finding(
    detector: CpuOnly, view: View, job: JobLook, use: GpuUse, host: HostUse, most: Confidence
) -> Finding:
    times = use.table.times
    window = Window(float(times[0]), float(times[-1]), len(times))
    length_s = window.end - window.start
    count = len(job.gpus)
    used = use.table.columns["mem_used_bytes"]
    busy = host.mean_cores(window.start)
    return view.finding(
        detector,
        subject=job.subject,
        severity=Severity.CRITICAL,
        summary=f"computes on {busy:.1f} CPUs and has not used its {counted(count, 'GPU')} "
        f"({span(length_s)} observed)",
        window=window,
        evidence=(
            Evidence(
                "gpu_util_ratio",
                job.subject,
                f"{counted(count, 'GPU')}: utilisation 0 %, at most {gib(float(used.max()))} of "
                f"memory in use on one, {counted(window.samples, 'sample')}",
                0.0,
            ),
            host.evidence(job, window.start),
        ),
        advice=(*_ADVICE, *look_inside(job)),
        gpu_seconds=count * length_s,
        at_most=most,
    )
