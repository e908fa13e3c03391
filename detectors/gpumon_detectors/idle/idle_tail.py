"""The work is done and the GPUs are not given back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
from gpumon_detectors.evidence.job_context import LONGEST_REST_S, context_of, is_interactive
from gpumon_detectors.evidence.phrases import counted, gib
from gpumon_detectors.evidence.stretch import began_with_job, is_open, since_words
from gpumon_detectors.idle.rest import rest_of
from gpumon_detectors.idle.unwatched import unwatched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.plugin import Finding, JobLook, View
    from gpumon_detectors.evidence.gpu_use import GpuUse
    from gpumon_detectors.evidence.host_use import HostUse
    from gpumon_detectors.idle.rest import Rest
    from gpumon_detectors.idle.unwatched import Unwatched

_ADVICE: Final = (
    "Let the batch script end when the work does, also when a step fails: no sleep after it.",
    "Upload and evaluate in a second job without GPUs: sbatch --dependency=afterok:ID",
)


class IdleTail(Detector):
    """Claims that a job has finished with its GPUs and still holds them.

    Signature: the job used its GPUs, and since then all of them are without process, at
    utilisation 0 and with less than `idle_mem_ratio` of their memory in use, while its CPUs are
    idle (2 % of what it was given, or less) and nothing is read or written above the node's own
    background. The window begins when the last of these came true.

    A job whose GPUs were never seen at work is one too, if it ran before it was watched and has
    used ten minutes of CPU time or more for each GPU since it began, beyond what it uses at rest:
    it worked, and is done. That is *supported* at most, for what its GPUs did then was not seen.

    *Supported* after 15 minutes (the taxonomy's window; Northeastern's IdleBot writes a mail
    then), *established* after 60, when that bot cancels.

    What looks alike: a last upload, a copy to the archive, an evaluation on CPUs: where traffic or
    CPU time show such work, or a neighbour's traffic could be it, the claim comes after 15 minutes,
    stays a *hypothesis* and says so; where no more than a CPU in ten spins it is *supported* after
    two hours. A neighbour's traffic that came and went for half an hour, while the job's own CPUs
    did not follow it, is not the job's: then the claim is *supported*, and no more. So is what
    processes of other jobs, on their GPUs, are counted to read and write. Of what flows all the
    time a third may be the job's, as far as its CPU time suffices. A pause between
    two programs of one script is shorter. A server that unloads its model between requests worked
    in bursts, and is not claimed before 258 minutes of rest; that one, and a job named like a
    server, stay a *hypothesis*. A process that holds its memory is `idle_held`; a user who left the
    program but not the shell is `interactive_idle`. Where no CPU time can be seen, the claim stays
    a *hypothesis* for four hours.

    The loss is the seconds for which the GPUs were seen to rest.
    """

    name = "idle_tail"
    version = "2"
    finding_classes = ("idle_tail",)
    needs = NEEDS
    supported_after_s = 900.0
    established_after_s = 3600.0
    every_s = 10.0

    def __init__(self, idle_mem_ratio: float = 0.01, portal_names: str = "") -> None:
        self.idle_mem_ratio = idle_mem_ratio
        self.portal_names = portal_names

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job whose processes have left its GPUs for good, as far as one sees."""
        for job in view.jobs:
            if not is_still_now(job) or (job.latest("compute_process_count") > 0).any():
                continue
            if is_interactive(job, self.portal_names):
                continue
            use = gpu_use(view, job, PAST_S, self.idle_mem_ratio)
            if use is None:
                continue
            first = use.empty_row()
            if first == len(use.past.times):
                continue
            was_seen_at_work = was_ever_above(job, use, ("gpu_util_ratio", "compute_process_count"))
            if not was_seen_at_work and began_with_job(job, use.past, float(use.past.begins[0])):
                continue
            host = host_use(view, job, PAST_S)
            rest = rest_of(self, view, job, use, host, first)
            if rest is None:
                continue
            before = None if was_seen_at_work else unwatched(job, use.past, host, rest.window.start)
            if was_seen_at_work or (before is not None and before.has_worked):
                yield from self._findings(view, job, use, host, rest, before)

    def _findings(
        self,
        view: View,
        job: JobLook,
        use: GpuUse,
        host: HostUse,
        rest: Rest,
        before: Unwatched | None,
    ) -> Iterator[Finding]:
        context = context_of(job, self.portal_names)
        if context.is_bursty and rest.known_s < LONGEST_REST_S:
            return
        count = len(job.gpus)
        used = use.past.columns["mem_used_bytes"][rest.first :]
        evidence = [
            Evidence(
                "compute_process_count",
                job.subject,
                f"{counted(count, 'GPU')}{', used before' if before is None else ''}: "
                f"{no_process(job)}, utilisation 0 %, at most "
                f"{gib(float(np.nanmax(used)))} of memory in use, "
                f"{counted(rest.window.samples, 'sample')}",
                0.0,
            ),
            host.evidence(job, rest.window.start),
            *rest.evidence,
        ]
        most = rest.at_most
        if before is not None:
            evidence.append(before.evidence(job))
            most = min(Confidence.SUPPORTED, most, key=lambda step: step.rank)
        if context.is_serving:
            evidence.append(Evidence("job", job.subject, f"may be a server: {context.why}"))
        is_open_still = is_open(job, use, host, rest.first)
        yield view.finding(
            self,
            subject=job.subject,
            severity=Severity.WARNING,
            summary=f"{counted(count, 'GPU')} done and not given back "
            f"{since_words(rest.window, is_open_still, rest.known_s)}{rest.but}",
            window=rest.window,
            evidence=evidence,
            advice=(*_ADVICE, *inspect_commands(job)),
            gpu_seconds=rest.gpu_seconds,
            at_most=Confidence.HYPOTHESIS if context.is_serving else most,
        )
