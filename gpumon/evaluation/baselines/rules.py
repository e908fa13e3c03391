"""The rules: each is public, simple, and named with its source.

None of them knows what kind of job it looks at. Where the source leaves a number open, or measures
what no counter of a GPU tells, what stands here is our choice, and it is said.
"""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from gpumon.model.finding_classes import CLASSES, Category

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from gpumon.evaluation.baselines.watched_job import WatchedJob, Window

_PARTIAL: Final = "partial_gpus_idle"

IDLE: Final = tuple(
    key for key, one in CLASSES.items() if one.category is Category.IDLE and key != _PARTIAL
)
"""What a job whose GPUs are all at zero may be: no counter of a GPU tells these apart."""

_WINDOW_S: Final = 600.0
"""Of thresholds and stalls: DLRover judges ten minutes, KempnerPulse what it reads at once."""

_REPORT_S: Final = 300.0
"""NVRx reports every 300 s (its callback's `report_time_interval`)."""


class Symptom(NamedTuple):
    """What a rule sees now."""

    subject: str
    classes: tuple[str, ...]
    """Any of which it may be, by precedence."""
    since: float
    """Unix time at which the evidence began."""
    held_s: float
    """Seconds since then that were observed."""
    lost_gpus: float | None
    """So many GPUs are lost as long as it lasts; None: the rule says nothing of loss."""


class Rule(Protocol):
    """A rule at work on one job."""

    is_by_minute: bool
    """Whether it looks when a minute is full, else at every tick."""

    def look(self, job: WatchedJob) -> list[Symptom] | None:
        """What it sees; None: it cannot judge, for it was too short or lacks counters."""
        ...


class Baseline(NamedTuple):
    """A rule with what it may claim."""

    make: Callable[[], Rule]
    classes: tuple[str, ...]
    has_hours: bool = True
    """Whether it says what is lost."""


class Zero:
    """Princeton's Job Defense Shield: every sample of the utilisation is 0 for so long.

    It warns after 60 and cancels after 120 minutes from the start, and warns after 240 where it
    looks at the last hours alone. Here all three slide. All GPUs count as lost meanwhile.
    """

    is_by_minute = False

    def __init__(self, minutes: float) -> None:
        self._seconds = 60.0 * minutes

    def look(self, job: WatchedJob) -> list[Symptom] | None:
        """Whether it has been at zero for so long."""
        if job.known_s < self._seconds:
            return None
        if job.zero_s < self._seconds:
            return []
        lost = 0 if job.is_missing else job.gpu_count
        return [
            Symptom(
                subject=job.subject,
                classes=IDLE,
                since=job.zero_since,
                held_s=job.zero_s,
                lost_gpus=lost,
            )
        ]


