"""One job as it happens, second by second: what its GPUs and hosts do, and the truth about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.population.boards import Board
    from tests.population.ranges import Dice, Work

    Mask = NDArray[np.bool_]

LEVELS: Final = ("util", "sm", "tensor", "dram", "fp64", "power", "rx", "nvlink", "codec")
"""The parts of a work, per GPU and second."""

HOST: Final = ("cores", "read", "write", "net_rx", "net_tx", "memory")
"""Per node and second: busy cores, GB/s, share of the job's memory limit."""

SW_THERMAL: Final = 0x20
HW_SLOWDOWN: Final = 0x8
HW_THERMAL: Final = 0x40
LOCKED: Final = 0x2
POWER_CAP: Final = 0x4
GPU_IDLE: Final = 0x1
"""nvml.h: nvmlClocksEventReason*."""


class Loss(NamedTuple):
    """GPU time that is lost, and by what."""

    finding_class: str
    start: int
    """Second of the job."""
    end: int
    gpus: tuple[int, ...]
    share: float | NDArray[np.float64]
    """Lost part of a second, also second by second from the start."""
    also: frozenset[str]
    """Classes whose meaning fits as well."""
    is_charged: bool
    """Whether the seconds are known so well that the books can be held to them."""


class Program(NamedTuple):
    """A process on GPUs."""

    name: str
    gpus: tuple[int, ...]
    start: int
    end: int


