"""The work would fit into a smaller GPU or a slice of one."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.detect.contract import Detector
from gpumon.model.finding import Confidence, Evidence, Severity, Window
from gpumon_detectors.evidence.gpu_use import busy_seconds, is_named
from gpumon_detectors.evidence.job_commands import look_inside
from gpumon_detectors.evidence.job_context import context_of, is_interactive
from gpumon_detectors.evidence.phrases import counted, gib, span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.detect.view import JobLook, View
    from gpumon.model.finding import Finding
    from gpumon_detectors.evidence.job_context import JobContext

_SPAN_S: Final = 6 * 3600.0
"""How far back the window reaches: beyond *established*."""

_LEAST_S: Final = 1800.0
"""Loading and a first evaluation say nothing of the run (Princeton's Job Defense Shield judges
none under 30 minutes)."""

_IN_USE_RATIO: Final = 0.05
"""Below this utilisation a GPU is idle, which other classes say (KempnerPulse's bound)."""

_LARGE_BYTES: Final = 32e9
"""Boards with less memory are the smaller GPU that others should move to."""

_COMPUTE_SLICES, _MEM_SLICES = 7, 8
"""Into how many parts MIG cuts a GPU's SMs and memory."""

_KEYS: Final = ("mem_used_bytes", "mem_total_bytes", "gpu_util_ratio", "sm_active_ratio")

_ADVICE: Final = (
    'Ask for a smaller GPU or a MIG slice, where there are any: sinfo -o "%P %G"',
    "Or let several runs share one GPU: MPS, or more processes in one job.",
    "Or use what is there: a larger batch or model, if the result allows it.",
)


class _Fit(NamedTuple):
    """What one job needs of its GPU."""

    window: Window
    mem_ratio: float
    """95th percentile of the memory in use, of all."""
    mem_bytes: float
    compute_ratio: float
    """Mean SM activity, or where that is not known utilisation, which bounds it from above."""
    has_sm: bool

    @property
    def unused_share(self) -> float:
        """Part of the GPU that the smallest slice which fits would have left to others."""
        mem = ceil(self.mem_ratio * _MEM_SLICES) / _MEM_SLICES
        compute = ceil(self.compute_ratio * _COMPUTE_SLICES) / _COMPUTE_SLICES
        return max(0.0, 1.0 - max(mem, compute, 1 / _COMPUTE_SLICES))


class OversizedGpu(Detector):
    """Claims that a job on one GPU would fit into a smaller one or a slice.

    Signature: one GPU of 32 GB or more, the 95th percentile of its memory in use below
    `mem_ratio`, and its SMs active for less than `sm_ratio` on average, while it works at all
    (utilisation 5 % or more). These are the taxonomy's bounds; Princeton's Job Defense Shield
    calls a GPU too powerful at a utilisation below 20 % with less than 10 GB in use. Without SM
    counters utilisation counts, which SM activity cannot exceed: the claim is then the rarer.

    *Supported* after 2 hours, *established* after 4: the run's phases have repeated by then.

    What looks alike: inference with a deadline, which needs the speed for each single request. A
    job that works in bursts as servers do, or is named like one, stays a *hypothesis*, and so does
    each that was watched for less than the four hours that recognising this takes. A session is
    `interactive_idle`, a GPU that is not used belongs to the idle classes, and several GPUs of one
    job are used together. With MIG nothing is claimed: the job has a slice already.

    Lost is what the smallest slice that fits would have left free: MIG cuts SMs into sevenths and
    memory into eighths.
    """

    name = "oversized_gpu"
    version = "1"
    finding_classes = ("oversized_gpu",)
    needs = _KEYS[:3]
    supported_after_s = 7200.0
    established_after_s = 14400.0
    every_s = 60.0

    def __init__(self, mem_ratio: float = 0.25, sm_ratio: float = 0.2) -> None:
        self.mem_ratio = mem_ratio
        self.sm_ratio = sm_ratio

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job whose one GPU is too large for it."""
        for job in view.jobs:
            if job.gpu_count != 1 or not self._may_apply(job) or is_interactive(job):
                continue
            fit = _fit(job)
            if (
                fit is not None
                and fit.mem_ratio < self.mem_ratio
                and fit.compute_ratio < self.sm_ratio
            ):
                yield self._finding(view, job, fit, context_of(job))

    def _may_apply(self, job: JobLook) -> bool:
        """Whether the newest memory allows the claim; spares most jobs the window."""
        if not is_named(job):
            return False
        used, total = job.latest("mem_used_bytes"), job.latest("mem_total_bytes")
        return bool(((total >= _LARGE_BYTES) & (used < self.mem_ratio * total)).all())

    def _finding(self, view: View, job: JobLook, fit: _Fit, context: JobContext) -> Finding:
        length_s = fit.window.end - fit.window.start
        what = "SMs active" if fit.has_sm else "utilisation, which bounds SM activity,"
        evidence = [
            Evidence(
                "mem_used_bytes",
                job.subject,
                f"{gib(fit.mem_bytes)} of memory in use for 95 % of the time, "
                f"{100 * fit.mem_ratio:.0f} % of the {job.gpus[0].name or 'GPU'}",
                fit.mem_bytes,
            ),
            Evidence(
                "sm_active_ratio" if fit.has_sm else "gpu_util_ratio",
                job.subject,
                f"{what} {100 * fit.compute_ratio:.0f} % on average over {span(length_s)}, "
                f"{counted(fit.window.samples, 'sample')}",
                fit.compute_ratio,
            ),
        ]
        if context.is_serving:
            text = f"may be a server, which needs speed for single requests: {context.why}"
            evidence.append(Evidence("job", job.subject, text))
        is_open = context.is_serving or not context.is_settled
        return view.finding(
            self,
            subject=job.subject,
            severity=Severity.WARNING,
            summary=f"would fit into a slice: {100 * fit.mem_ratio:.0f} % of memory and "
            f"{100 * fit.compute_ratio:.0f} % of compute used ({span(length_s)} observed)",
            window=fit.window,
            evidence=evidence,
            advice=(*_ADVICE, *look_inside(job)),
            gpu_seconds=fit.unused_share * length_s,
            at_most=Confidence.HYPOTHESIS if is_open else Confidence.ESTABLISHED,
        )


def _fit(job: JobLook) -> _Fit | None:
    """What the job needed of its GPU; None where too little is known, or it was hardly used."""
    table = job.table(_KEYS, _SPAN_S)
    if table.length_s < _LEAST_S:
        return None
    used, total, util, sm = (table.columns[key] for key in _KEYS)
    busy, active = busy_seconds(table.times, util), busy_seconds(table.times, sm)
    is_known = np.isfinite(used) & (total > 0)
    share = used[is_known] / total[is_known]
    if busy is None or not len(share) or float(busy[0]) < _IN_USE_RATIO * table.length_s:
        return None
    window = Window(float(table.times[0]), float(table.times[-1]), len(table.times))
    mem_ratio = float(np.percentile(share, 95))
    compute = float((busy if active is None else active)[0]) / table.length_s
    mem_bytes = mem_ratio * float(total[-1, 0])
    return _Fit(window, mem_ratio, mem_bytes, compute, active is not None)
