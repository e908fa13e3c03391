"""A large part of a run passes before the first GPU works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.detect.contract import Detector
from gpumon.model.finding import Confidence, Evidence, Severity, Window
from gpumon_detectors.evidence.host_use import IDLE_CPU_RATIO
from gpumon_detectors.evidence.job_commands import look_inside
from gpumon_detectors.evidence.job_context import is_interactive, serving_name
from gpumon_detectors.evidence.phrases import clock_time, counted, span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from gpumon.detect.view import JobLook, View
    from gpumon.model.finding import Finding

_SPAN_S: Final = 24 * 3600.0
_SEEN_FROM_S: Final = 120.0
"""So late after a job's start its first sample may come, and still show how it starts."""

_SHORTEST_S: Final = 180.0
"""Below this no start is slow, however short the run."""

_LEAST_KNOWN: Final = 0.9
_LEAST_CORES: Final = 0.05
_LEAST_BYTES_PER_S: Final = 1e6
"""Of one node; less is log lines and health checks."""

_CORES: Final = "job_cpu_cores_used"
_IO: Final = ("job_io_read_bytes_per_s", "job_io_write_bytes_per_s")
_NET: Final = ("net_rx_bytes_per_s", "disk_read_bytes_per_s", "disk_write_bytes_per_s")


class _Start(NamedTuple):
    """How a job started."""

    window: Window
    """From its first sample to the last one before a GPU works, or to now."""
    length_s: float
    """From the job's start on."""
    is_over: bool
    cores: float
    """CPUs that it kept busy meanwhile, on average."""
    bytes_per_s: float
    """What it moved meanwhile, on average; of whole nodes where it is alone there."""


