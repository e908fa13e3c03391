"""A shell or notebook holds GPUs and hardly uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np

from gpumon.plugin import Confidence, Detector, Evidence, Severity, Window
from gpumon_detectors.evidence.episodes import HOUR_S
from gpumon_detectors.evidence.gpu_use import (
    FAINT_RATIO,
    LEAST_KNOWN,
    PAST_S,
    busy_share,
    filled,
    is_named,
)
from gpumon_detectors.evidence.host_use import host_use
from gpumon_detectors.evidence.job_commands import inspect_commands
from gpumon_detectors.evidence.job_context import is_interactive, serving_name
from gpumon_detectors.evidence.phrases import clock_time, counted, span
from gpumon_detectors.evidence.watched import surest
from gpumon_detectors.idle.unwatched import unwatched

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from gpumon.plugin import Finding, JobLook, Past, View
    from gpumon_detectors.idle.unwatched import Unwatched


_LEAST_S: Final = 1800.0
"""A share of time that was watched for less than half an hour means nothing (Princeton's Job
Defense Shield judges no shorter run)."""

_WAKE_RATIO: Final = 1.5
"""Above so many times `busy_time_ratio` a session is in use again. Our choice: both lie around the
taxonomy's tenth of the time, and a verdict must not flicker where the share is about that."""

_FULL_UTIL_RATIO: Final = 0.5
"""A sample with this utilisation or more is work, one with less in proportion. Our choice: where
the driver or an exporter tells means of a minute, a cell of some seconds is no minute of work, and
a program that computes half of the time is at work."""

_RUN_S: Final = 600.0
"""Who computes for ten minutes on end works again, whatever was before. Our choice: longer than a
cell that is tried out."""

_RUN_RATIO: Final = 0.8
"""Share of `_RUN_S` in which the GPUs work: the data of a step are loaded in between."""

_ADVICE: Final = (
    "End the session when the work pauses; let the notebook server stop kernels that rest.",
    'Ask for a slice or a shared GPU for interactive work: sinfo -o "%P %G"',
    "Run what takes long as a batch job: its GPUs are free when it ends.",
)


class _Idle(NamedTuple):
    """The time since when a session is idle."""

    window: Window
    share: float
    """Part of it in which any of the GPUs ran a kernel."""
    known_s: float
    gpu_seconds: float
    before: Unwatched | None = None
    """What it did before it was watched, where that tells of a rest as well."""


