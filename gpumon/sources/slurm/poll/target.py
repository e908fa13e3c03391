"""Slurm targets: the queue by commands or slurmrestd, and a probe on the nodes of its jobs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from gpumon.sources.own_login import own_login
from gpumon.sources.probes.pool import ProbePool
from gpumon.sources.probes.ssh import login
from gpumon.sources.probes.start_order import MAX_STARTING
from gpumon.sources.slurm.accounting import accounting
from gpumon.sources.slurm.accounting.accounting import Accounting
from gpumon.sources.slurm.accounting.commands import SacctCommands
from gpumon.sources.slurm.commands import failures
from gpumon.sources.slurm.commands.answer_cache import SharedAnswers, folder_of
from gpumon.sources.slurm.commands.commands import SlurmCommands
from gpumon.sources.slurm.poll.node_access import Reach
from gpumon.sources.slurm.poll.queue import SlurmQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumon.model.fault import SourceError
    from gpumon.model.records.frame import Frame
    from gpumon.sources.address import Hop, Sampling, Target
    from gpumon.sources.slurm.accounting.accounting import Ledger
    from gpumon.sources.slurm.poll.poll_loop import QueueRounds
    from gpumon.sources.source import Clock, Wish

MAX_STARTING_BEHIND_HOP: Final = 8
"""sshd turns away some of more than ten connections that have not logged in (MaxStartups)."""


class AccountingErrors:
    """Moves the queue's errors about slurmdbd into the accounting's line while there is one.

    24.11's slurmrestd asks slurmdbd before it lists partitions, so the queue hears of it, too.
    """

    def __init__(self) -> None:
        """There are no errors yet."""
        self._queue: Frame | None = None
        self._ended: Frame | None = None
        self._moved: tuple[SourceError, ...] = ()

    def of(self, frames: Sequence[Frame]) -> list[Frame]:
        """The frames of a queue and its accounting as they are to be reported.

        A frame whose errors now read otherwise than when it was reported comes once more.
        """
        for frame in frames:
            if frame.ended is not None:
                self._ended = frame
            else:
                self._queue = frame
        again: list[Frame] = []
        moved = self._to_move()
        if moved != self._moved:
            self._moved = moved
            latest = [frame for frame in (self._queue, self._ended) if frame is not None]
            again = [one for one in latest if not any(one is frame for frame in frames)]
        return [self._without_repeats(frame) for frame in (*again, *frames)]

    def _to_move(self) -> tuple[SourceError, ...]:
        """What the queue reports of slurmdbd, where the accounting reports it, too."""
        if self._queue is None or self._ended is None or self._ended.ended is None:
            return ()
        if not any(map(accounting.is_unreached, self._ended.ended.errors)):
            return ()
        return tuple(filter(failures.is_about_accounting, self._queue.errors))

    def _without_repeats(self, frame: Frame) -> Frame:
        if not self._moved:
            return frame
        if frame.ended is None:
            left = tuple(one for one in frame.errors if not failures.is_about_accounting(one))
            return frame._replace(errors=left)
        errors = tuple(map(self._with_moved, frame.ended.errors))
        return frame._replace(ended=frame.ended._replace(errors=errors))

    def _with_moved(self, error: SourceError) -> SourceError:
        if not accounting.is_unreached(error):
            return error
        words = [f"{one.where} say so, too{failures.accounting_words(one)}" for one in self._moved]
        return error._replace(message="; ".join([error.message, *words]))


class SlurmSource:
    """Reads the queue, and the GPUs of the nodes on which the jobs in view run."""

    def __init__(self, target: Target, sampling: Sampling, clock: Clock) -> None:
        """Nothing runs before `start`."""
        self.url = target.url
        self._is_wanted = sampling.is_wanted
        self._clock = clock
        hop = target.hop
        self._queue = _queue(target, hop, clock)
        self._accounting = Accounting(target.url, _ledger(target, hop, sampling, clock), clock)
        self._accounting_errors = AccountingErrors()
        self._reach = Reach(
            target.url,
            target.nodes_by.split(","),
            target.user or own_login(),
            hop,
            target.cluster,
        )
        self._pool = ProbePool(
            target.url,
            [],
            sampling.period_s,
            clock,
            sampling.is_single,
            sampling.probe_options,
            max_starting=MAX_STARTING_BEHIND_HOP if hop else MAX_STARTING,
        )

    @property
    def cluster(self) -> str:
        """Slurm's name of the cluster, lower case; empty while it is not known."""
        return self._queue.cluster

    def start(self, wake: Callable[[], None]) -> None:
        """Ask the queue; the probes start when it has answered."""
        self._queue.start(wake)
        self._accounting.start(wake)
        self._pool.start(wake)

    def poll(self) -> list[Frame]:
        """Frames of the queue and of the nodes since the last poll."""
        frames = []
        for frame in self._queue.poll():
            if frame.queue is None:
                frames.append(frame)
                continue
            wanted = tuple(job for job in frame.queue.jobs if self._is_wanted(job))
            is_filtered = len(wanted) < len(frame.queue.jobs)
            seen = frame.queue._replace(jobs=wanted, is_filtered=is_filtered)
            frames.append(frame._replace(queue=seen))
            self._reach.learn(seen)
        frames = self._accounting_errors.of([*frames, *map(self._in_view, self._accounting.poll())])
        frames += [self._reach.take(frame) for frame in self._pool.poll()]
        if self._reach.has_news:
            self._pool.replace(self._reach.endpoints())
        return frames + self._reach.remarks(self._clock.now())

    def pending(self) -> bool:
        """Whether the queue or a node has not answered for the first time."""
        waited_for = (self._queue, self._pool, self._accounting)
        return any(part.pending() for part in waited_for)

    def wish(self, wish: Wish) -> None:
        """Pass on what concerns each part; the queue has its own period but for a change made."""
        self._pool.wish(wish)
        self._queue.wish(wish)
        if wish.ended_since is not None:
            self._accounting.wish(wish.ended_since, by_hand=wish.is_by_hand)
        if wish.use_of:
            self._accounting.wish_use(wish.use_of)

    def close(self) -> None:
        """End the commands and the probes."""
        self._queue.close()
        self._accounting.close()
        self._pool.close()

    def _in_view(self, frame: Frame) -> Frame:
        """A report of the accounting, of the wanted jobs only."""
        report = frame.ended
        if report is None or report.records is None:
            return frame
        jobs = tuple(ended for ended in report.records.jobs if self._is_wanted(ended.job))
        return frame._replace(ended=report._replace(records=report.records._replace(jobs=jobs)))


