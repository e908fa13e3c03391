"""What the maker of a job of one kind gets, and what it returns: phases, tapes, memory, faults."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.simulate.shifted.signals import LEAST_STEP_S, Phase, Tape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumon.simulate.shifted.boards import Board, NodeKind
    from gpumon.simulate.shifted.ranges import Draw
    from gpumon.simulate.shifted.signals import Floats

MARGIN_S: Final = 240.0
"""Nothing begins so shortly before the recording ends that it could not be known."""


class Life(NamedTuple):
    """A job's place and time; seconds since it began."""

    node_kind: NodeKind
    nodes: int
    gpus_per_node: int
    length_s: float
    """How long it runs; it may go on when the recording has ended."""
    seen_from_s: float
    """When the recording begins; 0 where it saw the job begin."""
    seen_to_s: float
    """When the job, or the recording, ends."""
    is_alone: bool
    """Whether no other job is on its nodes."""

    @property
    def board(self) -> Board:
        """The product of its GPUs."""
        return self.node_kind.board

    @property
    def gpus(self) -> int:
        """GPUs of all nodes."""
        return self.nodes * self.gpus_per_node

    @property
    def seen_s(self) -> float:
        """How much of it the recording holds."""
        return self.seen_to_s - self.seen_from_s


class Fault(NamedTuple):
    """One thing that is wrong with a job or what it uses; seconds since the job began."""

    finding_class: str
    subject: str
    """`job`, `rank`, `gpu` or `node`."""
    at: int
    """Number of the rank, GPU or node among the job's; 0 for the job."""
    from_s: float
    to_s: float
    lost_gpu_s: float | None = None
    """None: what the phases have as lost; counted once in a job."""
    also: tuple[tuple[str, int], ...] = ()
    """Further subjects of the same."""


class Mark(NamedTuple):
    """A field of a GPU that reads otherwise for a while."""

    gpu: int
    """Of the job's."""
    field: str
    value: float
    from_s: float = 0.0
    to_s: float = inf
    is_factor: bool = False
    """Whether it multiplies what would be read."""


class Event(NamedTuple):
    """An Xid that the driver reports."""

    gpu: int
    xid: int
    at_s: float


class Growth(NamedTuple):
    """An error counter that grows."""

    gpu: int
    field: str
    per_min: float
    from_s: float
    to_s: float
    link: int | None = None
    """NVLink that counts; None: the GPU."""
    port: int | None = None
    """Port of the node that counts."""


Points = list[tuple[float, float]]


