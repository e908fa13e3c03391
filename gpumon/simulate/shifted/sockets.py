"""NUMA nodes of a node of the shifted fleet, and which CPUs its jobs' ranks may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.simulate.shifted.ranges import Draw

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumon.simulate.shifted.fleet import Machine, Placed

LAYOUTS: Final = (2, 2, 2, 2, 2, 4, 4, 1, 0)
"""NUMA nodes of a node of two sockets: mostly two, four where each socket is cut in two (NPS2 of
AMD, SNC of Intel), one of a single socket, 0 where a virtual machine has none (our choice)."""

NEAR, FAR = 12, 32
"""Distances of the ACPI's table: to the other half of a socket, and to the other socket, as AMD's
servers report them."""


class Mask(NamedTuple):
    """The CPUs that a process may use."""

    text: str
    """As the kernel lists them."""
    number: int
    nodes: str | None
    """NUMA nodes that they belong to; None: unknown."""


class Sockets:
    """The CPUs of one node: each core has two threads, of which the second ones come last."""

    def __init__(self, machine: Machine, seed: int) -> None:
        self._machine = machine
        self._kind = machine.kind
        self.count = Draw(seed, f"sockets {machine.name}").one(LAYOUTS)
        if any(job.story.is_far for job in machine.jobs):
            # There is no other socket to be at where there is but one.
            self.count = max(2, self.count)

    def numa_nodes(self, devices: int) -> list[int | None]:
        """NUMA nodes of devices that are spread evenly; None: unknown."""
        if not self.count:
            return [None] * devices
        return [place * self.count // devices for place in range(devices)]

    @property
    def distances(self) -> str | None:
        """Between all NUMA nodes as a probe reports them."""
        rows = [
            ",".join(str(self._distance(one, other)) for other in range(self.count))
            for one in range(self.count)
        ]
        return " ".join(f"{one}:{row}" for one, row in enumerate(rows)) or None

    def mask(self, job: Placed, gpu: int, is_bound: bool) -> Mask:
        """What the rank on a GPU may use: its own share where it is bound, else all of its job."""
        held = job.gpus_on(self._machine)
        each = max(1, job.cpus // len(held))
        if job.story.is_far:
            # Bound by hand, to cores of the other socket.
            half = self._kind.cpus // 4
            start = self._start(gpu)
            other = half if start < half else 0
            return self._mask(self._cpus(other + start % half, other + half, each))
        if len(held) == self._kind.gpus and job.cpus >= self._kind.cpus - len(held):
            return self._mask(range(self._kind.cpus))
        if is_bound:
            return self._mask(self._share(gpu, each))
        return self._mask(cpu for one in held for cpu in self._share(one, each))

    def _distance(self, one: int, other: int) -> int:
        if one == other:
            return 10
        half = max(1, self.count // 2)
        return NEAR if one // half == other // half else FAR

    def _start(self, gpu: int) -> int:
        """First core beside a GPU."""
        return gpu * (self._kind.cpus // 2) // self._kind.gpus

    def _share(self, gpu: int, count: int) -> Sequence[int]:
        """CPUs beside a GPU, at most its part of all of them."""
        return self._cpus(self._start(gpu), self._start(gpu + 1), count)

    def _cpus(self, first: int, end: int, count: int) -> Sequence[int]:
        """So many CPUs of some cores: both threads of the first ones."""
        own = range(first, max(first + 1, min(end, first + (count + 1) // 2)))
        return sorted([*own, *(core + self._kind.cpus // 2 for core in own)])[: max(1, count)]

    def _mask(self, cpus: Iterable[int]) -> Mask:
        found = sorted(set(cpus))
        cores = self._kind.cpus // 2
        nodes = sorted({cpu % cores * self.count // cores for cpu in found}) if self.count else []
        numbers = ",".join(map(str, nodes)) if self.count else None
        return Mask(_listed(found), len(found), numbers)


def _listed(cpus: Sequence[int]) -> str:
    """Numbers as the kernel lists them: `0-3,8`."""
    runs: list[list[int]] = []
    for cpu in cpus:
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1][1:] = [cpu]
        else:
            runs.append([cpu])
    return ",".join("-".join(map(str, run)) for run in runs)