class InteractiveIdle(Detector):
    """Claims that an interactive session hardly uses the GPUs that it holds.

    Signature: Slurm runs no batch script for it (`salloc`, `srun --pty`), or its name is one of
    `portal_names`, exact names that a site's portal gives to its sessions, separated by commas. It
    becomes idle when its GPUs have worked in less than `busy_time_ratio` of the last hour. It stays
    so until they have worked in one and a half times that share of the hour, or for ten minutes on
    end. The two bounds lie on both sides of the taxonomy's 10 %. The first half hour is judged when
    it is over; before, a session that rests is claimed as a *hypothesis* where it began half an
    hour ago or earlier, sleeps, and has used no more than half a minute of CPU time for each GPU
    beside what it uses now. A rest that was on already when the session became idle counts from its
    beginning.

    *Supported* after 120 minutes that the session is idle (the taxonomy's window for interactive
    work), *established* after 240, the sliding window of Princeton's Job Defense Shield.

    What looks alike: short real experiments, such as three minutes of each 25; a server that is
    tried out by hand, known by its name, stays a *hypothesis*. Compiling or reading does not use
    the GPUs either. A batch job that rests is `idle_held`, under any name. Where utilisation is
    missing, as with MIG, nothing is claimed.

    A sample counts as work in full from a utilisation of 50 % on, below in proportion. The loss is
    the seconds without work while the session is idle, and no others.
    """

    name = "interactive_idle"
    version = "2"
    finding_classes = ("interactive_idle",)
    needs = ("gpu_util_ratio",)
    wants: ClassVar[Mapping[str, str]] = {"job_cpu_us": "rest before gpumon came"}
    supported_after_s = 7200.0
    established_after_s = 14400.0
    every_s = 60.0

    def __init__(self, busy_time_ratio: float = 0.08, portal_names: str = "") -> None:
        self.busy_time_ratio = busy_time_ratio
        self.portal_names = portal_names

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per session that is idle now."""
        for job in view.jobs:
            if not is_interactive(job, self.portal_names) or not is_named(job):
                continue
            idle = self._idle(job) or _at_first(view, job)
            if idle is not None:
                yield self._finding(view, job, idle)

    def _idle(self, job: JobLook) -> _Idle | None:
        """Since when the session is idle; None where it is not, or nothing is known of it now."""
        past = job.past(("gpu_util_ratio",), PAST_S, 1)
        if not len(past.times):
            return None
        util = past.columns["gpu_util_ratio"]
        peaks = past.peaks["gpu_util_ratio"]
        full = np.nan_to_num(np.minimum(1.0, peaks / _FULL_UTIL_RATIO))
        share = busy_share(util, peaks, FAINT_RATIO) * full
        share, is_known = filled(past, share, np.isfinite(util))
        is_all_known: NDArray[np.bool_] = np.logical_and.reduce(is_known, axis=1)
        busiest = share.max(axis=1)
        first = self._idle_row(past, busiest, is_all_known)
        if first is None or not is_all_known[-1]:
            return None
        # Whoever comes back no more left when the last cell ended, not when that was noticed.
        while first > 0 and busiest[first - 1] == 0 and is_all_known[first - 1]:
            first -= 1
        idle = is_known * (1.0 - share)
        # What is worked at the end is not claimed, and not yet the end of the claim.
        last = int(np.flatnonzero(np.logical_or.reduce(idle > 0, axis=1))[-1]) + 1
        if last <= first:
            return None
        seconds = past.seconds_from(first)[: last - first]
        known_s = float(seconds @ is_all_known[first:last])
        if known_s < LEAST_KNOWN * seconds.sum():
            return None
        idle_s = float((seconds @ idle[first:last]).sum())
        busy_s = float(seconds @ (busiest * is_all_known)[first:last])
        window = Window(float(past.begins[first]), float(past.times[last - 1]), last - first)
        return _Idle(window, busy_s / known_s if known_s else 0.0, known_s, idle_s)

    def _idle_row(
        self, past: Past, share: NDArray[np.float64], is_known: NDArray[np.bool_]
    ) -> int | None:
        """Row since which the session is idle without a break; None where it is not."""
        known_s, busy_s = past.seconds * is_known, past.seconds * share * is_known
        hour_known, hour_busy = (_sliding(past, s, HOUR_S) for s in (known_s, busy_s))
        run_known, run_busy = (_sliding(past, s, _RUN_S) for s in (known_s, busy_s))
        watched_s = _sliding(past, past.seconds, HOUR_S)
        can_judge = (watched_s >= _LEAST_S) & (hour_known >= LEAST_KNOWN * watched_s)
        ratio = np.divide(hour_busy, hour_known, out=np.ones_like(known_s), where=hour_known > 0)
        works = (run_busy >= _RUN_RATIO * _RUN_S) & (run_known > 0)
        wakes = can_judge & (ratio > _WAKE_RATIO * self.busy_time_ratio) | works
        rests = can_judge & (ratio < self.busy_time_ratio) & ~works
        rows = np.arange(len(share))
        last_woken = int(np.where(wakes, rows, -1).max())
        resting = np.flatnonzero(rests & (rows > last_woken))
        if not len(resting):
            return None
        first = int(resting[0])
        # Nothing was judged before: what holds of the first half hour holds from its beginning.
        is_start = not (can_judge[:first] | works[:first]).any()
        return 0 if is_start else first

    def _finding(self, view: View, job: JobLook, idle: _Idle) -> Finding:
        count = counted(len(job.gpus), "GPU")
        name = serving_name(job)
        is_portal = not job.job.is_interactive
        why = (
            "its name is one that the site's portal gives"
            if is_portal
            else "Slurm lists it without a batch script"
        )
        evidence = [
            Evidence(
                "gpu_util_ratio",
                job.subject,
                f"{count}: kernels ran for {100 * idle.share:.1f} % of {span(idle.known_s)}, "
                f"{counted(idle.window.samples, 'sample')}",
                idle.share,
            ),
            Evidence("job", job.subject, f"interactive: {why}"),
        ]
        if name is not None:
            evidence.append(Evidence("job", job.subject, f"may be a server: named {name}"))
        if idle.before is not None:
            evidence.append(idle.before.evidence(job))
        before_s = idle.before.seconds if idle.before is not None else 0.0
        perhaps = f"perhaps for {span(before_s + idle.known_s)}, " if before_s else ""
        most = Confidence.HYPOTHESIS if name is not None else Confidence.ESTABLISHED
        return view.finding(
            self,
            subject=job.subject,
            severity=Severity.WARNING,
            summary=f"session uses its {count} {100 * idle.share:.0f} % of the time since "
            f"{clock_time(idle.window.start)} ({perhaps}{span(idle.known_s)} observed)",
            window=idle.window,
            evidence=evidence,
            advice=(*_ADVICE, *inspect_commands(job)),
            gpu_seconds=idle.gpu_seconds,
            onset=idle.window.start - before_s,
            at_most=surest(self, idle.known_s, idle.window.samples, most),
        )


def _at_first(view: View, job: JobLook) -> _Idle | None:
    """The rest of a session that rested when it was first seen, and by its CPU time long before."""
    past = job.past(("gpu_util_ratio",), PAST_S, 1)
    if not len(past.times) or past.seconds.sum() >= _LEAST_S:
        return None
    peaks = past.peaks["gpu_util_ratio"]
    if not np.isfinite(peaks).all() or (peaks > FAINT_RATIO).any():
        return None
    begin = float(past.begins[0])
    before = unwatched(job, past, host_use(view, job, PAST_S), begin)
    if before is None or before.seconds < _LEAST_S or not before.slept(max(1, len(job.job.nodes))):
        return None
    known_s = float(past.seconds.sum())
    window = Window(begin, float(past.times[-1]), len(past.times))
    return _Idle(
        window=window,
        share=0.0,
        known_s=known_s,
        gpu_seconds=known_s * len(job.gpus),
        before=before,
    )


def _sliding(past: Past, seconds: NDArray[np.float64], length_s: float) -> NDArray[np.float64]:
    """Per row the sum of seconds over the time of this length that ends with it."""
    total = np.concatenate(([0.0], np.cumsum(seconds)))
    first = past.times.searchsorted(past.times - length_s, "right")
    found: NDArray[np.float64] = total[1:] - total[first]
    return found
