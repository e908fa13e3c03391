"""The work would fit into a smaller GPU or a slice of one."""

from __future__ import annotations

from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np

from gpumon.plugin import Confidence, Detector, Evidence, Severity, sheet_named
from gpumon_detectors.evidence.gpu_use import FAINT_RATIO, LEAST_KNOWN, PAUSE_S, is_named
from gpumon_detectors.evidence.host_use import host_use
from gpumon_detectors.evidence.job_commands import inspect_commands
from gpumon_detectors.evidence.job_context import context_of, is_interactive
from gpumon_detectors.evidence.phrases import counted, gib, span
from gpumon_detectors.evidence.watched import (
    known_share,
    mean_of,
    seen_s,
    surest,
    unbroken,
    window_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from gpumon.plugin import Finding, JobLook, Past, Sheet, View, Window
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

_ANY_SLICES: Final = 7
"""Instances that MIG makes of most boards that have it, for one without a data sheet (MIG user
guide: A100, H100 and H200 have seven, A30 four)."""

_MEM_SLICES: Final = {7: 8}
"""Into how many parts MIG cuts the memory of a GPU of so many instances, where not as many."""

_ROOM: Final = 1.2
"""Memory that a smaller GPU must have, as a multiple of what is in use: to spare for the peaks
above the 95th percentile (our choice)."""

_KEYS: Final = ("mem_used_bytes", "mem_total_bytes", "gpu_util_ratio", "sm_active_ratio")
_POWER: Final = ("power_w", "power_limit_w")
_VIDEO: Final = ("encoder_util_ratio", "decoder_util_ratio")

_LOADED: Final = 0.5
"""Utilisation from which kernels ran half of the time, and so SMs were active."""

_DEAD_SM: Final = 0.001
_DEAD_SHARE: Final = 0.5
_LOW_POWER: Final = 0.4
"""Share of its power limit below which a GPU may run kernels on so few SMs that none is counted: a
lone small kernel draws hardly more than a GPU at rest (our choice)."""

_BUSY_UTIL: Final = 0.5
"""Mean utilisation from which few active SMs say that kernels are small, and a larger batch may
fill the GPU (the taxonomy's signature of `small_batch`)."""

_LAUNCHED: Final = 0.08
_THIN: Final = 0.5
_LAUNCHING_CORES: Final = (0.85, 1.6)
"""A program that launches small kernels one by one keeps one CPU full; they run for so much of the
time at least, and fill less than so much of the SMs then (eager PyTorch on an H200: .99 CPUs, .16,
.3 to .4; the bounds are our choice)."""

_PRECISIONS: Final = ("bf16", "fp16", "fp32")

_WHERE: Final = 'sinfo -o "%P %G"'
_SHARE: Final = "let several runs share one GPU: MPS, or more processes in one job."
_FEWER: Final = ("Or launch fewer and larger kernels: a larger batch, CUDA graphs, torch.compile.",)
_ADVICE: Final = ("Or use what is there: a larger batch or model, if the result allows it.",)

_MOST_RUNS: Final = 4
"""So many runs at most are said to fit onto one GPU: what more of them would take from each other,
caches and time slices, counters do not tell (our choice)."""


class _Fit(NamedTuple):
    """What one job needs of its GPU."""

    window: Window
    seen_s: float
    mem_ratio: float
    """95th percentile of the memory in use, of all."""
    mem_bytes: float
    compute_ratio: float
    """Mean SM activity, or where that is not known utilisation, which bounds it from above."""
    has_sm: bool
    is_sm_dead: bool
    """Whether SM activity was told and not believed."""
    busy_ratio: float
    """Mean utilisation."""
    is_steady: bool
    """Whether it never rested for longer than a checkpoint's pause."""

    def unused_by_slice(self, slices: int) -> float:
        """Part of the GPU that the smallest MIG slice which fits would have left to others."""
        mem_slices = _MEM_SLICES.get(slices, slices)
        mem = ceil(self.mem_ratio * mem_slices) / mem_slices
        compute = ceil(self.compute_ratio * slices) / slices
        return max(0.0, 1.0 - max(mem, compute, 1 / slices))


class _Smaller(NamedTuple):
    """What would have been enough."""

    words: str
    advice: tuple[str, ...]
    unused_share: float
    """Part of the GPU that it would have left to others."""
    is_shared: bool = False
    """Whether it is the same GPU, with other runs beside."""


class _Products:
    """The GPUs of the site by product, found once an evaluation and only if they are asked for."""

    def __init__(self, view: View) -> None:
        self._view = view

    @cached_property
    def _totals(self) -> dict[str, float]:
        """Memory of one GPU of each product."""
        totals = self._view.fleet("mem_total_bytes")
        names = (gpu.name for gpu in self._view.gpus.values())
        return {
            name: float(total)
            for name, total in zip(names, totals, strict=False)
            if name and total > 0
        }

    def smaller_than(self, name: str | None, fit: _Fit) -> _Smaller | None:
        """The smallest other product of the site into which a job fits; None without any."""
        large = sheet_named(name)
        found = [
            _Smaller(
                f"would fit into a {other}",
                (f"Ask for a {other} of this site: {_WHERE}", f"Or {_SHARE}"),
                1.0 - share,
            )
            for other, total in self._totals.items()
            if (share := _share_of(large, sheet_named(other), fit)) is not None
            and total >= _ROOM * fit.mem_bytes
            and share < 1.0
        ]
        return max(found, key=lambda smaller: smaller.unused_share, default=None)


def _shared(fit: _Fit) -> _Smaller | None:
    """The same GPU, with as many runs beside as have room: what each needs, and a fifth."""
    runs = min(_MOST_RUNS, int(1.0 / (_ROOM * max(fit.mem_ratio, fit.compute_ratio))))
    if runs < 2:
        return None
    words = f"would leave room for {runs - 1} more like it on its GPU"
    return _Smaller(
        words, (f"No smaller GPU is known here; {_SHARE}",), 1.0 - 1.0 / runs, is_shared=True
    )


def _share_of(large: Sheet | None, small: Sheet | None, fit: _Fit) -> float | None:
    """How large a smaller product is beside another; None where it is not, or does not suffice."""
    if large is None or small is None or small is large:
        return None
    key = next((p for p in _PRECISIONS if p in large.dense_tflops and p in small.dense_tflops), "")
    if not key:
        return None
    compute = small.dense_tflops[key].value / large.dense_tflops[key].value
    mem = small.memory_bytes.value / large.memory_bytes.value
    return max(compute, mem) if fit.compute_ratio <= compute else None


class OversizedGpu(Detector):
    """Claims that a job on one GPU would fit into a smaller one or a slice.

    Signature: one GPU of 32 GB or more, the 95th percentile over time of its memory in use below
    `mem_ratio`, and its SMs active for less than `sm_ratio` on average, while it works at all
    (utilisation 5 % or more). These are the taxonomy's bounds; Princeton's Job Defense Shield
    calls a GPU too powerful at a utilisation below 20 % with less than 10 GB in use. Without SM
    counters utilisation counts, which SM activity cannot exceed: the claim is then the rarer.

    *Supported* after 2 hours, *established* after 4: the run's phases have repeated by then.

    What looks alike: inference with a deadline, which needs the speed for each single request. A
    job that works in bursts as servers do, or is named like one, stays a *hypothesis*, and so does
    each that rested in between and was watched for less than the four hours that recognising a
    server takes; one that never rests for two minutes does not work in bursts. Kernels that run
    half of the time or more on few SMs may only be small (`small_batch`): a *hypothesis*. Where
    they run for less than that while one CPU is full, that CPU launches them one by one, and the
    finding says so. A session is `interactive_idle`, a GPU that is not used belongs to the idle
    classes, and several GPUs of one job are used together. A job whose video engines work needs
    them, and of these a slice or a smaller product may have none. With MIG nothing is claimed: the
    job has a slice already.

    SM activity of 0 in most samples in which kernels run half of the time is a counter that does
    not work, unless the GPU is known to draw little power: then utilisation counts instead.

    It is more than a hypothesis where there is something smaller: MIG can cut the product into
    slices, or the site has a smaller product with a fifth more memory than is in use and the
    throughput that is. The loss is what the smallest that fits would have left free: MIG cuts SMs
    into sevenths and memory into eighths, those of an A30 into quarters; of a smaller product the
    larger of its shares of memory and throughput counts as needed. Where nothing smaller is known,
    runs may share the GPU, with a fifth of memory and SMs to spare and four at most: a
    *hypothesis*, as it cannot be seen from outside whether there are others that may.
    """

    name = "oversized_gpu"
    version = "1"
    finding_classes = ("oversized_gpu",)
    needs = _KEYS[:3]
    wants: ClassVar[Mapping[str, str]] = {_KEYS[3]: "kernels that fill few SMs"}
    supported_after_s = 7200.0
    established_after_s = 14400.0
    every_s = 60.0

    def __init__(self, mem_ratio: float = 0.25, sm_ratio: float = 0.2) -> None:
        self.mem_ratio = mem_ratio
        self.sm_ratio = sm_ratio

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job whose one GPU is too large for it."""
        products = _Products(view)
        for job in view.jobs:
            if job.gpu_count != 1 or not self._may_apply(job) or is_interactive(job):
                continue
            fit = _fit(job)
            if (
                fit is not None
                and fit.mem_ratio < self.mem_ratio
                and fit.compute_ratio < self.sm_ratio
            ):
                smaller = _smaller(job, fit, products)
                if smaller is not None:
                    yield self._finding(view, job, fit, smaller, context_of(job))

    def _may_apply(self, job: JobLook) -> bool:
        """Whether the newest memory allows the claim; spares most jobs the window.

        What is missing in it for a moment forbids nothing.
        """
        if not is_named(job):
            return False
        used, total = job.latest("mem_used_bytes"), job.latest("mem_total_bytes")
        return not bool(((total < _LARGE_BYTES) | (used >= self.mem_ratio * total)).any())

    def _finding(
        self, view: View, job: JobLook, fit: _Fit, smaller: _Smaller, context: JobContext
    ) -> Finding:
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
                f"{what} {100 * fit.compute_ratio:.0f} % on average over {span(fit.seen_s)}, "
                f"{counted(fit.window.samples, 'sample')}",
                fit.compute_ratio,
            ),
        ]
        if fit.is_sm_dead:
            text = "0 % of SMs active while kernels run is not believed: the counter does not work"
            evidence.append(Evidence("sm_active_ratio", job.subject, text, 0.0))
        if context.is_serving:
            text = f"may be a server, which needs speed for single requests: {context.why}"
            evidence.append(Evidence("job", job.subject, text))
        has_small_kernels = fit.has_sm and fit.busy_ratio >= _BUSY_UTIL
        if has_small_kernels:
            text = f"kernels run {100 * fit.busy_ratio:.0f} % of the time: they may only be small"
            evidence.append(Evidence("gpu_util_ratio", job.subject, text, fit.busy_ratio))
        is_launched = self._is_launched(view, job, fit)
        if is_launched:
            text = (
                f"kernels run {100 * fit.busy_ratio:.0f} % of the time and fill few SMs, and one "
                "CPU is full, as of what launches them one by one"
            )
            evidence.append(Evidence("job_cpu_cores_used", job.subject, text))
        may_serve = context.is_serving or not (context.is_settled or fit.is_steady)
        is_open = may_serve or has_small_kernels or smaller.is_shared
        most = Confidence.HYPOTHESIS if is_open else Confidence.ESTABLISHED
        return view.finding(
            self,
            subject=job.subject,
            severity=Severity.WARNING,
            summary=f"{smaller.words}: {100 * fit.mem_ratio:.0f} % of memory and "
            f"{100 * fit.compute_ratio:.0f} % of compute used ({span(fit.seen_s)} observed)",
            window=fit.window,
            evidence=evidence,
            advice=(*smaller.advice, *(_FEWER if is_launched else _ADVICE), *inspect_commands(job)),
            gpu_seconds=smaller.unused_share * fit.seen_s,
            at_most=surest(self, fit.seen_s, fit.window.samples, most),
        )

    def _is_launched(self, view: View, job: JobLook, fit: _Fit) -> bool:
        """Whether its GPU waits for one CPU, which launches small kernels one by one."""
        is_thin = fit.has_sm and fit.compute_ratio < _THIN * fit.busy_ratio
        if not (is_thin and _LAUNCHED <= fit.busy_ratio < _BUSY_UTIL):
            return False
        host = host_use(view, job, fit.window.end - fit.window.start)
        least, most = _LAUNCHING_CORES
        return host.is_own and least <= host.mean_cores(fit.window.start) <= most


def _smaller(job: JobLook, fit: _Fit, products: _Products) -> _Smaller | None:
    """What would have been enough for a job; None where no slice would leave anything free."""
    gpu = job.gpus[0]
    sheet = sheet_named(gpu.name)
    # A driver tells a MIG mode only of GPUs that have one: that decides where there is no sheet.
    slices = sheet.mig_slices if sheet else _ANY_SLICES * (gpu.value("mig_mode") is not None)
    if slices:
        share = fit.unused_by_slice(slices)
        advice = f"Ask for a MIG slice or a smaller GPU, where there are any: {_WHERE}"
        found = _Smaller("would fit into a slice", (advice, f"Or {_SHARE}"), share)
        return found if share > 0 else None
    return products.smaller_than(gpu.name, fit) or _shared(fit)


def _is_dead(
    util: NDArray[np.float32],
    sm: NDArray[np.float32],
    power: NDArray[np.float32],
    limit: NDArray[np.float32],
) -> bool:
    """Whether SM activity shows 0 while kernels run, on a GPU that is not known to draw little."""
    is_loaded = (util >= _LOADED) & np.isfinite(sm)
    if not is_loaded.any() or float((sm[is_loaded] <= _DEAD_SM).mean()) < _DEAD_SHARE:
        return False
    shares = (power / limit)[is_loaded]
    known = shares[np.isfinite(shares)]
    return not len(known) or float(known.mean()) >= _LOW_POWER


def _fit(job: JobLook) -> _Fit | None:
    """What the job needed of its GPU; None where too little is known, or it was hardly used."""
    past = unbroken(job.past((*_KEYS, *_POWER, *_VIDEO), _SPAN_S, 3))
    if not len(past.times) or past.times[-1] - past.times[0] < _LEAST_S:
        return None
    # Of the engines that work here a slice or a smaller product has fewer, or none.
    if any((mean_of(past, key) > FAINT_RATIO).any() for key in _VIDEO):
        return None
    _, total, util, sm, power, limit = (past.columns[key] for key in (*_KEYS, *_POWER))
    is_sm_dead = _is_dead(util, sm, power, limit)
    busy = _mean(past, _KEYS[2])
    active = None if is_sm_dead else _mean(past, _KEYS[3])
    if busy is None or busy < _IN_USE_RATIO:
        return None
    mem_ratio = _mem_ratio(past)
    largest = total[np.isfinite(total)]
    if mem_ratio is None or not len(largest) or not largest[-1] >= _LARGE_BYTES:
        return None
    compute = busy if active is None else active
    mem_bytes = mem_ratio * float(largest[-1])
    return _Fit(
        window=window_of(past),
        seen_s=seen_s(past),
        mem_ratio=mem_ratio,
        mem_bytes=mem_bytes,
        compute_ratio=compute,
        has_sm=active is not None,
        is_sm_dead=is_sm_dead,
        busy_ratio=busy,
        is_steady=_is_steady(past),
    )


def _is_steady(past: Past) -> bool:
    """Whether no rest since the first work is longer than `PAUSE_S`; what is not known is none."""
    is_rest = past.peaks[_KEYS[2]][:, 0] <= FAINT_RATIO
    first = int(np.argmin(is_rest))
    is_rest = is_rest[first:]
    rested_s = np.cumsum(past.seconds[first:] * is_rest)
    at_work_s = np.maximum.accumulate(np.where(is_rest, 0.0, rested_s))
    return bool((rested_s - at_work_s).max() <= PAUSE_S)


def _mean(past: Past, key: str) -> float | None:
    """Mean of a share over time; None where too little of it is known."""
    is_known = known_share(past, key)[0] >= LEAST_KNOWN
    return float(mean_of(past, key)[0]) if is_known else None


def _mem_ratio(past: Past) -> float | None:
    """95th percentile over time of the memory in use, of all; None where it is not known.

    Old rows stand for longer, and tell of it the mean, the smallest and the largest value: each
    counts as two levels with that mean.
    """
    used, total = (past.columns[key][:, 0] for key in _KEYS[:2])
    low, high = past.lows[_KEYS[0]][:, 0], past.peaks[_KEYS[0]][:, 0]
    seconds = past.seconds_from(0)
    is_known = np.isfinite(used) & (total > 0) & (seconds > 0)
    if not is_known.any():
        return None
    used, total, low, high = (part[is_known] for part in (used, total, low, high))
    rise = np.where(high > low, high - low, 1.0)
    at_high = np.where(high > low, np.clip((used - low) / rise, 0.0, 1.0), 1.0)
    shares = np.concatenate([low / total, high / total])
    weights = np.tile(seconds[is_known], 2) * np.concatenate([1.0 - at_high, at_high])
    order = np.argsort(shares)
    below = np.cumsum(weights[order])
    return float(shares[order][below.searchsorted(0.95 * below[-1])])
