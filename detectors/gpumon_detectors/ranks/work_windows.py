"""How much each rank of a job works, window by window, and what it is compared with.

Steps take from a part of a second to a minute, samples come every 1 to 60 s, and each reading is a
mean over some part of that: below half a minute peers differ by chance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon_detectors.evidence.watched import mean_over

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from gpumon.plugin import JobLook, Past, View

    Floats = NDArray[np.float64]

WINDOW_S: Final = 60.0
"""Length of a window: twice that below which peers of one job cannot be told apart (in real traces
half of the slow ranks were missed at 1 to 10 s, none at 30 s)."""

WORK_KEYS: Final = (
    *("gpu_util_ratio", "sm_active_ratio", "tensor_active_ratio", "dram_active_ratio"),
    "power_w",
)

_LEAST_SECONDS: Final = 1e-3
"""What the first row of a past stands for, which has no length of its own."""

LEAST_TENSOR: Final = 0.02
"""Tensor activity from which it is the measure of the work: less is some kernel in passing."""

_SPIN_SM: Final = 0.1
"""SM activity of a GPU that waits in a collective: NCCL's 16 of 132 SMs, fewer where fewer
channels do (NVIDIA's H100 data sheet, NCCL's NCCL_MAX_NCHANNELS)."""

_SPIN_POWER: Final = 0.4
"""Share of the power at work that a GPU draws while it waits (our choice, see `standstill`)."""

_WORK_SHARE: Final = 0.35
"""Share of its usual work from which a job is at work: while one rank evaluates or writes a
checkpoint the others do a tenth (our choice; who slows a job to a third has stopped it)."""

_WORK_POWER: Final = 0.55
"""Share of its usual power likewise: more than a GPU draws that waits (our choice)."""

_USUAL_WINDOWS: Final = 5
"""So many windows with as much work make it a job's usual one, whatever it does in the others: a
job that has hung for hours still tells how it worked before (our choice, as in `standstill`)."""

_LEAST_KNOWN: Final = 0.8
"""Share of the GPUs and windows in which a field must be known to be the measure."""


class WorkWindows(NamedTuple):
    """Means of some GPUs over windows, the last of which ends with the newest row."""

    begins: Floats
    """Unix time of the first sample of each window."""
    ends: Floats
    """Unix time of its last one."""
    seconds: Floats
    """Seconds of it that are known."""
    means: Mapping[str, Floats]
    """By field, window by GPU; NaN where nothing is known."""

    def of(self, places: NDArray[np.intp]) -> WorkWindows:
        """The same windows of some of the GPUs."""
        return self._replace(means={key: mean[:, places] for key, mean in self.means.items()})

    @property
    def gpu_count(self) -> int:
        """How many GPUs there are."""
        return int(self.means["gpu_util_ratio"].shape[1])

    @property
    def measure(self) -> str:
        """The field that tells the most surely who works and who waits, of those known here."""
        sm = self.means["sm_active_ratio"]
        is_known = np.count_nonzero(np.isfinite(sm)) >= _LEAST_KNOWN * sm.size
        return "sm_active_ratio" if is_known and (sm > 0.0).any() else "power_w"

    @property
    def is_work(self) -> NDArray[np.bool_]:
        """Windows in which the job computes: no start, evaluation on one rank, or checkpoint."""
        middle = medians(self.means[self.measure])
        known = middle[np.isfinite(middle)]
        if not len(known):
            return np.zeros(len(middle), np.bool_)
        usual = float(np.sort(known)[-min(len(known), _USUAL_WINDOWS)])
        share = _WORK_SHARE if self.measure == "sm_active_ratio" else _WORK_POWER
        with np.errstate(invalid="ignore"):
            return np.asarray(middle >= share * usual, np.bool_)

    def fall(self, before: NDArray[np.bool_], since: NDArray[np.bool_]) -> Floats:
        """Per GPU the share of its work that is gone since some windows, NaN where not known.

        Of tensor activity, which is 0 in a GPU that waits; else of SMs or power, of which what a
        GPU shows that waits is no work.
        """
        for key, waits in (
            ("tensor_active_ratio", 0.0),
            ("sm_active_ratio", _SPIN_SM),
            ("power_w", None),
        ):
            was, now = (mean_over(self.means[key][rows]) for rows in (before, since))
            floor = _SPIN_POWER * was if waits is None else np.full(len(was), waits)
            least = LEAST_TENSOR if key == "tensor_active_ratio" else 0.0
            if np.isfinite(was).all() and np.isfinite(now).all() and (was > floor + least).all():
                fallen: Floats = (was - now) / (was - floor)
                return fallen
        return np.full(self.gpu_count, np.nan)


class _Found:
    """The windows of one evaluation: each rule about ranks asks for the same."""

    def __init__(self) -> None:
        self.of: dict[tuple[str, float], WorkWindows] = {}


def work_windows(view: View, job: JobLook, seconds: float) -> WorkWindows:
    """The windows of all GPUs of a job, no further back than it held them all."""
    found = view.shared.setdefault(_Found, _Found())
    assert isinstance(found, _Found)
    key = (job.subject, seconds)
    if key not in found.of:
        found.of[key] = windows_of(job.past(WORK_KEYS, seconds))
    return found.of[key]


def windows_of(past: Past, width_s: float = WINDOW_S) -> WorkWindows:
    """Rows of a past put together; a row that is longer than a window is one by itself."""
    times = past.times
    if not len(times):
        nothing = np.empty(0)
        means = {key: column.astype(np.float64) for key, column in past.columns.items()}
        return WorkWindows(nothing, nothing, nothing, means)
    numbers = np.floor((times[-1] - times) / width_s)
    firsts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] + 1))
    lasts = np.append(firsts[1:], len(times)) - 1
    # All fields at once: of a job's few GPUs, calls of NumPy cost more than what they reckon.
    values = np.stack(tuple(past.columns.values()), axis=1)
    weights = np.maximum(past.seconds, _LEAST_SECONDS)[:, None, None]
    is_known = np.isfinite(values)
    if is_known.all():
        total, known_s = values * weights, weights
    else:
        total, known_s = np.where(is_known, values, 0.0) * weights, is_known * weights
    with np.errstate(invalid="ignore", divide="ignore"):
        # A field that is not known in a window has 0 s of it: 0 / 0 is missing.
        mean = np.add.reduceat(total, firsts, axis=0) / np.add.reduceat(known_s, firsts, axis=0)
    means = {key: mean[:, place] for place, key in enumerate(past.columns)}
    seconds = np.add.reduceat(past.seconds, firsts)
    return WorkWindows(past.begins[firsts], times[lasts], seconds, means)


def medians(values: Floats) -> Floats:
    """Per row the median of what is known, NaN without any."""
    if not values.size:
        return np.full(len(values), np.nan)
    # NumPy's own goes by way of masked arrays, which took a seventh of all rules' time.
    ordered, is_known = np.sort(values, axis=1), np.isfinite(values)
    count = values.shape[1]
    if is_known.all():
        low, high = ordered[:, (count - 1) // 2], ordered[:, count // 2]
    else:
        rows, known = np.arange(len(values)), is_known.sum(axis=1)
        # What is missing is sorted behind what is known; in a row without anything all is missing.
        low, high = ordered[rows, np.maximum(known - 1, 0) // 2], ordered[rows, known // 2]
    middle: Floats = (low + high) / 2
    return middle
