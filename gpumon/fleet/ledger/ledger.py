"""The books: what became of every GPU-second of every allocation, tick by tick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from gpumon.fleet.ledger.claims import Claims
from gpumon.fleet.ledger.losing import LosingFindings
from gpumon.fleet.ledger.runs import CORRECTED_S, Runs
from gpumon.fleet.ledger.sight import Sight
from gpumon.model.records.ledger import NO_PRICES, UNOBSERVED, LedgerTotals
from gpumon.model.staleness import CLOCK_SET_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpumon.fleet.ledger.holding import Holding, Run
    from gpumon.fleet.ledger.runs import EarlierRuns
    from gpumon.model.records.cluster import Gpu
    from gpumon.model.records.ledger import Account, Prices
    from gpumon.model.records.tick import Tick

WRITE_S: Final = 300.0
"""The journal gets a line per job and node that often; a kill loses at most so much of it."""

WRITE_RUNS: Final = 250
"""Jobs written per tick, so that no tick bears all of them."""

METER_PERIOD_S: Final = 60.0
"""How often energy is read of a GPU that is held; the counter loses nothing in between."""

LONGEST_S: Final = 3 * METER_PERIOD_S
"""No power is taken to have lasted longer than this."""


def meter(holding: Holding, gpu: Gpu | None) -> None:
    """Book the energy since the reading before, where both are known.

    Of a counter, the difference: it also covers what was not observed. One that fell was reset, and
    nothing is booked. Without a counter, the power of now over the time since then. A GPU that the
    job has a part of counts by that part.
    """
    if gpu is None or gpu.is_stale:
        return
    taken_at, before = gpu.taken_at, holding.energy_at
    if before is not None and taken_at <= before:
        return
    energy_j, power_w = gpu.value("energy_j"), gpu.value("power_w")
    if energy_j is None and power_w is None:
        return
    if before is not None:
        span_s = taken_at - before
        used_j = None
        if energy_j is not None and holding.energy_last is not None:
            used_j = energy_j - holding.energy_last
        elif power_w is not None and span_s <= LONGEST_S:
            used_j = power_w * span_s
        if used_j is not None and used_j >= 0:
            weight = holding.timeline.weight
            holding.energy_j += used_j * weight
            holding.energy_s += span_s * weight
            holding.timeline.account.meter(used_j * weight, span_s * weight)
    holding.energy_at, holding.energy_last = taken_at, energy_j


class Journal(Protocol):
    """Where the books are kept; `gpumon.fleet.ledger.journal.JournalFile` is one."""

    @property
    def resumed(self) -> EarlierRuns | None:
        """What earlier processes wrote; None where this one does not go on with it."""
        ...

    @property
    def accounts(self) -> tuple[Account, ...]:
        """What earlier processes, or the one that writes, booked of single runs."""
        ...

    @property
    def kept_in(self) -> str | None:
        """Folder that is written to; None: another process writes, or it cannot be written."""
        ...

    @property
    def note(self) -> str:
        """Why something is not written."""
        ...

    def write(self, at: float, runs: Iterable[Run], gone_before: float | None = None) -> None:
        """Have written what is not yet of the time until `at`, without waiting for it.

        What ended before the Unix time `gone_before` is not offered again.
        """
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


class Ledger:
    """Keeps the books of a fleet. Only changes do work: what goes on is added up when it is read.

    A GPU is observed while its values are fresh and say whether it works. Of what is observed,
    findings claim their part from their onset to the end of their window: those that are
    *supported* or better as wasted, hypotheses as suspected. The graver class takes its part first.
    """

    def __init__(self, prices: Prices = NO_PRICES, journal: Journal | None = None) -> None:
        """Nothing is booked before the first tick.

        Args:
            prices: What GPU time and energy cost.
            journal: Where the books are kept; None: in memory only.
        """
        self._prices = prices
        self._journal = journal
        self._earlier = journal.accounts if journal else ()
        self._claims = Claims(self._held_by)
        self._sight = Sight()
        self._losing = LosingFindings()
        self._runs: Runs | None = None
        self._since = self._at = self._written_at = self._metered_at = 0.0
        self._steady_s: float | None = None
        self._gpus: Mapping[str, Gpu] = {}
        self._unwritten: list[Run] = []

    def take(self, tick: Tick) -> None:
        """Book the time since the tick before. The same tick again books nothing."""
        if self._runs is None:
            self._since = self._at = self._written_at = self._metered_at = tick.at
            self._steady_s = tick.steady_s
            self._runs = Runs(
                tick.at, self._read_out, self._journal.resumed if self._journal else None
            )
        elif tick.at == self._at:
            return
        elif (passed_s := self._passed_s(tick)) is not None:
            self._runs.restart(self._at + passed_s, tick.at)
            self._claims.forget()
            self._sight.restart(tick.at)
            self._at = self._written_at = self._metered_at = tick.at
        runs, last_at = self._runs, self._at
        runs.update(tick, last_at)
        self._observe(runs, tick, last_at)
        for claim in self._claims.new(tick):
            for holding in runs.on_gpu.get(claim.uuid, ()):
                of_source = runs.on_gpu.get(claim.source_uuid, ())
                if holding.is_meant(claim.job_id, claim.source_uuid, of_source):
                    claim.apply(holding.timeline)
        for number in self._claims.over():
            runs.sums.claims.forget(number)
        self._losing.take(tick, runs.on_gpu)
        self._at, self._steady_s = tick.at, tick.steady_s
        self._gpus = tick.gpus
        self._at_times(runs, tick.at)

    def _held_by(self, uuid: str) -> frozenset[str]:
        """Jobs that hold a GPU now."""
        holdings = self._runs.on_gpu.get(uuid, ()) if self._runs else ()
        return frozenset(holding.run.job.job_id for holding in holdings if holding.is_held)

    def _passed_s(self, tick: Tick) -> float | None:
        """Seconds since the last tick where the clock was set in between; None: it was not."""
        step_s = tick.at - self._at
        if tick.steady_s is None or self._steady_s is None:
            return 0.0 if step_s < 0 else None
        passed_s = tick.steady_s - self._steady_s
        is_set = step_s < 0 or abs(step_s - passed_s) > CLOCK_SET_S
        return max(0.0, passed_s) if is_set else None

    def summary(self) -> LedgerTotals:
        """The books as they are now; what is returned never changes."""
        runs = self._runs
        standing = (*runs.open.values(), *runs.ended) if runs else ()
        return LedgerTotals(
            self._at,
            self._since,
            tuple(account.snapshot() for run in standing for account in run.accounts.values()),
            runs.sums.snapshots() if runs else (),
            self._prices,
            self._journal.kept_in if self._journal else None,
            self._journal.note if self._journal else "",
            self._claims.charged(runs.sums.claims) if runs else {},
            self._losing.now,
            runs.closed if runs else (),
            self._earlier,
        )

    def close(self) -> None:
        """Write what is not written yet."""
        if self._journal is not None:
            if self._runs is not None:
                self._write(self._at, (*self._runs.open.values(), *self._runs.ended))
            self._journal.close()

    def _observe(self, runs: Runs, tick: Tick, last_at: float) -> None:
        """Note the states of GPUs: of those that a job got now, and of all that changed."""
        for change in self._sight.changes(tick, last_at):
            for holding in runs.on_gpu.get(change.uuid, ()):
                if holding.is_held:
                    if change.state == UNOBSERVED or holding.timeline.state == UNOBSERVED:
                        meter(holding, tick.gpus.get(change.uuid))
                    holding.timeline.observe(change.when, change.state)
                elif change.state == UNOBSERVED and change.when < holding.timeline.ended_at:
                    # A job that ended since then was not seen until its end.
                    holding.timeline.observe(change.when, change.state)
        for holding in runs.taken():
            meter(holding, tick.gpus.get(holding.uuid))
            if holding.is_held and holding.timeline.state == UNOBSERVED:
                for when, state in self._sight.since(holding.uuid, holding.timeline.start):
                    holding.timeline.observe(when, state)

    def _at_times(self, runs: Runs, at: float) -> None:
        """What is done once in a while."""
        if at - self._written_at >= WRITE_S:
            self._written_at = at
            self._unwritten = [*runs.open.values(), *runs.ended]
        if self._unwritten:
            batch, self._unwritten = self._unwritten[:WRITE_RUNS], self._unwritten[WRITE_RUNS:]
            self._write(at, batch)
        if at - self._metered_at >= METER_PERIOD_S:
            self._metered_at = at
            for run in runs.open.values():
                for uuid, holding in run.held.items():
                    meter(holding, self._gpus.get(uuid))
            # What is folded cannot be written any more.
            self._write(at, runs.with_past(at - CORRECTED_S), at - CORRECTED_S)
            runs.fold(at - CORRECTED_S)

    def _read_out(self, holding: Holding) -> None:
        """The reading from the tick before, of a GPU that a job lets go of or begins to share."""
        meter(holding, self._gpus.get(holding.uuid))

    def _write(self, at: float, runs: Iterable[Run], gone_before: float | None = None) -> None:
        if self._journal is not None:
            self._journal.write(at, runs, gone_before)
