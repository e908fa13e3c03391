"""The books: what became of every GPU-second of every allocation, tick by tick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from gpumon.fleet.ledger.claims import Claims
from gpumon.fleet.ledger.runs import CORRECTED_S, Runs
from gpumon.model.records.ledger import NO_PRICES, LedgerTotals

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gpumon.fleet.ledger.holding import Holding, Run
    from gpumon.fleet.ledger.runs import Booked
    from gpumon.model.records.cluster import Gpu
    from gpumon.model.records.ledger import Prices
    from gpumon.model.records.tick import Tick

WRITE_S: Final = 300.0
"""The journal gets a line per job and node that often; a kill loses at most so much of it."""

WRITE_RUNS: Final = 250
"""Jobs written per tick, so that no tick bears all of them."""

BEAT_S: Final = 60.0
"""How often energy is read of a GPU that is held; the counter loses nothing in between."""

LONGEST_S: Final = 3 * BEAT_S
"""No power is taken to have lasted longer than this."""

ACTIVITY_KEYS: Final = ("sm_active_ratio", "gpu_util_ratio", "graphics_active_ratio")
"""Without one of these it is not known whether a GPU worked, however fresh its other values."""

STALE_PERIODS: Final = 3.0
STALE_FLOOR_S: Final = 5.0
"""A pause between two pictures that is longer than this and so many periods was not observed: the
limits beyond which the pictures themselves call a value stale."""


class Change(NamedTuple):
    """A GPU came into sight or was lost out of it."""

    uuid: str
    when: float
    is_observed: bool


class Sight:
    """Follows every GPU of the fleet, held by a job or not."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def since(self, uuid: str) -> float | None:
        """Unix time since when a GPU is observed without a gap; None: it is not."""
        return self._since.get(uuid)

    def restart(self, at: float) -> None:
        """The clock was set back: what is in sight is so from now on."""
        self._since = dict.fromkeys(self._since, at)

    def changes(self, tick: Tick, last_at: float) -> Iterator[Change]:
        """What changed since the tick of Unix time `last_at`.

        A GPU is lost since its values were taken, or since the last tick where it is in none now or
        its activity cannot be read any more.
        """
        seen, gpus = self._since, tick.gpus
        if tick.at - last_at > max(STALE_FLOOR_S, STALE_PERIODS * tick.period_s):
            yield from self._lost(tuple(seen), last_at)
        yield from self._lost(tuple(seen.keys() - gpus.keys()), last_at)
        for uuid, gpu in gpus.items():
            is_observed = _is_observed(gpu)
            if is_observed == (uuid in seen):
                continue
            if is_observed:
                seen[uuid] = min(gpu.taken_at, tick.at)
                yield Change(uuid, seen[uuid], True)
            else:
                when = min(gpu.taken_at, tick.at) if gpu.is_stale else last_at
                yield from self._lost((uuid,), when)

    def _lost(self, uuids: tuple[str, ...], when: float) -> Iterator[Change]:
        for uuid in uuids:
            del self._since[uuid]
            yield Change(uuid, when, False)


def _is_observed(gpu: Gpu) -> bool:
    if gpu.is_stale:
        return False
    block, row = gpu.block, gpu.row
    return any(block.value(key, row) is not None for key in ACTIVITY_KEYS)


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
