"""The books: what became of every GPU-second of every allocation, tick by tick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from gpumon.fleet.ledger_claims import Claims
from gpumon.fleet.ledger_energy import BEAT_S, meter
from gpumon.fleet.ledger_runs import CORRECTED_S, Runs
from gpumon.fleet.ledger_sight import Sight
from gpumon.model.ledger import NO_PRICES, LedgerTotals

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpumon.fleet.ledger_holding import Holding, Run
    from gpumon.fleet.ledger_runs import Booked
    from gpumon.model.cluster import Gpu
    from gpumon.model.ledger import Prices
    from gpumon.model.tick import Tick

WRITE_S: Final = 300.0
"""The journal gets a line per job and node that often; a kill loses at most so much of it."""

WRITE_RUNS: Final = 250
"""Jobs written per tick, so that no tick bears all of them."""


class Journal(Protocol):
    """Where the books are kept; `gpumon.fleet.ledger_journal.JournalFile` is one."""

    @property
    def booked(self) -> Booked | None:
        """What earlier processes wrote."""
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
    findings that are *supported* or better claim their part back to their onset; where two claim
    the same second, the graver class keeps it.
    """

    def __init__(self, prices: Prices = NO_PRICES, journal: Journal | None = None) -> None:
        """Nothing is booked before the first tick.

        Args:
            prices: What GPU time and energy cost.
            journal: Where the books are kept; None: in memory only.
        """
        self._prices = prices
        self._journal = journal
        self._claims = Claims()
        self._sight = Sight()
        self._runs: Runs | None = None
        self._since = self._at = self._written_at = self._beat_at = 0.0
        self._gpus: Mapping[str, Gpu] = {}
        self._unwritten: list[Run] = []

    def take(self, tick: Tick) -> None:
        """Book the time since the tick before. The same tick again books nothing."""
        if self._runs is None:
            self._since = self._at = self._written_at = self._beat_at = tick.at
            self._runs = Runs(
                tick.at, self._read_out, self._journal.booked if self._journal else None
            )
        elif tick.at == self._at:
            return
        elif tick.at < self._at:
            self._runs.restart(self._at, tick.at)
            self._claims.forget()
            self._sight.restart(tick.at)
            self._at = self._written_at = self._beat_at = tick.at
        runs, last_at = self._runs, self._at
        runs.update(tick, last_at)
        self._observe(runs, tick, last_at)
        for claim in self._claims.new(tick):
            for holding in runs.on_gpu.get(claim.uuid, ()):
                if claim.job_id in (None, holding.run.job.job_id):
                    holding.timeline.charge(claim.start, claim.end, claim.charge)
        self._at = tick.at
        self._gpus = tick.gpus
        self._at_times(runs, tick.at)

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
        )

    def close(self) -> None:
        """Write what is not written yet."""
        if self._journal is not None:
            if self._runs is not None:
                self._write(self._at, (*self._runs.open.values(), *self._runs.ended))
            self._journal.close()

    def _observe(self, runs: Runs, tick: Tick, last_at: float) -> None:
        """Open or shut observed stretches: of GPUs that a job got now, and of all that changed."""
        for change in self._sight.changes(tick, last_at):
            for holding in runs.on_gpu.get(change.uuid, ()):
                if holding.is_held:
                    meter(holding, tick.gpus.get(change.uuid))
                    holding.timeline.observe(change.when, is_observed=change.is_observed)
        for holding in runs.taken():
            since = self._sight.since(holding.uuid)
            meter(holding, tick.gpus.get(holding.uuid))
            if since is not None and holding.is_held and not holding.timeline.is_observed:
                holding.timeline.observe(since, is_observed=True)

    def _at_times(self, runs: Runs, at: float) -> None:
        """What is done once in a while."""
        if at - self._written_at >= WRITE_S:
            self._written_at = at
            self._unwritten = [*runs.open.values(), *runs.ended]
        if self._unwritten:
            batch, self._unwritten = self._unwritten[:WRITE_RUNS], self._unwritten[WRITE_RUNS:]
            self._write(at, batch)
        if at - self._beat_at >= BEAT_S:
            self._beat_at = at
            for run in runs.open.values():
                for uuid, holding in run.held.items():
                    meter(holding, self._gpus.get(uuid))
            # What is folded cannot be written any more.
            self._write(at, runs.with_past(at - CORRECTED_S), at - CORRECTED_S)
            runs.fold(at - CORRECTED_S)

    def _read_out(self, holding: Holding) -> None:
        """The last reading of a GPU that a job lets go of, from the tick before."""
        meter(holding, self._gpus.get(holding.uuid))

    def _write(self, at: float, runs: Iterable[Run], gone_before: float | None = None) -> None:
        if self._journal is not None:
            self._journal.write(at, runs, gone_before)
