"""Kernels that are too small to fill the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np

from gpumon.plugin import SOME_MEMORY, SOME_TENSOR, Detector, Evidence, Severity
from gpumon_detectors.evidence.gpu_use import ENGINES, FAINT_RATIO, UNTOUCHED_MEMORY, is_named
from gpumon_detectors.evidence.host_use import host_use
from gpumon_detectors.evidence.job_commands import inspect_commands
from gpumon_detectors.evidence.stretch import since_words
from gpumon_detectors.evidence.watched import surest
from gpumon_detectors.placement.exchange import NVLINK, nvlink_peak
from gpumon_detectors.work.kind import (
    doubts_of_kind,
    is_at_cpu_limit,
    own_words,
    owners_of,
    surest_with,
    waits_for_files,
    whose,
)
from gpumon_detectors.work.links import PCIE, PCIE_LINK, copying
from gpumon_detectors.work.profile import GLANCE_S, SOME_SM, SPAN_S, profile_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from gpumon.plugin import Claimant, Finding, JobLook, View, Window
    from gpumon_detectors.evidence.host_use import HostUse
    from gpumon_detectors.work.profile import Profile, Stretch

_PIPES: Final = (
    *("sm_occupancy_ratio", "tensor_active_ratio", "dram_active_ratio"),
    *("fp32_active_ratio", "fp64_active_ratio"),
)
_KEYS: Final = (
    "mem_used_bytes",
    *("mem_total_bytes", "gpu_util_ratio", "sm_active_ratio", "power_w", "power_limit_w"),
    *_PIPES,
    *ENGINES,
    *PCIE,
    *PCIE_LINK,
    *NVLINK,
)

_BUSY_UTIL: Final = 0.5
_FEW_SM: Final = 0.5
"""Utilisation above and SM activity below half: the taxonomy's signature; DCGM's guide calls less
than half of the SMs *likely ineffective*."""

_MOST_MEMORY: Final = 0.5
"""Peak memory over all, up to which a larger batch would fit (the operational test of ICSE'24)."""

_MOST_OF_PIPE: Final = {
    "sm_occupancy_ratio": 0.2,
    "tensor_active_ratio": 0.1,
    "dram_active_ratio": 0.2,
    "fp32_active_ratio": 0.15,
    "fp64_active_ratio": 0.05,
}
"""What each pipe shows at most where none of them is the limit. Our choice: a third of what kernels
of a usual size show of it; a decoder of tokens keeps memory at .4 and more."""

_MOST_POWER: Final = 0.5
"""Share of the power limit that kernels which fill a few SMs draw at most: idle boards draw a tenth
to a sixth, boards at work two thirds and more (our choice)."""

_FEW_CORES: Final = 2.5
"""CPUs for each GPU that a program keeps busy which launches one kernel after the other: one, and a
loader beside it. More of them may be simulators, or prepare what the GPU waits for (our choice)."""

_ONE_SAMPLE: Final = 1.6
_ONE_POWER: Final = 1.3
"""So many times the mean of its slice a single sample of a share, or of power, may show (our
choice)."""

_BUSY_LINK: Final = 0.1
"""Share of its peak from which a link is in use for more than small gradients (our choice)."""

_REFERENCE_SM: Final = 0.5
"""SM activity that usual work shows: the least that DCGM's guide calls effective, and the median of
Acme's Seren cluster."""


class _Small(NamedTuple):
    """A job whose kernels are small."""

    stretch: Stretch
    mem_ratio: float
    """Peak of the memory in use, over all."""

    @property
    def lost(self) -> float:
        """Share of the time that is lost against the SMs that usual work keeps active."""
        return max(0.0, 1.0 - self.stretch.mean("sm_active_ratio") / _REFERENCE_SM)


class SmallBatch(Detector):
    """Claims that a job's kernels are too small to fill its GPUs.

    Signature, of all its GPUs: kernels run for more than half of the time, yet fewer than half of
    the SMs are active, and fewer than half while they run; no pipe is the limit (occupancy and
    memory below .2, fp32 below .15, tensor cores below .1, fp64 below .05), power below .5 of its
    limit, links and video engines at rest; and no more than half of the memory is in use at any
    time. Its CPUs are not at their limit, so nothing keeps it waiting but the launch of the next
    kernel.

    *Supported* after 15 minutes, *established* after an hour: the taxonomy's ten minutes and a half
    more, because a server under an even load looks alike for that long.

    What looks alike: a decoder of tokens is bound by memory, and holds more of it. A server with a
    small model, and a session: by name or by their bursts they stay a *hypothesis*. Reinforcement
    learning on simulators, and rendering, keep more than 2.5 CPUs busy for each GPU, which makes it
    a *hypothesis*, or their fp32 pipes. GPUs that wait for one another in a collective show neither
    memory nor tensor cores, and are not claimed; nor is a kernel that spins and touches no memory,
    nor are those whose copies or links are busy. A GPU that is also too large is `oversized_gpu`'s
    as well; the ledger charges this first.

    Needs SM and tensor counters: without them utilisation alone says nothing of how full a GPU is.

    The loss is how far its SM activity is below .5, the least that usual work shows.
    """

    name = "small_batch"
    version = "1"
    finding_classes = ("small_batch",)
    needs = ("gpu_util_ratio", "mem_used_bytes", "sm_active_ratio", "tensor_active_ratio")
    wants: ClassVar[Mapping[str, str]] = {"job_cpu_cores_used": "CPU time of jobs"}
    supported_after_s = 900.0
    established_after_s = 3600.0
    every_s = 30.0

    def __init__(self, portal_names: str = "") -> None:
        self.portal_names = portal_names

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job of small kernels."""
        for job in view.jobs:
            if is_named(job):
                yield from small_findings(self, view, job, self.portal_names)


def small_findings(
    detector: Claimant, view: View, job: JobLook, portal_names: str = ""
) -> Iterator[Finding]:
    """What a detector claims of a job whose kernels are small; nothing of others.

    Args:
        detector: Who claims it.
        view: What is seen.
        job: A job, or a GPU as its users hold it.
        portal_names: Exact names of jobs that the site's portal starts.
    """
    if not _may_be_small(job) or _small(job, GLANCE_S) is None:
        return
    small = _small(job, SPAN_S)
    if small is None:
        return
    stretch = small.stretch
    window, known_s = stretch.window, stretch.known_s
    host = host_use(view, job, window.end - window.start)
    if is_at_cpu_limit(job, host, window.start):
        return
    doubts = (*_doubts_of_host(job, host, window), *doubts_of_kind(job, portal_names))
    yield view.finding(
        detector,
        finding_class="small_batch",
        subject=job.subject,
        severity=Severity.WARNING,
        summary=f"{whose(job)}kernels too small for the GPU, "
        f"{_percent(stretch, 'sm_active_ratio')} of the SMs active "
        f"{since_words(window, stretch.is_open, known_s)}",
        window=window,
        evidence=(
            *_evidence(job, small),
            host.evidence(job, window.start, own_words(job)),
            *doubts,
        ),
        advice=(
            "Use a larger batch: memory has room for it; scale the learning rate with it.",
            "Or launch fewer kernels: CUDA graphs, torch.compile, fused optimizers.",
            "Or let several runs share one GPU: MPS, or several processes at once.",
            *inspect_commands(job),
        ),
        gpu_seconds=small.lost * known_s * len(job.gpus),
        at_most=surest(detector, known_s, window.samples, surest_with(doubts)),
        owners=owners_of(job),
    )


def _may_be_small(job: JobLook) -> bool:
    """Whether the newest values leave it open; spares most jobs the look back.

    Of one sample, which may hold more of one phase than of the other; a pause speaks for nothing.
    """
    sm, util = job.latest("sm_active_ratio"), job.latest("gpu_util_ratio")
    is_at_work = (util >= 0.5 * _BUSY_UTIL) | (sm >= SOME_SM)
    if not np.isfinite(sm).any() or not bool(is_at_work.any()):
        return False
    used, total = job.latest("mem_used_bytes"), job.latest("mem_total_bytes")
    power, limit = job.latest("power_w"), job.latest("power_limit_w")
    is_other = sm > _ONE_SAMPLE * _FEW_SM * np.maximum(util, _BUSY_UTIL)
    is_other |= (used > _MOST_MEMORY * total) | (power > _ONE_POWER * _MOST_POWER * limit)
    is_other |= job.latest("compute_process_count") == 0
    for key in ("tensor_active_ratio", "dram_active_ratio", "fp32_active_ratio"):
        is_other |= job.latest(key) > 2.0 * _MOST_OF_PIPE[key]
    return not bool(is_other.any())


def _small(job: JobLook, seconds: float) -> _Small | None:
    profile = profile_of(job, _KEYS, seconds, 1)
    if profile is None:
        return None
    fits, is_known = _fits(profile, nvlink_peak(job), len(job.gpus))
    stretch = profile.since(fits, is_known)
    if stretch is None or not _is_busy(stretch):
        return None
    mem_ratio = stretch.peak("mem_used_bytes") / float(np.nanmax(profile.means["mem_total_bytes"]))
    return _Small(stretch, mem_ratio) if mem_ratio <= _MOST_MEMORY else None


def _fits(
    profile: Profile, nvlink_bytes_per_s: float | None, gpus: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """By slice whether small kernels are all that runs, and whether that is known.

    Utilisation is a glance of a sixth of a second: at a sample a minute that of a slice is chance,
    so it is asked of the whole stretch.
    """
    means = profile.means
    sm = means["sm_active_ratio"]
    used = profile.share("mem_used_bytes", "mem_total_bytes").max(axis=1)
    with np.errstate(invalid="ignore"):
        fits = (sm >= SOME_SM) & (sm < _FEW_SM)
        # A pipe, a link or an engine that tells nothing forbids nothing.
        for key, most in _MOST_OF_PIPE.items():
            fits &= ~(means[key] > most)
        fits &= ~(means["power_w"] > _MOST_POWER * means["power_limit_w"])
        for key in ENGINES:
            fits &= ~(means[key] > FAINT_RATIO)
        for key in PCIE:
            fits &= ~(copying(profile, key) > _BUSY_LINK)
        for key in NVLINK if nvlink_bytes_per_s is not None else ():
            fits &= ~(means[key] > _BUSY_LINK * (nvlink_bytes_per_s or 0.0))
        fits &= ~(means["dram_active_ratio"] < UNTOUCHED_MEMORY)
        if gpus > 1:
            fits &= (means["tensor_active_ratio"] > SOME_TENSOR) | (
                means["dram_active_ratio"] >= SOME_MEMORY
            )
        all_fit = fits.all(axis=1) & (used <= _MOST_MEMORY)
    return all_fit, np.isfinite(sm.min(axis=1) + used)


def _is_busy(stretch: Stretch) -> bool:
    """Whether kernels run for more than half of the time on every GPU, and fill few of its SMs."""
    util, sm = (stretch.means(key) for key in ("gpu_util_ratio", "sm_active_ratio"))
    with np.errstate(invalid="ignore"):
        return bool(((util > _BUSY_UTIL) & (sm < _FEW_SM * util)).all())


def _doubts_of_host(job: JobLook, host: HostUse, window: Window) -> Iterator[Evidence]:
    each = host.mean_cores(window.start) / len(job.gpus)
    if not host.is_seen:
        text = "it may wait for its CPUs, which are not seen"
        yield Evidence("job_cpu_cores_used", job.subject, text)
    elif each > _FEW_CORES:
        text = f"{each:.1f} CPUs busy for each GPU: simulators, or the input, may set the pace"
        yield Evidence("job_cpu_cores_used", job.subject, text, each)
    elif not host.is_own:
        text = "it may wait for files, which is not seen of the job alone"
        yield Evidence("job_io_pressure_some_ratio", job.subject, text)
    yield from waits_for_files(job, window.end - window.start)


def _percent(stretch: Stretch, key: str) -> str:
    return f"{100 * stretch.mean(key):.0f} %"


def _evidence(job: JobLook, small: _Small) -> Iterator[Evidence]:
    stretch = small.stretch
    yield Evidence(
        "sm_active_ratio",
        job.subject,
        f"kernels run {_percent(stretch, 'gpu_util_ratio')} of the time and keep "
        f"{_percent(stretch, 'sm_active_ratio')} of the SMs active, tensor cores "
        f"{_percent(stretch, 'tensor_active_ratio')}, memory "
        f"{_percent(stretch, 'dram_active_ratio')}",
        stretch.mean("sm_active_ratio"),
    )
    yield Evidence(
        "mem_used_bytes",
        job.subject,
        f"at most {100 * small.mem_ratio:.0f} % of the memory in use",
        small.mem_ratio,
    )
    power, limit = (stretch.mean(key) for key in ("power_w", "power_limit_w"))
    if power == power and limit > 0:
        text = f"{power:.0f} W of {limit:.0f}"
        yield Evidence("power_w", job.subject, text, power)
