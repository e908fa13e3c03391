"""The read-only view of history and jobs that a detector judges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.detect.contract import honest_confidence
from gpumon.detect.facts import facts_of, is_judged
from gpumon.fleet.history_reader import HistoryReader
from gpumon.model.finding import Confidence, Evidence, Finding, Severity, Window

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from gpumon.detect.contract import Detector, Windows
    from gpumon.detect.facts import GpuFacts
    from gpumon.model.cluster import Job, JobView, Rank
    from gpumon.model.tick import Tick

GAP_PERIODS: Final = 3.0
"""Two samples further apart than this many periods leave a gap, and a window ends there."""


class Series(NamedTuple):
    """One field of one GPU over time, read-only."""

    times: NDArray[np.float64]
    values: NDArray[np.float32]
    """NaN where missing."""


class Table(NamedTuple):
    """Several fields of several GPUs over time, without gaps, read-only."""

    times: NDArray[np.float64]
    """Unix times, ascending; no two further apart than `GAP_PERIODS` periods."""
    columns: Mapping[str, NDArray[np.float32]]
    """By field key, one row per time, one column per GPU in the order asked for."""


class JobLook:
    """One running job as a detector sees it."""

    def __init__(self, view: View, record: JobView) -> None:
        self._view = view
        self.job: Job = record.job
        self.gpus: tuple[GpuFacts, ...] = tuple(
            view.gpus[uuid] for uuid in record.gpu_uuids if uuid in view.gpus
        )
        """GPUs that it holds and that telemetry names."""
        unseen = len(record.gpu_uuids) - len(self.gpus)
        self.gpus_unknown: int = record.gpus_unknown + unseen
        """GPUs that it holds and of which nothing is known: never to be counted as idle."""
        self.ranks: tuple[Rank, ...] = record.ranks
        self.contradictions: tuple[str, ...] = record.contradictions

    @property
    def subject(self) -> str:
        """How a finding names this job."""
        return f"job:{self.job.job_id}"

    @property
    def uuids(self) -> tuple[str, ...]:
        """UUIDs of `gpus`, in the same order."""
        return tuple(gpu.uuid for gpu in self.gpus)

    def held_since(self, uuid: str) -> float:
        """Unix time since when the job holds the GPU; infinity where it does not."""
        starts = [
            interval.start
            for interval in self._view.history.intervals(self.job.job_id)
            if interval.uuid == uuid and interval.end is None
        ]
        return max(starts, default=float("inf"))

    def latest(self, key: str) -> NDArray[np.float32]:
        """Newest value of a field for each of `gpus`, NaN where there is none now."""
        newest: NDArray[np.float32] = self._view.latest(self.uuids, (key,))[0]
        return newest

    def missing(self, keys: Sequence[str]) -> tuple[str, ...]:
        """Keys without a value now on at least one of the job's GPUs."""
        return self._view.missing(self.uuids, keys)

    def window(self, uuid: str, key: str, seconds: float) -> Series:
        """One field of one GPU over the last `seconds`, from no earlier than the job held it."""
        start = max(self._view.now - seconds, self.held_since(uuid))
        slab = self._view.history.slab((uuid,), (key,), start, self._view.now)
        return Series(slab.times, slab.values[:, 0, 0])

    def table(self, keys: Sequence[str], seconds: float) -> Table:
        """Fields of all `gpus` over the last `seconds`, while the job held them all."""
        since = max((self.held_since(uuid) for uuid in self.uuids), default=float("inf"))
        return self._view.table(self.uuids, keys, seconds, since)


class View:
    """Everything that one look may know."""

    def __init__(
        self,
        now: float,
        observed_since: float,
        history: HistoryReader,
        jobs: Sequence[JobView],
        gpus: Mapping[str, GpuFacts],
    ) -> None:
        self.now = now
        """Unix time of the picture: the only time there is."""
        self.observed_since = observed_since
        """Unix time of the first sample that gpumon took."""
        self.history = history
        self.gpus = gpus
        """Every GPU by UUID, also those that no job holds."""
        self.jobs: tuple[JobLook, ...] = tuple(JobLook(self, record) for record in jobs)
        """Running jobs that hold GPUs."""

    @classmethod
    def of(cls, tick: Tick) -> View:
        """The view of a tick, in the same process; for tests and for the conformance kit."""
        if not isinstance(tick.history, HistoryReader):
            raise TypeError("the tick carries no history")
        jobs = [view for view in tick.jobs if is_judged(view)]
        return cls(tick.at, tick.observed_since, tick.history, jobs, facts_of(tick.gpus))

    def latest(self, uuids: Sequence[str], keys: Sequence[str]) -> NDArray[np.float32]:
        """Newest values, field by GPU; NaN where there is none now."""
        if self.history.newest_at != self.now:
            return np.full((len(keys), len(uuids)), np.nan, np.float32)
        return self.history.newest(uuids, keys)

    def missing(self, uuids: Sequence[str], keys: Sequence[str]) -> tuple[str, ...]:
        """Keys without a value now on at least one of the GPUs; all of them without GPUs."""
        newest = np.isfinite(self.latest(uuids, keys))
        return tuple(key for row, key in enumerate(keys) if not uuids or not newest[row].all())

    def series(self, uuid: str, key: str, seconds: float) -> Series:
        """One field of one GPU over the last `seconds`, whoever held it."""
        slab = self.history.slab((uuid,), (key,), self.now - seconds, self.now)
        return Series(slab.times, slab.values[:, 0, 0])

    def table(
        self,
        uuids: Sequence[str],
        keys: Sequence[str],
        seconds: float,
        since: float = float("-inf"),
    ) -> Table:
        """Fields of GPUs over the last `seconds`, from no earlier than `since`.

        It begins after the last gap in the sampling, so that its first and last time bound what
        was really observed. Without a sample at the time of the look it is empty.
        """
        start = max(self.now - seconds, since)
        times, periods, values = self.history.slab(uuids, keys, start, self.now)
        low = 0
        if len(times):
            is_gap = np.diff(times) > GAP_PERIODS * np.maximum(periods[1:], periods[:-1])
            low = int(np.flatnonzero(is_gap)[-1]) + 1 if is_gap.any() else 0
            if times[-1] < self.now:
                low = len(times)
        columns = {key: values[low:, position] for position, key in enumerate(keys)}
        return Table(times[low:], columns)

    def confidence(self, observed: Window, windows: Windows) -> Confidence:
        """The surest claim that the window as observed allows a detector."""
        return honest_confidence(observed, windows)

    def finding(
        self,
        detector: Detector,
        *,
        subject: str,
        severity: Severity,
        summary: str,
        window: Window,
        evidence: Sequence[Evidence],
        advice: Sequence[str] = (),
        gpu_seconds: float | None = None,
        finding_class: str | None = None,
        at_most: Confidence = Confidence.ESTABLISHED,
    ) -> Finding:
        """A finding of this look, with the confidence that its window allows.

        `finding_class` is the detector's first one unless named; `at_most` keeps a claim down
        whose evidence is weaker than its window.
        """
        allowed = self.confidence(window, detector)
        return Finding(
            detector=detector.name,
            finding_class=finding_class or detector.finding_classes[0],
            subject=subject,
            severity=severity,
            confidence=min(allowed, at_most, key=lambda step: step.rank),
            summary=summary,
            evidence=tuple(evidence),
            window=window,
            first_seen=self.now,
            last_seen=self.now,
            advice=tuple(advice),
            gpu_seconds=gpu_seconds,
        )