class ActivityThresholds:
    """KempnerPulse's table of classes, and what DCGM's guide says of few busy SMs.

    Each GPU is of the first class that fits the means of ten minutes. Those of KempnerPulse
    (docs/classification.md) come first: *idle* (utilisation, SMs and memory below 5 %, no I/O),
    *tensor compute* (tensor >= 15 %, SMs >= 40 %), *I/O* (PCIe >= 1 GB/s, SMs < 30 %) and
    *memory-bound* (memory >= 50 %, SMs < 50 %), of which the second and the last are no waste. Then
    SMs >= 60 % without tensor cores (< 2 %, our choice), and SMs < 50 % ("likely ineffective" in
    DCGM's guide) at a utilisation above 50 %. Idle GPUs are told as they are, any other class where
    half of the job's GPUs are of it (our choice).

    Lost are idle GPUs, and of one with few busy SMs the share that lacks to the threshold. No
    source says what a job without tensor cores loses.
    """

    is_by_minute = True

    _NOTHING, _IDLE, _COPY, _NO_TENSOR, _SMALL, _UNKNOWN = range(6)
    _NAMED: Final = {_COPY: "copy_bound", _NO_TENSOR: "no_tensor_cores", _SMALL: "small_batch"}
    _SM_ENOUGH: Final = {_COPY: 0.3, _SMALL: 0.5}
    classes = (*IDLE, _PARTIAL, *_NAMED.values())

    def look(self, job: WatchedJob) -> list[Symptom] | None:
        """Which classes its GPUs are of."""
        window = job.window(_WINDOW_S)
        if window is None:
            return None
        kinds = self._kinds(window)
        if (kinds == self._UNKNOWN).all():
            return None
        idle = int((kinds == self._IDLE).sum())
        found = []
        if idle:
            classes = IDLE if idle == job.gpu_count else (_PARTIAL,)
            found.append(self._symptom(job, window, classes, idle))
        for kind, key in self._NAMED.items():
            is_it = kinds == kind
            if is_it.sum() * 2 >= job.gpu_count:
                enough = self._SM_ENOUGH.get(kind)
                lost = 0.0
                if enough is not None:
                    lost = float((1.0 - window.of("sm_active_ratio")[is_it] / enough).sum())
                found.append(self._symptom(job, window, (key,), lost))
        return found

    def _kinds(self, window: Window) -> NDArray[np.int64]:
        util, sm = window.of("gpu_util_ratio"), window.of("sm_active_ratio")
        tensor, memory = window.of("tensor_active_ratio"), window.of("dram_active_ratio")
        received, sent = window.of("pcie_rx_bytes_per_s"), window.of("pcie_tx_bytes_per_s")
        is_copying = np.fmax(received, sent) >= 1e9
        return np.select(
            [
                np.isnan(util + sm + tensor + memory),
                (util < 0.05) & (sm < 0.05) & (memory < 0.05) & ~is_copying,
                (tensor >= 0.15) & (sm >= 0.4),
                is_copying & (sm < 0.3),
                (memory >= 0.5) & (sm < 0.5),
                (sm >= 0.6) & (tensor < 0.02),
                (util > 0.5) & (sm < 0.5),
            ],
            [
                self._UNKNOWN, self._IDLE, self._NOTHING, self._COPY, self._NOTHING,
                self._NO_TENSOR, self._SMALL,
            ],
            self._NOTHING,
        )  # fmt: skip

    def _symptom(
        self, job: WatchedJob, window: Window, classes: tuple[str, ...], lost: float
    ) -> Symptom:
        return Symptom(
            subject=job.subject,
            classes=classes,
            since=window.start,
            held_s=window.seconds,
            lost_gpus=lost,
        )


class ThreeSymptomStall:
    """nebius/soperator#796: GPU processes, constantly 100 % utilisation, very little power.

    The issue leaves two numbers open. Constant is ten minutes here, as DLRover waits for. Very
    little is half of what the job itself drew at best in ten minutes before: marin#7344 tells of a
    stall after 984 W, nccl#968 of 70 W at 100 %; who was never seen at work cannot be judged. All
    GPUs but one must show it, as the one that keeps the others waiting may do nothing at all. All
    are lost.
    """

    is_by_minute = True
    classes = ("hang",)

    def __init__(self) -> None:
        self._best_w = nan

    def look(self, job: WatchedJob) -> list[Symptom] | None:
        """Whether all three symptoms hold."""
        window = job.window(_WINDOW_S)
        if window is None:
            return None
        power_w, processes = window.of("power_w"), window.of("process_count")
        if np.isnan(power_w + processes + window.least_util).any():
            return None
        mean_w, before_w = float(power_w.mean()), self._best_w
        self._best_w = float(np.fmax(mean_w, before_w))
        if np.isnan(before_w):
            return None
        spinning = int(((processes >= 1.0) & (window.least_util >= 0.99)).sum())
        if mean_w >= 0.5 * before_w or spinning < max(1, job.gpu_count - 1):
            return []
        return [
            Symptom(
                subject=job.subject,
                classes=self.classes,
                since=window.start,
                held_s=window.seconds,
                lost_gpus=job.gpu_count,
            )
        ]