class Draft:
    """A job under construction. Seconds count from its start, GPUs from 0 over all its nodes."""

    def __init__(
        self, dice: Dice, board: Board, gpus: int, nodes: int = 1, hours: str = "job_h"
    ) -> None:
        self.dice = dice
        self.board = board
        self.boards = [board] * nodes
        """Of each node; the first is `board`."""
        # Some nodes carry four.
        self.gpus = min(gpus, nodes * board.in_node)
        gpus = self.gpus
        self.nodes = nodes
        self.seconds = dice.seconds(hours)
        self.level = {key: np.zeros((gpus, self.seconds), np.float32) for key in LEVELS}
        self.mem = np.zeros((gpus, self.seconds), np.float32)
        """GiB."""
        self.host = {key: np.zeros((nodes, self.seconds), np.float32) for key in HOST}
        self.clock = np.ones((gpus, self.seconds), np.float32)
        """Share of its clock that a fault leaves to a GPU."""
        self.reasons = np.zeros((gpus, self.seconds), np.int16)
        self.width = np.zeros((gpus, self.seconds), np.int8)
        """Lanes that are left; 0: as many as there are."""
        self.lanes = [16] * gpus
        """What the slots have and NVML calls the most that this system can do."""
        self.limit_w = [board.limit_w] * gpus
        self.lock = [1.0] * gpus
        """Share of the highest clock to which an administrator has locked it."""
        self.counted: list[tuple[int, int, str, int]] = []
        """Second, GPU, counter and by how much it grows."""
        self.start_counts: list[tuple[int, str, int]] = []
        """GPU, counter or id, and what stood there before the job."""
        self.xids: list[tuple[int, int, int]] = []
        """Second, GPU, number."""
        self.lost: dict[int, int] = {}
        """Second at which a GPU leaves the bus."""
        self.links_down: dict[int, tuple[int, int]] = {}
        """Second from which so many of a GPU's links are down."""
        self.ports_down: dict[int, int] = {}
        """Second from which the network port beside a GPU is down."""
        self.programs: list[Program] = []
        self.cores_per_gpu = board.cores_per_gpu
        self.slurm: dict[str, object] = {}
        self.is_alone = nodes > 1
        """Whether it has its nodes for itself."""
        self.is_apart = False
        """Whether its programs are of no common world: none waits for another."""
        self.losses: list[Loss] = []
        self.is_knowable = True
        """Whether a detector of today could know its waste."""

    @property
    def cores(self) -> float:
        """CPUs of the job on each node."""
        return self.cores_per_gpu * self.gpus / self.nodes

    @property
    def all(self) -> tuple[int, ...]:
        """Every GPU."""
        return tuple(range(self.gpus))

    def span(self, start: int, end: int | None = None) -> Mask:
        """Seconds from one to another."""
        made = np.zeros(self.seconds, bool)
        made[max(0, start) : end] = True
        return made

    def every(self, period: int, length: int, phase: int = 0) -> Mask:
        """So many seconds of every period."""
        return (np.arange(self.seconds) - phase) % max(1, period) < length

    def spells(self, on: str, off: str, start: int = 0, end: int | None = None) -> Mask:
        """Alternating stretches, each of a length drawn anew, beginning with one that is on."""
        made = np.zeros(self.seconds, bool)
        at, end = start, self.seconds if end is None else end
        while at < end:
            length = self.dice.seconds(on)
            made[at : min(at + length, end)] = True
            at += length + self.dice.seconds(off)
        return made

    def shares(self, duty: float, when: Mask, period: int = 30) -> Mask:
        """About such a share of the seconds of each short period: waiting between batches.

        Batches take a little more or less time, so that no probe's beat falls in with theirs.
        """
        steps = self.dice.rng.normal(1.0, 0.2, self.seconds).clip(0.0)
        return when & ((np.cumsum(steps) % period) / period < duty)

    def work(self, work: Work, when: Mask, gpus: tuple[int, ...] | None = None) -> None:
        """Have GPUs do this in these seconds, each of them a little differently."""
        for gpu in self.all if gpus is None else gpus:
            gain = self.dice.rng.normal(1.0, 0.015)
            for key, value in zip(LEVELS, work, strict=True):
                if value or self.level[key][gpu].any():
                    self.level[key][gpu][when] = value * gain

    def hold(self, share: float, start: int, end: int | None = None, **more: object) -> None:
        """A process on each GPU that holds a share of its memory; `gpus` and `name` are known."""
        end = self.seconds if end is None else end
        for gpu in more.get("gpus", self.all):  # type: ignore[attr-defined]
            self.mem[gpu, start:end] = share * self.board.mem_gib
            self.programs.append(Program(str(more.get("name", "python3")), (gpu,), start, end))

    def busy_hosts(self, share: float, when: Mask, key: str = "cores") -> None:
        """Have all nodes' CPUs busy by a share of the job's, or `key` at so many GB/s."""
        scale = self.cores if key == "cores" else 1.0
        self.host[key][:, when] = share * scale

    def remember(self, share: float, ramp_s: int = 900) -> None:
        """Have the job's host memory rise to a share of its limit, and stay there."""
        rise = np.minimum(1.0, np.arange(self.seconds) / max(1, ramp_s))
        self.host["memory"][:] = share * (0.15 + 0.85 * rise)

    def lose(
        self,
        finding_class: str,
        start: int,
        end: int | None = None,
        *,
        gpus: tuple[int, ...] | None = None,
        share: float | NDArray[np.float64] = 1.0,
        also: tuple[str, ...] = (),
        is_charged: bool = True,
    ) -> None:
        """Note down what is lost, and why."""
        end = self.seconds if end is None else end
        mine = self.all if gpus is None else gpus
        found = Loss(finding_class, start, end, mine, share, frozenset(also), is_charged)
        self.losses.append(found)

    def slow(self, factor: float, reasons: int, start: int, gpus: tuple[int, ...]) -> None:
        """Have a fault take part of the clocks while there is work."""
        for gpu in gpus:
            hot = self.level["util"][gpu] > 0.3
            hot[:start] = False
            self.clock[gpu][hot] = factor
            self.reasons[gpu][hot] |= reasons

    def forget(self) -> None:
        """Let go of what was read already; what processes hold stays."""
        self.level, self.host = {}, {}
        self.clock = self.mem[:0]
        self.reasons, self.width = self.reasons[:0].copy(), self.width[:0].copy()
