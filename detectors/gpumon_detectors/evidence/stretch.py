"""Since when something lasts, in words that do not promise more than was observed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon_detectors.evidence.gpu_use import PAUSE_S
from gpumon_detectors.evidence.phrases import clock_time, span

if TYPE_CHECKING:
    from gpumon.detect.series import Table
    from gpumon.detect.view import JobLook
    from gpumon.model.finding import Window
    from gpumon_detectors.evidence.gpu_use import GpuUse
    from gpumon_detectors.evidence.host_use import HostUse


def is_open(job: JobLook, use: GpuUse, host: HostUse, first: int) -> bool:
    """Whether a stretch may have begun before it was observed.

    It reaches back to the first row after a gap, or of all, of the job's GPUs or of its CPUs, and
    that is not the job's start.
    """
    if first > max(0, use.row_at(host.observed_since)):
        return False
    return not began_with_job(job, use.table, float(use.table.begins[first]))


def began_with_job(job: JobLook, table: Table, at: float) -> bool:
    """Whether a Unix time is about that of the job's start, as exactly as old rows tell.

    The row in which the job took its GPUs is not the job's alone: its first own one comes behind.
    """
    start_at = job.job.start_at
    row_s = float(table.times[0] - table.begins[0])
    return start_at is not None and at <= start_at + PAUSE_S + row_s


def since_words(window: Window, is_open: bool) -> str:
    """`since 14:03 (20 min observed)`, or `for at least 20 min (observed since 14:03)`."""
    clock, length = clock_time(window.start), span(window.end - window.start)
    if is_open:
        return f"for at least {length} (observed since {clock})"
    return f"since {clock} ({length} observed)"
