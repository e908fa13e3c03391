"""The job computes, on CPUs alone, and its GPUs stay unused."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.plugin import LEAST_EVIDENCE_S, Confidence, Detector, Evidence, Severity, Window
from gpumon_detectors.evidence.gpu_use import NEEDS, PAST_S, gpu_use, is_still_now
from gpumon_detectors.evidence.host_use import SLICE_S, host_use
from gpumon_detectors.evidence.job_commands import inspect_commands
from gpumon_detectors.evidence.job_context import context_of, is_interactive, server_doubt
from gpumon_detectors.evidence.phrases import counted, gib, span
from gpumon_detectors.evidence.watched import surest
from gpumon_detectors.idle.rest import CONTEXT_BYTES, SERIAL_CORES, was_used_before
from gpumon_detectors.idle.unwatched import unwatched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.plugin import Finding, JobLook, View
    from gpumon_detectors.evidence.gpu_use import GpuUse
    from gpumon_detectors.evidence.host_use import HostUse

_FILLED: Final = 0.5
"""Share of its CPUs from which on a job computes, whatever it moves beside: installing, compiling
and staging keep a few of them busy. Our choice."""

_ADVICE: Final = (
    "Check that the program finds its GPUs: a CPU-only build runs without them.",
    'If it needs none, run it without --gres or --gpus; partitions: sinfo -o "%P %G"',
    "If this is preprocessing, make it a job of its own, on which the GPU job depends.",
)


class CpuOnly(Detector):
    """Claims that a job computes on CPUs alone and leaves its GPUs unused.

    Signature: all its GPUs rested since the job holds them, while its own CPUs (its cgroup's) are
    busy: at least `busy_cores` cores on average over the window and over the last two minutes. One
    core is what a serial program keeps busy.

    *Supported* after 60 minutes, *established* after 120: for a utilisation of 0 Princeton's Job
    Defense Shield warns at 60 and 105 minutes and cancels at 120. Where the job's start was not
    watched it is *supported* at most, and a *hypothesis* for two hours unless the CPU time since it
    began shows that as many CPUs were busy before.

    What looks alike: a preprocessing stage, an installation or a compilation before the GPUs are
    used, which mostly ends within the hour, so the claim is a *hypothesis* until then; afterwards
    the GPUs were held for nothing all the same. Where less than half of its CPUs are busy and data
    move beside them, what is brought in may take two hours, and the claim stays a *hypothesis* for
    so long. A server that polls for requests keeps a core busy: with more than 1 GiB loaded onto a
    GPU the claim needs a job that was watched for four hours, and stays a *hypothesis* about one
    that is named like a server. A GPU into which more was loaded before the job was watched was
    used (`idle_held`). A session in which a user compiles is `interactive_idle`. Without the job's
    own CPU time nothing is claimed: what a whole node does may be another job's.

    The loss is the seconds for which the GPUs were seen to rest.
    """

    name = "cpu_only"
    version = "2"
    finding_classes = ("cpu_only",)
    needs = (*NEEDS, "job_cpu_cores_used")
    supported_after_s = 3600.0
    established_after_s = 7200.0
    every_s = 10.0

    def __init__(
        self,
        busy_cores: float = SERIAL_CORES,
        idle_mem_ratio: float = 0.01,
        portal_names: str = "",
    ) -> None:
        self.busy_cores = busy_cores
        self.idle_mem_ratio = idle_mem_ratio
        self.portal_names = portal_names

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job that is busy and never used a GPU."""
        for job in view.jobs:
            if not is_still_now(job) or not self._may_apply(job):
                continue
            if is_interactive(job, self.portal_names):
                continue
            use = gpu_use(view, job, PAST_S, self.idle_mem_ratio)
            if use is None or use.has_worked or was_used_before(job, use):
                continue
            first = use.rest_row()
            if first == len(use.past.times):
                continue
            host = host_use(view, job, PAST_S)
            if not host.is_own or not self._is_busy(host, use):
                continue
            finding = self._finding(view, job, use, host, first)
            if finding is not None:
                yield finding

    def _may_apply(self, job: JobLook) -> bool:
        """Whether the newest CPU time alone allows the claim; spares most jobs the windows."""
        cores = job.cgroup(("job_cpu_cores_used",), SLICE_S).columns["job_cpu_cores_used"]
        return bool(len(cores)) and bool(np.nansum(cores, axis=1).max() >= self.busy_cores)

    def _is_busy(self, host: HostUse, use: GpuUse) -> bool:
        """Whether the job's CPUs compute, over the window and now."""
        times = use.past.times
        begin, late = float(times[0]), float(times[-1]) - SLICE_S
        return min(host.mean_cores(begin), host.mean_cores(max(begin, late))) >= self.busy_cores

    def _finding(
        self, view: View, job: JobLook, use: GpuUse, host: HostUse, first: int
    ) -> Finding | None:
        past, idle_s = use.past, use.idle_seconds(first)
        begin = float(past.begins[first])
        window = Window(begin, float(past.times[-1]), len(past.times) - first)
        known_s = float(idle_s.mean())
        if known_s < LEAST_EVIDENCE_S:
            return None
        used = past.columns["mem_used_bytes"][first:]
        is_loaded = bool((used > CONTEXT_BYTES).any())
        context = context_of(job, self.portal_names) if is_loaded else None
        doubts = []
        if context is not None and (doubt := server_doubt(job, context)) is not None:
            doubts.append(doubt)
        count = counted(len(job.gpus), "GPU")
        busy = host.mean_cores(begin)
        most = Confidence.HYPOTHESIS if doubts else Confidence.ESTABLISHED
        is_long = known_s >= self.established_after_s
        before = unwatched(job, use.past, host, begin)
        if before is not None:
            is_open = not (is_long or before.is_like(busy))
            open_most = Confidence.HYPOTHESIS if is_open else Confidence.SUPPORTED
            most = min(most, open_most, key=lambda step: step.rank)
        moved = _moved(job, host, begin, busy)
        if moved is not None and not is_long:
            most = Confidence.HYPOTHESIS
            doubts.append(moved)
        evidence = [
            Evidence(
                "gpu_util_ratio",
                job.subject,
                f"{count}: utilisation 0 %, at most {gib(float(np.nanmax(used)))} of memory in use "
                f"on one, {counted(window.samples, 'sample')}",
                0.0,
            ),
            host.evidence(job, begin),
        ]
        if before is not None:
            evidence.append(before.evidence(job))
        evidence += doubts
        return view.finding(
            self,
            subject=job.subject,
            severity=Severity.CRITICAL,
            summary=f"computes on {busy:.1f} CPUs and has not used its {count} "
            f"({span(known_s)} observed)",
            window=window,
            evidence=evidence,
            advice=(*_ADVICE, *inspect_commands(job)),
            gpu_seconds=float(idle_s.sum()),
            at_most=surest(self, known_s, window.samples, most),
        )


def _moved(job: JobLook, host: HostUse, since: float, cores: float) -> Evidence | None:
    """That data move beside few busy CPUs, as they do while packages or data are brought in."""
    moving = [flow for flow in host.flows if not flow.is_cpu and flow.mean(since) > flow.limit]
    if not moving or cores >= _FILLED * (job.cores or inf):
        return None
    most = max(moving, key=lambda flow: flow.mean(since))
    rate = most.mean(since)
    text = f"may be a long start: {rate / 1e6:.1f} MB/s {most.what} beside few busy CPUs"
    return Evidence(most.key, job.subject, text, rate)
