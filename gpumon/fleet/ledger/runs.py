"""Which job holds which GPU since when, as the books need it: every GPU-second has one owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from gpumon.fleet.join.membership import HOLDING_STATE
from gpumon.fleet.ledger.accounts import Sums
from gpumon.fleet.ledger.holding import Holding, Run
from gpumon.fleet.ledger.timeline import Timeline
from gpumon.model.job_states import ENDED_STATES
from gpumon.model.records.ledger import UNOBSERVED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gpumon.fleet.ledger.accounts import OpenAccount
    from gpumon.model.records.cluster import Gpu, JobView
    from gpumon.model.records.ledger import Account
    from gpumon.model.records.tick import Tick

CORRECTED_S: Final = 3600.0
"""An ended job's books stay open for corrections that long: findings are cleared by then."""


MOST_CLOSED: Final = 2_000
"""Accounts of runs that are no longer corrected, of which each is still told by itself: about
a megabyte, and what a busy cluster ends in some hours."""


class EarlierRuns(Protocol):
    """What an earlier process wrote down, so that nothing is booked twice."""

    def until(self, job_id: str, began_at: float, uuid: str) -> float | None:
        """Unix time up to which a run's time on a GPU is booked; None: none of it."""
        ...


class Runs:
    """Every run that holds GPUs or did so lately.

    Time is booked from Slurm's start of the job on, also where it was first seen later; of a GPU
    that came to a running job, from the picture on that first showed it. It ends at the end that
    Slurm names, else at the last picture that showed it, or earlier where the next job's start on
    that GPU is earlier. What several jobs hold at once is shared among them in equal parts.
    """

    def __init__(
        self, epoch: float, read_out: Callable[[Holding], None], earlier: EarlierRuns | None = None
    ) -> None:
        """No runs.

        Args:
            epoch: Unix time at which the books are opened.
            read_out: Called with each holding that a job lets go of, after it ended, and before
                it becomes a larger or a smaller part of its GPU.
            earlier: What an earlier process wrote down.
        """
        self._read_out = read_out
        self._epoch = epoch
        self._earlier = earlier
        self._floor = float("-inf")
        self._carried: set[str] = set()
        """Jobs that held GPUs when the clock was set."""
        self._at = epoch
        self.sums = Sums(epoch)
        self._taken: list[Holding] = []
        self.open: dict[str, Run] = {}
        self.ended: list[Run] = []
        self.closed: tuple[Account, ...] = ()
        """Of runs that were forgotten, those that ended last."""
        self._ended_at: dict[str, float] = {}
        self.on_gpu: dict[str, list[Holding]] = {}
        """Who holds or held a GPU, the newest last."""

    def update(self, tick: Tick, last_at: float) -> None:
        """Take in the jobs of a picture that follows the one of Unix time `last_at`."""
        self._at = tick.at
        changed, seen = [], set()
        ends: dict[str, float] = {}
        for view in tick.jobs:
            job = view.job
            if job.state == HOLDING_STATE and (view.gpu_uuids or view.gpus_unknown):
                seen.add(job.job_id)
                run = self.open.get(job.job_id)
                if run is None or not _is_same(run, view):
                    changed.append(view)
            elif job.job_id in self.open and job.state in ENDED_STATES and job.end_at is not None:
                ends[job.job_id] = min(job.end_at, tick.at)
        for job_id in self.open.keys() - seen:
            self._end(self.open.pop(job_id), ends.get(job_id, last_at))
        for view in changed:
            self._let_go(view, last_at)
        for view in changed:
            self._take(view, tick, last_at)

    def taken(self) -> list[Holding]:
        """GPUs that came into the hands of a job, under a name, since this was asked last."""
        taken, self._taken = self._taken, []
        return taken

    def restart(self, end_at: float, at: float) -> None:
        """The clock was set to `at`: what is held is booked up to its old time, and anew from now.

        Slurm's start of a job that comes later may be of another clock: it is not believed where it
        lies before the change.
        """
        for run in self.open.values():
            self._end(run, end_at)
            run.ended_at = at  # by the new time: it is kept as long as others
        self._carried = set(self.open)
        self.open.clear()
        self.on_gpu.clear()
        self._ended_at.clear()
        self._floor = at

    def with_past(self, before: float) -> list[Run]:
        """Runs that `fold` would forget something of."""
        runs = (*self.open.values(), *self.ended)
        return [r for r in runs if any(h.timeline.ended_at < before for h in r.past)]

    def fold(self, before: float) -> None:
        """Forget what ended before a Unix time; in the sums it stays."""
        for run in self.open.values():
            if run.past:
                self._forget([h for h in run.past if h.timeline.ended_at < before])
                run.past = [h for h in run.past if h.timeline.ended_at >= before]
        over = [run for run in self.ended if (run.ended_at or 0.0) < before]
        if over:
            self.ended = [run for run in self.ended if (run.ended_at or 0.0) >= before]
            closed = [account.snapshot() for run in over for account in run.accounts.values()]
            self.closed = (*self.closed, *closed)[-MOST_CLOSED:]
            for run in over:
                self._forget(run.past)
                self._ended_at.pop(run.job.job_id, None)

    def _forget(self, holdings: Iterable[Holding]) -> None:
        for holding in holdings:
            others = [h for h in self.on_gpu.get(holding.uuid, ()) if h is not holding]
            if others:
                self.on_gpu[holding.uuid] = others
            else:
                self.on_gpu.pop(holding.uuid, None)

    def _end(self, run: Run, when: float) -> None:
        for holding in (*run.held.values(), *run.unnamed):
            self._release(run, holding, when)
        run.held.clear()
        run.unnamed.clear()
        run.ended_at = self._ended_at[run.job.job_id] = when
        self.ended.append(run)

    def _release(self, run: Run, holding: Holding, when: float) -> None:
        holding.timeline.end(when)
        self._read_out(holding)
        run.past.append(holding)
        self._share(holding.uuid, holding.timeline.ended_at)

    def _let_go(self, view: JobView, last_at: float) -> None:
        """End what a changed job no longer holds, before others may take it."""
        job, run = view.job, self.open.get(view.job.job_id)
        if run is None:
            return
        if run.job.start_at != job.start_at:
            del self.open[job.job_id]
            self._end(run, last_at if job.start_at is None else min(last_at, job.start_at))
            return
        now_held = set(view.gpu_uuids)
        for uuid in [uuid for uuid in run.held if uuid not in now_held]:
            holding = run.held.pop(uuid)
            if len(run.unnamed) < view.gpus_unknown:
                holding.timeline.observe(last_at, UNOBSERVED)
                run.unnamed.append(holding)
            else:
                self._release(run, holding, last_at)

    def _take(self, view: JobView, tick: Tick, last_at: float) -> None:
        """Open a run, or begin what a job holds besides."""
        job, run = view.job, self.open.get(view.job.job_id)
        first = tick.at
        if run is None:
            first = min(first, first if job.start_at is None else job.start_at)
            if first < self._floor:
                first = self._floor if job.job_id in self._carried else max(self._floor, last_at)
            first = max(first, min(tick.at, self._ended_at.get(job.job_id, first)))
            run = self.open[job.job_id] = Run(job, first)
        for uuid in self._returned(run, [u for u in view.gpu_uuids if u not in run.held]):
            gpu = tick.gpus.get(uuid)
            if len(run.unnamed) > view.gpus_unknown:
                self._name(run, run.unnamed.pop(), uuid, gpu)
            else:
                self._hold(run, uuid, first, gpu)
        while len(run.unnamed) < view.gpus_unknown:
            start = self._from(run, "", first)
            run.unnamed.append(Holding(run, "", Timeline(start, self._account(run, "", start))))
        while len(run.unnamed) > view.gpus_unknown:
            self._release(run, run.unnamed.pop(), last_at)
        run.job, run.uuids, run.unknown = job, view.gpu_uuids, view.gpus_unknown

    def _returned(self, run: Run, new: list[str]) -> list[str]:
        """Take back into the hands of the run what telemetry names again; the rest is new."""
        away = {holding.uuid: holding for holding in run.unnamed if holding.uuid}
        for uuid in new:
            if uuid in away:
                run.unnamed.remove(away[uuid])
                run.held[uuid] = away[uuid]
                self._taken.append(away[uuid])
        return [uuid for uuid in new if uuid not in away]

    def _hold(self, run: Run, uuid: str, first: float, gpu: Gpu | None) -> None:
        start = self._from(run, uuid, first)
        for other in self.on_gpu.get(uuid, ()):
            if not other.timeline.is_open and other.timeline.ended_at > start:
                if other.timeline.start < start:
                    other.timeline.end(start)
                else:
                    start = other.timeline.ended_at
        name = (gpu.label("name") or "") if gpu else ""
        holding = Holding(run, uuid, Timeline(start, self._account(run, name, start)))
        self._place(run, holding, gpu)
        self._share(uuid, start)

    def _name(self, run: Run, holding: Holding, uuid: str, gpu: Gpu | None) -> None:
        """Telemetry names a GPU that the job holds: since its beginning, unless another had it."""
        if holding.uuid:
            self._forget([holding])
            holding.uuid = ""
        ends = [h.timeline.ended_at for h in self.on_gpu.get(uuid, ()) if not h.timeline.is_open]
        before = max(ends, default=holding.timeline.start)
        if before > holding.timeline.start:
            self._release(run, holding, before)
            self._hold(run, uuid, before, gpu)
            return
        holding.uuid = uuid
        name = (gpu.label("name") or "") if gpu else ""
        holding.timeline.move(self._account(run, name, holding.timeline.start))
        self._place(run, holding, gpu)
        self._share(uuid, max(h.timeline.start for h in self._holders(uuid)))

    def _place(self, run: Run, holding: Holding, gpu: Gpu | None) -> None:
        run.held[holding.uuid] = holding
        self._taken.append(holding)
        holding.node = gpu.node if gpu else ""
        away = [h for h in self._holders(holding.uuid) if not h.is_held]
        self._forget(away)
        for other in away:
            other.uuid = ""  # another job has the GPU that telemetry named for it before
        self.on_gpu.setdefault(holding.uuid, []).append(holding)

    def _holders(self, uuid: str) -> list[Holding]:
        return [h for h in self.on_gpu.get(uuid, ()) if h.timeline.is_open]

    def _share(self, uuid: str, since: float) -> None:
        """Who holds the GPU at the same time has an equal part of it, from a Unix time on."""
        holders = self._holders(uuid) if uuid else []
        later = {holding.timeline.start for holding in holders if holding.timeline.start > since}
        for when in (since, *sorted(later)):
            sharing = [holding for holding in holders if holding.timeline.start <= when]
            for holding in sharing:
                weight = 1.0 / len(sharing)
                if holding.timeline.weight != weight and holding.energy_at is not None:
                    self._read_out(holding)
                holding.timeline.weigh(weight, when)

    def _from(self, run: Run, uuid: str, first: float) -> float:
        """Where the booking of a GPU begins: nothing is booked that an earlier process booked."""
        job = run.job
        began_at = run.began_at if job.start_at is None else job.start_at
        until = self._earlier.until(job.job_id, began_at, uuid) if self._earlier else None
        return first if until is None else max(first, min(until, self._at))

    def _account(self, run: Run, gpu: str, start: float) -> OpenAccount:
        return run.account_of(gpu, start, self._epoch, self.sums)


def _is_same(run: Run, view: JobView) -> bool:
    return (
        run.uuids == view.gpu_uuids
        and run.unknown == view.gpus_unknown
        and run.job.start_at == view.job.start_at
    )
