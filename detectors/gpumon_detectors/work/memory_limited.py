"""Work that full GPU memory cuts into pieces too small for the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from gpumon.plugin import Detector, Evidence, Severity
from gpumon_detectors.evidence.gpu_use import ENGINES, FAINT_RATIO, PIPES, USUAL_PAUSE, is_named
from gpumon_detectors.evidence.host_use import host_use
from gpumon_detectors.evidence.job_commands import inspect_commands
from gpumon_detectors.evidence.stretch import since_words
from gpumon_detectors.evidence.watched import surest
from gpumon_detectors.work.kind import (
    doubts_of_kind,
    is_at_cpu_limit,
    surest_with,
    waits_for_files,
)
from gpumon_detectors.work.links import PCIE, PCIE_LINK, copying
from gpumon_detectors.work.profile import GLANCE_S, SPAN_S, profile_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from gpumon.plugin import Finding, JobLook, View
    from gpumon_detectors.work.profile import Profile, Stretch

_KEYS: Final = (
    *("mem_used_bytes", "mem_total_bytes", "gpu_util_ratio"),
    *PIPES,
    *PCIE,
    *PCIE_LINK,
    *ENGINES,
)

_FULL: Final = 0.9
"""Share of the memory in use that is the brim. ICSE'24 counts from .8 on; allocators that keep what
they once had fill as much without being short of it, and servers reserve .9 (our choice: above)."""

_NEARLY_FULL: Final = 0.8
"""Share of the memory below which it does not fall meanwhile (ICSE'24): what is freed and asked for
again lets it breathe."""

_AT_WORK: Final = 0.15
_PAUSING: Final = 0.6
"""Utilisation between which kernels run, and pause: ICSE'24 counts up to .5, and a job that is read
once in a while shows a tenth more than it has."""

_SMALL: Final = 0.65
"""Share of the SMs active while kernels run, up to which the pieces are too small: whoever waits
for data, storage or a checkpoint fills them in between (our choice)."""

_SOME_TENSOR: Final = 0.02
"""Tensor activity from which matrices are multiplied: a model is what fills the memory."""

_MOST_DRAM: Final = 0.6
"""Memory activity over utilisation, up to which the memory's speed is not the limit: a decoder of
tokens keeps it busy for two thirds of its time and more (our choice)."""

_LEAST_WELL: Final = 3
"""So many slices with full memory and busy SMs show that memory is not the limit (our choice)."""

_QUIET_LINK: Final = 0.05
"""Share of what PCIe carries up to which nothing is swapped out to the host by design."""

_RESTING: Final = 0.25
_LEAST_RESTS: Final = 3
_REST_SHARE: Final = 0.05
"""Slices with less than a quarter of the usual SM activity: three, and more than one in twenty, are
rests between requests; a checkpoint an hour of six minutes is less (our choice)."""

_STEADY: Final = 0.35
"""Spread of the SM activity of samples over its mean up to which steps follow one another: requests
that come by chance spread more (our choice)."""


class MemoryLimited(Detector):
    """Claims that full GPU memory keeps a job's work from filling its GPUs.

    Signature, of all its GPUs: .9 of the memory in use at times and never less than .8; kernels run
    for 15 to 60 % of the time, and fill no more than .65 of the SMs while they do; matrices are
    multiplied (tensor cores at .02 and more), nothing goes over PCIe, samples are alike (they
    spread by no more than .35 of their mean), and neither CPUs, files nor the memory's speed are
    the limit.

    *Supported* after 30 minutes, *established* after 2 hours.

    What looks alike: a job that did more with as much memory before, which something else slows; a
    server, which reserves its memory by design and answers in bursts; a cache of an allocator that
    filled up beside any other reason to pause. A job that waits for data, storage or checkpoints
    fills the SMs in between, and is not claimed; neither is one that offloads its state. Counters
    cannot prove that there is no other reason: servers and sessions stay a *hypothesis*, and so do
    jobs whose CPUs are not seen, or that rest for two minutes again and again.

    Needs SM and tensor counters.

    The loss is the time without a kernel, less a twentieth.
    """

    name = "memory_limited"
    version = "1"
    finding_classes = ("memory_limited",)
    needs = ("gpu_util_ratio", "mem_used_bytes", "sm_active_ratio", "tensor_active_ratio")
    wants: ClassVar[Mapping[str, str]] = {"job_cpu_cores_used": "CPU time of jobs"}
    supported_after_s = 1800.0
    established_after_s = 7200.0
    every_s = 60.0

    def __init__(self, portal_names: str = "") -> None:
        self.portal_names = portal_names

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job that its memory limits."""
        for job in view.jobs:
            if not is_named(job) or not _may_be_full(job) or _limited(job, GLANCE_S) is None:
                continue
            stretch = _limited(job, SPAN_S)
            if stretch is not None:
                yield from self._findings(view, job, stretch)

    def _findings(self, view: View, job: JobLook, stretch: Stretch) -> Iterator[Finding]:
        window, known_s = stretch.window, stretch.known_s
        host = host_use(view, job, window.end - window.start)
        waits = tuple(waits_for_files(job, window.end - window.start))
        if waits or is_at_cpu_limit(job, host, window.start):
            return
        doubts = doubts_of_kind(job, self.portal_names)
        if not host.is_seen:
            text = "it may wait for its CPUs, which are not seen"
            doubts = (*doubts, Evidence("job_cpu_cores_used", job.subject, text))
        if _rests_often(stretch):
            text = "its GPUs rest for minutes again and again, as those of a server do"
            doubts = (*doubts, Evidence("sm_active_ratio", job.subject, text))
        util, used = stretch.mean("gpu_util_ratio"), _used(stretch)
        yield view.finding(
            self,
            subject=job.subject,
            severity=Severity.WARNING,
            summary=f"{100 * used:.0f} % of the memory full, and small pieces of work in between "
            f"{since_words(window, stretch.is_open, known_s)}",
            window=window,
            evidence=(
                Evidence(
                    "gpu_util_ratio",
                    job.subject,
                    f"kernels run {100 * util:.0f} % of the time and fill "
                    f"{100 * stretch.mean('sm_active_ratio') / util:.0f} % of the SMs meanwhile, "
                    f"tensor cores {100 * stretch.mean('tensor_active_ratio'):.0f} %",
                    util,
                ),
                host.evidence(job, window.start),
                *doubts,
            ),
            advice=(
                "Share what every GPU holds: ZeRO or FSDP; keep fewer activations (checkpointing).",
                "Or use 16 bits and a leaner optimizer, then a larger batch.",
                *inspect_commands(job),
            ),
            gpu_seconds=max(0.0, 1.0 - util - USUAL_PAUSE) * known_s * len(job.gpus),
            at_most=surest(self, known_s, window.samples, surest_with(doubts)),
        )


def _may_be_full(job: JobLook) -> bool:
    """Whether the newest values leave it open; spares most jobs the look back."""
    used, total = job.latest("mem_used_bytes"), job.latest("mem_total_bytes")
    if not np.isfinite(job.latest("tensor_active_ratio")).any() or bool(
        (used < 0.9 * _FULL * total).any()
    ):
        return False
    return not bool((job.latest("sm_active_ratio") > 1.5 * _SMALL * _PAUSING).any())


def _used(stretch: Stretch) -> float:
    return stretch.share("mem_used_bytes", "mem_total_bytes")


def _limited(job: JobLook, seconds: float) -> Stretch | None:
    profile = profile_of(job, _KEYS, seconds)
    stretch = None if profile is None else profile.since(*_fits(profile))
    if stretch is None or not (_is_between(stretch) and _is_steady(stretch)):
        return None
    return None if _worked_well_before(stretch) else stretch


def _fits(profile: Profile) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """By slice whether memory may be the limit, and whether that is known.

    Utilisation is a glance of a sixth of a second: at a sample a minute that of a slice is chance,
    so it is asked of the whole stretch.
    """
    means = profile.means
    sm, tensor, dram = (means[key] for key in PIPES)
    used = profile.share("mem_used_bytes", "mem_total_bytes")
    with np.errstate(invalid="ignore"):
        fits = (used >= _NEARLY_FULL) & (tensor >= _SOME_TENSOR)
        fits &= (sm <= _SMALL * _PAUSING) & ~(dram > _MOST_DRAM * _PAUSING)
        for key in PCIE:
            fits &= ~(copying(profile, key) > _QUIET_LINK)
        for key in ENGINES:
            fits &= ~(means[key] > FAINT_RATIO)
        all_fit: NDArray[np.bool_] = np.logical_and.reduce(fits, axis=1)
    return all_fit, np.isfinite((sm + tensor + used).min(axis=1))


def _is_between(stretch: Stretch) -> bool:
    """Whether kernels run and pause on every GPU, small ones, beside memory that gets full."""
    util, sm, dram = (
        stretch.means(key) for key in ("gpu_util_ratio", "sm_active_ratio", "dram_active_ratio")
    )
    used = stretch.profile.share("mem_used_bytes", "mem_total_bytes")[stretch.is_shown]
    with np.errstate(invalid="ignore"):
        is_at_work = (util >= _AT_WORK) & (util <= _PAUSING) & (sm <= _SMALL * util)
        is_so = is_at_work & ~(dram > _MOST_DRAM * util) & (used.max(axis=0) >= _FULL)
    return bool(is_so.all())


def _worked_well_before(stretch: Stretch) -> bool:
    """Whether the SMs were busier on some GPU while its memory was as full: then it is not that."""
    profile, before = stretch.profile, slice(None, stretch.first)
    used = profile.share("mem_used_bytes", "mem_total_bytes")[before]
    sm = profile.means["sm_active_ratio"][before]
    with np.errstate(invalid="ignore"):
        is_well = (used >= _NEARLY_FULL) & (sm > _SMALL * _PAUSING)
    return bool((is_well.sum(axis=0) >= _LEAST_WELL).any())


def _rests_often(stretch: Stretch) -> bool:
    """Whether the SMs were nearly still for whole slices more often than checkpoints explain."""
    sm = stretch.profile.means["sm_active_ratio"]
    known = np.isfinite(sm).all(axis=1)
    sm = sm[known]
    at_work = np.flatnonzero((sm >= _AT_WORK * _PAUSING).any(axis=1))
    if not len(at_work):
        return False
    sm = sm[at_work[0] :]
    rests = int((sm < _RESTING * np.median(sm, axis=0)).all(axis=1).sum())
    return rests >= _LEAST_RESTS and rests > _REST_SHARE * len(sm)


def _is_steady(stretch: Stretch) -> bool:
    """Whether samples of the last minutes are alike on every GPU, as those of steps are."""
    past = stretch.profile.past
    values = past.columns["sm_active_ratio"][past.times > past.times[-1] - GLANCE_S]
    if not np.isfinite(values).any(axis=0).all():
        return False
    middle = np.nanmedian(values, axis=0)
    spread = np.nanmedian(np.abs(values - middle), axis=0)
    return bool((1.48 * spread <= _STEADY * middle).all())
