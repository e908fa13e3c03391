"""A large part of a run passes before the first GPU works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import LEAST_EVIDENCE_S, Confidence, Detector, Evidence, Severity, Window
from gpumon_detectors.evidence.gpu_use import LEAST_KNOWN
from gpumon_detectors.evidence.host_use import IDLE_BYTES_PER_S, IDLE_CORES, IDLE_CPU_RATIO
from gpumon_detectors.evidence.job_commands import inspect_commands
from gpumon_detectors.evidence.job_context import is_interactive, serving_name, sounds_interactive
from gpumon_detectors.evidence.phrases import clock_time, counted, span
from gpumon_detectors.evidence.watched import surest
from gpumon_detectors.idle.rest import SERIAL_CORES
from gpumon_detectors.idle.startup import (
    CORES,
    Activity,
    activity,
    computing_s,
    first_work,
    signs,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from gpumon.plugin import Finding, JobLook, Past, View

_SPAN_S: Final = 24 * 3600.0
"""Jobs that began more than a day ago are not examined: their start is history (our choice)."""

_SEEN_FROM_S: Final = 120.0
"""So late after a job's start its first sample may come, and still show how it starts."""

_LINGER_S: Final = 600.0
"""So long after the first work a start is still told: what is over is history. Our choice, for the
rarest looks."""

_EMPTY: Final = 0.01
"""Share of a GPU's memory below which nothing has opened it, as for the other idle classes."""

_CPU_ONLY_S: Final = 3600.0
"""A job that computes for so long and has not used a GPU is `cpu_only` until one works."""

_SURE_S: Final = 1800.0
"""A start so long is more than installing, compiling and loading take where they are prepared, also
of a run of days. Our choice: loading a model of hundreds of GB from slow storage takes as long."""

_LEAST_PART: Final = 0.01
"""Part of the time limit below which no start is a part of the run that counts: ten minutes of a
day are less (our choice)."""

_LEAST_SEEN: Final = 0.5
"""Part of a start that must have been seen; below `LEAST_KNOWN` the claim is a hypothesis."""

_TRICKLE: Final = 0.002
"""SM activity over five minutes from which a program may have begun, and wait for its input: one
that trains on what a single process prepares showed .0035 on an H200, one that compiles .0009."""

_GLIMPSED: Final = 0.5
_GLIMPSED_SM: Final = 0.0005
"""Share of the samples of five minutes that met a kernel, and SM activity, from which kernels come
all the while, however short: utilisation looks at a sixth of a second or so. A loop between an
environment and a small network showed 1.0 and .0013 on an H200, a compiler 0 and .0009, copies
alone no SM activity (our choices)."""

_KEYS: Final = (
    "gpu_util_ratio",
    "sm_active_ratio",
    "power_w",
    "mem_used_bytes",
    "mem_total_bytes",
    "compute_process_count",
    "pcie_rx_bytes_per_s",
    "pcie_tx_bytes_per_s",
    "nvlink_rx_bytes_per_s",
    "nvlink_tx_bytes_per_s",
    "encoder_util_ratio",
    "decoder_util_ratio",
)


class _Start(NamedTuple):
    """How a job started."""

    window: Window
    """From its first sample to the last one before a GPU works, or to now."""
    length_s: float
    """From the job's start on."""
    known_s: float
    """Seconds of the window that were seen."""
    is_over: bool
    """Whether a GPU worked behind it."""
    is_loaded: bool
    """Whether it ended with everything loaded, before any GPU worked."""
    work: Activity
    """What it did meanwhile off its GPUs."""
    may_wait: bool
    """Whether its last part may be the wait of a server for its first request."""
    trickle: float = 0.0
    """SM activity of the busiest GPU in its last five minutes."""
    glimpsed: float = 0.0
    """Share of the samples of these that met a kernel, on the GPU where that is most."""
    unopened_s: float = 0.0
    """Seconds from its begin on for which nothing had opened any GPU."""
    computed_s: float = 0.0
    """Seconds of these for which CPUs computed, and did not merely copy."""

    @property
    def may_have_begun(self) -> bool:
        """Whether the program may be at work, and wait for its input in nearly all of the time."""
        is_steady = self.glimpsed >= _GLIMPSED and self.trickle >= _GLIMPSED_SM
        return is_steady or self.trickle >= _TRICKLE


