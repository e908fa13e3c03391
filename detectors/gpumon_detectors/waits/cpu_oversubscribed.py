"""A job with many more processes than CPUs, for which its GPUs wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.plugin import Detector, Evidence
from gpumon_detectors.evidence.job_commands import srun_in
from gpumon_detectors.evidence.phrases import counted
from gpumon_detectors.waits.causes import Cause
from gpumon_detectors.waits.claim import (
    WaitVerdict,
    busy_evidence,
    claimed,
    cpu_evidence,
    io_evidence,
    waiting_jobs,
)
from gpumon_detectors.waits.gpu_rows import mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.plugin import Finding, JobLook, View
    from gpumon_detectors.waits.causes import Waits


class CpuOversubscribed(Detector):
    """Claims that a job runs many more processes or threads than it has CPUs, and its GPUs wait.

    Signature: that of `input_bound`, and beside its ranks the job has at least twice as many
    processes as CPUs; or, alone on its nodes, at least three tasks for each CPU that run or want
    to; either way more than 16 for each GPU, as fewer are no more loaders than usual, on too few
    CPUs, which is `input_bound`. Threads are not counted by the kernel for each job, so those of a
    few processes on a shared node are taken for `input_bound`.

    A *hypothesis* after 5 minutes, *supported* after 10, *established* after 30; the claim stays
    lower where that of `input_bound` does. The loss is the share of the time in which no kernel
    runs, over that of the job's own steps.
    """

    name = "cpu_oversubscribed"
    version = "1"
    finding_classes = ("cpu_oversubscribed",)
    needs = ("gpu_util_ratio", "job_cpu_cores_used", "job_process_count")
    supported_after_s = 600.0
    established_after_s = 1800.0
    every_s = 30.0

    def __init__(self, portal_names: str = "") -> None:
        self.portal_names = portal_names

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job whose threads crowd its CPUs."""
        for job, waits in waiting_jobs(view, Cause.CROWD):
            if waits.host.is_own or waits.host.is_alone:
                verdict = _verdict(job, waits)
                yield claimed(self, view, job, waits, verdict, self.portal_names)


def _verdict(job: JobLook, waits: Waits) -> WaitVerdict:
    share = 100 * waits.lost_share
    what = f"GPUs wait {share:.0f} % of the time for too many threads on full CPUs"
    return WaitVerdict(
        what,
        (
            busy_evidence(job, waits),
            cpu_evidence(job, waits),
            *_crowd(job, waits),
            *io_evidence(job, waits),
        ),
        tuple(_advice(job)),
    )


def _crowd(job: JobLook, waits: Waits) -> Iterator[Evidence]:
    host = waits.host
    if host.processes == host.processes:
        processes = counted(round(host.processes), "process")
        text = f"{processes} on {counted(round(host.allowed), 'CPU')}"
        yield Evidence("job_process_count", job.subject, text, host.processes)
    if host.is_alone and host.load == host.load:
        text = f"{host.load:.0f} tasks run or want to on its nodes"
        yield Evidence("load_1m", job.subject, text, host.load)
    waited = mean(host.cpu_pressure[waits.first :], waits.rows.seconds[waits.first :])
    if waited == waited:
        text = f"some task of the job waits for a CPU for {100 * waited:.0f} % of the time"
        yield Evidence("job_cpu_pressure_some_ratio", job.subject, text, waited)


def _advice(job: JobLook) -> Iterator[str]:
    yield (
        "Start no more loaders than CPUs, and keep each to one thread: OMP_NUM_THREADS=1, "
        "torch.set_num_threads(1), cv2.setNumThreads(0)."
    )
    within = srun_in(job.job)
    if within is not None:
        yield f"How many threads each process has: {within} ps -eo nlwp,pcpu,comm --sort=-nlwp"