class SlowStartup(Detector):
    """Claims that loading, compiling or installing takes a large part of a run.

    From the job's start no GPU was used by 5 % or more in two samples in a row, while its CPUs or
    its I/O worked; for 10 minutes or more, or for 3 and a tenth of its time limit. It is claimed
    until the run has lasted ten times as long.

    While the first GPU has yet to work, it is *supported* at most: a job that computes on CPUs
    alone begins alike, and so does one that will never start. Once one works, the start was one,
    *supported* after 3 minutes, *established* after 10.

    What looks alike: jobs whose CPUs and I/O rest as well (`never_started`), or that never use a
    GPU (`cpu_only`); notebooks and shells, whose owner types first; servers that wait for a
    request; a job whose start nobody saw. Some GPUs at work and others not is
    `partial_gpus_idle`.

    The loss is the time before the first GPU works, for all GPUs of the job. Installing for 10
    minutes and more is a class of its own among jobs of low utilisation in a study of 400 jobs.
    """

    name = "slow_startup"
    version = "1"
    finding_classes = ("slow_startup",)
    needs = ("gpu_util_ratio", _CORES)
    supported_after_s = _SHORTEST_S
    established_after_s = 600.0
    every_s = 30.0

    def __init__(
        self, busy_util_ratio: float = 0.05, long_s: float = 600.0, large_ratio: float = 0.1
    ) -> None:
        self.busy_util_ratio = busy_util_ratio
        self.long_s = long_s
        self.large_ratio = large_ratio

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job whose start is or was slow."""
        for job in view.jobs:
            age_s = job.age_s
            if age_s is None or not _SHORTEST_S <= age_s <= _SPAN_S:
                continue
            if job.gpus_unknown or not job.gpus or is_interactive(job):
                continue
            start = self._start(view, job, age_s)
            if start is None or not self._is_slow(job, start, age_s) or not _is_active(job, start):
                continue
            if start.is_over or serving_name(job) is None:
                yield self._finding(view, job, start, age_s)

    def _start(self, view: View, job: JobLook, age_s: float) -> _Start | None:
        """How it started, None where nobody saw that."""
        table = job.table(("gpu_util_ratio",), age_s + 1.0)
        times, util = table.times, table.columns["gpu_util_ratio"]
        began_at = view.now - age_s
        if len(times) < 2 or times[0] - began_at > _SEEN_FROM_S:
            return None
        is_busy: NDArray[np.bool_] = np.any(util >= self.busy_util_ratio, axis=1)
        works = np.flatnonzero(is_busy[:-1] & is_busy[1:])
        # A row stands for the time since the one before: until then no GPU had worked for sure.
        end = int(works[0]) - 1 if len(works) else len(times) - 1
        if end < 0:
            return None
        known = np.isfinite(util[: end + 1]).all(axis=1)
        if known.mean() < _LEAST_KNOWN:
            return None
        window = Window(float(times[0]), float(times[end]), end + 1)
        cores, moved = _activity(view, job, window)
        return _Start(window, window.end - began_at, bool(len(works)), cores, moved)

    def _is_slow(self, job: JobLook, start: _Start, age_s: float) -> bool:
        limit_s = job.job.time_limit_s
        is_large = limit_s is not None and start.length_s >= self.large_ratio * limit_s
        is_long = start.length_s >= self.long_s
        is_much = start.length_s >= self.large_ratio * age_s
        return is_much and (is_long or (is_large and start.length_s >= _SHORTEST_S))

    def _finding(self, view: View, job: JobLook, start: _Start, age_s: float) -> Finding:
        window, share = start.window, 100 * start.length_s / age_s
        count = counted(len(job.gpus), "GPU")
        if start.is_over:
            what = f"the first GPU worked after {span(start.length_s)}, {share:.0f} % of the run"
        else:
            what = f"no GPU has worked in the {span(start.length_s)} since the start"
        length_s = window.end - window.start
        moved = f"{start.bytes_per_s / 1e6:.1f} MB/s read or written"
        of = f" of {job.cores}" if job.cores else ""
        return view.finding(
            self,
            subject=job.subject,
            severity=Severity.WARNING,
            summary=f"slow start: {what}; {count} waited",
            window=window,
            evidence=(
                Evidence(
                    "gpu_util_ratio",
                    job.subject,
                    f"utilisation below {100 * self.busy_util_ratio:.0f} % on all GPUs from "
                    f"{clock_time(window.start)} to {clock_time(window.end)}, "
                    f"{window.samples} samples",
                    length_s,
                ),
                Evidence(
                    _CORES,
                    job.subject,
                    f"meanwhile {start.cores:.1f}{of} CPUs busy, {moved}",
                    start.cores,
                ),
            ),
            advice=(
                "Install before, into a container image or an environment that is there.",
                "Keep what is compiled: TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR on shared disk.",
                "Copy and prepare data in a job without GPUs: sbatch --dependency=afterok:ID …",
                *look_inside(job),
            ),
            gpu_seconds=len(job.gpus) * length_s,
            gpus=job.uuids,
            at_most=Confidence.ESTABLISHED if start.is_over else Confidence.SUPPORTED,
        )


def _is_active(job: JobLook, start: _Start) -> bool:
    """Whether CPUs or I/O worked meanwhile; what is not known does not."""
    nodes = max(1, len(job.job.nodes))
    least = max(IDLE_CPU_RATIO * (job.cores or 0), _LEAST_CORES * nodes)
    return start.cores > least or start.bytes_per_s > _LEAST_BYTES_PER_S * nodes


def _activity(view: View, job: JobLook, window: Window) -> tuple[float, float]:
    """CPUs kept busy and bytes moved a second in a window, all nodes together."""
    seconds = view.now - window.start + 1.0
    own = job.cgroup((_CORES, *_IO), seconds)
    rows = own.times <= window.end
    cores = _mean(own.columns[_CORES][rows])
    moved = sum(_mean(own.columns[key][rows]) for key in _IO)
    if job.is_alone:
        hosts = job.hosts(_NET, seconds)
        rows = hosts.times <= window.end
        moved = max(moved, sum(_mean(hosts.columns[key][rows]) for key in _NET))
    return cores, moved


def _mean(values: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> float:
    """Mean over the rows of the sum over nodes; 0 where nothing is known."""
    return float(np.nan_to_num(values).sum(axis=1).mean()) if len(values) else 0.0
