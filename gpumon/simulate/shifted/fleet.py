"""Nodes of the shifted fleet, and which job sits where and when."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.simulate.shifted.boards import PLAIN, PROFILED, NodeKind
from gpumon.simulate.shifted.kinds import (
    broken,
    compute,
    exchange,
    idle,
    services,
    sound,
    waiting,
)
from gpumon.simulate.shifted.ranges import Draw
from gpumon.simulate.shifted.story import Kind, Life, Story

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FAULTY: Final = (
    *idle.KINDS, *waiting.KINDS, *exchange.KINDS, *compute.KINDS, *broken.KINDS,
)  # fmt: skip
BENIGN: Final = (*sound.KINDS, *services.KINDS)

SAMPLES: Final = 150_000
"""GPUs times samples of a recording of the default size: what is written within a minute on two
slow cores."""

MOST_GPUS: Final = 260
"""GPUs of a recording of the default size. A choice: `SAMPLES` allows fewer of a long one."""
MOST_RANKS: Final = 32
"""GPUs of one job. A choice: an eighth of the fleet leaves room for others."""
ENDING_S: Final = 900.0
"""What the recording holds of the time behind the end of a job that it must see end."""

LARGE_GPUS: Final = 150
"""From so many GPUs on the larger of two sizes is taken, so that they are not all idle."""

SMALL_GPUS: Final = 100
"""Below so many each job is as small as it can be, so that many find room."""

ENDINGS: Final = ("COMPLETED",) * 5 + ("CANCELLED",) * 4 + ("FAILED",)
"""How healthy jobs end: 51, 39 and 9 % by GPU time in Helios (the taxonomy's traces)."""

TRIES: Final = 120
"""How often a place is sought for one job."""

LENGTHS: Final = {1.0: 3600.0, 2.0: 7200.0, 5.0: 10800.0}
"""Length of a recording of a short period, seconds; of any other `LENGTH_S`."""

LENGTH_S: Final = 18_000.0
"""Five hours: servers are distinguished from idle jobs after four (the taxonomy)."""

PERIODS: Final = (10.0, 15.0, 15.0, 30.0, 30.0, 30.0, 60.0, 60.0)
"""Periods of a recording for which no other is asked; 1 to 60 s can be asked for."""


class Plan(NamedTuple):
    """What is recorded."""

    seed: int
    start: float
    """Unix time."""
    for_s: float
    period_s: float
    nodes: int | None
    gpus: int | None
    """Of each node; with `nodes` None: drawn."""


def planned(
    seed: int, start: float, for_s: float | None = None, period_s: float | None = None,
    size: tuple[int, int] | None = None,
) -> Plan:  # fmt: skip
    """A plan with what was left open drawn by the seed."""
    period_s = period_s or Draw(seed, "period").one(PERIODS)
    for_s = for_s or LENGTHS.get(period_s, LENGTH_S)
    nodes, gpus = size or (None, None)
    return Plan(seed=seed, start=start, for_s=for_s, period_s=period_s, nodes=nodes, gpus=gpus)


@dataclass
class Machine:
    """One node."""

    name: str
    kind: NodeKind
    number: int
    jobs: list[Placed] = field(default_factory=list)

    def uuid(self, gpu: int) -> str:
        """Of one of its GPUs, by NVML's index."""
        draw = Draw(self.number, f"uuid {self.name} {gpu}")
        digits = "".join("0123456789abcdef"[draw.whole(0, 15)] for _ in range(32))
        parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
        return "GPU-" + "-".join(parts)

    def free(self, begin_s: float, end_s: float) -> list[int]:
        """GPUs that no job holds between two times."""
        taken = {gpu for job in self.during(begin_s, end_s) for gpu in job.gpus_on(self)}
        return [gpu for gpu in range(self.kind.gpus) if gpu not in taken]

    def cpus_left(self, begin_s: float, end_s: float) -> int:
        """CPUs that no job was given between two times."""
        return self.kind.cpus - sum(job.cpus for job in self.during(begin_s, end_s))

    def bytes_left(self, begin_s: float, end_s: float) -> float:
        """Host memory likewise, without what the system reserves."""
        given = sum(job.mem_bytes for job in self.during(begin_s, end_s))
        return 0.96 * self.kind.mem_bytes - given

    def during(self, begin_s: float, end_s: float) -> Iterator[Placed]:
        """Jobs that are on it between two times."""
        for job in self.jobs:
            if job.start_s < end_s and begin_s < job.start_s + job.held_s:
                yield job


@dataclass
class Placed:
    """One job in its place; seconds since the recording began."""

    number: int
    kind: Kind
    story: Story
    start_s: float
    machines: list[Machine]
    gpus: list[tuple[int, ...]]
    """By node, NVML's indices."""
    cpus: int = 0
    """On each node."""
    mem_bytes: float = 0.0
    """Asked for on each node."""

    @property
    def length_s(self) -> float:
        """How long it runs."""
        return self.story.life.length_s

    @property
    def end_s(self) -> float:
        """When it ends."""
        return self.start_s + self.length_s

    @property
    def held_s(self) -> float:
        """How long no other job gets its GPUs."""
        return self.length_s + self.story.stuck_s + self.story.out_s + 45.0

    def gpus_on(self, machine: Machine) -> tuple[int, ...]:
        """NVML's indices of what it holds there."""
        return self.gpus[self.machines.index(machine)]

    def place_of(self, rank: int) -> tuple[Machine, int]:
        """Node and NVML's index of the GPU of a rank."""
        node, at = divmod(rank, len(self.gpus[0]))
        return self.machines[node], self.gpus[node][at]


@dataclass
class Fleet:
    """Nodes and jobs of one recording."""

    plan: Plan
    machines: list[Machine]
    jobs: list[Placed]
    silences: list[Silence] = field(default_factory=list)


class Silence(NamedTuple):
    """A node of which nothing is heard; seconds since the recording began."""

    machine: Machine
    since_s: float
    until_s: float


def fleet_of(plan: Plan) -> Fleet:
    """The fleet that a seed gives."""
    made = Fleet(plan, list(_machines(plan)), [])
    draw = Draw(plan.seed, "places")
    is_small = _gpus(made) < SMALL_GPUS
    # What needs whole nodes comes first where there are many, last where it would take all.
    faulty = sorted(
        draw.mixed(FAULTY),
        key=lambda kind: (kind.is_alone == is_small, (kind.shapes[0][0] > 1) == is_small),
    )
    benign = [kind for _ in range(2) for kind in draw.mixed(BENIGN)][: len(faulty) + 4]
    order = [*faulty, *benign]
    if is_small:
        order = [kind for pair in zip_longest(faulty, benign) for kind in pair if kind]
    for kind in order:
        _place(made, kind, draw)
    _fall_silent(made, draw)
    made.jobs.sort(key=lambda job: (job.start_s, job.number))
    for number, job in enumerate(made.jobs):
        job.number = number
    return made


def _gpus(fleet: Fleet) -> int:
    return sum(machine.kind.gpus for machine in fleet.machines)


def _machines(plan: Plan) -> Iterator[Machine]:
    draw = Draw(plan.seed, "nodes")
    style = draw.one(("gpu-{a}{n:02d}", "{a}x{n:03d}", "node{n:04d}", "c{a}-g{n}", "hpc{a}{n:02d}"))
    number = draw.whole(1, 40)
    for at, kind in enumerate(_node_kinds(plan, draw)):
        letter = "abcdefgh"[at % 8] if "{a}" in style else ""
        number += draw.whole(1, 2)
        yield Machine(style.format(a=letter, n=number), kind, plan.seed)


def _node_kinds(plan: Plan, draw: Draw) -> Iterator[NodeKind]:
    profiled, plain = draw.mixed(PROFILED)[:2], draw.mixed(PLAIN)[:4]
    if plan.nodes is not None and plan.gpus is not None:
        for at in range(plan.nodes):
            kinds = profiled if at % 2 == 0 else plain
            kind = kinds[at // 2 % len(kinds)]
            yield kind._replace(gpus=plan.gpus, ports=min(kind.ports, plan.gpus))
        return
    wanted = min(MOST_GPUS, SAMPLES / (plan.for_s / plan.period_s + 1))
    yield from _bought(profiled, 0.52 * wanted, 4)
    yield from _bought(plain, 0.48 * wanted, 2)


def _bought(kinds: Sequence[NodeKind], gpus: float, least: int) -> Iterator[NodeKind]:
    """Nodes of some kinds until there are so many GPUs; of the first kind at least so many."""
    for _ in range(least):
        gpus -= kinds[0].gpus
        yield kinds[0]
    at = 1
    while gpus >= min(kind.gpus for kind in kinds):
        kind = kinds[at % len(kinds)]
        at += 1
        if kind.gpus <= gpus:
            gpus -= kind.gpus
            yield kind


def _place(fleet: Fleet, kind: Kind, draw: Draw) -> None:
    """Find a place for a job of a kind; none is found where the fleet or the time is too small."""
    plan = fleet.plan
    fitting = [machine for machine in fleet.machines if kind.fits(machine.kind)]
    gpus_of_all = _gpus(fleet)
    for attempt in range(TRIES if fitting else 0):
        nodes, gpus = draw.one(kind.shapes)
        if 2 * attempt < TRIES and gpus_of_all > LARGE_GPUS:
            nodes, gpus = max((nodes, gpus), draw.one(kind.shapes), key=prod)
        elif 2 * attempt < TRIES and gpus_of_all < SMALL_GPUS:
            nodes, gpus = min(kind.shapes, key=prod)
        first = draw.one(fitting)
        if nodes > 1 and not kind.is_spread:
            # Else it would have its GPUs on more nodes than it needs.
            gpus = first.kind.gpus
        length_s = 3600.0 * draw.between(*kind.hours)
        start_s = _start(kind, plan, length_s, draw)
        if start_s is None or gpus + kind.is_spread > first.kind.gpus or nodes * gpus > MOST_RANKS:
            continue
        free = _free(kind, draw.mixed(fitting), first, gpus, (start_s, start_s + length_s))
        if len(free) >= nodes and _settle(fleet, kind, free[:nodes], gpus, start_s, length_s):
            return


def _free(
    kind: Kind, machines: Sequence[Machine], first: Machine, gpus: int, span: tuple[float, float]
) -> list[Machine]:
    """Nodes like the first that have so many GPUs free between two times."""
    begin_s, end_s = span[0], span[1] + 45.0
    found: list[Machine] = []
    for one in machines:
        others = list(one.during(begin_s, end_s))
        is_alike = one.kind == first.kind
        if kind.is_mixed and found:
            is_alike = one.kind.gpus == first.kind.gpus and one.kind.board != found[0].kind.board
        if (kind.is_alone and others) or any(other.kind.is_alone for other in others):
            continue
        if is_alike and len(one.free(begin_s, end_s)) >= gpus:
            found.append(one)
    return found


def _start(kind: Kind, plan: Plan, length_s: float, draw: Draw) -> float | None:
    """When such a job may begin, so that the recording sees enough of it."""
    # Twice what is needed where there is time: the second half of a window is seen as well.
    seen_s = max(kind.least_s, min(2.0 * kind.least_s, 0.8 * plan.for_s, 0.97 * length_s))
    earliest = 2 * plan.period_s + 60.0 if kind.is_whole else -0.5 * length_s
    earliest = max(earliest, seen_s - length_s + 60.0)
    latest = plan.for_s - seen_s
    if kind.ends:
        latest = min(latest, plan.for_s - length_s - ENDING_S)
    return draw.between(earliest, latest) if earliest <= latest else None


def _settle(
    fleet: Fleet, kind: Kind, machines: list[Machine], gpus: int, start_s: float, length_s: float
) -> bool:
    """Put a job there; False: its nodes have not enough CPUs, memory or time left for it."""
    plan, number = fleet.plan, len(fleet.jobs)
    draw = Draw(plan.seed, f"job {number} {kind.name}")
    seen_to_s = min(length_s, plan.for_s - start_s)
    first = machines[0].kind
    life = Life(
        node_kind=first,
        nodes=len(machines),
        gpus_per_node=gpus,
        length_s=length_s,
        seen_from_s=max(0.0, -start_s),
        seen_to_s=seen_to_s,
        is_alone=kind.is_alone,
    )
    story = Story(life, draw)
    kind.make(story)
    if not kind.classes:
        story.end_state = draw.one(ENDINGS)
    end_s = start_s + length_s + story.stuck_s + story.out_s
    chosen = [tuple(one.free(start_s, end_s)[:gpus]) for one in machines]
    cpus = min(one.cpus_left(start_s, end_s) for one in machines)
    left_bytes = min(one.bytes_left(start_s, end_s) for one in machines)
    share = first.cpus * gpus // first.gpus
    wanted_bytes = story.host_limit_bytes or 0.9 * first.mem_bytes * gpus / first.gpus
    is_room = cpus >= max(gpus, story.cpus_per_node) and left_bytes >= max(
        0.4 * wanted_bytes, story.host_limit_bytes
    )
    if not is_room or any(len(found) < gpus for found in chosen):
        return False
    job = Placed(
        number=number, kind=kind, story=story, start_s=start_s, machines=machines, gpus=chosen
    )
    job.cpus = min(story.cpus_per_node or share, cpus)
    job.mem_bytes = min(wanted_bytes, left_bytes)
    fleet.jobs.append(job)
    for machine in machines:
        machine.jobs.append(job)
    return True


def _fall_silent(fleet: Fleet, draw: Draw) -> None:
    """Let some nodes report nothing for a while, below jobs with which nothing else is wrong."""
    count = round(draw.of("silent_node_ratio") * len(fleet.machines))
    for _ in range(TRIES):
        if len(fleet.silences) >= count:
            return
        machine, lasts_s = draw.one(fleet.machines), draw.of("silence_s")
        since_s = draw.between(600.0, fleet.plan.for_s - lasts_s - 600.0)
        around = list(machine.during(since_s - 300.0, since_s + lasts_s + 300.0))
        is_new = all(other.machine is not machine for other in fleet.silences)
        is_long = lasts_s > 6 * fleet.plan.period_s and since_s > 0
        is_held = any(job.start_s <= since_s and since_s + lasts_s <= job.end_s for job in around)
        if is_new and is_long and is_held and not any(job.kind.classes for job in around):
            fleet.silences.append(Silence(machine, since_s, since_s + lasts_s))
