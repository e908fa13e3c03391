"""Ranks that spend most of their time exchanging data."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np

from gpumon.plugin import SPINNING_SM, Detector, Evidence, Severity
from gpumon_detectors.evidence.gpu_use import is_named
from gpumon_detectors.evidence.job_commands import inspect_commands
from gpumon_detectors.evidence.phrases import counted
from gpumon_detectors.evidence.stretch import since_words
from gpumon_detectors.evidence.watched import surest
from gpumon_detectors.placement.exchange import NVLINK, NVLINK_REACH, nvlink_peak
from gpumon_detectors.work.kind import doubts_of_kind, surest_with
from gpumon_detectors.work.links import Exchange, nvlink_busy, ports_of
from gpumon_detectors.work.profile import GLANCE_S, SPAN_S, profile_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from gpumon.plugin import Finding, JobLook, View
    from gpumon_detectors.work.profile import Profile, Stretch

_PIPES: Final = (
    *("gpu_util_ratio", "sm_active_ratio", "tensor_active_ratio", "dram_active_ratio"),
    "fp64_active_ratio",
)
_KEYS: Final = (*_PIPES, *NVLINK)

EXCHANGE_LESS: Final = (
    "Exchange less often: accumulate gradients over several batches.",
    "Hide the exchange behind the backward pass: larger buckets, no call that waits.",
)
"""What the owner of such a job can do."""

_BUSY_UTIL: Final = 0.8
"""Mean utilisation from which kernels run all the time but for checkpoints: the taxonomy's .9, and
a tenth less for these."""

_MOST_FILLED: Final = 0.65
"""Share of the SMs active while kernels run, up to which an exchange is not hidden behind work.
Half of the time in a collective, which takes a quarter of the SMs at most, and half in kernels that
fill them all give .62."""

_MOST_TENSOR: Final = 0.35
"""Tensor activity up to which half of the time may go into the exchange: dense training that hides
it shows .35 and more on average over its steps (our choice; large matrix products reach .6)."""

_MEMORY_BOUND: Final = 0.45
"""Share of the memory's cycles from which memory may be the limit: DCGM's guide puts the practical
peak at .8, so a GPU which exchanges half of the time and is bound by memory in the other half shows
.4."""

_SOME_FP64: Final = 0.05
"""Activity of the fp64 pipes from which it is a solver, which exchanges halos by design."""

_ALIKE: Final = 0.2
_LEAST_SPREAD: Final = 0.05
"""Ranks are alike where their SM activities differ by no more than a fifth of the mean, or than
this: silicon differs by per cents (our choice)."""

_PERHAPS: Final = 0.45
"""Share of the time in the exchange from which it is suspected."""

_SURE: Final = 0.5
"""Share from which it is more than a hypothesis: published shares of the exchange of tokens in
mixtures of experts, which it is part of by design, are 30 to 50 %."""

_BARE_TENSOR: Final = 0.06
"""Tensor activity up to which hardly anything but the exchange goes on: experts, which compute
between two exchanges, show .08 and more (our choice, below the least of published shares of peak
for mixtures of experts)."""

_MOST_BETWEEN: Final = 0.6
"""Tensor activity between two exchanges at most: the best of large models come to that over a
step's computation (our choice)."""

_TOLERANCE: Final = 1.1
"""So many times what else a GPU does leaves room for, an exchange may seem to take: how fast it is
on the links differs (our choice)."""

_USUAL: Final = 0.1
"""Share of the time that exchanges take where nobody complains of it (our choice)."""


class _Bound(NamedTuple):
    """The exchange of a job, and how much of its time it takes."""

    stretch: Stretch
    link: Exchange
    filled: float
    """Share of the SMs active while kernels run."""

    @property
    def room(self) -> float:
        """Share of the time that computation leaves to an exchange which it does not hide."""
        by_sm = (1.0 - self.filled) / (1.0 - SPINNING_SM)
        by_tensor = 1.0 - self.stretch.mean("tensor_active_ratio") / _MOST_BETWEEN
        return max(0.0, min(by_sm, by_tensor))

    @property
    def lost(self) -> float:
        """Share of the time that is lost: no more than the SMs are short of being filled."""
        return max(0.0, min(self.link.busy - _USUAL, 1.0 - self.filled))


