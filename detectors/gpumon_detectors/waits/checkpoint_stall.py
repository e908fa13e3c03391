"""A job that stands still for a good part of the time while it writes checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.plugin import Detector, Evidence
from gpumon_detectors.evidence.phrases import counted, span
from gpumon_detectors.waits.causes import Cause
from gpumon_detectors.waits.claim import WaitVerdict, busy_evidence, claimed, waiting_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.plugin import Finding, JobLook, View
    from gpumon_detectors.waits.causes import Waits
    from gpumon_detectors.waits.pauses import Pauses, Stir

_HEALTHY_SHARE: Final = 0.08
"""Share of the time up to which nobody complains of checkpoints (the taxonomy)."""


class CheckpointStall(Detector):
    """Claims that a job's GPUs wait for its checkpoints for more than 10 % of the time.

    Signature: at least three times all GPUs of the job pause, with a minute of work or more in
    between, its memory held and no more than two CPUs a rank busy; in the pauses at least three
    times as much is written as between them, more than is read, so that what a neighbour writes
    does not count. Healthy checkpoints take less than 8 % of the time.

    *Supported* from the third pause on, *established* once they have come for an hour. Where writes
    are not counted and tasks wait for I/O in the pauses alone, it stays a *hypothesis*. It also
    does for a session, and for what may be a server.

    What looks alike: an evaluation works on its GPUs; a compilation writes nothing; a program that
    prepares its next piece of work on CPUs keeps more of them busy; one trial after the other gives
    its memory back in between; what is read in a pause is `storage_bound` at most; and where writes
    are not counted, rest that alternates with work as often as chance would have it does not count
    as a pause. Without profiling counters, and at periods of 30 s and more, pauses shorter than two
    samples are missed.

    The loss is all the time of the pauses, counted over whole rounds of work and pause.
    """

    name = "checkpoint_stall"
    version = "1"
    finding_classes = ("checkpoint_stall",)
    needs = ("gpu_util_ratio", "job_cpu_cores_used")
    supported_after_s = 600.0
    established_after_s = 3600.0
    every_s = 30.0

    def __init__(self, portal_names: str = "") -> None:
        self.portal_names = portal_names

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job that saves for too long or too often."""
        for job, waits in waiting_jobs(view, Cause.CHECKPOINTS):
            if waits.pauses is not None and waits.stir is not None:
                verdict = _verdict(job, waits, waits.pauses, waits.stir)
                yield claimed(self, view, job, waits, verdict, self.portal_names)


def _verdict(job: JobLook, waits: Waits, pauses: Pauses, stir: Stir) -> WaitVerdict:
    rounds = pauses.rounds(waits.rows)
    length, every = float(np.median(pauses.lengths())), float(np.median(rounds))
    what = f"saving stops its GPUs {100 * waits.lost_share:.0f} % of the time"
    text = (
        f"{counted(len(pauses.found), 'pause')} of about {span(length)} every {span(every)}, "
        f"healthy is up to {100 * _HEALTHY_SHARE:.0f} % of the time"
    )
    evidence = [busy_evidence(job, waits), Evidence("gpu_util_ratio", job.subject, text, length)]
    if stir.written:
        rate = stir.written_bytes_per_s
        text = f"{rate / 1e6:.0f} MB/s are written in the pauses, far less between them"
        evidence.append(Evidence("fs_write_bytes_per_s", job.subject, text, rate))
    else:
        text = "tasks wait for I/O in the pauses, not between them"
        evidence.append(Evidence("io_pressure_some_ratio", job.subject, text))
    return WaitVerdict(what, tuple(evidence), _ADVICE)


_ADVICE: Final = (
    "Save in the background (torch.distributed.checkpoint.async_save), each rank its own part.",
    "Or save less often: as rarely as you can afford to lose work.",
)
