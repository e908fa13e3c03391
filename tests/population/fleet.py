"""A fleet with a drawn population of jobs, as the source that a sampler reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.model.records.cluster import Allocation, Job, SlurmNode
from gpumon.model.records.frame import Frame, QueueRecords
from tests.population.boards import GIB
from tests.population.kinds_benign import BENIGN
from tests.population.kinds_unknown import UNKNOWN
from tests.population.kinds_wasteful import WASTEFUL
from tests.population.machine import URL, Guest, Machine
from tests.population.ranges import HOUR, MIN, Dice
from tests.population.sensors import Grid, read_gpus, read_hosts

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.sources.source import Clock, Wish
    from tests.population.draft import Draft, Loss

START_AT: Final = 1_790_000_000
"""A whole number of minutes, so that grids of all periods agree."""

QUEUE_S: Final = 30
"""How often the queue is asked."""

LISTED_AFTER_END_S: Final = 300
"""How long Slurm lists what has ended (MinJobAge)."""

NAMES: Final = ("train", "run.sh", "exp_17", "llama-sft", "wrap", "sleep", "bash", "gpu_test")
"""What jobs are called says nothing about them."""


class Case(NamedTuple):
    """One job of the population and what is true of it."""

    job_id: str
    kind: str
    group: str
    """`benign`, `wasteful` (a detector of today can know it) or `unknown`."""
    begin_at: int
    end_at: int
    gpus: dict[str, tuple[Machine, int]]
    """Machine and number in the draft, by UUID."""
    losses: tuple[Loss, ...]
    record: Job

    @property
    def classes(self) -> frozenset[str]:
        """Classes that may be claimed about it."""
        return frozenset(c for loss in self.losses for c in (loss.finding_class, *loss.also))


class Plan(NamedTuple):
    """What is drawn."""

    seed: int
    jobs: int = 100
    hours: float = 8.0
    period_s: int = 30
    """10 s is what a person would choose; thrice that judges a day in a third of the time."""
    has_holes: bool = False
    """Whether nodes fall silent for a while."""
    is_restarted: bool = False
    """Whether gpumon is started anew in the middle."""
    look_s: float = 300.0
    """Between two looks: windows are minutes long. A live gpumon looks every 5 s."""
    missing_share: float = 1e-4
    """Of the single readings: a call of the driver fails now and then."""
    kinds: tuple[str, ...] = ()
    """Only these; empty: all in turn."""


GROUPS: Final = (("benign", BENIGN), ("wasteful", WASTEFUL), ("unknown", UNKNOWN))


def kinds_for(plan: Plan) -> list[tuple[str, Callable[[Dice], Draft]]]:
    """Group and kind of every job: each group in its share, every kind of it equally often."""
    rng = np.random.default_rng(plan.seed)
    known = [(group, kind) for group, kinds in GROUPS for kind in kinds]
    if plan.kinds:
        wanted = [pair for pair in known if pair[1].__name__ in plan.kinds]
        return [wanted[number % len(wanted)] for number in range(plan.jobs)]
    found: list[tuple[str, Callable[[Dice], Draft]]] = []
    for (group, kinds), share in zip(GROUPS, (0.45, 0.4, 0.15), strict=True):
        count = round(share * plan.jobs) if group != "unknown" else plan.jobs - len(found)
        order = rng.permutation(len(kinds))
        found += [(group, kinds[order[number % len(kinds)]]) for number in range(count)]
    return found


class Fleet:
    """Machines, jobs and truth; a `Source` that tells them on the clock's time."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.grid = Grid(START_AT, plan.period_s, round(plan.hours * HOUR / plan.period_s))
        self.rng = np.random.default_rng([plan.seed, 7])
        self.machines: list[Machine] = []
        self.cases: list[Case] = []
        for number, (group, kind) in enumerate(kinds_for(plan)):
            self._add(number, group, kind)
        for machine in self.machines:
            if plan.has_holes:
                self._silence(machine)
            machine.settle(plan.missing_share)
        self._slurm_nodes = tuple(_listed(machine) for machine in self.machines)

    @property
    def end_at(self) -> int:
        """Unix time at which nothing is drawn any more."""
        return self.grid.at(self.grid.count - 1)

    def _add(self, number: int, group: str, kind: Callable[[Dice], Draft]) -> None:
        draft = kind(Dice(self.plan.seed, number))
        latest = 0.35 * self.plan.hours * HOUR
        # A quarter began before gpumon came; never so early that nothing is left to be seen.
        early = draft.dice.is_so(0.25)
        shift = -draft.dice.rng.uniform(0, 0.5 * draft.seconds) if early else 0.0
        begin_at = START_AT + round(shift if early else draft.dice.rng.uniform(60, latest))
        job_id = str(20_000 + 7 * number)
        read = read_gpus(draft, begin_at, self.grid)
        hosts = read_hosts(draft, read.seconds, self.plan.period_s)
        held, gpus = [], {}
        each = draft.gpus // draft.nodes
        used: list[Machine] = []
        for place in range(draft.nodes):
            machine = self._room(draft, place, each, used)
            used.append(machine)
            slots, machine.free = tuple(machine.free[:each]), machine.free[each:]
            if draft.is_alone or draft.cores_per_gpu > draft.board.cores_per_gpu:
                machine.free = []
            mine = tuple(range(place * each, (place + 1) * each))
            machine.put(Guest(job_id, draft, begin_at, slots, mine, place), read, hosts)
            held.append(Allocation(machine.name, each, slots, round(draft.cores)))
            gpus.update({machine.uuids[s]: (machine, g) for s, g in zip(slots, mine, strict=True)})
        record = _record(draft, job_id, begin_at, tuple(held))
        end_at = begin_at + draft.seconds
        losses = tuple(draft.losses)
        draft.forget()
        self.cases.append(
            Case(job_id, kind.__name__, group, begin_at, end_at, gpus, losses, record)
        )

    def _room(self, draft: Draft, place: int, each: int, used: list[Machine]) -> Machine:
        """A machine for one of a job's nodes, which are different ones."""
        board = draft.boards[place]
        needs_all = draft.is_alone or draft.cores_per_gpu > draft.board.cores_per_gpu
        for machine in self.machines:
            enough = machine.board.in_node if needs_all else each
            is_new = all(machine is not other for other in used)
            if machine.board == board and len(machine.free) >= enough and is_new:
                return machine
        self.machines.append(Machine(f"gpu{len(self.machines):03d}", board, self.grid, self.rng))
        return self.machines[-1]

    def _silence(self, machine: Machine) -> None:
        for _ in range(int(self.rng.integers(0, 3))):
            first = int(self.rng.integers(0, self.grid.count))
            length = int(self.rng.uniform(4 * MIN, 25 * MIN) / self.grid.period_s)
            machine.is_heard[first : first + length] = False

    def queue(self, at: int) -> QueueRecords:
        """What Slurm says."""
        jobs = []
        for case in self.cases:
            if case.begin_at <= at < case.end_at:
                jobs.append(case.record)
            elif case.end_at <= at < case.end_at + LISTED_AFTER_END_S:
                jobs.append(case.record._replace(state="COMPLETED", end_at=float(case.end_at)))
        return QueueRecords(tuple(jobs), self._slurm_nodes, float(at), float(at))


