"""Plays every baseline on the ticks that the witness sees, and notes down what they claim."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from gpumon.evaluation.baselines.rules import BASELINES
from gpumon.evaluation.baselines.watched_job import WatchedJob
from gpumon.evaluation.witness import LONGEST_PERIODS, Claim

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumon.evaluation.baselines.rules import Rule, Symptom
    from gpumon.model.records.cluster import JobView
    from gpumon.model.records.tick import Tick


class Stated(NamedTuple):
    """What one baseline said of a recording."""

    claims: tuple[Claim, ...]
    judged: frozenset[str]
    """Jobs that it could judge: for as long as it needs, and with the counters that it reads."""


class Observer:
    """Takes ticks in the order of time."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Trial] = {}
        self._claims: dict[str, list[Claim]] = {name: [] for name in BASELINES}
        self._judged: dict[str, set[str]] = {name: set() for name in BASELINES}
        self._last_at: float | None = None

    def take(self, tick: Tick) -> None:
        """One tick."""
        passed_s = 0.0 if self._last_at is None else tick.at - self._last_at
        passed_s = min(passed_s, LONGEST_PERIODS * tick.period_s)
        self._last_at = tick.at
        running = {
            view.job.job_id: view
            for view in tick.jobs
            if view.job.state == "RUNNING" and view.gpu_uuids
        }
        for job_id in [known for known in self._jobs if known not in running]:
            self._end(self._jobs.pop(job_id))
        for job_id, view in running.items():
            trial = self._jobs.get(job_id)
            if trial is None or trial.job.view.gpu_uuids != view.gpu_uuids:
                if trial is not None:
                    self._end(trial)
                # What passed before it was seen is not its own.
                trial = self._jobs[job_id] = _Trial(view, tick.at)
                trial.take(tick, view, 0.0)
            else:
                trial.take(tick, view, passed_s)

    def statements(self) -> dict[str, Stated]:
        """Everything that was said, by the name of the baseline; it takes no tick after that."""
        while self._jobs:
            self._end(self._jobs.popitem()[1])
        return {
            name: Stated(tuple(claims), frozenset(self._judged[name]))
            for name, claims in self._claims.items()
        }

    def _end(self, trial: _Trial) -> None:
        for name, open_claims in trial.open_claims.items():
            self._claims[name] += (*trial.ended[name], *(one.claim(name) for one in open_claims))
        for name in trial.judged:
            self._judged[name].add(trial.job.view.job.job_id)


class _Trial:
    """One job and all rules that look at it."""

    def __init__(self, view: JobView, at: float) -> None:
        self.job = WatchedJob(view, at)
        self._rules: Mapping[str, Rule] = {name: one.make() for name, one in BASELINES.items()}
        self.open_claims: dict[str, list[_OpenClaim]] = {name: [] for name in BASELINES}
        self.ended: dict[str, list[Claim]] = {name: [] for name in BASELINES}
        self.judged: set[str] = set()

    def take(self, tick: Tick, view: JobView, passed_s: float) -> None:
        is_full = self.job.take(view, tick.at, passed_s, tick.period_s, tick.gpus)
        for name, rule in self._rules.items():
            if is_full or not rule.is_by_minute:
                symptoms = rule.look(self.job)
                if symptoms is not None:
                    self.judged.add(name)
                if symptoms or self.open_claims[name]:
                    self._update(name, symptoms or (), tick.at)

    def _update(self, name: str, symptoms: Sequence[Symptom], at: float) -> None:
        observed_s = self.job.observed_s
        known = {(one.symptom.subject, one.symptom.classes): one for one in self.open_claims[name]}
        now = []
        for symptom in symptoms:
            open_claim = known.pop((symptom.subject, symptom.classes), None)
            if open_claim is None:
                open_claim = _OpenClaim(symptom, at, observed_s)
            else:
                open_claim.go_on(symptom, at, observed_s)
            now.append(open_claim)
        self.ended[name] += (one.claim(name) for one in known.values())
        self.open_claims[name] = now


class _OpenClaim:
    """A claim whose symptom is still there."""

    def __init__(self, symptom: Symptom, at: float, observed_s: float) -> None:
        self.symptom = symptom
        """As it was first seen."""
        self._begun_at, self._last_at, self._observed_s = at, at, observed_s
        self._lost_s = None if symptom.lost_gpus is None else symptom.lost_gpus * symptom.held_s

    def go_on(self, symptom: Symptom, at: float, observed_s: float) -> None:
        if self._lost_s is not None and symptom.lost_gpus is not None:
            self._lost_s += symptom.lost_gpus * (observed_s - self._observed_s)
        self._last_at, self._observed_s = at, observed_s

    def claim(self, name: str) -> Claim:
        first, *others = self.symptom.classes
        return Claim(
            detector=name, finding_class=first, subject=self.symptom.subject,
            onset=self.symptom.since, end=self._last_at,
            reached=(self._begun_at, self._begun_at, inf), gpu_seconds=self._lost_s,
            others=tuple(others),
        )  # fmt: skip