class RelativeScore:
    """NVRx: a rank whose relative score is below .75 is slow.

    The score is the fastest rank's time in kernels over its own. NVRx times the kernels in the
    program; a counter tells the share of time in which SMs are busy, and as the ranks of a job step
    together that share grows with the time in kernels. So the fastest is the least busy GPU that
    works at all (SMs from 5 % on, KempnerPulse's idle). A score of .5 means half as fast, so the
    job loses 1 - score of its GPUs to the slowest.
    """

    is_by_minute = True
    classes = ("straggler",)

    def __init__(self) -> None:
        self._next_at = -1.0
        self._report_symptoms: list[Symptom] | None = None

    def look(self, job: WatchedJob) -> list[Symptom] | None:
        """What the newest report says."""
        window = job.window(_REPORT_S)
        if window is None:
            return None
        if window.start >= self._next_at:
            self._next_at = window.start + _REPORT_S
            self._report_symptoms = self._report(job, window)
        return self._report_symptoms

    def _report(self, job: WatchedJob, window: Window) -> list[Symptom] | None:
        busy = window.of("sm_active_ratio")
        works = busy >= 0.05
        if works.sum() < 2:
            return None if np.isnan(busy).any() else []
        scores = busy[works].min() / np.where(works, busy, nan)
        slow = np.flatnonzero(scores < 0.75)
        worst = np.nanargmin(scores)
        lost = job.gpu_count * float(1.0 - scores[worst])
        return [
            Symptom(
                subject=rank_or_gpu(job, int(place)),
                classes=self.classes,
                since=window.start,
                held_s=window.seconds,
                lost_gpus=lost if place == worst else 0.0,
            )
            for place in slow
        ]


class OneSigma(RelativeScore):
    """Megatron-LM#4662: what lies more than one standard deviation, and 10 %, off the mean.

    There it is the speed of test kernels; here the power of a job's GPUs, as the utilisation of one
    that waits is 100 % too. It says nothing of loss.
    """

    def _report(self, job: WatchedJob, window: Window) -> list[Symptom] | None:
        power_w = window.of("power_w")
        known = ~np.isnan(power_w)
        # Of two each lies exactly one deviation off.
        if known.sum() < 3:
            return None if not known.all() else []
        mean_w, sigma_w = power_w[known].mean(), power_w[known].std()
        off_w = np.abs(power_w - mean_w)
        places = np.flatnonzero((off_w > sigma_w) & (off_w > 0.1 * mean_w))
        return [
            Symptom(
                subject=rank_or_gpu(job, int(place)),
                classes=self.classes,
                since=window.start,
                held_s=window.seconds,
                lost_gpus=None,
            )
            for place in places
        ]


def rank_or_gpu(job: WatchedJob, place: int) -> str:
    """The rank on a GPU of a job as findings name it; the GPU where no rank is known."""
    uuid = job.view.gpu_uuids[place]
    for rank in job.view.ranks:
        if rank.rank is not None and uuid in rank.gpu_uuids:
            return f"{job.subject}/rank:{rank.rank}"
    return f"gpu:{uuid}"


BASELINES: Final[Mapping[str, Baseline]] = {
    "zero_60": Baseline(lambda: Zero(60), IDLE),
    "zero_120": Baseline(lambda: Zero(120), IDLE),
    "zero_240": Baseline(lambda: Zero(240), IDLE),
    "activity_thresholds": Baseline(ActivityThresholds, ActivityThresholds.classes),
    "three_symptom_stall": Baseline(ThreeSymptomStall, ThreeSymptomStall.classes),
    "relative_score_0.75": Baseline(RelativeScore, RelativeScore.classes),
    "mean_1_sigma": Baseline(OneSigma, OneSigma.classes, has_hours=False),
}
"""By name, as the scores call them."""
