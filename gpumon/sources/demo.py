"""The target `demo`: a simulated fleet with known faults, needs no GPU and no cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.model.records.accounting import EndedReport
from gpumon.model.records.frame import Frame
from gpumon.simulate.blocks.frames import FrameMaker
from gpumon.simulate.cluster.mix import DEMO
from gpumon.simulate.cluster.sim_cluster import Fleet
from gpumon.simulate.records.ended import ended_records
from gpumon.simulate.records.slurm_queue import queue_records
from gpumon.sources.probes.zoom import Zoom

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.label import Label
    from gpumon.simulate.cluster.mix import Mix
    from gpumon.sources.source import Clock, Wish

QUEUE_PERIOD_S: Final = 10.0
"""How often the queue answers, seconds: real ones are asked more rarely, a demo shows off."""

_EARLY: Final = 0.1
"""Share of a period by which a poll may come early and still be answered."""


class DemoSource:
    """Frames of the simulated fleet, computed when polled for the time of the clock.

    The fleet begins at the clock's time of construction; from there on a frame depends on size,
    seed and time alone.
    """

    def __init__(
        self,
        url: str,
        nodes: int,
        gpus_per_node: int,
        seed: int,
        clock: Clock,
        period_s: float = 1.0,
        past_s: float = 0.0,
        mix: Mix = DEMO,
    ) -> None:
        """Set the size; the fleet itself is built at the start or the first poll.

        Args:
            url: The target as the user wrote it.
            nodes: Nodes that answer; the queue lists one more, which is down.
            gpus_per_node: GPUs of each node.
            seed: What makes two fleets of one size differ.
            clock: The time that the fleet is shown at; it begins at the construction.
            period_s: Least time between two frames of one node, seconds.
            past_s: How far the clock is behind the time of the first sample.
            mix: What the fleet is made of.
        """
        self.url = url
        self._size = (nodes, gpus_per_node, seed)
        self._clock = clock
        self._origin = clock.now()
        self._period_s = period_s
        self._past_s = past_s
        self._mix = mix
        self._fleet: Fleet | None = None
        self._maker: FrameMaker | None = None
        self._polled_at: float | None = None
        self._zoom = Zoom()
        self._zoomed_at: float | None = None
        self._queued_at: float | None = None
        self._ended_since: float | None = None

    @property
    def fleet(self) -> Fleet:
        """The simulated fleet, built when first asked for."""
        if self._fleet is None:
            self._fleet = Fleet(*self._size, self._origin, self._past_s, self._mix)
        return self._fleet

    def start(self, wake: Callable[[], None]) -> None:
        """Begin: the first frames can be polled at once."""
        wake()

    def poll(self) -> list[Frame]:
        """One frame per node, and the queue's when due.

        Before the period has passed there are only frames of nodes that are zoomed.
        """
        now = self._clock.now()
        if not _is_due(self._polled_at, now, self._period_s):
            return self._closer(now)
        if self._maker is None:
            self._maker = FrameMaker(self.fleet, self.url)
        self._polled_at = self._zoomed_at = now
        frames = self._maker.frames(now, self._period_s)
        if _is_due(self._queued_at, now, QUEUE_PERIOD_S):
            self._queued_at = now
            queue = queue_records(self.fleet, now)
            frames.append(Frame(origin=self.url, node="", taken_at=now, queue=queue))
        if self._ended_since is not None:
            ended = EndedReport(ended_records(self.fleet, self._ended_since, now))
            self._ended_since = None
            frames.append(Frame(origin=self.url, node="", taken_at=now, ended=ended))
        return frames

    def _closer(self, now: float) -> list[Frame]:
        """Frames of the nodes that are zoomed, when these are due."""
        names = frozenset(self._zoom.nodes)
        period_s = self._zoom.period_s(names, self._period_s)
        is_closer = bool(names) and period_s < self._period_s
        if self._maker is None or not is_closer or not _is_due(self._zoomed_at, now, period_s):
            return []
        self._zoomed_at = now
        return self._maker.frames(now, period_s, names)

    def pending(self) -> bool:
        """Whether nothing has been polled yet: every poll answers for all nodes."""
        return self._polled_at is None

    def wish(self, wish: Wish) -> None:
        """Take a new period, or nodes to zoom, or report ended jobs."""
        if wish.is_about_zoom:
            self._zoom = Zoom(wish.zoom_nodes, wish.zoom_gpus)
        if wish.ended_since is not None:
            self._ended_since = wish.ended_since
        if wish.period_s is not None and wish.period_s > 0:
            self._period_s = wish.period_s

    def labels(self, until: float) -> list[Label]:
        """What is true of the jobs that started before a time, faults first."""
        return self.fleet.labels(until)

    def close(self) -> None:
        """Nothing to free: there is no process, socket or thread."""


def _is_due(last: float | None, now: float, period_s: float) -> bool:
    # A time before the last one means that the user jumped back.
    return last is None or now < last or now - last >= period_s * (1.0 - _EARLY)
