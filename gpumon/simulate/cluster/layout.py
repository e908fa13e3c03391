"""The machines of the fleet: nodes, boards, and which number each GPU goes by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from gpumon.simulate.physics.board import A100, CORES_PER_GPU, H100, Board
from gpumon.simulate.physics.random_streams import stream

DRIVER_VERSION: Final = "570.124.06"

_NODES_PER_LEAF: Final = 16
"""Nodes of eight adapters for which two leaf switches of 64 ports do; one name means both."""

SOCKETS: Final = 2
"""Sockets of a node, each a NUMA node with half of its CPUs, GPUs and ports."""

_OLD_ORDER: Final = (2, 3, 0, 1, 6, 7, 4, 5)
"""Minor numbers in PCI order on the older nodes, which do not count along the bus."""


@dataclass(frozen=True, slots=True)
class SimGpu:
    """What never changes of one GPU."""

    uuid: str
    index: int
    """NVML's index: position in PCI order."""
    minor: int
    """N of /dev/nvidiaN, and here also Slurm's IDX."""
    pci_bus_id: str
    power_factor: float
    """Its draw over that of the hungriest board of the kind."""
    inlet_c: float
    """Air that reaches it: boards at the back breathe what others warmed."""
    energy_base_j: float
    """Reading of the energy counter when the simulation begins."""
    traffic_base_bytes: float
    capped_base_s: float
    """Reading of the power cap's time counter when the simulation begins."""
    serial: str

    @property
    def nvlink_base_bytes(self) -> float:
        """What it had sent, and received, over all links when the simulation begins."""
        return 40.0 * self.traffic_base_bytes


@dataclass(frozen=True, slots=True)
class SimNode:
    """What never changes of one node."""

    number: int
    name: str
    board: Board
    partition: str
    is_drained: bool
    gpus: tuple[SimGpu, ...]
    """In NVML's order."""
    cpu_count: int
    host_mem_bytes: int
    boot_id: str
    up_s: float
    """Seconds since boot at the fleet's origin."""

    @property
    def cpus_per_gpu(self) -> int:
        """Logical CPUs that a job gets with each GPU."""
        return min(CORES_PER_GPU, self.cpu_count // len(self.gpus))

    def numa_node(self, place: int, places: int) -> int:
        """NUMA node, of one for each of two sockets, of one of some devices spread evenly."""
        return SOCKETS * place // places

    def cpus_beside(self, row: int, is_far: bool = False) -> range:
        """Logical CPUs of a job's share that belong to a GPU: at its socket, or at the other."""
        each = self.cpu_count // len(self.gpus)
        shift = self.cpu_count // SOCKETS if is_far else 0
        first = (row * each + shift) % self.cpu_count
        return range(first, first + self.cpus_per_gpu)

    def gpu_of_minor(self, minor: int) -> int:
        """Position in NVML's order of the GPU with this minor number."""
        return next(row for row, gpu in enumerate(self.gpus) if gpu.minor == minor)


def lay_out(seed: int, nodes: int, gpus_per_node: int) -> tuple[SimNode, ...]:
    """Nodes of the fleet: a tenth older, one in fifty drained, from five nodes on."""
    width = max(3, len(str(nodes + 1)))
    old = max(1, nodes // 10) if nodes >= 5 else 0
    drained = max(1, nodes // 50) if nodes >= 5 else 0
    first_old = nodes - drained - old
    return tuple(
        make_node(
            seed,
            number,
            f"gpu{number + 1:0{width}}",
            A100 if first_old <= number < nodes - drained else H100,
            number >= nodes - drained,
            gpus_per_node,
        )
        for number in range(nodes)
    )


def down_node(nodes: int) -> str:
    """Name of the node that Slurm lists but that does not answer."""
    return f"gpu{nodes + 1:0{max(3, len(str(nodes + 1)))}}"


def leaf_switch(number: int) -> str:
    """Switch that a node hangs on, by its number."""
    return f"leaf{number // _NODES_PER_LEAF + 1:02}"


def make_node(
    seed: int, number: int, name: str, board: Board, is_drained: bool, gpus_per_node: int
) -> SimNode:
    """A node whose boards differ a little, as its seed and number have it."""
    chance, apart = stream(seed, "node", number), stream(seed, "board", number)
    up_s = chance.uniform(9.0, 80.0) * 86_400.0
    gpus = []
    for index in range(gpus_per_node):
        group, place = divmod(index, len(_OLD_ORDER))
        shifted = group * len(_OLD_ORDER) + _OLD_ORDER[place]
        is_shifted = board.is_shifted and (group + 1) * len(_OLD_ORDER) <= gpus_per_node
        gpus.append(
            SimGpu(
                uuid=f"GPU-{UUID(int=chance.getrandbits(128), version=4)}",
                index=index,
                minor=shifted if is_shifted else index,
                pci_bus_id=f"00000000:{0x18 + 0x0B * index & 0xFF:02X}:00.0",
                power_factor=chance.uniform(0.95, 1.0),
                inlet_c=27.0 + 3.0 * (index % 4) / 3.0 + chance.uniform(0.0, 3.0),
                energy_base_j=up_s * chance.uniform(0.3, 0.55) * board.power_limit_w,
                traffic_base_bytes=up_s * chance.uniform(1e8, 8e8),
                capped_base_s=up_s * apart.uniform(0.05, 0.3),
                serial=f"165{apart.randrange(10**10):010}",
            )
        )
    return SimNode(
        number=number,
        name=name,
        board=board,
        partition=board.partition,
        is_drained=is_drained,
        gpus=tuple(gpus),
        cpu_count=board.cores,
        host_mem_bytes=board.host_mem_bytes,
        boot_id=str(UUID(int=chance.getrandbits(128), version=4)),
        up_s=up_s,
    )
