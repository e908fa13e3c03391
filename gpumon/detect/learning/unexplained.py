"""GPU time that nobody can explain: whose it is, and how those jobs behaved meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

import numpy as np

from gpumon.detect.features.table import FEATURES, features_of
from gpumon.detect.scene import view_of
from gpumon.detect.user_hold import holds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.detect.features.feature import Floats
    from gpumon.detect.user_hold import UserHold
    from gpumon.detect.view import JobLook, View
    from gpumon.model.records.tick import Tick

EVERY_S: Final = 300.0
"""Recorded time between two looks at the books: features change little in less."""

LEAST_SHARE: Final = 0.25
"""Share of a job's GPU time between two looks that must be unexplained for the stretch to count
(our choice)."""

LEAST_STRETCHES: Final = 3
"""So many such stretches make a job one of which something is unexplained: a quarter of an hour,
as the features' windows."""

_LEAST_AGE_S: Final = 600.0
_MOST_OTHERS: Final = 128
"""Jobs with hardly any unexplained time that are looked at each time: they say what is usual. Of
more, others have their turn after a quarter of an hour."""

_HIDDEN: Final = "a hidden user"

_CLAIMED_SHARE: Final = 0.05
"""Share of a job's GPU time between two looks that detectors claim or suspect, from which on the
job does not say what is usual (our choice)."""


class Behaviour(NamedTuple):
    """How one job behaved, or a GPU without one, over some stretches of five minutes."""

    job_id: str
    """Of a GPU that users hold without a job its subject."""
    user: str
    since: float
    """Unix time at which the first stretch began."""
    until: float
    gpu_seconds: float
    """Of these stretches, what nobody explains."""
    stretches: int
    features: Floats
    """Means over the stretches, NaN where a feature was never known."""


class Gathered(NamedTuple):
    """All jobs of some recordings, or of some hours."""

    unexplained: tuple[Behaviour, ...]
    """The ones with the most unexplained time first."""
    others: tuple[Behaviour, ...]
    """Jobs, or stretches of them, of which hardly any is unexplained, and of which no detector ever
    claimed anything; and GPUs without a job, of which no books tell what is unexplained."""
    unexplained_s: float
    """GPU-seconds that nobody explains, also of jobs that are not listed."""
    allocated_s: float
    """All GPU-seconds of the same time."""


class _Charged(NamedTuple):
    """GPU-seconds of one job, as the ledger has them."""

    unexplained_s: float
    claimed_s: float
    """Wasted or suspected."""
    allocated_s: float


class _Sum:
    """Stretches of one job, added up."""

    def __init__(self, job_id: str, user: str) -> None:
        self._job_id, self._user = job_id, user
        self._total = np.zeros(len(FEATURES))
        self._known = np.zeros(len(FEATURES))
        self._since = self.until = float("nan")
        self._gpu_seconds, self._stretches = 0.0, 0

    def add(self, at: float, gpu_seconds: float, features: Floats) -> None:
        known = np.isfinite(features)
        self._total += np.where(known, features, 0.0)
        self._known += known
        self._since = np.fmin(self._since, at - EVERY_S)
        self.until = at
        self._gpu_seconds += gpu_seconds
        self._stretches += 1

    def behaviour(self) -> Behaviour:
        features = np.where(self._known > 0, self._total / np.maximum(self._known, 1.0), np.nan)
        return Behaviour(
            job_id=self._job_id, user=self._user, since=float(self._since), until=self.until,
            gpu_seconds=self._gpu_seconds,
            stretches=self._stretches, features=features,
        )  # fmt: skip


