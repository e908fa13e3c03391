"""A job ended long before the time limit that it had asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.plugin import Detector, Evidence, Severity, Window
from gpumon_detectors.evidence.episodes import HOUR_S
from gpumon_detectors.evidence.phrases import counted, span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.plugin import Finding, Job, View

_SPARE: Final = 1.5
"""Limit that is advised over the time that was used: runs vary with the node and the data."""


class OveraskedTime(Detector):
    """Claims that a job asked for much more time than it took.

    Signature: Slurm lists the job as completed after less than `used_ratio` of its time limit, and
    the rest, times its GPUs, is at least `unused_gpu_hours`. A fifth is the bound of the taxonomy
    and of Princeton's Job Defense Shield, which adds up a user's jobs before it writes; a day of a
    GPU is the least that it reports of one kind of waste.

    One record proves it: Slurm's own times are exact. Jobs that ended before gpumon began to watch
    are not judged.

    What looks alike: a job that failed early, was cancelled or preempted, or has a step with an
    exit code; none of these counts as completed. Checkpointing jobs that are restarted for as long
    as they are let use up their limit.

    It costs no GPU time: the scheduler plans with limits, so the next jobs in line, and this user's
    own, start later than they could.
    """

    name = "overasked_time"
    version = "1"
    finding_classes = ("overasked",)
    needs = ()
    supported_after_s = 0.0
    established_after_s = 0.0
    every_s = 60.0
    is_instant = True

    def __init__(self, used_ratio: float = 0.2, unused_gpu_hours: float = 24.0) -> None:
        self.used_ratio = used_ratio
        self.unused_gpu_hours = unused_gpu_hours

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per completed job that used little of its time limit."""
        for job in view.ended:
            if job.state != "COMPLETED" or job.exit_code not in ("", "0:0"):
                continue
            start, end, limit_s = job.start_at, job.end_at, job.time_limit_s
            if start is None or end is None or not limit_s or not job.gpu_count:
                continue
            ended_in_view = view.observed_since <= end <= view.now and start < end
            unused_h = (limit_s - (end - start)) / HOUR_S * job.gpu_count
            is_short = end - start < self.used_ratio * limit_s
            if ended_in_view and is_short and unused_h >= self.unused_gpu_hours:
                window = Window(max(start, view.observed_since), end, 1)
                yield self._finding(view, job, end - start, limit_s, window)

    def _finding(
        self, view: View, job: Job, used_s: float, limit_s: float, window: Window
    ) -> Finding:
        wanted_min = max(1, round(_SPARE * used_s / 60))
        text = (
            f"ran {span(used_s)} of {span(limit_s)}, {100 * used_s / limit_s:.0f} %, "
            f"on {counted(job.gpu_count or 0, 'GPU')}"
        )
        return view.finding(
            self,
            subject=f"job:{job.job_id}",
            severity=Severity.INFO,
            summary=f"completed after {span(used_s)} of the {span(limit_s)} that it asked for",
            window=window,
            evidence=(Evidence("time_limit_s", f"job:{job.job_id}", text, used_s / limit_s),),
            advice=(f"Next time: sbatch --time={wanted_min}; shorter jobs start earlier.",),
        )