class SlowStartup(Detector):
    """Claims that loading, compiling or installing takes a large part of a run.

    From the job's start no GPU showed work for half a minute out of five, while its CPUs or its
    I/O worked; for 10 minutes or more, or for 5 and a tenth of its time limit. Any sign of work
    counts: utilisation, SM activity or a video engine of 5 %, power well above the GPU's own rest,
    1 GB/s over PCIe or NVLink. The claim's window ends where the GPUs first work. Ten minutes
    later, or when the run has lasted ten times as long, it is no longer claimed.

    It is unknown how long a run will last: a start is a *hypothesis* until it is long by any
    measure, a tenth of the time limit or half an hour. It is *supported*, too, where it was work
    that needs no GPU, as an installation is: for 10 minutes, and a hundredth of the time limit,
    nothing had opened one, and more than 1.6 CPUs a GPU computed, with more than 20 s for each GB
    that its nodes moved (a copy takes 3). While the first GPU has yet to work, it is
    *supported* at most, and a *hypothesis* as long as nothing has opened a GPU: a job for CPUs
    alone, and one that will never start, begin alike. Once one works, the start was one,
    *established* after 10 minutes.

    What looks alike: a program whose GPUs trickle, as they wait for their input: where SMs were
    active for .2 % of the last five minutes, or for .05 % and every other sample met a kernel, it
    stays a *hypothesis*. A server that has loaded its model and waits for its first request: where
    memory is held and no longer filled, and no more than a core for each GPU is busy, the time is a
    wait, and the claim counts what was before, or stays a *hypothesis*; so it does about a job
    named like a server or a session. Jobs whose CPUs and I/O rest as well (`never_started`), or
    that never use a GPU (`cpu_only`); sessions, whose owner types first; a job whose start was not
    seen. Traffic that its own CPU time does not suffice for keeps it a *hypothesis*. Some GPUs at
    work and others not is `partial_gpus_idle`.

    The loss is the time before the first GPU works, as far as it was seen, for all GPUs of the
    job. Installing for 10 minutes and more is a class of its own among jobs of low utilisation in
    a study of 400 jobs.
    """

    name = "slow_startup"
    version = "2"
    finding_classes = ("slow_startup",)
    needs = ("gpu_util_ratio", CORES)
    supported_after_s = LEAST_EVIDENCE_S
    established_after_s = 600.0
    every_s = 30.0

    def __init__(
        self,
        busy_util_ratio: float = 0.05,
        long_s: float = 600.0,
        large_ratio: float = 0.1,
        portal_names: str = "",
    ) -> None:
        self.busy_util_ratio = busy_util_ratio
        self.long_s = long_s
        self.large_ratio = large_ratio
        self.portal_names = portal_names

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job whose start is or was slow."""
        for job in view.jobs:
            age_s = job.age_s
            if age_s is None or not LEAST_EVIDENCE_S <= age_s <= _SPAN_S:
                continue
            if job.gpus_unknown or not job.gpus or is_interactive(job, self.portal_names):
                continue
            start = self._start(view, job, age_s) if self._may_be_slow(view, job, age_s) else None
            if start is None or not self._is_slow(job, start, age_s) or not _is_active(job, start):
                continue
            is_past = start.is_over or start.is_loaded
            if not is_past and start.work.cores >= SERIAL_CORES and start.length_s >= _CPU_ONLY_S:
                continue
            if not is_past or view.now - start.window.end <= _LINGER_S:
                yield self._finding(view, job, start, age_s)

    def _may_be_slow(self, view: View, job: JobLook, age_s: float) -> bool:
        """Whether utilisation alone shows no work soon; spares most jobs the other fields.

        With more signs of work the first one can only be earlier.
        """
        past = job.past(_KEYS[:1], age_s + 1.0)
        is_busy = past.columns[_KEYS[0]] >= self.busy_util_ratio
        work = first_work(past, np.logical_or.reduce(is_busy, axis=1))
        soon_s = min(self.long_s, LEAST_EVIDENCE_S)
        return work is None or past.times[max(work - 1, 0)] - view.now + age_s >= soon_s

    def _start(self, view: View, job: JobLook, age_s: float) -> _Start | None:
        """How it started, None where nobody saw that."""
        past = job.past(_KEYS, age_s + 1.0)
        times = past.times
        began_at = view.now - age_s
        # Of an old start the rows are coarse, and the one in which it began is not the job's alone.
        row_s = float(times[0] - past.begins[0]) if len(times) else 0.0
        if len(times) < 2 or past.begins[0] - began_at > _SEEN_FROM_S + row_s:
            return None
        work = first_work(past, signs(past, self.busy_util_ratio))
        # A row stands for the time since the one before: until then no GPU had worked for sure.
        end = len(times) - 1 if work is None else work - 1
        if end < 0:
            return None
        whole = self._until(view, job, past, end, began_at)
        if whole is None:
            return None
        whole = _with_unopened(view, job, past, whole._replace(is_over=work is not None))
        if not whole.may_wait:
            return whole
        loaded = int(times.searchsorted(whole.work.last_at, "right")) - 1
        before = self._until(view, job, past, loaded, began_at) if loaded > 0 else None
        if before is not None and self._is_slow(job, before, age_s):
            return before._replace(is_loaded=True, may_wait=False)
        return whole

    def _until(
        self, view: View, job: JobLook, past: Past, end: int, began_at: float
    ) -> _Start | None:
        """The start, were it over behind a row."""
        util = past.columns["gpu_util_ratio"][: end + 1]
        known = float(np.isfinite(util).mean(axis=0).min())
        seconds = past.seconds_from(0)[: end + 1]
        window = Window(float(past.begins[0]), float(past.times[end]), end + 1)
        length_s = window.end - window.start
        if known < _LEAST_SEEN or seconds.sum() < _LEAST_SEEN * length_s:
            return None
        # A sample that misses here and there is no hole: its time counts as the rest does.
        known_s = float(seconds.sum()) * (1.0 if known >= LEAST_KNOWN else known)
        work = activity(view, job, past, window)
        is_late = past.times[: end + 1] > window.end - LEAST_EVIDENCE_S
        sms = past.columns["sm_active_ratio"][: end + 1][is_late]
        length_s = window.end - began_at
        return _Start(
            window=window,
            length_s=length_s,
            known_s=known_s,
            is_over=False,
            is_loaded=False,
            work=work,
            may_wait=work.may_wait,
            trickle=_most(sms),
            glimpsed=_most(np.where(np.isfinite(util), util > 0.0, np.nan)[is_late]),
        )

    def _is_slow(self, job: JobLook, start: _Start, age_s: float) -> bool:
        limit_s = job.job.time_limit_s
        is_large = limit_s is not None and start.length_s >= self.large_ratio * limit_s
        is_long = start.length_s >= self.long_s
        is_much = start.length_s >= self.large_ratio * age_s
        return is_much and (is_long or (is_large and start.length_s >= LEAST_EVIDENCE_S))

    def _is_surely_slow(self, job: JobLook, start: _Start) -> bool:
        """Whether the start is a large part of the run however long that will last."""
        limit_s = job.job.time_limit_s
        is_large = limit_s is not None and start.length_s >= self.large_ratio * limit_s
        return is_large or start.length_s >= _SURE_S

    def _needs_no_gpu(self, job: JobLook, start: _Start) -> bool:
        """Whether it was work for CPUs alone that took long, and more than a moment of the run."""
        limit_s = job.job.time_limit_s
        is_noticed = limit_s is not None and start.length_s >= _LEAST_PART * limit_s
        return start.is_over and is_noticed and start.computed_s >= self.long_s

    def _finding(self, view: View, job: JobLook, start: _Start, age_s: float) -> Finding:
        window, share = start.window, 100 * start.length_s / age_s
        count = counted(len(job.gpus), "GPU")
        if start.is_over:
            what = (
                f"the first GPU started work after {span(start.length_s)}, {share:.0f} % of the run"
            )
        elif start.is_loaded:
            what = f"loading took {span(start.length_s)}, {share:.0f} % of the run"
        else:
            what = f"no GPU has worked in the {span(start.length_s)} since the start"
        is_past = start.is_over or start.is_loaded
        most = Confidence.ESTABLISHED if is_past else Confidence.SUPPORTED
        is_seen = start.known_s >= LEAST_KNOWN * (window.end - window.start)
        is_doubtful = start.may_wait or sounds_interactive(job) or not is_seen
        is_doubtful = is_doubtful or start.may_have_begun or start.work.may_be_others
        is_doubtful = is_doubtful or not (is_past or _is_opened(job))
        if is_doubtful or serving_name(job) is not None:
            most = Confidence.HYPOTHESIS
        elif not self._is_surely_slow(job, start):
            is_work = self._needs_no_gpu(job, start)
            most = Confidence.SUPPORTED if is_work else Confidence.HYPOTHESIS
        return view.finding(
            self,
            subject=job.subject,
            severity=Severity.WARNING,
            summary=f"slow start: {what}; {count} waited",
            window=window,
            evidence=self._evidence(job, start),
            advice=(
                "Install beforehand, into a container image or an environment that stays.",
                "Keep compiled code: TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR on shared disk.",
                "Copy and prepare data in a job without GPUs: sbatch --dependency=afterok:ID …",
                *inspect_commands(job),
            ),
            gpu_seconds=len(job.gpus) * start.known_s,
            gpus=job.uuids,
            at_most=surest(self, start.known_s, window.samples, most),
        )

    def _evidence(self, job: JobLook, start: _Start) -> list[Evidence]:
        window = start.window
        moved = f"{start.work.bytes_per_s / 1e6:.1f} MB/s read or written"
        of = f" of {job.cores}" if job.cores else ""
        evidence = [
            Evidence(
                "gpu_util_ratio",
                job.subject,
                f"utilisation below {100 * self.busy_util_ratio:.0f} % on all GPUs from "
                f"{clock_time(window.start)} to {clock_time(window.end)}, "
                f"{window.samples} samples",
                window.end - window.start,
            ),
            Evidence(
                CORES,
                job.subject,
                f"meanwhile {start.work.cores:.1f}{of} CPUs busy, {moved}",
                start.work.cores,
            ),
        ]
        if self._needs_no_gpu(job, start):
            text = (
                f"nothing had opened a GPU for the first {span(start.unopened_s)}: CPUs computed "
                f"for {span(start.computed_s)} of them, and did not merely copy"
            )
            key = "compute_process_count"
            evidence.append(Evidence(key, job.subject, text, start.computed_s))
        name = serving_name(job)
        if name is not None:
            evidence.append(Evidence("job", job.subject, f"may be a server: named {name}"))
        elif start.may_wait:
            text = (
                "may be a server that waits for its first request: nothing was loaded after "
                f"{clock_time(start.work.last_at)}"
            )
            evidence.append(Evidence("mem_used_bytes", job.subject, text))
        if start.work.may_be_others:
            text = "its CPU time does not suffice for as much traffic, which may be another's"
            evidence.append(Evidence(CORES, job.subject, text, start.work.cores))
        if start.may_have_begun:
            text = (
                f"{100 * start.trickle:.2g} % of the SMs were active in its last five minutes: it "
                "may have begun, and wait for its input"
            )
            evidence.append(Evidence("sm_active_ratio", job.subject, text, start.trickle))
        if not (start.is_over or start.is_loaded or _is_opened(job)):
            text = "nothing has opened a GPU yet: a job that needs none starts the same way"
            evidence.append(Evidence("compute_process_count", job.subject, text, 0.0))
        if sounds_interactive(job):
            evidence.append(
                Evidence("job", job.subject, "named like a session, whose owner types first")
            )
        return evidence


def _most(values: NDArray[np.floating]) -> float:
    """Mean over time of the GPU where that is highest, 0 where nothing is known."""
    count = np.isfinite(values).sum(axis=0)
    return float((np.nansum(values, axis=0) / np.maximum(count, 1)).max(initial=0.0))


def _with_unopened(view: View, job: JobLook, past: Past, start: _Start) -> _Start:
    """The start, and how much of it passed before anything opened a GPU."""
    columns, rows = past.columns, past.times <= start.window.end
    processes, used = columns["compute_process_count"][rows], columns["mem_used_bytes"][rows]
    with np.errstate(invalid="ignore"):
        is_open = (processes > 0) | (used > _EMPTY * columns["mem_total_bytes"][rows])
    opened = np.flatnonzero(is_open.any(axis=1))
    count = int(opened[0]) if len(opened) else len(is_open)
    is_known = np.isfinite(processes[:count]) & np.isfinite(used[:count])
    if count < 2 or is_known.mean(axis=0).min() < LEAST_KNOWN:
        return start
    window = start.window._replace(end=float(past.times[count - 1]), samples=count)
    computed_s = computing_s(view, job, window)
    return start._replace(unopened_s=window.end - window.start, computed_s=computed_s)


def _is_opened(job: JobLook) -> bool:
    """Whether a process has opened a GPU, or something was loaded into one."""
    with np.errstate(invalid="ignore"):
        is_loaded = job.latest("mem_used_bytes") > _EMPTY * job.latest("mem_total_bytes")
    return bool((job.latest("compute_process_count") > 0).any() or is_loaded.any())


def _is_active(job: JobLook, start: _Start) -> bool:
    """Whether CPUs or I/O worked meanwhile; what is not known does not."""
    nodes = max(1, len(job.job.nodes))
    least = max(IDLE_CPU_RATIO * (job.cores or 0), IDLE_CORES * nodes)
    return start.work.cores > least or start.work.bytes_per_s > IDLE_BYTES_PER_S * nodes