class FleetSource:
    """The fleet on a clock."""

    url = URL

    def __init__(self, fleet: Fleet, clock: Clock) -> None:
        self._fleet = fleet
        self._clock = clock
        self._last = -1
        self._queue_at = float("-inf")

    def start(self, wake: Callable[[], None]) -> None:
        """Nothing has to be started."""

    def poll(self) -> list[Frame]:
        """Reports of the newest instant on the grid, once."""
        grid = self._fleet.grid
        number = int((self._clock.now() - grid.start_at + 0.5) // grid.period_s)
        if number == self._last or not 0 <= number < grid.count:
            return []
        self._last = number
        at = grid.at(number)
        frames = [m.frame(number) for m in self._fleet.machines if m.is_heard[number]]
        if at - self._queue_at >= QUEUE_S:
            self._queue_at = at
            frames.append(Frame(URL, "", float(at), 0.0, {}, queue=self._fleet.queue(at)))
        return frames

    def pending(self) -> bool:
        """Everything is there at once."""
        return False

    def wish(self, wish: Wish) -> None:
        """Nothing can be granted."""

    def close(self) -> None:
        """Nothing is held."""


def _record(draft: Draft, job_id: str, begin_at: int, held: tuple[Allocation, ...]) -> Job:
    rng = draft.dice.rng
    limit_s = float(np.ceil(draft.seconds * rng.uniform(1.05, 2.5) / HOUR) * HOUR)
    record = Job(
        job_id=job_id,
        label=job_id,
        name=str(NAMES[int(rng.integers(len(NAMES)))]),
        user=f"user{int(rng.integers(30)):02d}",
        account=f"lab{int(rng.integers(8))}",
        partition="gpu",
        state="RUNNING",
        reason="",
        nodes=tuple(allocation.node for allocation in held),
        allocations=held,
        gpu_count=draft.gpus,
        submit_at=begin_at - 600.0,
        start_at=float(begin_at),
        end_at=begin_at + limit_s,
        time_limit_s=limit_s,
        node_count=len(held),
        cpu_count=round(draft.cores) * len(held),
        mem_bytes=draft.board.host_gib_per_gpu * draft.gpus * GIB,
    )
    record = record._replace(**draft.slurm)  # type: ignore[arg-type]
    return record._replace(end_at=begin_at + (record.time_limit_s or 0.0))


def _listed(machine: Machine) -> SlurmNode:
    return SlurmNode(
        machine.name, machine.name, machine.name, "mixed", machine.board.in_node,
        gpu_files=tuple(f"/dev/nvidia{number}" for number in range(machine.board.in_node)),
        partitions=("gpu",), cpu_count=machine.cpu_count, mem_bytes=machine.mem_bytes,
    )  # fmt: skip