def _queue(target: Target, hop: Hop | None, clock: Clock) -> QueueRounds:
    """The queue: by slurmrestd where the target names one, else by commands, here or at the hop."""
    if target.rest is None:
        commands = _commands(target, hop, clock)
        shared = SharedAnswers(folder_of(os.environ), commands.identity)
        return SlurmQueue(target.url, commands=commands, clock=clock, shared=shared)
    # It loads httpx, which takes longer than a whole sample by the commands.
    from gpumon.sources.slurm.poll.rest_queue import RestQueue

    return RestQueue(target.url, target.rest, clock=clock, folder=folder_of(os.environ))


def _commands(target: Target, hop: Hop | None, clock: Clock) -> SlurmCommands:
    """Slurm's commands as a target wants them; of no other thread."""
    return SlurmCommands(login(*hop) if hop else (), cluster=target.cluster, clock=clock)


def _ledger(target: Target, hop: Hop | None, sampling: Sampling, clock: Clock) -> Ledger:
    """The accounting, asked in the same way as the queue, by a process or connection of its own."""
    if target.rest is None:
        commands = _commands(target, hop, clock)
        return SacctCommands(commands, user=sampling.user, everyone=sampling.everyone)
    from gpumon.sources.slurm.rest.accounting import RestAccounting

    return RestAccounting(
        target.rest,
        user=sampling.user,
        everyone=sampling.everyone,
        clock=clock,
        folder=folder_of(os.environ),
    )
