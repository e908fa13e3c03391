"""A job whose GPUs wait for data that its CPUs prepare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.plugin import Detector, Evidence
from gpumon_detectors.evidence.job_commands import srun_in
from gpumon_detectors.evidence.phrases import counted
from gpumon_detectors.waits.causes import Cause, compiling
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


class InputBound(Detector):
    """Claims that a job's GPUs wait for data that its CPUs prepare.

    Signature: kernels run for less than 80 % of the time, even if such short samples missed some,
    and a few run in nearly every two minutes, or, where samples of a moment miss most of them, in
    as random an order as these meet quick waits; the job keeps at least 85 % of the CPUs that it
    may use busy all the while (lulls of up to five minutes, as for an evaluation, apart), and where
    it is known for how long some task waits for a CPU, that is 2 % of the time or more; and its
    tasks do not wait for I/O for as much as 30 % of the time in which the GPUs wait. Or, where CPUs
    are left: processes of the job that hold no GPU keep a whole CPU each full, the same number all
    the while, and what drives the GPU sleeps in three quarters of its rests at least. Or, with one
    GPU: what drives it never sleeps, no other process of the job is as busy, kernels run for half
    of the time at most and fill half of the SMs then, and copies are few; what it does then only a
    profile can show, so that is always a *hypothesis*. CPUs and I/O are those of its control group.

    A *hypothesis* after 5 minutes, *supported* after 10, *established* after 30. Utilisation is
    that of a moment, so 30 samples of it are needed as well: at a period of 60 s that is half an
    hour.

    What looks alike: with many more processes than CPUs it is `cpu_oversubscribed`, with tasks in
    I/O `storage_bound`. Nothing is claimed of work and rest in stretches of minutes, even where
    CPUs never rest. A program that prepares a chunk on CPUs and then works through it on GPUs rests
    its CPUs meanwhile: where they may rest, it stays a *hypothesis*. It also does with fewer than
    two CPUs a GPU for which hardly anything competes, as the program that drives the GPU may fill
    them; with one GPU that sends back as much as it gets; for a session; and for a job that is
    called a server or works in bursts like one. Bursts that are only an effect of sampling quick
    waits do not count. Where it is unknown whether tasks wait for I/O it stays one, too, unless at
    least 95 % of the CPUs are busy and the GPUs work for a quarter of the time at most. Without a
    control group the CPU time of whole nodes counts, which is a *hypothesis* at most, and nothing
    where other jobs are on them.

    The loss is the share of the time in which no kernel runs, no more than that without busy SMs,
    over that of the job's own steps without waits: as it was seen before, else 97 %.
    """

    name = "input_bound"
    version = "1"
    finding_classes = ("input_bound",)
    needs = ("gpu_util_ratio", "job_cpu_cores_used")
    supported_after_s = 600.0
    established_after_s = 1800.0
    every_s = 30.0

    def __init__(self, portal_names: str = "") -> None:
        self.portal_names = portal_names

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job whose CPUs do not keep up."""
        for job, waits in waiting_jobs(view, Cause.DATA):
            if waits.host.is_own or waits.host.is_alone:
                verdict = _verdict(job, waits)
                yield claimed(self, view, job, waits, verdict, self.portal_names)
        for job, waits in waiting_jobs(view, Cause.PROGRAM):
            if compiling(view, job) is None:
                yield claimed(self, view, job, waits, _verdict(job, waits), self.portal_names)


def _verdict(job: JobLook, waits: Waits) -> WaitVerdict:
    why = "its CPUs are full"
    if waits.loaders:
        why = f"its {counted(waits.loaders, 'loader')} never rest"
    share = f"{100 * waits.lost_share:.0f} % of the time"
    what = f"GPUs wait for data {share}, {why}"
    if waits.cause is Cause.PROGRAM:
        what = f"its GPU waits {share} for its program, which works on a CPU meanwhile"
    evidence = [busy_evidence(job, waits), cpu_evidence(job, waits)]
    pressure = waits.host.cpu_pressure[waits.first :]
    waited = mean(pressure, waits.rows.seconds[waits.first :])
    if waited == waited:
        text = f"some task of the job waits for a CPU for {100 * waited:.0f} % of the time"
        evidence.append(Evidence("job_cpu_pressure_some_ratio", job.subject, text, waited))
    if waits.loaders:
        text = (
            f"{waits.host.driver_cores:.1f} CPUs busy in driving its GPUs, which wait, and "
            f"{waits.loaders} in other processes of the job, all the while"
        )
        evidence.append(
            Evidence("process_cpu_cores_used", job.subject, text, waits.host.driver_cores)
        )
    advice = tuple(_advice(job, waits))
    return WaitVerdict(what, (*evidence, *io_evidence(job, waits)), advice)


def _advice(job: JobLook, waits: Waits) -> Iterator[str]:
    room = int(waits.host.allowed) - waits.loaders if waits.loaders else 0
    if waits.cause is Cause.PROGRAM:
        yield "Let other processes prepare the data, and ahead of time (num_workers=…)."
    elif room > 0:
        yield f"Start more loaders: {counted(room, 'CPU')} of the job are left (num_workers=…)."
    else:
        yield "Ask for more CPUs a GPU (--cpus-per-gpu), and start as many loaders as it gets."
    yield (
        "Or give its loaders less to do: decode on the GPU (DALI), keep samples as they are needed."
    )
    within = srun_in(job.job)
    if within is not None:
        yield f"What its CPUs do: {within} top -b -n 1"