class CommBound(Detector):
    """Claims that all ranks of a job spend most of their time exchanging data.

    Signature, of all GPUs of a job of two or more: kernels run all the time (utilisation 80 % and
    more), yet no more than .65 of the SMs are active while they do, tensor cores at .35 and memory
    at .45 at most, the ranks alike, and the links busy. An exchange reaches about .6 of NVLink's
    peak and .8 of a port's speed; what the links carried on average, over that, is the share of the
    time that it took. From .45 of the time on it is suspected, from .5 on it may be more.

    *Supported* after 10 minutes (the taxonomy's window), *established* after 30.

    What looks alike: a mixture of experts, whose tokens travel in every layer by design: 30 to 50 %
    of its time is published. It computes in between, so it is a *hypothesis* unless more than half
    of the time goes into the exchange and hardly anything is computed: no more SMs active than a
    collective that waits fills (.25), tensor cores at .06 at most. So is an exchange for which the
    SMs and tensor cores that are busy leave no room: a part of it is hidden. One that is hidden
    altogether leaves them busy, and is not claimed. A straggler's peers wait, and carry little; so
    do stages of a pipeline, and their SMs differ. A recommender and a solver are bound by memory;
    where fp64 pipes work, and of servers and sessions, it stays a *hypothesis*. On nodes with other
    jobs, ports do not show which job their traffic belongs to, so it is a *hypothesis* there too.
    Where fewer nodes would hold the job, `fragmented` says so.

    It is off by default: since experts look the same it proves few of the jobs that lose time so,
    and suspects experts. Let it run where none are trained. What distinguishes the two better is
    learnt: `learned` guesses this class by default, as a *hypothesis*.

    Needs SM and tensor counters: without them a GPU that waits in a collective and one that
    computes look alike.

    The loss is that share less a tenth, which an exchange usually takes, and never more than the
    share of the SMs that is not active. From outside it cannot be seen how much of it could be
    hidden behind the computation.
    """

    name = "comm_bound"
    version = "1"
    finding_classes = ("comm_bound",)
    needs = ("gpu_util_ratio", "sm_active_ratio", "tensor_active_ratio")
    wants: ClassVar[Mapping[str, str]] = {
        "nvlink_rx_bytes_per_s": "exchange over NVLinks",
        "nic_rx_bytes_per_s": "exchange over network ports",
    }
    supported_after_s = 600.0
    established_after_s = 1800.0
    every_s = 30.0
    is_off_by_default = True

    def __init__(self, portal_names: str = "") -> None:
        self.portal_names = portal_names

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job that is bound by its exchange."""
        for job in view.jobs:
            if len(job.gpus) < 2 or not is_named(job) or not _may_be_bound(job):
                continue
            if _bound(view, job, GLANCE_S) is None:
                continue
            bound = _bound(view, job, SPAN_S)
            if bound is not None:
                yield self._finding(view, job, bound)

    def _finding(self, view: View, job: JobLook, bound: _Bound) -> Finding:
        stretch, link = bound.stretch, bound.link
        window, known_s = stretch.window, stretch.known_s
        doubts = (*_doubts(job, bound), *doubts_of_kind(job, self.portal_names))
        return view.finding(
            self,
            subject=job.subject,
            severity=Severity.WARNING,
            summary=f"about {100 * link.busy:.0f} % of its time goes into the exchange of data "
            f"{since_words(window, stretch.is_open, known_s)}",
            window=window,
            evidence=(
                Evidence(
                    link.field,
                    job.subject,
                    f"{link.what} carry {link.bytes_per_s / 1e9:.1f} GB/s each way, "
                    f"{100 * link.share:.0f} % of their peak, on average",
                    link.bytes_per_s,
                ),
                Evidence(
                    "sm_active_ratio",
                    job.subject,
                    f"kernels run {100 * stretch.mean('gpu_util_ratio'):.0f} % of the time and "
                    f"keep {100 * stretch.mean('sm_active_ratio'):.0f} % of SMs and "
                    f"{100 * stretch.mean('tensor_active_ratio'):.0f} % of tensor cores busy, "
                    f"on all {counted(len(job.gpus), 'GPU')} alike",
                    stretch.mean("sm_active_ratio"),
                ),
                *doubts,
            ),
            advice=(*EXCHANGE_LESS, *inspect_commands(job)),
            gpu_seconds=bound.lost * known_s * len(job.gpus),
            at_most=surest(self, known_s, window.samples, surest_with(doubts)),
        )


def _may_be_bound(job: JobLook) -> bool:
    """Whether the newest values leave it open; spares most jobs the look back."""
    sm, tensor = job.latest("sm_active_ratio"), job.latest("tensor_active_ratio")
    # Of one sample, which may hold more of one phase than of the other.
    is_slack = not bool(((sm > 0.85) | (tensor > 0.5)).any())
    is_busy = bool((job.latest("gpu_util_ratio") >= 0.5).any())
    moved = np.nan_to_num(job.latest(NVLINK[1]))
    peak = nvlink_peak(job) if is_slack and is_busy and np.isfinite(sm).any() else None
    has_traffic = peak is not None and bool((moved > 0.5 * _PERHAPS * NVLINK_REACH * peak).any())
    return has_traffic or (is_slack and is_busy and len(job.job.nodes) > 1)


def _bound(view: View, job: JobLook, seconds: float) -> _Bound | None:
    profile = profile_of(job, _KEYS, seconds)
    if profile is None:
        return None
    peak = nvlink_peak(job)
    is_slack, is_known = _slack(profile)
    if peak is not None:
        busy = nvlink_busy(profile, peak)
        stretch = profile.since(is_slack & (busy >= _PERHAPS), is_known & np.isfinite(busy))
        if stretch is not None:
            return _of_nvlink(stretch, busy, peak)
    stretch = profile.since(is_slack, is_known)
    if stretch is None or len(job.job.nodes) < 2 or _would_fit_in_fewer(job):
        return None
    window = stretch.window
    ports = ports_of(view, job, window.end - window.start)
    if ports is None or ports.busy < _PERHAPS:
        return None
    return _Bound(stretch, ports, _filled(stretch))


def _slack(profile: Profile) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """By slice whether all GPUs run kernels that fill none of them, and whether that is known."""
    util, sm = profile.means["gpu_util_ratio"], profile.means["sm_active_ratio"]
    tensor, dram = profile.most("tensor_active_ratio"), profile.most("dram_active_ratio")
    mean = sm.mean(axis=1)
    spread = sm.max(axis=1) - sm.min(axis=1)
    with np.errstate(invalid="ignore"):
        is_slack = (
            (util.min(axis=1) >= _BUSY_UTIL)
            & (mean <= _MOST_FILLED * util.mean(axis=1))
            & (spread <= np.maximum(_LEAST_SPREAD, _ALIKE * mean))
            & (tensor <= _MOST_TENSOR)
            & ~(dram >= _MEMORY_BOUND)
        )
    return is_slack, np.isfinite(util.min(axis=1) + mean + tensor)


def _of_nvlink(stretch: Stretch, busy: NDArray[np.float64], peak: float) -> _Bound:
    rate = max(stretch.mean(key) for key in NVLINK)
    shown = stretch.is_shown
    share = float(np.average(busy[shown], weights=stretch.seconds[shown]))
    return _Bound(
        stretch,
        Exchange(
            what="NVLinks", field=NVLINK[0], bytes_per_s=rate, peak_bytes_per_s=peak, busy=share
        ),
        _filled(stretch),
    )


def _filled(stretch: Stretch) -> float:
    return stretch.mean("sm_active_ratio") / stretch.mean("gpu_util_ratio")


def _would_fit_in_fewer(job: JobLook) -> bool:
    """Whether one node less has as many GPUs: then the exchange is `fragmented`'s."""
    sizes = [node.slurm.gpu_count or 0 for node in job.nodes if node.slurm is not None]
    return job.gpu_count <= max(sizes, default=0) * (len(job.job.nodes) - 1)


def _doubts(job: JobLook, bound: _Bound) -> Iterator[Evidence]:
    """Why it may be by design, or not the job's own."""
    sm, tensor = (bound.stretch.mean(f"{name}_active_ratio") for name in ("sm", "tensor"))
    if bound.link.busy < _SURE or sm > SPINNING_SM or tensor > _BARE_TENSOR:
        text = "may be by design: experts on all ranks exchange their tokens this way"
        yield Evidence(bound.link.field, job.subject, text, bound.link.busy)
    if bound.link.busy > _TOLERANCE * bound.room:
        text = (
            f"computation leaves no more than {100 * bound.room:.0f} % of the time to it: a part "
            "is hidden, as experts' exchange of tokens may be by design"
        )
        yield Evidence("tensor_active_ratio", job.subject, text, bound.room)
    fp64 = bound.stretch.mean("fp64_active_ratio")
    if fp64 >= _SOME_FP64:
        text = f"fp64 pipes at {100 * fp64:.0f} %: solvers exchange by design"
        yield Evidence("fp64_active_ratio", job.subject, text, fp64)
    if bound.link.field != NVLINK[0] and not job.is_alone:
        text = "other jobs are on its nodes, and use their ports too"
        yield Evidence(bound.link.field, job.subject, text)
