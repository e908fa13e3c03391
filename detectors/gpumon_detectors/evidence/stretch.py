"""Since when something lasts, in words that do not promise more than was observed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon_detectors.evidence.gpu_use import PAUSE_S
from gpumon_detectors.evidence.phrases import clock_time, span

if TYPE_CHECKING:
    from gpumon.plugin import JobLook, Past, Window
    from gpumon_detectors.evidence.gpu_use import GpuUse
    from gpumon_detectors.evidence.host_use import HostUse


def is_open(job: JobLook, use: GpuUse, host: HostUse, first: int) -> bool:
    """Whether a stretch may have begun before it was observed.

    It reaches back to the first row of the job's GPUs or of its CPUs, or to one behind a gap, and
    that is not the job's start.
    """
    past = use.past
    is_behind_gap = first > 0 and float(past.begins[first] - past.times[first - 1]) > past.longest_s
    if first > max(0, use.row_at(host.observed_since)) and not is_behind_gap:
        return False
    return not began_with_job(job, past, float(past.begins[first]))


def began_with_job(job: JobLook, past: Past, at: float) -> bool:
    """Whether a Unix time is about that of the job's start, as exactly as old rows tell.

    The row in which the job took its GPUs is not the job's alone: its first own one comes behind.
    """
    start_at = job.job.start_at
    row_s = float(past.times[0] - past.begins[0])
    return start_at is not None and at <= start_at + PAUSE_S + row_s


def since_words(
    window: Window, is_open: bool, known_s: float | None = None, before_s: float = 0.0
) -> str:
    """`since 14:03 (20 min observed)`, or `for at least 20 min (observed since 14:03)`.

    Args:
        window: From when to when.
        is_open: Whether it may have begun before.
        known_s: Seconds of it that were observed, where that is not all of it.
        before_s: Seconds before, in which something else than its samples tells of it.
    """
    length_s = window.end - window.start
    clock, length = clock_time(window.start), span(length_s if known_s is None else known_s)
    if is_open:
        perhaps = f", perhaps {span(length_s + before_s)}" if before_s else ""
        return f"for at least {length}{perhaps} (observed since {clock})"
    return f"since {clock} ({length} observed)"
