"""A shell or notebook holds GPUs and hardly uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.detect.contract import Detector
from gpumon.model.finding import Confidence, Evidence, Severity, Window
from gpumon_detectors.evidence.gpu_use import busy_seconds, is_named
from gpumon_detectors.evidence.job_commands import look_inside
from gpumon_detectors.evidence.job_context import is_interactive, serving_name
from gpumon_detectors.evidence.phrases import clock_time, counted, span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.detect.view import JobLook, View
    from gpumon.model.finding import Finding

_SPAN_S: Final = 6 * 3600.0
"""How far back the window reaches: beyond *established*."""

_LEAST_S: Final = 1800.0
"""A share of time that was watched for less than half an hour means nothing (Princeton's Job
Defense Shield judges no shorter run)."""

_ADVICE: Final = (
    "End the session when the work pauses; let the notebook server stop kernels that rest.",
    'Ask for a slice or a shared GPU for interactive work: sinfo -o "%P %G"',
    "Run what takes long as a batch job: its GPUs are free when it ends.",
)


class _Use(NamedTuple):
    window: Window
    share: float
    """Part of the time in which any of the GPUs ran a kernel, an upper bound."""
    idle_gpu_seconds: float


class InteractiveIdle(Detector):
    """Claims that an interactive session hardly uses the GPUs that it holds.

    Signature: Slurm's flag, the job's name (`jupyter`, `bash`, …), its partition or its QOS says
    that somebody sits before it, and its GPUs run kernels for less than `busy_time_ratio` of the
    time (the taxonomy's 10 %). Utilisation is itself the share of time in which a kernel ran, so
    its mean over the window is that share, however coarse the past is kept.

    *Supported* after 120 minutes (the taxonomy's window for interactive work), *established* after
    240, the sliding window of Princeton's Job Defense Shield. Under 30 minutes nothing is said.

    What looks alike: short real experiments, which use more than a tenth of two hours; a server
    that is tried out by hand, known by its name, stays a *hypothesis*. Compiling or reading does
    not use the GPUs either. A batch job that rests is `idle_held`. Where utilisation is missing,
    as with MIG, nothing is claimed.

    Lost is the time in which the GPUs ran nothing.
    """

    name = "interactive_idle"
    version = "1"
    finding_classes = ("interactive_idle",)
    needs = ("gpu_util_ratio",)
    supported_after_s = 7200.0
    established_after_s = 14400.0
    every_s = 60.0

    def __init__(self, busy_time_ratio: float = 0.1) -> None:
        self.busy_time_ratio = busy_time_ratio

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per session that computes for less than a tenth of its time."""
        for job in view.jobs:
            if not is_interactive(job) or not is_named(job):
                continue
            use = _use(job)
            if use is not None and use.share < self.busy_time_ratio:
                yield self._finding(view, job, use)

    def _finding(self, view: View, job: JobLook, use: _Use) -> Finding:
        length_s = use.window.end - use.window.start
        count = counted(len(job.gpus), "GPU")
        name = serving_name(job)
        evidence = [
            Evidence(
                "gpu_util_ratio",
                job.subject,
                f"{count}: kernels ran for {100 * use.share:.1f} % of {span(length_s)}, "
                f"{counted(use.window.samples, 'sample')}",
                use.share,
            ),
            Evidence("job", job.subject, f"interactive: {_why(job)}"),
        ]
        if name is not None:
            evidence.append(Evidence("job", job.subject, f"may be a server: named {name}"))
        return view.finding(
            self,
            subject=job.subject,
            severity=Severity.WARNING,
            summary=f"session uses its {count} {100 * use.share:.0f} % of the time since "
            f"{clock_time(use.window.start)} ({span(length_s)} observed)",
            window=use.window,
            evidence=evidence,
            advice=(*_ADVICE, *look_inside(job)),
            gpu_seconds=use.idle_gpu_seconds,
            at_most=Confidence.HYPOTHESIS if name is not None else Confidence.ESTABLISHED,
        )


def _use(job: JobLook) -> _Use | None:
    """How much of the time the session's GPUs were used; None where that is not known."""
    table = job.table(("gpu_util_ratio",), _SPAN_S)
    if table.length_s < _LEAST_S:
        return None
    util = table.columns["gpu_util_ratio"]
    if not np.isfinite(util[-1]).all():
        return None
    busiest = busy_seconds(table.times, np.fmax.reduce(util, axis=1)[:, None])
    each = busy_seconds(table.times, util)
    if busiest is None or each is None:
        return None
    window = Window(float(table.times[0]), float(table.times[-1]), len(table.times))
    idle = len(job.gpus) * table.length_s - float(each.sum())
    return _Use(window, float(busiest[0]) / table.length_s, max(0.0, idle))


def _why(job: JobLook) -> str:
    """What speaks for a session."""
    if job.job.is_interactive:
        return "Slurm lists it without a batch script"
    return f"name {job.job.name}, partition {job.job.partition}, QOS {job.job.qos or '–'}"
