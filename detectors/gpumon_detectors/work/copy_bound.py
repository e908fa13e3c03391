"""GPUs that pause for copies from or to their host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import Detector, Evidence, Severity
from gpumon_detectors.evidence.gpu_use import (
    ENGINES,
    FAINT_RATIO,
    SLOWEST_COPY,
    USUAL_PAUSE,
    is_named,
)
from gpumon_detectors.evidence.host_use import MOST_POLL_CORES, host_use
from gpumon_detectors.evidence.job_commands import inspect_commands
from gpumon_detectors.evidence.stretch import since_words
from gpumon_detectors.evidence.watched import surest
from gpumon_detectors.placement.seats import far_seats
from gpumon_detectors.work.kind import (
    doubts_of_kind,
    is_at_cpu_limit,
    surest_with,
    waits_for_files,
)
from gpumon_detectors.work.links import PCIE, PCIE_LINK, copying
from gpumon_detectors.work.profile import GLANCE_S, SOME_SM, SPAN_S, profile_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from gpumon.plugin import Finding, JobLook, View
    from gpumon_detectors.work.profile import Profile, Stretch

_LINK_MOST: Final = ("pcie_gen_max", "pcie_width_max")
_KEYS: Final = (
    *("gpu_util_ratio", "sm_active_ratio", "mem_used_bytes", "mem_total_bytes"),
    *PCIE,
    *PCIE_LINK,
    *_LINK_MOST,
    *ENGINES,
)

_WAYS: Final = dict(zip(PCIE, ("from the host", "to the host"), strict=True))

_AT_WORK: Final = 0.15
_PAUSING: Final = 0.75
"""Utilisation between which kernels run, and pause in every step: below, a GPU rests or loads its
weights; above, copies go on beside kernels (our choice)."""

_MUCH_OF_LINK: Final = 0.3
_FILLED: Final = 0.5
"""Share of what the link carries from which copies keep utilisation up by themselves: an H200 that
did little else showed 1.0 beside .03 of its SMs (.03 of the time with kernels, by GPM). Kernels
then run for as long as the SMs tell, of which they fill half or more (our choices)."""

_MOST_SM: Final = 0.45
"""SM activity up to which GPUs wait for half of their time or more: KempnerPulse's .3, and half as
much again for kernels between two copies that fill the SMs."""

_SURE_COPY: Final = 1 / 3
"""Share of what the link carries from which copies that take turns with kernels set the pace, also
where more SMs are active: slower ones may be a part of pauses that have another reason (our
choice: twice what a copy reaches at least)."""

_LEAST_BYTES_PER_S: Final = 1e9
"""A GPU that moves less copies nothing of weight (KempnerPulse's class)."""

_BUSY_LINK: Final = 0.08
"""Share of what the link carries, on average, from which copies take a good part of the time: a
quarter of it at the third of the link's rate that memory reaches which is not pinned (our
choice)."""

_FASTEST: Final = (4.0, 16.0)
"""Generation and lanes of the link that a faster one counts as: what is not pinned a CPU copies
first to where a GPU may read it, at 5 to 6 GB/s whatever the link carries (dask-cuda's pull
request 98)."""

_OTHER_WAY: Final = 0.6
"""What goes the other way, over this way, up to which it is no exchange: an optimizer's state on
the host comes and goes alike (our choice)."""

_ROOM: Final = 0.5
"""Share of the memory in use up to which what comes and goes alike would fit: an optimizer's state
is kept on the host for want of memory (ICSE'24 asks as much of a batch that could be larger)."""

_FULL: Final = 0.88
"""Share of the memory in use from which the host may hold what does not fit (our choice)."""


class _Copies(NamedTuple):
    """What goes over PCIe while kernels pause."""

    stretch: Stretch
    key: str
    """The direction with more."""
    share: float
    """Of what the link carries."""
    runs: float
    """Share of the time in which kernels run."""
    back: str = ""
    """The other direction, where about as much goes back."""

    @property
    def way(self) -> str:
        """Where to, in words."""
        return "to and from the host" if self.back else _WAYS[self.key]

    @property
    def lost(self) -> float:
        """Share of the time that is lost: in which no kernel runs."""
        return max(0.0, 1.0 - self.runs - USUAL_PAUSE)


class CopyBound(Detector):
    """Claims that a job's GPUs pause for copies from or to the host.

    Signature, of all its GPUs: kernels run for at most 75 % of the time, they or copies for 15 %
    and more (utilisation counts both: an H200 that does nothing but copy shows 100 %, so that
    beside a busy link the SMs show how long kernels run), fewer than .45 of the SMs are active, and
    over PCIe goes at least .08 of what the link carries, in one direction, on average; and copies
    are enough to fill the pauses, at a rate that copies have (.15 of the link and more). A link
    faster than PCIe 4.0 with 16 lanes counts as that one: what is not pinned a CPU copies first. Up
    to .75 of the SMs may be active where copies fill what these leave at a third of the link's
    rate. The link is as wide as the slot allows.

    *Supported* after 10 minutes, *established* after 30. Without SM counters utilisation alone says
    that kernels pause, and it is a *hypothesis*.

    What looks alike: an optimizer's state that is on the host by design comes and goes alike (the
    other way carries more than .6 as much), and is not claimed, nor is what ranks exchange so; with
    one GPU, half of its memory free and no more than 1.6 CPUs busy there is no need for it, and it
    is a *hypothesis*, as data may come and go by design. These are not claimed: copies beside
    kernels that never pause, as of a recommender; weights that are loaded once; a link that runs
    narrower than it could (`pcie_degraded`); ranks on CPUs of another socket than their GPU's
    (`numa_misplaced`); CPUs at their limit; and video. With more than .88 of the memory in use
    weights may be streamed from the host by design: a *hypothesis*, and so are servers, sessions,
    and processes that wait for files.

    Needs the PCIe counters that data-centre boards have.

    The loss is the time without a kernel, less a twentieth.
    """

    name = "copy_bound"
    version = "1"
    finding_classes = ("copy_bound",)
    needs = ("gpu_util_ratio", *PCIE)
    supported_after_s = 600.0
    established_after_s = 1800.0
    every_s = 30.0

    def __init__(self, portal_names: str = "") -> None:
        self.portal_names = portal_names

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job that waits for its copies."""
        for job in view.jobs:
            if not is_named(job) or not _may_copy(job) or _copies(job, GLANCE_S) is None:
                continue
            copies = _copies(job, SPAN_S)
            # One loss, one name: across sockets every copy is slow, and that can be mended.
            if copies is not None and not far_seats(job):
                yield from self._findings(view, job, copies)

    def _findings(self, view: View, job: JobLook, copies: _Copies) -> Iterator[Finding]:
        stretch = copies.stretch
        window, known_s = stretch.window, stretch.known_s
        host = host_use(view, job, window.end - window.start)
        if is_at_cpu_limit(job, host, window.start):
            return
        if copies.back and host.mean_cores(window.start) > MOST_POLL_CORES:
            # More than launches kernels: it may take the optimizer's steps, by design.
            return
        doubts = (
            *_doubts(job, copies),
            *waits_for_files(job, window.end - window.start),
            *doubts_of_kind(job, self.portal_names),
        )
        yield view.finding(
            self,
            subject=job.subject,
            severity=Severity.WARNING,
            summary=f"pauses for copies {copies.way} "
            f"{since_words(window, stretch.is_open, known_s)}",
            window=window,
            evidence=(
                *_evidence(job, copies),
                host.evidence(job, window.start),
                *doubts,
            ),
            advice=(
                "Copy from pinned memory, without waiting: pin_memory=True, non_blocking=True.",
                "Or keep on the GPU what every step needs, and send it in fewer, larger pieces.",
                *inspect_commands(job),
            ),
            gpu_seconds=copies.lost * known_s * len(job.gpus),
            at_most=surest(self, known_s, window.samples, surest_with(doubts)),
        )


def _may_copy(job: JobLook) -> bool:
    """Whether the newest values leave it open; spares most jobs the look back."""
    moved = np.fmax(*(job.latest(key) for key in PCIE))
    return bool((moved >= _LEAST_BYTES_PER_S).any())


def _copies(job: JobLook, seconds: float) -> _Copies | None:
    profile = profile_of(job, _KEYS, seconds)
    if profile is None:
        return None
    # Both ways may carry enough: it is named by the one with more.
    carried = [float(np.nan_to_num(profile.means[key]).sum()) for key in PCIE]
    for key, other in (PCIE, PCIE[::-1]) if carried[0] >= carried[1] else (PCIE[::-1], PCIE):
        share, paced = copying(profile, key), copying(profile, key, _FASTEST)
        is_exchange = _comes_back(profile, key, other) & ~_has_room(job, profile)
        stretch = profile.since(*_fits(profile, share, paced, is_exchange))
        if stretch is not None and _pauses(stretch, share, paced):
            shown = share[stretch.is_shown]
            runs = float(_kernels_run(stretch, share).mean())
            comes = stretch.mean(other) > _OTHER_WAY * stretch.mean(key)
            return _Copies(
                stretch=stretch,
                key=key,
                share=float(shown[np.isfinite(shown)].mean()),
                runs=runs,
                back=other if comes else "",
            )
    return None


def _comes_back(profile: Profile, key: str, other: str) -> NDArray[np.bool_]:
    """By slice and GPU whether about as much goes the other way."""
    with np.errstate(invalid="ignore"):
        comes: NDArray[np.bool_] = profile.means[other] > _OTHER_WAY * profile.means[key]
    return comes


def _has_room(job: JobLook, profile: Profile) -> NDArray[np.bool_]:
    """By slice and GPU whether what comes and goes would fit, and no other rank gets it."""
    with np.errstate(invalid="ignore"):
        has_room: NDArray[np.bool_] = profile.share("mem_used_bytes", "mem_total_bytes") <= _ROOM
    return has_room & (len(job.gpus) == 1)


def _fits(
    profile: Profile,
    share: NDArray[np.float64],
    paced: NDArray[np.float64],
    is_exchange: NDArray[np.bool_],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """By slice whether few SMs and many copies go together, and whether that is known.

    Utilisation is a glance of a sixth of a second: at a sample a minute that of a slice is chance,
    so it is asked of the whole stretch.
    """
    means = profile.means
    sm = means["sm_active_ratio"]
    has_sm = np.isfinite(sm).any()
    with np.errstate(invalid="ignore", divide="ignore"):
        # SMs are active for no longer than kernels run: the rest of the time bounds the pauses.
        is_filled = (sm < _PAUSING) & (share >= _SURE_COPY * (1.0 - sm))
        fits = (sm >= SOME_SM) & ((sm < _MOST_SM) | is_filled) | ~has_sm
        fits &= (paced >= _BUSY_LINK) & ~is_exchange
        # A link that tells no limit, or an engine that tells nothing, forbids nothing.
        for now, most in zip(PCIE_LINK, _LINK_MOST, strict=True):
            fits &= ~(means[now] < means[most] - 0.5)
        for engine in ENGINES:
            fits &= ~(means[engine] > FAINT_RATIO)
        all_fit: NDArray[np.bool_] = np.logical_and.reduce(fits, axis=1)
    needed = sm + share if has_sm else share
    return all_fit, np.isfinite(needed.min(axis=1))


def _pauses(stretch: Stretch, share: NDArray[np.float64], paced: NDArray[np.float64]) -> bool:
    """Whether kernels pause on every GPU, and the copies would fill the pauses."""
    util, runs = stretch.means("gpu_util_ratio"), _kernels_run(stretch, share)
    with np.errstate(invalid="ignore"):
        is_between = (util >= _AT_WORK) & (runs <= _PAUSING)
        is_filled = paced[stretch.is_shown].mean(axis=0) >= SLOWEST_COPY * (1.0 - runs)
    return bool((is_between & is_filled).all())


def _kernels_run(stretch: Stretch, share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of the time in which kernels run on each GPU, without the copies that count as use."""
    util, sm = (stretch.means(key) for key in ("gpu_util_ratio", "sm_active_ratio"))
    with np.errstate(invalid="ignore"):
        is_copying = share[stretch.is_shown].mean(axis=0) >= _MUCH_OF_LINK
        return np.where(is_copying & (sm < _FILLED * util), sm / _FILLED, np.fmax(util, sm))


def _evidence(job: JobLook, copies: _Copies) -> Iterator[Evidence]:
    stretch, way = copies.stretch, _WAYS[copies.key]
    rate, sm = (stretch.mean(key) for key in (copies.key, "sm_active_ratio"))
    turn = "to it" if copies.key == PCIE[0] else "from it"
    back = f" and {stretch.mean(copies.back) / 1e9:.1f} GB/s {turn}" if copies.back else ""
    filled = f", {100 * sm:.0f} % of the SMs are active" if sm == sm else ""
    yield Evidence(
        copies.key,
        job.subject,
        f"{rate / 1e9:.1f} GB/s {way}{back}, {100 * copies.share:.0f} % of what PCIe carries, on "
        "average",
        rate,
    )
    yield Evidence(
        "gpu_util_ratio",
        job.subject,
        f"kernels run {100 * copies.runs:.0f} % of the time{filled}",
        copies.runs,
    )


def _doubts(job: JobLook, copies: _Copies) -> Iterator[Evidence]:
    stretch = copies.stretch
    if copies.back:
        text = "about as much goes back: data may come and go by design, as of a stream"
        yield Evidence(copies.back, job.subject, text, stretch.mean(copies.back))
    sm = stretch.mean("sm_active_ratio")
    if sm != sm:
        text = "SM activity is not reported: only utilisation shows that kernels pause"
        yield Evidence("sm_active_ratio", job.subject, text)
    used = stretch.share("mem_used_bytes", "mem_total_bytes")
    if used >= _FULL:
        text = f"{100 * used:.0f} % of the memory in use: what does not fit may be copied by design"
        yield Evidence("mem_used_bytes", job.subject, text, used)
