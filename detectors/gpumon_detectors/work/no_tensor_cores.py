"""Dense work in fp32 beside tensor cores that rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.plugin import ENGINE_BUSY, Detector, Evidence, Severity, sheet_named
from gpumon_detectors.evidence.gpu_use import ENGINES, PIPES, is_named
from gpumon_detectors.evidence.job_commands import inspect_commands
from gpumon_detectors.evidence.stretch import since_words
from gpumon_detectors.evidence.watched import surest
from gpumon_detectors.work.kind import owners_of, surest_with, whose
from gpumon_detectors.work.profile import GLANCE_S, SPAN_S, profile_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from gpumon.plugin import Claimant, Finding, JobLook, View
    from gpumon_detectors.work.profile import Profile, Stretch

_PIPES: Final = (*PIPES, "fp32_active_ratio", "fp64_active_ratio")
_KEYS: Final = ("gpu_util_ratio", *_PIPES, "mem_used_bytes", "mem_total_bytes", *ENGINES)

_FILLED_SM: Final = 0.6
_NO_TENSOR: Final = 0.04
"""SM activity above and tensor activity below these: the taxonomy's signature, with room for the
part of a training in fp32 that takes tensor cores unasked (attention on an H200: .023)."""

_HIGH_FP32: Final = 0.3
_DENSE: Final = 0.5
"""Activity of the fp32 pipes, and its share of the SMs', from which dense math is what runs. Large
products of matrices in fp32 keep the pipe busy for nine tenths of their time; half leaves room for
what else a step does, and is above molecular dynamics and rays of light (our choice)."""

_SOME_FP64: Final = 0.05
"""Activity of the fp64 pipes from which the precision is needed, not forgotten."""

_MEMORY_BOUND: Final = 0.6
"""Share of the memory's cycles from which memory is the limit: tensor cores would not help (DCGM's
guide puts the practical peak at .8)."""

_LITTLE_MEMORY: Final = 0.1
_LITTLE_BYTES: Final = 8 * 2.0**30
"""Share of the memory below which no model of a size is trained, but molecules may move, unless it
is more than so much: 3 kB an atom (NAMD's guide, "Memory Usage"), so nearly three million atoms,
whatever the board has. A ResNet-50 in fp32 takes 13 GB, less than a tenth of an H200's (our
choices)."""

_MUCH_MEMORY: Final = 0.4
_MUCH_TRAFFIC: Final = 0.25
"""Share of the memory in use, or of its cycles, that weights, activations and the optimizer take;
codes that work from the caches need neither (our choice). Normalisations and activations pass over
memory and do nothing else (NVIDIA, "Optimizing Memory-Limited Layers"): with so many cycles they
take a third of the time, and fill SMs beside the products. In a ResNet-50 on an H200 .27 of the
memory's cycles leave .31 to the fp32 pipes, SMs at .95. Rays and molecules do without: they wait
for latencies and caches (Guthe, Eurographics 2014)."""

_SPEED_UP: Final = 2.0
"""How much faster training becomes on tensor cores: published figures for whole runs lie between
1.5 and 3 (NVIDIA's guide to mixed precision), and this is about their geometric mean."""

_FAST: Final = 2.0
"""A product has tensor cores for the work where their peak in tf32 or 16 bits is so many times that
of fp32."""

_TF32: Final = (
    "If fp32 must stay, allow TF32 for products of matrices: "
    "torch.set_float32_matmul_precision('high')."
)
_LIKE_FP32: Final = ("tf32", "bf16", "fp16")


class NoTensorCores(Detector):
    """Claims that dense work runs in fp32 outside of the tensor cores.

    Signature, of all GPUs of a job, for half an hour: SMs active for .6 and more, tensor cores for
    less than .04, and the fp32 pipes for .3 and more, which is half of what the SMs are active; on
    products whose tensor cores are twice as fast as fp32, or more. Where it is less than half,
    convolutions and passes over memory may take turns: with a quarter of the memory's cycles and
    8 GiB in use that is a *hypothesis*.

    *Supported* after 30 minutes, *established* after 2 hours.

    What looks alike: what needs fp64 is not claimed, nor what is bound by memory (its cycles above
    .6), video and rendering with busy engines, and what holds less than a tenth of the memory and
    less than 8 GiB, as molecular dynamics does. Rays of light keep neither the fp32 pipes nor the
    memory as busy; where they do, they and solvers on grids look as convolutions do. Matrices are
    only supposed where neither .4 of the memory is in use nor .25 of its cycles are: other codes in
    fp32 look so, and it stays a *hypothesis*. Where the fp32 pipes are not known, nothing shows
    what computes: a *hypothesis*. Integer work and graph analytics leave the fp32 pipes at rest.
    Servers and sessions that compute so for half an hour lose as much as anyone.

    Needs SM and tensor counters: without them it is unknown which pipes compute.

    The loss is half of the time in which kernels run: whole trainings become 1.5 to 3 times as fast
    on tensor cores, so a third to two thirds are.
    """

    name = "no_tensor_cores"
    version = "1"
    finding_classes = ("no_tensor_cores",)
    needs = ("gpu_util_ratio", "mem_used_bytes", "sm_active_ratio", "tensor_active_ratio")
    supported_after_s = 1800.0
    established_after_s = 7200.0
    every_s = 60.0

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job whose tensor cores rest."""
        for job in view.jobs:
            if is_named(job):
                yield from fp32_findings(self, view, job)


def fp32_findings(detector: Claimant, view: View, job: JobLook) -> Iterator[Finding]:
    """What a detector claims of a job that computes in fp32 alone; nothing of others.

    Args:
        detector: Who claims it.
        view: What is seen.
        job: A job, or a GPU as its users hold it.
    """
    if not _may_lack_tensor(job) or _dense(job, GLANCE_S) is None:
        return
    stretch = _dense(job, SPAN_S)
    if stretch is None:
        return
    window, known_s = stretch.window, stretch.known_s
    doubts = tuple(_doubts(job, stretch))
    lost = stretch.mean("gpu_util_ratio") * (1.0 - 1.0 / _SPEED_UP)
    yield view.finding(
        detector,
        finding_class="no_tensor_cores",
        subject=job.subject,
        severity=Severity.WARNING,
        summary=f"{whose(job)}computes {_in_fp32(stretch)}beside unused tensor cores "
        f"{since_words(window, stretch.is_open, known_s)}",
        window=window,
        evidence=(*_evidence(job, stretch), *doubts),
        advice=(
            "Let matrices be multiplied in bf16 or fp16: torch.autocast, mixed_bfloat16.",
            _TF32,
            *inspect_commands(job),
        ),
        gpu_seconds=lost * known_s * len(job.gpus),
        at_most=surest(detector, known_s, window.samples, surest_with(doubts)),
        owners=owners_of(job),
    )


def _may_lack_tensor(job: JobLook) -> bool:
    """Whether the newest values leave it open; spares most jobs the look back."""
    tensor, fp32 = job.latest("tensor_active_ratio"), job.latest("fp32_active_ratio")
    if not np.isfinite(tensor).any() or bool((tensor >= 2.0 * _NO_TENSOR).any()):
        return False
    if bool((fp32 < 0.5 * _HIGH_FP32).all()):
        return False
    return bool((job.latest("sm_active_ratio") >= 0.5 * _FILLED_SM).any())


def _dense(job: JobLook, seconds: float) -> Stretch | None:
    profile = profile_of(job, _KEYS, seconds)
    return None if profile is None else profile.since(*_fits(profile))


def _fits(profile: Profile) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """By slice whether dense math in fp32 may be all that runs, and whether that is known."""
    means = profile.means
    sm, fp32, tensor = (
        means[key] for key in ("sm_active_ratio", "fp32_active_ratio", "tensor_active_ratio")
    )
    used = profile.share("mem_used_bytes", "mem_total_bytes")
    with np.errstate(invalid="ignore"):
        fits = (sm >= _FILLED_SM) & (tensor < _NO_TENSOR)
        # A pipe or an engine that tells nothing forbids nothing.
        fits &= ~(fp32 < _HIGH_FP32) & ~(means["fp64_active_ratio"] > _SOME_FP64)
        fits &= ~(means["dram_active_ratio"] > _MEMORY_BOUND)
        is_large = means["mem_used_bytes"] >= _LITTLE_BYTES
        takes_turns = is_large & (means["dram_active_ratio"] >= _MUCH_TRAFFIC)
        fits &= ~(fp32 < _DENSE * sm) | takes_turns
        fits &= ~(used < _LITTLE_MEMORY) | is_large
        for key in ENGINES:
            fits &= ~(means[key] >= ENGINE_BUSY)
        all_fit: NDArray[np.bool_] = np.logical_and.reduce(fits, axis=1)
    return all_fit, np.isfinite((sm + tensor + used).min(axis=1))


def _has_fast_tensor(name: str | None) -> bool:
    """Whether a product has tensor cores that are much faster than its fp32 pipes."""
    sheet = sheet_named(name)
    if sheet is None or "fp32" not in sheet.dense_tflops:
        return False
    least = _FAST * sheet.dense_tflops["fp32"].value
    peaks = (sheet.dense_tflops.get(precision) for precision in _LIKE_FP32)
    return any(peak is not None and peak.value >= least for peak in peaks)


def _doubts(job: JobLook, stretch: Stretch) -> Iterator[Evidence]:
    fp32, fp64 = (stretch.mean(key) for key in ("fp32_active_ratio", "fp64_active_ratio"))
    if fp32 != fp32:
        text = "which pipes compute is not reported: it may be integers"
        yield Evidence("fp32_active_ratio", job.subject, text)
    elif fp64 != fp64:
        text = "whether fp64 pipes compute is not reported: it may need the precision"
        yield Evidence("fp64_active_ratio", job.subject, text)
    of_sms = stretch.share("fp32_active_ratio", "sm_active_ratio")
    if of_sms < _DENSE:
        text = (
            f"fp32 pipes are busy for {100 * of_sms:.0f} % of what the SMs are, and it passes over "
            "memory: so do convolutions between normalisations, solvers on grids, and renderers"
        )
        yield Evidence("fp32_active_ratio", job.subject, text, of_sms)
    used = stretch.share("mem_used_bytes", "mem_total_bytes")
    traffic = stretch.mean("dram_active_ratio")
    if not (used >= _MUCH_MEMORY or traffic >= _MUCH_TRAFFIC):
        cycles = f" and {100 * traffic:.0f} % of its cycles" if traffic == traffic else ""
        text = f"may multiply no matrices: it uses {100 * used:.0f} % of the memory{cycles}"
        yield Evidence("dram_active_ratio", job.subject, text, traffic)
    others = sorted({gpu.name or "?" for gpu in job.gpus if not _has_fast_tensor(gpu.name)})
    if others:
        text = f"whether tensor cores of the {others[0]} are faster is not known"
        yield Evidence("job", job.subject, text)


def _in_fp32(stretch: Stretch) -> str:
    fp32 = stretch.mean("fp32_active_ratio")
    return "in fp32 " if fp32 == fp32 else ""


def _evidence(job: JobLook, stretch: Stretch) -> Iterator[Evidence]:
    shares = [
        f"{word} {100 * share:.0f} %"
        for key, word in (
            ("sm_active_ratio", "SMs"),
            ("fp32_active_ratio", "fp32 pipes"),
            ("fp64_active_ratio", "fp64 pipes"),
            ("dram_active_ratio", "memory"),
        )
        if (share := stretch.mean(key)) == share
    ]
    tensor = stretch.mean("tensor_active_ratio")
    yield Evidence(
        "tensor_active_ratio",
        job.subject,
        f"tensor cores {100 * tensor:.1f} %; {', '.join(shares)}",
        tensor,
    )
