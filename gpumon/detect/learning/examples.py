"""Examples: features of jobs in labelled recordings, beside what is true of them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.detect.features.table import FEATURES, features_of
from gpumon.detect.scene import view_of
from gpumon.model.records.label import HEALTHY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumon.detect.features.feature import Floats
    from gpumon.detect.learning.cases import Case
    from gpumon.model.records.label import Label
    from gpumon.model.records.tick import Tick

EVERY_S: Final = 300.0
"""Recorded time between two examples of one job: its features change little in less."""

SETTLED_S: Final = 300.0
"""So long a fault must last before a job is an example of it: half of what the shorter windows
need."""

_FADING_S: Final = 900.0
"""So long after a fault its job is no example: the windows still hold some of it."""

_LEAST_S: Final = 600.0
"""Jobs younger than this are no examples: too little is known of them."""


class Example(NamedTuple):
    """One job at one time."""

    recording: int
    job: int
    """Number of its job, across recordings."""
    classes: frozenset[str]
    """What it loses time by; empty: it is healthy."""
    lost: float
    """Share of its GPU time that its faults lose, NaN where nobody says."""
    features: Floats
    judged: str = ""
    """The one class of which it is known whether the job is of it; empty: of every class."""


class Examples(NamedTuple):
    """Examples of all recordings, as columns."""

    recordings: Sequence[int]
    jobs: Sequence[int]
    classes: Sequence[frozenset[str]]
    lost: Floats
    features: Floats
    """A row per example, a column per feature; NaN where it has no value."""
    judged: Sequence[str]
    """The one class that an example speaks of; empty: of all."""

    @classmethod
    def of(cls, found: Iterable[Example]) -> Examples:
        """Columns from rows."""
        rows = list(found)
        return cls(
            recordings=[row.recording for row in rows],
            jobs=[row.job for row in rows],
            classes=[row.classes for row in rows],
            lost=np.array([row.lost for row in rows], np.float64),
            features=np.array([row.features for row in rows], np.float64).reshape(
                len(rows), len(FEATURES)
            ),
            judged=[row.judged for row in rows],
        )

    @classmethod
    def of_cases(cls, cases: Sequence[Case]) -> Examples:
        """What was judged of single findings, each a recording of its own.

        A case tells of its own class alone: what else its job loses time by nobody has said.
        """
        return cls.of(
            Example(
                recording=number,
                job=number - 1,
                classes=frozenset({case.finding_class} if case.is_right else ()),
                lost=case.lost if case.is_right and case.lost is not None else np.nan,
                features=case.row,
                judged=case.finding_class,
            )
            for number, case in enumerate(cases, 1)
        )

    @classmethod
    def joined(cls, parts: Sequence[Examples]) -> Examples:
        """Those of several collectors, as if one had taken all their recordings."""
        first_recording, first_job = 0, 0
        recordings: list[int] = []
        jobs: list[int] = []
        for part in parts:
            recordings += [first_recording + number for number in part.recordings]
            jobs += [first_job + number for number in part.jobs]
            first_recording += max(part.recordings, default=0)
            first_job += max(part.jobs, default=-1) + 1
        return cls(
            recordings=recordings,
            jobs=jobs,
            classes=[one for part in parts for one in part.classes],
            lost=np.concatenate([part.lost for part in parts]),
            features=np.concatenate([part.features for part in parts]),
            judged=[one for part in parts for one in part.judged],
        )

    def speaks_of(self, key: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Per example whether it is known of it that it is of a class, or that it is not."""
        return np.array([one in ("", key) for one in self.judged], np.bool_)

    def is_of(self, key: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Per example whether it is one of a class."""
        return np.array([key in one for one in self.classes], np.bool_)

    def jobs_of(self, key: str) -> int:
        """How many jobs are examples of a class."""
        return len({job for job, one in zip(self.jobs, self.classes, strict=True) if key in one})


class Collector:
    """Takes the ticks of labelled recordings, one recording after the other."""

    def __init__(self) -> None:
        self._rows: list[Example] = []
        self._numbers: dict[tuple[int, str], int] = {}
        self._recordings = 0
        self._labels = Truth(())
        self._next_at = 0.0

    def begin(self, labels: Sequence[Label]) -> None:
        """Another recording, with what is true in it."""
        self._recordings += 1
        self._labels = Truth(labels)
        self._next_at = 0.0

    def take(self, tick: Tick) -> None:
        """A tick of the recording; most are passed over."""
        if tick.at < self._next_at or tick.history is None:
            return
        self._next_at = tick.at + EVERY_S
        view = view_of(tick)
        jobs = [
            (job, found)
            for job in view.running
            if job.gpus and tick.at - job.all_held_since >= _LEAST_S
            and (found := self._labels.at(job.job.job_id, job.uuids, tick.at)) is not None
        ]  # fmt: skip
        table = features_of(view, [job for job, _ in jobs])
        for (job, (classes, lost)), row in zip(jobs, table.values, strict=True):
            key = (self._recordings, job.job.job_id)
            number = self._numbers.setdefault(key, len(self._numbers))
            self._rows.append(
                Example(
                    recording=self._recordings, job=number, classes=classes, lost=lost, features=row
                )
            )

    def examples(self) -> Examples:
        """All of them."""
        return Examples.of(self._rows)


class Truth:
    """What labels say of a job at a time."""

    def __init__(self, labels: Sequence[Label]) -> None:
        self._of: dict[str, list[Label]] = defaultdict(list)
        self._healthy: set[str] = set()
        for label in labels:
            subject = label.subject.partition("/")[0]
            if label.finding_class == HEALTHY:
                self._healthy.add(subject)
            else:
                self._of[subject].append(label)

    def at(
        self, job_id: str, uuids: Sequence[str], at: float
    ) -> tuple[frozenset[str], float] | None:
        """Classes and the share lost; None: nobody says, or it is neither nor just now."""
        job = f"job:{job_id}"
        mine = [*self._of.get(job, ()), *(one for uuid in uuids
                                         for one in self._of.get(f"gpu:{uuid}", ()))]  # fmt: skip
        if not mine and job not in self._healthy:
            return None
        now = [one for one in mine if one.start <= at - SETTLED_S and one.end >= at]
        near = [one for one in mine if one.start <= at and one.end >= at - _FADING_S]
        if len(near) > len(now):
            return None
        lost = [one.gpu_seconds / ((one.end - one.start) * max(1, len(uuids)))
                if one.gpu_seconds is not None else np.nan for one in now]  # fmt: skip
        return frozenset(one.finding_class for one in now), float(np.minimum(1.0, np.sum(lost)))
