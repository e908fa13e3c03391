"""Whether a job's GPUs are used: kernels, video engines, copies, processes, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.detect.series import bridged, rows_since
from gpumon.model.finding import Window

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpumon.detect.series import Table
    from gpumon.detect.view import JobLook

NEEDS: Final = ("process_count", "mem_used_bytes", "mem_total_bytes", "gpu_util_ratio")
"""Without these a GPU's idleness cannot be told; NVML gives them on every GPU without MIG."""

_SIGNS: Final = {
    "sm_active_ratio": 0.01,
    "encoder_util_ratio": 0.0,
    "decoder_util_ratio": 0.0,
    "pcie_rx_bytes_per_s": 10e6,
    "pcie_tx_bytes_per_s": 10e6,
}
"""Fields that tell of work which utilisation does not count, where they are known, and the most
that an idle GPU shows: video engines run no kernels, and NVML's own reading moves a few MB/s."""

PAST_S: Final = 24 * 3600.0
"""As far back as history reaches: a shorter look back would end a long rest too late."""

PAUSE_S: Final = 120.0
"""Working GPUs may rest this long: the longest checkpoint pauses reported are about 96 s."""

_LEAST_KNOWN: Final = 0.9
"""Share of a window that must be known for a mean over it."""


class GpuUse(NamedTuple):
    """All GPUs of a job over one window, the newest sample included; rows by GPUs."""

    table: Table
    is_still: NDArray[np.bool_]
    """Nothing runs on it: a GPU of which nothing is known for longer than a moment is not still."""
    is_empty: NDArray[np.bool_]
    """Still, without process, its memory free."""
    was_used: bool
    """Whether a GPU was seen that is not empty, however long ago and beyond gaps."""

    def still_row(self) -> int:
        """Row since which all GPUs are still; the number of rows where one is not."""
        return together_since(self.is_still)

    def empty_row(self) -> int:
        """Row since which all GPUs are empty; the number of rows where one is not."""
        return together_since(self.is_empty)

    def row_at(self, at: float) -> int:
        """First row that was taken at a Unix time or later."""
        return int(self.table.times.searchsorted(at, "left"))

    def window(self, first: int, quiet_since: float) -> Window:
        """The stretch from a row to the newest one, from no earlier than a Unix time within it."""
        times = self.table.times
        begin = max(float(self.table.begins[first]), min(quiet_since, float(times[first])))
        return Window(begin, float(times[-1]), len(times) - first)


def together_since(flags: NDArray[np.bool_]) -> int:
    """Row since which every column holds; the number of rows where one does not."""
    together: NDArray[np.bool_] = np.logical_and.reduce(flags, axis=1)
    return int(rows_since(together[:, None])[0])


def any_since(flags: NDArray[np.bool_]) -> int:
    """Row since which some column holds in every row; the number of rows where none does now."""
    some: NDArray[np.bool_] = np.logical_or.reduce(flags, axis=1)
    return int(rows_since(some[:, None])[0])


def is_named(job: JobLook) -> bool:
    """Whether telemetry names all the job's GPUs and none of them is cut by MIG."""
    is_known = bool(job.gpus) and not job.gpus_unknown
    return is_known and not any(gpu.value("mig_mode") == 1 for gpu in job.gpus)


def is_still_now(job: JobLook) -> bool:
    """Whether the newest utilisation of every GPU is known and 0; spares the others the window."""
    return bool((job.latest("gpu_util_ratio") == 0).all()) and is_named(job)


def busy_seconds(
    times: NDArray[np.float64], ratios: NDArray[np.float32]
) -> NDArray[np.float64] | None:
    """Integral over time of shares, one per column, each row standing for the time before it.

    None where more than a tenth of a column is missing; what is missing counts as the rest does.
    """
    steps = np.diff(times, prepend=times[:1])[:, None]
    is_known = np.isfinite(ratios)
    known_s = (steps * is_known).sum(axis=0)
    length_s = float(times[-1] - times[0])
    if length_s <= 0 or (known_s < _LEAST_KNOWN * length_s).any():
        return None
    busy_s: NDArray[np.float64] = (steps * np.where(is_known, ratios, 0.0)).sum(axis=0)
    scaled: NDArray[np.float64] = busy_s * length_s / known_s
    return scaled


def gpu_use(job: JobLook, seconds: float, idle_mem_ratio: float) -> GpuUse | None:
    """The use of all GPUs of a job; None where one of them is unnamed, cut by MIG or unseen.

    Args:
        job: The job.
        seconds: How far to look back, no further than the job held all its GPUs.
        idle_mem_ratio: Share of the memory below which it counts as free.
    """
    if not is_named(job):
        return None
    table = job.table((*NEEDS, *_SIGNS), seconds)
    if not len(table.times):
        return None
    processes, used, total, util = (table.columns[key] for key in NEEDS)
    is_known = np.isfinite(processes) & np.isfinite(used) & (total > 0) & np.isfinite(util)
    is_still = is_known & (util == 0)
    for key, most in _SIGNS.items():
        # A comparison with NaN is false: a sign that is not known tells of nothing.
        is_still &= ~(table.columns[key] > most)
    is_empty = is_still & (processes == 0) & (used < idle_mem_ratio * total)
    was_used = bool((is_known & ~is_empty).any())
    is_still, is_empty = (bridged(table.times, flags, is_known) for flags in (is_still, is_empty))
    return GpuUse(table, is_still, is_empty, was_used)


def was_ever_above(job: JobLook, use: GpuUse, keys: tuple[str, ...]) -> bool:
    """Whether a field of a GPU was above 0 within a day of the job's hold on it, beyond gaps too.

    Args:
        job: The job.
        use: Its use, which spares the longer look where it shows it, or reaches back to the start.
        keys: Fields of `NEEDS`.
    """
    if any(bool((use.table.columns[key] > 0).any()) for key in keys):
        return True
    if use.table.times[0] <= job.all_held_since + PAUSE_S:
        return False
    return any(
        bool((job.window(uuid, key, PAST_S).values > 0).any()) for uuid in job.uuids for key in keys
    )
