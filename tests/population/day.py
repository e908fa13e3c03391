"""A population through the real path: sampler, history, detection's worker, findings, books."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.detect.engine.engine import DetectionEngine
from gpumon.fleet.history.history import History
from gpumon.fleet.ledger.ledger import Ledger
from gpumon.fleet.sampler.sampler import Sampler
from gpumon.model.finding import Confidence
from tests.population.books import booked_s, wasted_s
from tests.population.fleet import QUEUE_S, Fleet, FleetSource
from tests.population.ranges import MIN
from tests.worlds.clocks import Hasty

if TYPE_CHECKING:
    from gpumon.model.finding import DetectionReport, Finding
    from gpumon.model.records.tick import Tick
    from tests.population.fleet import Case

PATIENCE_S: Final = 600.0
"""A busy machine may let the worker wait; no detector is to be muted for that."""

PAUSE_S: Final = 10 * MIN
"""How long gpumon is away where it is started anew."""


class Charge(NamedTuple):
    """What became of one job."""

    accused: dict[str, Finding]
    """First finding that was supported or better, by class."""
    guessed: dict[str, Finding]
    """Newest hypothesis, by class."""
    charged_s: dict[str, float]


class Outcome(NamedTuple):
    """What a day of gpumon said of a population."""

    fleet: Fleet
    charges: dict[str, Charge]
    watched: tuple[tuple[float, float], ...]
    """Unix times between which gpumon ran."""
    errors: frozenset[str]
    unbalanced: frozenset[str]
    """Jobs whose books did not add up to their allocation."""
    looks: int
    took_s: float


class Patient:
    """The detection engine, waited for: an invented clock would leave the worker far behind.

    It takes a picture only every so often, as an engine does that is busy with the one before.
    """

    def __init__(self, look_s: float) -> None:
        self._look_s = look_s
        self._evaluated_at = float("-inf")
        self._engine = DetectionEngine(budget_s=PATIENCE_S, start_s=PATIENCE_S)
        self._report: DetectionReport | None = None

    def submit(self, tick: Tick) -> bool:
        """Have a picture judged, and wait until it is."""
        if tick.at - self._evaluated_at < self._look_s:
            return False
        taken = self._engine.submit(tick)
        self._evaluated_at = tick.at
        self._report = self._engine.finish(PATIENCE_S) if taken else None
        return taken

    def collect(self) -> DetectionReport | None:
        """What was said of it, once."""
        report, self._report = self._report, None
        return report

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)


class Witness:
    """Notes down what pictures say, tick by tick."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.accused: dict[str, dict[str, Finding]] = {c.job_id: {} for c in fleet.cases}
        self.guessed: dict[str, dict[str, Finding]] = {c.job_id: {} for c in fleet.cases}
        self.charged: dict[str, dict[str, float]] = {c.job_id: {} for c in fleet.cases}
        self.errors: set[str] = set()
        self.unbalanced: set[str] = set()
        self.looks = 0
        self._before: dict[str, dict[str, float]] = {}
        self._holders: dict[str, list[Case]] = {}
        for case in fleet.cases:
            for uuid in case.gpus:
                self._holders.setdefault(uuid, []).append(case)
        self._known = {case.job_id: case for case in fleet.cases}

    def take(self, tick: Tick) -> None:
        """One picture."""
        self.looks += 1
        self.errors.update(f"{error.where}: {error.message}" for error in tick.errors)
        for finding in (*tick.findings, *tick.cleared):
            for case in self._of(finding):
                if finding.confidence is Confidence.HYPOTHESIS:
                    self.guessed[case.job_id][finding.finding_class] = finding
                else:
                    self.accused[case.job_id].setdefault(finding.finding_class, finding)
        if tick.ledger is None:
            return
        for job_id in self._known:
            told = wasted_s(tick.ledger, job_id)
            if told is not None:
                self._weigh(tick, self._known[job_id])
                before = self._before.get(job_id, {})
                keys = told.keys() | before.keys()
                self.charged[job_id] = {k: before.get(k, 0.0) + told.get(k, 0.0) for k in keys}

    def _weigh(self, tick: Tick, case: Case) -> None:
        """Compare what is booked with the GPUs that the job held, and for how long."""
        booked = booked_s(tick.ledger, case.job_id) if tick.ledger is not None else None
        if booked is not None:
            held_s = max(0.0, min(tick.at, case.end_at) - booked[1])
            slack_s = QUEUE_S + 2 * self.fleet.plan.period_s
            if abs(booked[0] - held_s * len(case.gpus)) > slack_s * len(case.gpus):
                self.unbalanced.add(case.job_id)

    def close_books(self) -> None:
        """What follows is added to what was charged so far."""
        self._before = {job_id: dict(seconds) for job_id, seconds in self.charged.items()}

    def _of(self, finding: Finding) -> list[Case]:
        kind, _, name = finding.subject.partition("/")[0].partition(":")
        if kind == "job":
            return [self._known[name]] if name in self._known else []
        held = self._holders.get(name, []) if kind == "gpu" else []
        if kind == "node" and finding.finding_class != "telemetry_lost":
            # That a node is silent is true wherever the population says so, and of no job.
            held = [case for case in self.fleet.cases if name in case.record.nodes]
        at = finding.window.end
        return [case for case in held if case.begin_at <= at <= case.end_at + MIN]


def watch(fleet: Fleet, witness: Witness, start_at: float, end_at: float) -> None:
    """Run gpumon from one time to another."""
    clock = Hasty(float(start_at))
    source = FleetSource(fleet, clock)
    period_s, look_s = float(fleet.plan.period_s), fleet.plan.look_s
    sampler = Sampler(
        [source], clock, period_s, History, partial(Patient, look_s), open_ledger=Ledger
    )
    is_over, may_end = threading.Event(), threading.Event()
    told: list[object] = [None]

    def take(tick: Tick) -> None:
        is_last = tick.at + period_s > end_at
        if tick.findings is not told[0] or is_last:
            told[0] = tick.findings
            witness.take(tick)
        if is_last:
            is_over.set()
            may_end.wait()

    sampler.start(take, lambda _: is_over.set())
    is_over.wait()
    failure = sampler.failure
    sampler.close()
    may_end.set()
    if failure is not None:
        raise RuntimeError(failure.message)


def lived(fleet: Fleet) -> Outcome:
    """What gpumon makes of the whole day."""
    begun = time.perf_counter()
    start_at, end_at = float(fleet.grid.start_at), float(fleet.end_at)
    spans: tuple[tuple[float, float], ...] = ((start_at, end_at),)
    if fleet.plan.is_restarted:
        middle = fleet.grid.at(fleet.grid.count // 2)
        spans = ((start_at, float(middle)), (middle + PAUSE_S, end_at))
    witness = Witness(fleet)
    for span in spans:
        watch(fleet, witness, *span)
        witness.close_books()
    charges = {
        case.job_id: Charge(
            witness.accused[case.job_id],
            witness.guessed[case.job_id],
            witness.charged[case.job_id],
        )
        for case in fleet.cases
    }
    took_s = time.perf_counter() - begun
    return Outcome(
        fleet, charges, spans, frozenset(witness.errors), frozenset(witness.unbalanced),
        witness.looks, took_s,
    )  # fmt: skip
