"""What surrounds a node's GPUs at one instant: jobs and what they ask of CPUs and storage."""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.simulate.cluster.timeline import Spans
from gpumon.simulate.physics.phase import CPU, READ, WRITE
from gpumon.simulate.physics.training import STORAGE_BYTES_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.simulate.cluster.layout import SimNode
    from gpumon.simulate.cluster.schedule import SimJob
    from gpumon.simulate.cluster.sim_cluster import Fleet
    from gpumon.simulate.cluster.timeline import Reading, Stay

HOST_PERIOD_S: Final = 5.0
"""Time between samples of mounts, control groups and load averages, unless periods are longer."""

_PRESSURE_WINDOW_S: Final = 10.0
"""Window of the kernel's `avg10` (Documentation/accounting/psi.rst)."""

_LOAD_WINDOWS_S: Final = (60.0, 300.0, 900.0)
"""Windows of the three load averages (proc(5): 1, 5 and 15 minutes)."""

_CROWDED: Final = 0.75
"""Share of its CPUs from which on a job's tasks wait for one another. Our choice: as with requests
that come by chance, waits begin well before all are busy."""


class Pressure(NamedTuple):
    """Shares of the last seconds in which some, or all, tasks waited."""

    cpu_some: float
    io_some: float
    io_full: float


class Held(NamedTuple):
    """What one job does on a node."""

    job: SimJob
    readings: list[Reading]
    """Of its GPUs that its processes open, sooner or later."""
    pressure: Pressure
    stuck: int
    """Ranks that wait for storage that does not answer."""
    hung_at: float | None
    """Unix time of the last step; None: steps go on."""

    def stuck_s(self, now: float) -> float:
        """For how long its ranks have been stuck on storage, added up."""
        return 0.0 if self.hung_at is None else self.stuck * (now - self.hung_at)


class HostSample(NamedTuple):
    """A node at one of the instants at which it is sampled."""

    at: float
    readings: list[Reading]
    """Over the time since the last sample."""
    held: list[Held]
    """Jobs that run there, by number."""
    loads: tuple[float, float, float]
    """Mean of busy cores, and of ranks stuck on storage, over 1, 5 and 15 minutes."""

    @property
    def stuck_s(self) -> float:
        """For how long ranks have been stuck on storage, added up."""
        return sum(held.stuck_s(self.at) for held in self.held)

    @property
    def pressure(self) -> Pressure:
        """Of the whole node: jobs wait apart from one another."""
        calm = 1.0
        for held in self.held:
            calm *= 1.0 - held.pressure.io_some
        return Pressure(
            max((held.pressure.cpu_some for held in self.held), default=0.0),
            1.0 - calm,
            min((held.pressure.io_full for held in self.held), default=0.0),
        )


class HostSampler:
    """Samples nodes in turn: each at its own instants, which depend on the time alone."""

    def __init__(self, fleet: Fleet) -> None:
        """Nothing has been sampled."""
        self._fleet = fleet
        self._spans: dict[int, tuple[Spans, Spans]] = {}
        self._waits: Spans | None = None
        self._last: dict[int, HostSample] = {}

    def sample(self, node: SimNode, span: Spans, readings: list[Reading]) -> HostSample:
        """The node at its last instant up to the end of a period.

        Args:
            node: The node.
            span: The period: its end and its length.
            readings: Of the node's GPUs over that period.
        """
        if span.window_s >= HOST_PERIOD_S:
            # A probe makes rates from counters a sample apart: no burst in between is missed.
            if self._waits is None or self._waits.now != span.now:
                self._waits = Spans(span.now, _PRESSURE_WINDOW_S, span)
            return self._sample(node, readings, self._waits)
        phase = node.number % int(HOST_PERIOD_S)
        at = phase + HOST_PERIOD_S * floor((span.now - phase) / HOST_PERIOD_S)
        last = self._last.get(node.number)
        if last is None or last.at != at:
            first, waits = self._spans_at(phase, at)
            last = self._sample(node, self._fleet.read(node, first), waits)
            self._last[node.number] = last
        return last

    def _spans_at(self, phase: int, at: float) -> tuple[Spans, Spans]:
        spans = self._spans.get(phase)
        if spans is None or spans[0].now != at:
            first = Spans(at, HOST_PERIOD_S)
            spans = self._spans[phase] = (first, Spans(at, _PRESSURE_WINDOW_S, first))
        return spans

    def _sample(self, node: SimNode, readings: list[Reading], waits: Spans) -> HostSample:
        stays = [reading.stay for reading in readings]
        at = waits.now
        busy = [_cores(stays, at, window_s) for window_s in _LOAD_WINDOWS_S]
        groups: dict[int, list[Reading]] = {}
        for reading in readings:
            if reading.stay.job is not None and reading.stay.is_used:
                groups.setdefault(reading.stay.job.job_id, []).append(reading)
        held = []
        for _, members in sorted(groups.items()):
            job = members[0].stay.job
            if job is None:
                continue
            stuck = sum(self._fleet.is_stuck(reading.stay, at) for reading in members)
            pressure = _pressure(node, members, waits)
            if stuck:
                pressure = pressure._replace(io_some=1.0)
            hung_at = self._fleet.hung_at(job)
            is_hung = hung_at is not None and hung_at <= at
            held.append(
                Held(
                    job=job,
                    readings=members,
                    pressure=pressure,
                    stuck=stuck,
                    hung_at=hung_at if is_hung else None,
                )
            )
        loads = [
            cores + sum(min(one.stuck * window_s, one.stuck_s(at)) for one in held) / window_s
            for cores, window_s in zip(busy, _LOAD_WINDOWS_S, strict=True)
        ]
        return HostSample(at, readings, held, (loads[0], loads[1], loads[2]))


def _cores(stays: Sequence[Stay], at: float, window_s: float) -> float:
    """Mean of the cores that are busy with what runs, over a window or since it began."""
    cores, known = 0.0, dict[tuple[int, float], float]()
    for stay in stays:
        key = (id(stay.program), stay.start)
        if key not in known:
            age_s = at - stay.start
            covered_s = min(window_s, age_s)
            known[key] = (
                (stay.program.integral(CPU, age_s) - stay.program.integral(CPU, age_s - covered_s))
                / covered_s
                if covered_s > 0.0
                else stay.program.at(age_s).phase.rates[CPU]
            )
        cores += known[key]
    return cores


def _pressure(node: SimNode, members: Sequence[Reading], spans: Spans) -> Pressure:
    means = [spans.of(reading.stay).means for reading in members]
    cores = sum(mean[CPU] for mean in means) / (node.cpus_per_gpu * len(members))
    waits = [waiting(mean) for mean in means]
    crowd = max(0.0, min(1.0, (cores - _CROWDED) / (1.0 - _CROWDED)))
    # Ranks of one job load and save together, so their waits cover one another.
    return Pressure(0.6 * crowd, max(waits), min(waits))


def waiting(rates: Sequence[float]) -> float:
    """Share of the time in which a rank waits for storage, from its channels' rates."""
    return max(0.0, min(1.0, (rates[READ] + rates[WRITE]) / STORAGE_BYTES_PER_S))