class Gatherer:
    """Takes ticks with their ledger, of one recording after the other."""

    def __init__(self, most: int | None = None) -> None:
        """Begin with nothing.

        Args:
            most: So many jobs with unexplained time are looked at each time, those with the most of
                it; None: all.
        """
        self._most = most
        self._recording = 0
        self._next_at = 0.0
        self._evaluations = 0
        self._charged: dict[str, _Charged] = {}
        """By job what the ledger had at the last evaluation."""
        self._claimed: set[str] = set()
        """Jobs of which a detector has claimed something."""
        self._unexplained: dict[tuple[int, str], _Sum] = {}
        self._others: dict[tuple[int, str], _Sum] = {}
        self._unexplained_s = self._allocated_s = 0.0

    def begin(self) -> None:
        """Another recording: its jobs are others, whatever their numbers are."""
        self._recording += 1
        self._next_at = 0.0
        self._charged = {}
        self._claimed = set()

    def take(self, tick: Tick) -> None:
        """A tick; most are passed over."""
        if tick.at < self._next_at or tick.history is None or tick.ledger is None:
            return
        self._next_at = tick.at + EVERY_S
        view = view_of(tick)
        jobs = {job.job.job_id: job for job in view.running if job.gpus}
        shares = self._since_last(tick)
        unclear: list[tuple[JobLook, float]] = []
        plain: list[tuple[JobLook, float]] = []
        for job_id, (seconds, share) in shares.items():
            job = jobs.get(job_id)
            if job is None or tick.at - job.all_held_since < _LEAST_AGE_S:
                continue
            if share >= LEAST_SHARE:
                unclear.append((job, seconds))
            elif job_id not in self._claimed:
                plain.append((job, seconds))
        unclear = sorted(unclear, key=lambda one: -one[1])[: self._most]
        plain = self._turn(plain)
        chosen = [job for job, _ in unclear], [job for job, _ in plain]
        table = features_of(view, [*chosen[0], *chosen[1]]).values
        self._add(self._unexplained, tick.at, unclear, table[: len(unclear)])
        self._add(self._others, tick.at, plain, table[len(unclear) :])
        holds = self._holds(view, tick)
        for hold, row in zip(holds, features_of(view, holds).values, strict=True):
            users = ", ".join(hold.owner_names) or _HIDDEN
            key = (self._recording, hold.subject)
            self._others.setdefault(key, _Sum(hold.subject, users)).add(tick.at, 0.0, row)
        self._evaluations += 1

    def _turn(self, jobs: list[tuple[JobLook, float]]) -> list[tuple[JobLook, float]]:
        """Those whose turn it is: the same ones for a quarter of an hour."""
        return [one for one in jobs if self._is_turn_of(one[0].job.job_id, len(jobs))]

    def _is_turn_of(self, name: str, count: int) -> bool:
        """Whether one of so many is looked at now."""
        parts = 1
        while count > parts * _MOST_OTHERS:
            parts *= 2
        # By their ids, so that others that come or go change nothing.
        return crc32(name.encode()) % parts == self._evaluations // LEAST_STRETCHES % parts

    def _holds(self, view: View, tick: Tick) -> list[UserHold]:
        """GPUs without a job whose turn it is and of which nobody has claimed anything of late."""
        findings = (*tick.findings, *tick.muted, *tick.cleared)
        claimed = {one.subject for one in findings}
        unlisted = sum(len(one.gpu_uuids) for one in view.nodes.values() if one.slurm is None)
        holds = []
        for hold in holds_of(view, lambda uuid: self._is_turn_of(uuid, unlisted)):
            key = (self._recording, hold.subject)
            before = self._others.get(key)
            # What it did before a claim was not usual; what others did there is not its own.
            if before is not None and (hold.subject in claimed or hold.since > before.until):
                del self._others[key]
            if hold.subject not in claimed and tick.at - hold.since >= _LEAST_AGE_S:
                holds.append(hold)
        return holds

    def _since_last(self, tick: Tick) -> dict[str, tuple[float, float]]:
        """By job the unexplained GPU-seconds since the last evaluation, and their share."""
        assert tick.ledger is not None
        found, charged = {}, {}
        for view in tick.jobs:
            job_id = view.job.job_id
            total = tick.ledger.job(job_id)
            if total is None:
                continue
            claimed_s = total.waste_s + total.suspicion_s
            now = _Charged(total.unexplained_s, claimed_s, total.allocated_s)
            charged[job_id] = now
            before = self._charged.get(job_id)
            if before is None or now.allocated_s <= before.allocated_s:
                continue
            passed_s = now.allocated_s - before.allocated_s
            # What is claimed later was unexplained until then.
            seconds = max(0.0, now.unexplained_s - before.unexplained_s)
            found[job_id] = (seconds, seconds / passed_s)
            self._unexplained_s += seconds
            self._allocated_s += passed_s
            if now.claimed_s - before.claimed_s >= _CLAIMED_SHARE * passed_s:
                # What it did before was no usual thing either.
                self._claimed.add(job_id)
                self._others.pop((self._recording, job_id), None)
        self._claimed &= charged.keys()
        self._charged = charged
        return found

    def _add(
        self,
        sums: dict[tuple[int, str], _Sum],
        at: float,
        jobs: Sequence[tuple[JobLook, float]],
        table: Floats,
    ) -> None:
        for (job, seconds), row in zip(jobs, table, strict=True):
            key = (self._recording, job.job.job_id)
            one = sums.setdefault(key, _Sum(job.job.job_id, job.job.user))
            one.add(at, seconds, row)

    def forget(self, most: int) -> None:
        """Keep so many jobs of either kind, those that were looked at last."""
        for sums in (self._unexplained, self._others):
            # A job that is added to stays where it is: its last stretch tells when that was.
            for key in sorted(sums, key=lambda key: sums[key].until)[: max(0, len(sums) - most)]:
                del sums[key]

    def gathered(self) -> Gathered:
        """All of them, for what is told long enough."""
        unclear, others = (
            [
                found
                for one in sums.values()
                if (found := one.behaviour()).stretches >= LEAST_STRETCHES
            ]
            for sums in (self._unexplained, self._others)
        )
        unclear.sort(key=lambda one: -one.gpu_seconds)
        return Gathered(tuple(unclear), tuple(others), self._unexplained_s, self._allocated_s)