@dataclass
class Story:
    """What one job does."""

    life: Life
    draw: Draw
    phases: dict[str, Phase] = field(default_factory=dict)
    tapes: list[Tape] = field(default_factory=list)
    tape_of: list[int | None] = field(default_factory=list)
    """Which tape each GPU's rank plays; None: no process is on that GPU."""
    memory: list[Points] = field(default_factory=list)
    """Share of the GPU's memory in use by seconds; one for all GPUs or one for each."""
    host_bytes: Points = field(default_factory=list)
    """Resident memory of the job on each node by seconds."""
    cache_bytes: Points = field(default_factory=list)
    """Page cache charged to it likewise."""
    process_from_s: float = 0.0
    process_to_s: float = inf
    leaves_s: dict[int, float] = field(default_factory=dict)
    """When the process of a GPU ends before the others."""
    program: str = "python3"
    faults: list[Fault] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    growths: list[Growth] = field(default_factory=list)
    silent: list[tuple[int, float, float]] = field(default_factory=list)
    """Nodes of the job of which nothing is heard from a time to a time."""
    port_of: Callable[[int], int] | None = None
    """Which port of its node a GPU's traffic takes; None: the nearest."""
    down_ports: list[tuple[int, int, float, float, float]] = field(default_factory=list)
    """Node, port, from, to, and the data rate in Gb/s meanwhile (0: down)."""
    down_links: list[tuple[int, int, float, float]] = field(default_factory=list)
    """GPU, link, from, to: inactive meanwhile."""
    is_far: bool = False
    """Whether each rank is bound to CPUs of another socket than its GPU's."""
    is_interactive: bool = False
    quiet_from_s: float = inf
    """From when on nothing of it writes to its output."""
    cpus_per_node: int = 0
    """0: its share of the node's."""
    host_limit_bytes: float = 0.0
    """Host memory that it asked for on each node; 0: its share of the node's."""
    limit_factor: float = 0.0
    """Time asked for over the time taken; 0: drawn."""
    end_state: str = "COMPLETED"
    stuck_s: float = 0.0
    """How long its first node is not given back when it has ended."""
    out_s: float = 0.0
    """How long its nodes cannot be used when it has ended; infinity: its GPUs are broken."""
    threads: int = 0
    """Processes beside the ranks; 0: loaders as usual."""
    is_sliced: bool = False
    """Whether its GPUs are cut by MIG and it holds slices."""

    def __post_init__(self) -> None:
        """A rank for each GPU, all alike until a kind changes that."""
        self.tape_of = [0] * self.life.gpus

    def tape(self) -> Tape:
        """A new tape of the job."""
        self.tapes.append(Tape())
        return self.tapes[-1]

    def branch(self) -> Tape:
        """A further tape that has the past of the first."""
        self.tapes.append(self.tapes[0].branch())
        return self.tapes[-1]

    def alone_on(self, *gpus: int) -> None:
        """Leave all other GPUs without a process."""
        self.tape_of = [0 if gpu in gpus else None for gpu in range(self.life.gpus)]

    def blame(
        self, finding_class: str, from_s: float = 0.0, to_s: float = inf, subject: str = "job",
        at: int = 0, lost_gpu_s: float | None = None, also: Sequence[tuple[str, int]] = (),
    ) -> None:  # fmt: skip
        """Note a fault."""
        fault = Fault(
            finding_class=finding_class,
            subject=subject,
            at=at,
            from_s=from_s,
            to_s=to_s,
            lost_gpu_s=lost_gpu_s,
            also=tuple(also),
        )
        self.faults.append(fault)

    def onset(self, least_s: float, name: str = "work_first_s") -> float:
        """When trouble begins, so that the recording sees at least so much of it."""
        least_s = min(least_s, 0.6 * self.life.seen_s)
        latest = self.life.seen_to_s - max(least_s, MARGIN_S)
        earliest = self.life.seen_from_s + 0.12 * self.life.seen_s
        wanted = self.life.seen_from_s + self.draw.of(name)
        return max(0.0, min(max(earliest, wanted), latest))

    def steps(self, seconds: float, step_s: float, cov: float) -> Floats:
        """Lengths of steps that fill so many seconds, each a little other than the next."""
        step_s = max(LEAST_STEP_S, step_s)
        count = max(1, int(np.ceil(seconds / step_s)))
        lengths = step_s * np.maximum(0.3, 1.0 + cov * self.draw.normal(count))
        lengths *= seconds / max(lengths.sum(), 1e-9)
        return np.asarray(lengths, np.float64)


class Kind(NamedTuple):
    """One kind of job."""

    name: str
    make: Callable[[Story], None]
    classes: tuple[str, ...]
    """What is labelled; none: it is healthy."""
    shapes: tuple[tuple[int, int], ...]
    """Nodes and GPUs on each that it may have."""
    hours: tuple[float, float]
    """How long it runs: an hour to five, as the windows of the taxonomy ask for (our choice)."""
    least_s: float
    """Shortest time of it that the recording must hold, so that what is labelled can be known: the
    taxonomy's window of its class and what comes before it."""
    board: str = "any"
    """`any`, `profiled`, `plain`, `nvlink`, `ports` (profiled with ports), `large` (memory),
    `copies` (PCIe bytes are counted), `slices` or `roomy` (several GPUs a node)."""
    is_alone: bool = False
    """Whether it takes its nodes whole, also where it uses few of their GPUs."""
    is_spread: bool = False
    """Whether it takes a part of each of several nodes."""
    is_mixed: bool = False
    """Whether its nodes have GPUs of different products."""
    names: tuple[str, ...] = ()
    """Job names that mean something."""
    is_whole: bool = False
    """Whether the recording must see it begin."""
    ends: bool = False
    """Whether the recording must see it end."""

    def fits(self, kind: NodeKind) -> bool:
        """Whether it can be shown on such nodes."""
        board = kind.board
        return {
            "any": True,
            "profiled": board.has_gpm,
            "plain": not board.has_gpm,
            "nvlink": board.links > 0,
            "ports": board.has_gpm and kind.ports > 1,
            "large": board.mem_bytes > 33e9 and (board.has_slices or board.links > 0),
            "copies": board.has_pcie_counters,
            "slices": board.has_slices,
            "roomy": kind.gpus >= 4,
        }[self.board]
