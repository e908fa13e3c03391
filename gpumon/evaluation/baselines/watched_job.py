"""What is kept of a running job for the rules: its last minutes, and how long it was at zero."""

from __future__ import annotations

from collections import deque
from math import nan
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.evaluation.witness import LONGEST_PERIODS
from gpumon.model.units import MINUTE_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from gpumon.model.records.cluster import Gpu, JobView

FIELDS: Final = (
    "gpu_util_ratio",
    "sm_active_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "pcie_rx_bytes_per_s",
    "pcie_tx_bytes_per_s",
    "power_w",
    "process_count",
)
"""What rules read of each GPU, in the order of a window's rows."""

_UTILISATION: Final = FIELDS.index("gpu_util_ratio")


LONGEST_S: Final = 600.0
"""The longest window that a rule asks for."""

_MOSTLY: Final = 0.5
"""Share of a window's samples that must be there for its mean: what is missing is never 0."""

_WITH_HOLES: Final = 1.5
"""A window that took so many times what was observed of it has holes, and tells nothing."""


class Window(NamedTuple):
    """The last minutes of a job."""

    start: float
    """Unix time."""
    seconds: float
    """Time that was observed."""
    means: NDArray[np.float64]
    """By field and GPU; NaN where most samples are missing."""
    least_util: NDArray[np.float64]
    """Smallest utilisation of each GPU; NaN where none is known."""

    def of(self, field: str) -> NDArray[np.float64]:
        """Means of one field, by GPU."""
        means: NDArray[np.float64] = self.means[FIELDS.index(field)]
        return means


class _Minute:
    """Sums over the samples of one minute, or of one period where that is longer."""

    def __init__(self, start: float, gpus: int) -> None:
        self.start = start
        self.seconds = 0.0
        self.samples = 0
        self.sums = np.zeros((len(FIELDS), gpus))
        self.counts = np.zeros((len(FIELDS), gpus))
        self.least_util = np.full(gpus, nan)

    def take(self, passed_s: float, values: NDArray[np.float64]) -> None:
        known = ~np.isnan(values)
        self.seconds += passed_s
        self.samples += 1
        self.sums += np.where(known, values, 0.0)
        self.counts += known
        self.least_util = np.fmin(self.least_util, values[_UTILISATION])


class WatchedJob:
    """One job as long as it runs on the same GPUs."""

    def __init__(self, view: JobView, at: float) -> None:
        self.view = view
        self.subject = f"job:{view.job.job_id}"
        self.observed_s = 0.0
        """Time that ticks tell of."""
        self.known_s = 0.0
        """Time in which it was known whether all of its GPUs were at 0."""
        self.zero_s = 0.0
        """Time since any of them was above 0, without what was not observed."""
        self.zero_since = at
        self.is_missing = False
        """Whether the newest tick does not tell if all of its GPUs are at 0."""
        self._missing_s = 0.0
        self._is_zero = False
        self._minutes: deque[_Minute] = deque(maxlen=int(LONGEST_S / MINUTE_S) + 1)
        self._minute = _Minute(at, len(view.gpu_uuids))
        self._windows: dict[float, Window | None] = {}
        """By their seconds, as several rules ask for the same."""

    @property
    def gpu_count(self) -> int:
        """GPUs that it holds, known or not."""
        return len(self.view.gpu_uuids) + self.view.gpus_unknown

    def take(
        self, view: JobView, at: float, passed_s: float, period_s: float, gpus: Mapping[str, Gpu]
    ) -> bool:
        """One tick; tells whether a minute is full.

        Args:
            view: The job.
            at: Unix time of the tick.
            passed_s: Seconds since the last one that count as observed.
            period_s: Seconds between two ticks.
            gpus: Every GPU of the tick.
        """
        self.view = view
        self.observed_s += passed_s
        values = _values(view, gpus)
        self._count_zero(at, passed_s, period_s, values[_UTILISATION])
        self._minute.take(passed_s, values)
        if at < self._minute.start + MINUTE_S:
            return False
        self._windows.clear()
        self._minutes.append(self._minute)
        self._minute = _Minute(at, len(view.gpu_uuids))
        return True

    def window(self, seconds: float) -> Window | None:
        """The last so many seconds; None where so much was not observed without a hole."""
        if seconds not in self._windows:
            self._windows[seconds] = self._window(seconds)
        return self._windows[seconds]

    def _window(self, seconds: float) -> Window | None:
        picked: list[_Minute] = []
        observed_s = 0.0
        for minute in reversed(self._minutes):
            picked.append(minute)
            observed_s += minute.seconds
            if observed_s >= seconds:
                break
        start = picked[-1].start if picked else nan
        if observed_s < seconds or self._minute.start - start > _WITH_HOLES * observed_s:
            return None
        counts = np.sum([minute.counts for minute in picked], axis=0)
        samples = sum(minute.samples for minute in picked)
        sums = np.sum([minute.sums for minute in picked], axis=0)
        means = np.where(counts > _MOSTLY * samples, sums / np.maximum(counts, 1.0), nan)
        least = np.fmin.reduce([minute.least_util for minute in picked])
        return Window(start, observed_s, means, least)

    def _count_zero(
        self, at: float, passed_s: float, period_s: float, util: NDArray[np.float64]
    ) -> None:
        most = float(np.fmax.reduce(util, initial=0.0))
        is_known = self.view.gpus_unknown == 0 and not np.isnan(util).any()
        self.is_missing = not is_known and most == 0.0
        if most > 0.0:
            self.known_s += passed_s
            self._is_zero, self.zero_s, self._missing_s = False, 0.0, 0.0
        elif self.is_missing:
            # That is neither zero nor use; when it lasts too long nothing is left to go on from.
            self._missing_s += passed_s
            if self._missing_s > LONGEST_PERIODS * period_s:
                self._is_zero, self.zero_s = False, 0.0
        else:
            self.known_s += passed_s
            self.zero_since = self.zero_since if self._is_zero else at
            self.zero_s += passed_s if self._is_zero else 0.0
            self._is_zero, self._missing_s = True, 0.0


def _values(view: JobView, gpus: Mapping[str, Gpu]) -> NDArray[np.float64]:
    """By field and GPU, NaN where missing."""
    rows = []
    for uuid in view.gpu_uuids:
        gpu = gpus.get(uuid)
        reported = (None,) * len(FIELDS) if gpu is None else map(gpu.value, FIELDS)
        rows.append([nan if value is None else value for value in reported])
    return np.array(rows, np.float64).T
