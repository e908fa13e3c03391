"""What was claimed of a recording, tick by tick: claims, charges, who held what."""

from __future__ import annotations

from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.model.finding import Finding
    from gpumon.model.records.cluster import JobView
    from gpumon.model.records.tick import Tick

CHARGES_READ_EVERY_S: Final = 60.0
"""How often the ledger of all jobs is read; a job that leaves is read at once, and at the end."""

LONGEST_PERIODS: Final = 3
"""What lies further apart was not observed in between."""


class Claim(NamedTuple):
    """One finding from its begin until it cleared."""

    detector: str
    finding_class: str
    subject: str
    onset: float
    """Unix time at which the evidence began."""
    end: float
    """Unix time at which it cleared, or of the last tick."""
    reached: tuple[float, float, float]
    """Unix time of the first tick that told it as each step of confidence or better; infinity:
    it never got there."""
    gpu_seconds: float | None
    """What it says is lost since its onset; None: it does not."""
    others: tuple[str, ...] = ()
    """Further classes that it may be, of who tells them not apart: it is true of each of them."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Every class that it may be."""
        return (self.finding_class, *self.others)

    @property
    def rank(self) -> int:
        """The surest step that it reached."""
        return sum(at < inf for at in self.reached) - 1


class Hold(NamedTuple):
    """One job with everything that it ever held."""

    job_id: str
    start: float
    """Unix time at which it was first seen to run."""
    end: float
    gpus: frozenset[str]
    nodes: frozenset[str]
    gpu_count: int
    """The most that it held at once, known or not."""


class Charge(NamedTuple):
    """GPU-seconds that the ledger charges to a job, by class."""

    wasted_s: Mapping[str, float]
    suspected_s: Mapping[str, float]


class Account(NamedTuple):
    """Everything that was said of one recording."""

    start: float
    """Unix time of the first tick."""
    end: float
    period_s: float
    claims: tuple[Claim, ...]
    holds: Mapping[str, Hold]
    """By job id."""
    node_of: Mapping[str, str]
    """Name of the node by UUID."""
    charges: Mapping[str, Charge]
    """By job id."""
    gpu_seconds: float
    """Of all GPUs that were heard of, while they were."""
    evaluations: tuple[tuple[float, Mapping[str, frozenset[str]]], ...]
    """Unix time of each evaluation, and which subjects each detector could not judge then."""
    errors: tuple[str, ...]
    """What went wrong meanwhile, a line each."""
    unseen: Mapping[str, frozenset[str]] = MappingProxyType({})
    """Subjects that each detector once judged in part only."""


class _Running:
    """A claim that is written down."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        self.onset = finding.began_at
        self.reached = [inf, inf, inf]
        self.reported_at = -inf
        self._lost_s: float | None = None

    def take(self, finding: Finding, at: float) -> None:
        self.finding, self.reported_at = finding, at
        self.onset = min(self.onset, finding.began_at)
        for rank in range(finding.confidence.rank + 1):
            self.reached[rank] = min(self.reached[rank], at)
        lost_s, window_s = finding.gpu_seconds, finding.window.end - finding.window.start
        if lost_s is None:
            return
        if window_s > 0.0:
            # A window that begins later than the onset tells the share of all the time since.
            lost_s *= max(1.0, (finding.window.end - self.onset) / window_s)
        # What a fault has cost stays so when the job has left and it costs nothing any more.
        self._lost_s = lost_s or self._lost_s or 0.0

    def claim(self) -> Claim:
        found = self.finding
        # A guess that was wrong goes without a word: it was told until then.
        until = (
            self.reported_at
            if found.cleared_at is None
            else min(self.reported_at, found.cleared_at)
        )
        return Claim(
            detector=found.detector, finding_class=found.finding_class, subject=found.subject,
            onset=self.onset, end=until,
            reached=(self.reached[0], self.reached[1], self.reached[2]), gpu_seconds=self._lost_s,
        )  # fmt: skip


class Witness:
    """Takes ticks in the order of time."""

    def __init__(self) -> None:
        self._claims: dict[tuple[object, ...], _Running] = {}
        self._holds: dict[str, Hold] = {}
        self._node_of: dict[str, str] = {}
        self._charges: dict[str, Charge] = {}
        self._gpu_seconds = 0.0
        self._evaluations: list[tuple[float, Mapping[str, frozenset[str]]]] = []
        self._coverage: object = None
        self._unseen: dict[str, frozenset[str]] = {}
        self._errors: dict[str, None] = {}
        self._first: float | None = None
        self._last: Tick | None = None
        self._charged_at = -inf

    def take(self, tick: Tick) -> None:
        """One tick."""
        before, self._last = self._last, tick
        if self._first is None:
            self._first = tick.at
        if before is not None:
            passed_s = min(tick.at - before.at, LONGEST_PERIODS * tick.period_s)
            self._gpu_seconds += passed_s * sum(not gpu.is_stale for gpu in tick.gpus.values())
        for finding in (*tick.findings, *tick.cleared):
            key = (*finding.identity, finding.first_seen)
            if key not in self._claims:
                self._claims[key] = _Running(finding)
            self._claims[key].take(finding, tick.at)
        self._node_of.update((uuid, gpu.node) for uuid, gpu in tick.gpus.items())
        for view in tick.jobs:
            if view.job.state == "RUNNING" and (view.gpu_uuids or view.gpus_unknown):
                self._hold(view, tick.at)
        if tick.coverage is not self._coverage:
            self._coverage = tick.coverage
            self._evaluations.append(
                (tick.at, {one.detector: frozenset(one.blind_subjects) for one in tick.coverage})
            )
            for one in tick.coverage:
                if one.unseen:
                    known = self._unseen.get(one.detector, frozenset())
                    self._unseen[one.detector] = known.union(*one.unseen.values())
                if one.state == "muted":
                    self._errors[f"{one.detector}: muted: {one.note}"] = None
        left = before is not None and len(tick.jobs) != len(before.jobs)
        if left or tick.at >= self._charged_at + CHARGES_READ_EVERY_S:
            self._read_charges(tick)

    def account(self) -> Account | None:
        """Everything that was said; None: there was no tick."""
        if self._last is None or self._first is None:
            return None
        self._read_charges(self._last)
        end = self._last.at
        return Account(
            start=self._first,
            end=end,
            period_s=self._last.period_s,
            claims=tuple(running.claim() for running in self._claims.values()),
            holds=self._holds,
            node_of=self._node_of,
            charges=self._charges,
            gpu_seconds=self._gpu_seconds,
            evaluations=tuple(self._evaluations),
            errors=tuple(self._errors),
            unseen=self._unseen,
        )

    def _hold(self, view: JobView, at: float) -> None:
        job_id, count = view.job.job_id, len(view.gpu_uuids) + view.gpus_unknown
        known = self._holds.get(job_id)
        if known is None:
            known = Hold(
                job_id=job_id, start=at, end=at, gpus=frozenset(), nodes=frozenset(), gpu_count=0
            )
        self._holds[job_id] = known._replace(
            end=at,
            gpus=known.gpus.union(view.gpu_uuids),
            nodes=known.nodes.union(view.job.nodes),
            gpu_count=max(known.gpu_count, count),
        )

    def _read_charges(self, tick: Tick) -> None:
        self._charged_at = tick.at
        if tick.ledger is None:
            return
        for job_id in self._holds:
            total = tick.ledger.job(job_id)
            # Who is no longer booked by himself keeps what was booked last.
            if total is not None:
                self._charges[job_id] = Charge(dict(total.wasted_s), dict(total.suspected_s))
