"""The steps of a job take longer than they did before in the same run, on all ranks alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np

from gpumon.plugin import Confidence, Detector, Evidence, Severity, Window
from gpumon_detectors.evidence.gpu_use import PAST_S, is_named
from gpumon_detectors.evidence.job_context import context_of, is_interactive, serving_name
from gpumon_detectors.evidence.stretch import since_words
from gpumon_detectors.evidence.watched import mean_over, surest
from gpumon_detectors.ranks.data_imbalance import LOSS_WIDTH_S, waited_share
from gpumon_detectors.ranks.energy_levels import (
    BESIDE_S,
    LEAST_FALL,
    LONGEST_PAUSE_S,
    LOW_CLOCK,
    MOST_FALL,
    energy_fall,
    is_steady,
    lasting_from,
)
from gpumon_detectors.ranks.late_ranks import late_ranks
from gpumon_detectors.ranks.peers import shared_by, worlds_of
from gpumon_detectors.ranks.slow_causes import has_slow_link, waits_for_host
from gpumon_detectors.ranks.work_windows import (
    WINDOW_S,
    WORK_KEYS,
    medians,
    windows_of,
    work_windows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from gpumon.plugin import Finding, JobLook, View
    from gpumon_detectors.ranks.energy_levels import EnergyFall
    from gpumon_detectors.ranks.work_windows import Floats, WorkWindows

_STRETCH: Final = 20
"""Windows in a row that tell a level: ten minutes of steps and as much again, so that a checkpoint
or an evaluation among them does not (our choice)."""

_ALIKE: Final = 0.05
"""Fall of utilisation from which GPUs rest for longer rather than wait, and how far ranks may be
from the middle of their falls (our choice)."""

_SAME_KIND: Final = 0.12
"""How far apart what is left of tensor, SM and memory activity may lie: time that is lost thins
all of them alike, other work does not (our choice)."""

_LEAST_UNEVEN: Final = 0.015
_UNEVEN_TIMES: Final = 1.5
"""Spread between the ranks of one window from which their data are uneven, and how many times what
it was: of what all wait for alike all have the same part (our choice)."""

_MOST_WAITED: Final = 0.25
"""Part of the fall that may be waits of ranks for one another: from there on their data are uneven,
or a rank is late (our choice: what all wait for alike adds none)."""

_KINDS: Final = ("tensor_active_ratio", "sm_active_ratio", "dram_active_ratio")
_LEAST_SHARES: Final = {"tensor_active_ratio": 0.05, "sm_active_ratio": 0.2}

_ADVICE: Final = (
    "Compare what the program logs for each step then and now: loading, exchange, lists that grow.",
)


class _Drift(NamedTuple):
    first: int
    before: float
    now: float
    loss: float
    """Share of the time since the onset."""
    known_s: float
    field: str
    util: tuple[float, float]


class SlowDrift(Detector):
    """Claims that the steps of a job take longer than before in the same run.

    While steps get longer and nothing else changes, tensor cores, SMs and memory of all GPUs are
    active for a smaller share of the time, all by the same part. It claims a fall of 10 % and more
    (Greyhound's check of a mean shift) below the highest level that the job held for 20 minutes,
    which stays for 20 minutes, on all GPUs alike, from one minute to the next or slowly. Both
    levels must be steady: their spread over windows of a minute at most 4 %.

    *Supported* after 20 minutes, *established* after 60.

    What looks alike: longer sequences by plan keep the GPUs as busy, and so does a cap on clock or
    power, which lowers the clock (`throttled`); an evaluation ends; a new trial begins with a
    pause; a link that errs or carries less than before has a rule of its own, and so have storage,
    CPUs and memory for which tasks wait since then; other work shifts tensor cores, SMs and memory
    by different parts; one slow rank is `straggler`'s, uneven data are `data_imbalance`'s; servers,
    sessions and runs whose load swings are not looked at, nor jobs whose work falls to less than a
    third.

    A job of one GPU without SM counters is judged by the GPU's energy counter: slices of five
    minutes draw 10 % and more less than before, on average, at a clock as high, and utilisation
    and the use of the memory fall by the same part, as where the same kernels run and the GPU rests
    longer in between. That is *supported* at most, and its loss a lower bound: what a GPU draws at
    rest is not counted. Several GPUs without SM counters may wait for one another: nothing is
    claimed.

    The loss is the part of the work that is gone, of all GPUs of the job.
    """

    name = "slow_drift"
    version = "1"
    finding_classes = ("slow_drift",)
    needs = ("gpu_util_ratio",)
    wants: ClassVar[Mapping[str, str]] = {
        "sm_active_ratio": "steps of jobs of several GPUs",
        "energy_j": "steps on GPUs without SM counters",
    }
    supported_after_s = 1200.0
    established_after_s = 3600.0
    every_s = 120.0

    def __init__(self, portal_names: str = "") -> None:
        self.portal_names = portal_names

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job whose steps got longer."""
        for job in view.jobs:
            if not is_named(job):
                continue
            if is_interactive(job, self.portal_names) or serving_name(job) is not None:
                continue
            if len(job.gpus) == 1 and not np.isfinite(job.latest("sm_active_ratio")).any():
                yield from self._by_energy(view, job)
                continue
            if not _may_drift(job):
                continue
            windows = work_windows(view, job, PAST_S)
            drift = _drift(job, windows)
            if drift is None or _has_late_rank(view, job, windows):
                continue
            since = float(windows.begins[drift.first])
            if has_slow_link(view, job, since - BESIDE_S) or waits_for_host(view, job, since):
                continue
            yield self._finding(view, job, windows, drift)

    def _by_energy(self, view: View, job: JobLook) -> Iterator[Finding]:
        """The finding about a job of one GPU whose SM activity is not known."""
        fall = energy_fall(job)
        if fall is None or context_of(job, self.portal_names).is_serving:
            return
        if has_slow_link(view, job, fall.start - BESIDE_S) or waits_for_host(view, job, fall.start):
            return
        window = Window(fall.start, fall.end, fall.samples)
        longer = 100 * (fall.before_w / fall.now_w - 1.0)
        since = since_words(window, is_open=False, known_s=fall.known_s)
        yield view.finding(
            self,
            subject=job.subject,
            severity=Severity.WARNING,
            summary=f"steps take {longer:.0f} % longer or more {since}: its GPU rests longer in "
            "each",
            window=window,
            evidence=_energy_evidence(job, fall),
            advice=_ADVICE,
            gpu_seconds=fall.loss * min(fall.known_s, window.end - window.start),
            at_most=surest(self, fall.known_s, window.samples, Confidence.SUPPORTED),
        )

    def _finding(self, view: View, job: JobLook, windows: WorkWindows, drift: _Drift) -> Finding:
        window = Window(
            float(windows.begins[drift.first]), float(windows.ends[-1]),
            len(windows.ends) - drift.first,
        )  # fmt: skip
        known_s = min(drift.known_s, window.end - window.start)
        longer = 100 * (drift.before / drift.now - 1.0)
        since = since_words(window, is_open=False, known_s=drift.known_s)
        was, now = drift.util
        how = "its GPUs rest longer in each" if was - now >= _ALIKE else "its GPUs wait longer"
        name = "tensor cores" if drift.field == "tensor_active_ratio" else "SMs"
        text = f"{name} {100 * drift.now:.0f} % active now, {100 * drift.before:.0f} % before, "
        text += "on all GPUs alike; SMs and memory by the same part"
        return view.finding(
            self,
            subject=job.subject,
            severity=Severity.WARNING,
            summary=f"steps take about {longer:.0f} % longer {since}: {how}",
            window=window,
            evidence=(
                Evidence(drift.field, job.subject, text, drift.now),
                Evidence(
                    "gpu_util_ratio", job.subject,
                    f"utilisation {100 * now:.0f} %, before {100 * was:.0f} %", now,
                ),
            ),
            advice=_ADVICE,
            gpu_seconds=drift.loss * known_s * len(job.gpus),
            at_most=surest(self, known_s, window.samples, Confidence.ESTABLISHED),
        )  # fmt: skip


def _energy_evidence(job: JobLook, fall: EnergyFall) -> tuple[Evidence, ...]:
    was, now = fall.util
    text = f"draws {fall.now_w:.0f} W on average now, {fall.before_w:.0f} W before, at a clock as "
    return (
        Evidence("energy_j", job.subject, text + "high", fall.now_w),
        Evidence(
            "gpu_util_ratio",
            job.subject,
            f"utilisation {100 * now:.0f} %, before {100 * was:.0f} %; the memory is used less by "
            "the same part: the same work, with longer rests",
            now,
        ),
    )


def _may_drift(job: JobLook) -> bool:
    """Whether one of its GPUs does less now than it once did; spares the others the look back."""
    past = job.window(job.uuids[0], "sm_active_ratio", PAST_S)
    is_known = np.isfinite(past.values)
    times, values = past.times[is_known], past.values[is_known]
    if not len(times) or times[-1] - times[0] < 2 * _STRETCH * WINDOW_S:
        return False
    lately = values[times > times[-1] - BESIDE_S]
    return bool(len(lately)) and float(lately.mean()) < LOW_CLOCK * float(
        np.percentile(values, 90.0)
    )


def _has_late_rank(view: View, job: JobLook, windows: WorkWindows) -> bool:
    shared = shared_by(view, job)
    return any(late_ranks(windows, world, shared) is not None for world in worlds_of(job))


def _drift(job: JobLook, windows: WorkWindows) -> _Drift | None:
    """The drift that lasts until now, None where there is none."""
    if windows.measure != "sm_active_ratio":
        return None
    is_work = windows.is_work
    rows = np.flatnonzero(is_work)
    field = next((key for key in _KINDS[:2] if _is_measure(windows, rows, key)), None)
    if field is None or len(rows) < 2 * _STRETCH:
        return None
    level = medians(windows.means[field][rows])
    stretches = np.lib.stride_tricks.sliding_window_view(level, _STRETCH)
    middles = medians(stretches)
    best = int(np.nanargmax(middles[:-_STRETCH])) if len(middles) > _STRETCH else None
    if best is None:
        return None
    before, now = float(middles[best]), float(middles[-1])
    fall = 1.0 - now / before
    if not LEAST_FALL <= fall <= MOST_FALL or not (
        is_steady(stretches[best]) and is_steady(stretches[-1])
    ):
        return None
    low = level < (1.0 - max(LEAST_FALL / 2, fall / 3)) * before
    first = lasting_from(low, best + _STRETCH // 2)
    if first is None or len(rows) - first < _STRETCH:
        return None
    was, since = rows[best : best + _STRETCH], rows[first:]
    if _has_pause(windows, is_work, int(rows[first])):
        return None
    lately = rows[-_STRETCH:]
    if not _is_thinned(windows, was, lately) or _is_uneven(windows, field, was, lately):
        return None
    if _is_clocked_down(job, windows, was):
        return None
    if _waited_more(job, windows, field, was, lately) > _MOST_WAITED * fall:
        return None
    lost = 1.0 - level[first:] / before
    loss = float(np.nanmean(np.clip(lost, 0.0, 1.0)))
    util = windows.means["gpu_util_ratio"]
    return _Drift(
        first=int(rows[first]), before=before, now=now, loss=loss,
        known_s=float(windows.seconds[since].sum()), field=field,
        util=(float(np.nanmean(util[was])), float(np.nanmean(util[rows[-_STRETCH:]]))),
    )  # fmt: skip


def _is_measure(windows: WorkWindows, rows: NDArray[np.intp], key: str) -> bool:
    level = medians(windows.means[key][rows])
    known = level[np.isfinite(level)]
    return len(known) >= 0.8 * len(rows) and float(np.median(known)) >= _LEAST_SHARES[key]


def _has_pause(windows: WorkWindows, is_work: NDArray[np.bool_], first: int) -> bool:
    """Whether the job did something else, or nothing, beside the change."""
    at = windows.begins[first]
    beside = (windows.ends >= at - BESIDE_S) & (windows.begins <= at + BESIDE_S / 2)
    return float(windows.seconds[beside & ~is_work].sum()) > LONGEST_PAUSE_S


def _is_thinned(windows: WorkWindows, was: NDArray[np.intp], now: NDArray[np.intp]) -> bool:
    """Whether all kinds of work fell by the same part, and on all GPUs alike."""
    parts = []
    for key in _KINDS:
        before, since = (mean_over(windows.means[key][rows]) for rows in (was, now))
        if not (np.isfinite(before).all() and np.isfinite(since).all() and before.min() > 0.02):
            continue
        of_before = since / before
        if of_before.max() - of_before.min() > 2 * _ALIKE:
            return False
        parts.append(float(np.median(of_before)))
    return bool(parts) and max(parts) - min(parts) <= _SAME_KIND


def _is_uneven(
    windows: WorkWindows, field: str, was: NDArray[np.intp], now: NDArray[np.intp]
) -> bool:
    """Whether ranks differ more from window to window than before: their data are uneven."""
    before, since = (_spread(windows.means[field][rows]) for rows in (was, now))
    return since > max(_LEAST_UNEVEN, _UNEVEN_TIMES * before)


def _waited_more(
    job: JobLook, windows: WorkWindows, field: str, was: NDArray[np.intp], now: NDArray[np.intp]
) -> float:
    """Share of the time for which ranks wait for one another now, over that before.

    Counted over short windows: in those of a minute it evens out where steps are quick.
    """
    short = windows_of(job.past(WORK_KEYS, PAST_S), LOSS_WIDTH_S)
    is_work = short.is_work
    shares = []
    for rows in (was, now):
        within = (short.begins >= windows.begins[rows[0]]) & (short.ends <= windows.ends[rows[-1]])
        work = short.means[field][within & is_work]
        with np.errstate(invalid="ignore", divide="ignore"):
            shares.append(waited_share(work / mean_over(work)))
    return shares[1] - shares[0]


def _spread(work: Floats) -> float:
    """Deviation between the ranks of one window, but for what they differ by all the time."""
    with np.errstate(invalid="ignore", divide="ignore"):
        lead = work / medians(work)[:, None]
    swing = lead - mean_over(lead)
    return float(np.nanstd(swing)) if np.isfinite(swing).any() else 0.0


def _is_clocked_down(job: JobLook, windows: WorkWindows, was: NDArray[np.intp]) -> bool:
    """Whether the clock is lower than before: what that costs is the clock's."""
    past = job.past(("sm_clock_mhz",), PAST_S)
    clock = past.columns["sm_clock_mhz"]
    before = (past.times >= windows.begins[was[0]]) & (past.times <= windows.ends[was[-1]])
    since = past.times > past.times[-1] - _STRETCH * WINDOW_S
    was_mhz, now_mhz = (float(np.nanmean(clock[rows])) if np.isfinite(clock[rows]).any() else 0.0
                        for rows in (before, since))  # fmt: skip
    return bool(was_mhz > 0 and now_mhz < LOW_CLOCK * was_mhz)
