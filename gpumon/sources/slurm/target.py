"""Slurm targets: the queue by commands or slurmrestd, and a probe on the nodes of its jobs."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING, Final

from gpumon.sources.pool import MAX_STARTING, ProbePool
from gpumon.sources.slurm.commands import SlurmCommands
from gpumon.sources.slurm.queue import SlurmQueue
from gpumon.sources.slurm.reach import Reach
from gpumon.sources.ssh import Hop, login

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.frame import Frame
    from gpumon.sources.slurm.rounds import QueueRounds
    from gpumon.sources.source import Clock, Wish
    from gpumon.sources.target import Look, Target

MAX_STARTING_BEHIND_HOP: Final = 8
"""sshd turns away some of more than ten connections that have not logged in (MaxStartups)."""


class SlurmSource:
    """Reads the queue, and the GPUs of the nodes on which the jobs in view run."""

    def __init__(self, target: Target, look: Look, clock: Clock) -> None:
        """Nothing runs before `start`."""
        self.url = target.url
        self._keeps = look.keeps
        self._clock = clock
        hop = Hop(target.hosts[0], target.user, target.port) if target.hosts else None
        self._queue = _queue(target, hop, clock)
        self._reach = Reach(target.url, target.nodes_by.split(","), target.user or _user(), hop)
        self._pool = ProbePool(
            target.url,
            [],
            look.period_s,
            clock,
            look.is_single,
            look.probe_options,
            max_starting=MAX_STARTING_BEHIND_HOP if hop else MAX_STARTING,
        )

    def start(self, wake: Callable[[], None]) -> None:
        """Ask the queue; the probes start when it has answered."""
        self._queue.start(wake)
        self._pool.start(wake)

    def poll(self) -> list[Frame]:
        """Frames of the queue and of the nodes since the last poll."""
        frames = []
        for frame in self._queue.poll():
            if frame.queue is None:
                frames.append(frame)
                continue
            wanted = tuple(job for job in frame.queue.jobs if self._keeps(job))
            seen = frame.queue._replace(jobs=wanted)
            frames.append(frame._replace(queue=seen))
            self._reach.learn(seen)
        frames += [self._reach.take(frame) for frame in self._pool.poll()]
        if self._reach.has_news:
            self._pool.replace(self._reach.endpoints())
        return frames + self._reach.remarks(self._clock.now())

    def pending(self) -> bool:
        """Whether the queue or a node has not answered for the first time."""
        return self._queue.pending() or self._pool.pending()

    def wish(self, wish: Wish) -> None:
        """Take a new period for the probes; the queue keeps its own, slower one."""
        self._pool.wish(wish)

    def close(self) -> None:
        """End the commands and the probes."""
        self._queue.close()
        self._pool.close()


def _user() -> str:
    """Login name of this process; its number where the system knows none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _queue(target: Target, hop: Hop | None, clock: Clock) -> QueueRounds:
    """The queue: by slurmrestd where the target names one, else by commands, here or at the hop."""
    if target.rest is None:
        commands = SlurmCommands(login(*hop), clock=clock) if hop else None
        return SlurmQueue(target.url, commands=commands, clock=clock)
    # It loads httpx, which takes longer than a whole look by the commands.
    from gpumon.sources.slurm.rest_queue import RestQueue

    return RestQueue(target.url, target.rest, clock=clock)
