"""The boards of the shifted fleet and the nodes that hold them.

None is the H100 or A100 of 80 GB. Names, memory, watts, links and lanes are those of the public
data sheets, clocks the boost clocks there; what NVML and GPM report of each follows nvml.h: GPM and
PCIe byte counters from Hopper on, instantaneous power on Ampere's GA100 and before.
"""

from __future__ import annotations

from typing import Final, NamedTuple

GIB: Final = 2**30
"""Bytes."""


class Board(NamedTuple):
    """One product."""

    name: str
    slurm_type: str
    architecture: str
    capability: str
    mem_bytes: int
    """As NVML reports it."""
    idle_w: float
    limit_w: float
    clock_mhz: float
    """Highest SM clock."""
    idle_clock_mhz: float
    mem_clock_mhz: float
    pcie_gen: int
    pcie_width: int
    links: int = 0
    link_bytes_per_s: float = 0.0
    """Of one NVLink, one direction."""
    link_version: int = 0
    """NVML's number of the generation."""
    has_gpm: bool = False
    has_pcie_counters: bool = False
    has_ecc: bool = True
    has_slices: bool = False
    """Whether MIG can cut it."""
    util_window_s: float = 1.0
    """Over which NVML's utilisation is a share: 1 s to 1/6 s by product (nvml.h)."""
    power_window_s: float = 1.0
    slowdown_c: int = 90

    @property
    def has_newer_links(self) -> bool:
        """Whether its links are NVLink 5, which count their errors otherwise."""
        return self.link_version > 6

    @property
    def pcie_bytes_per_s(self) -> float:
        """What the link carries one way: 1, 2, 4 GB/s a lane from generation 3 on."""
        return self.pcie_width * 0.985e9 * 2.0 ** (self.pcie_gen - 3)

    @property
    def nvlink_bytes_per_s(self) -> float:
        """All links together, one direction."""
        return self.links * self.link_bytes_per_s


V100: Final = Board(
    "Tesla V100-SXM2-32GB", "v100", "Volta", "7.0", mem_bytes=34_089_730_048, idle_w=41,
    limit_w=300, clock_mhz=1530, idle_clock_mhz=135, mem_clock_mhz=877, pcie_gen=3, pcie_width=16,
    links=6, link_bytes_per_s=25e9, link_version=2, util_window_s=0.17, power_window_s=0.1,
    slowdown_c=87,
)  # fmt: skip
A100_40: Final = Board(
    "NVIDIA A100-PCIE-40GB", "a100_40g", "Ampere", "8.0", mem_bytes=42_949_672_960, idle_w=34,
    limit_w=250, clock_mhz=1410, idle_clock_mhz=210, mem_clock_mhz=1215,
    pcie_gen=4, pcie_width=16, has_pcie_counters=True, has_slices=True, util_window_s=0.17,
    power_window_s=0.1,
)  # fmt: skip
A30: Final = Board(
    "NVIDIA A30", "a30", "Ampere", "8.0", mem_bytes=25_769_803_776, idle_w=28, limit_w=165,
    clock_mhz=1440, idle_clock_mhz=210, mem_clock_mhz=1215, pcie_gen=4, pcie_width=16,
    has_pcie_counters=True, has_slices=True, util_window_s=0.17, power_window_s=0.1,
)  # fmt: skip
L40S: Final = Board(
    "NVIDIA L40S", "l40s", "Ada", "8.9", mem_bytes=48_305_799_168, idle_w=33, limit_w=350,
    clock_mhz=2520, idle_clock_mhz=210, mem_clock_mhz=9001, pcie_gen=4, pcie_width=16,
    has_pcie_counters=True, util_window_s=0.5,
)  # fmt: skip
A6000: Final = Board(
    "NVIDIA RTX A6000", "rtxa6000", "Ampere", "8.6", mem_bytes=51_527_024_640, idle_w=22,
    limit_w=300, clock_mhz=1860, idle_clock_mhz=210, mem_clock_mhz=8001,
    pcie_gen=4, pcie_width=16, has_pcie_counters=True, util_window_s=1.0,
)  # fmt: skip
RTX4090: Final = Board(
    "NVIDIA GeForce RTX 4090", "rtx4090", "Ada", "8.9", mem_bytes=25_757_220_864, idle_w=17,
    limit_w=450, clock_mhz=3105, idle_clock_mhz=210, mem_clock_mhz=10501,
    pcie_gen=4, pcie_width=16, has_ecc=False, util_window_s=1.0,
)  # fmt: skip
T4: Final = Board(
    "Tesla T4", "t4", "Turing", "7.5", mem_bytes=16_106_127_360, idle_w=10, limit_w=70,
    clock_mhz=1590, idle_clock_mhz=300, mem_clock_mhz=5001, pcie_gen=3, pcie_width=16,
    util_window_s=0.17, power_window_s=0.1,
)  # fmt: skip
H200: Final = Board(
    "NVIDIA H200", "h200", "Hopper", "9.0", mem_bytes=150_754_820_096, idle_w=76, limit_w=700,
    clock_mhz=1980, idle_clock_mhz=345, mem_clock_mhz=3201, pcie_gen=5, pcie_width=16,
    links=18, link_bytes_per_s=26.562e9, link_version=6, has_gpm=True, has_pcie_counters=True,
    has_slices=True, util_window_s=0.2,
)  # fmt: skip
B200: Final = Board(
    "NVIDIA B200", "b200", "Blackwell", "10.0", mem_bytes=192_265_846_784, idle_w=142, limit_w=1000,
    clock_mhz=1965, idle_clock_mhz=120, mem_clock_mhz=3996, pcie_gen=5, pcie_width=16,
    links=18, link_bytes_per_s=53.125e9, link_version=7, has_gpm=True, has_pcie_counters=True,
    has_slices=True, util_window_s=0.2,
)  # fmt: skip
H100_NVL: Final = Board(
    "NVIDIA H100 NVL", "h100nvl", "Hopper", "9.0", mem_bytes=100_485_038_080, idle_w=64,
    limit_w=400, clock_mhz=1785, idle_clock_mhz=345, mem_clock_mhz=2619, pcie_gen=5,
    pcie_width=16, links=12, link_bytes_per_s=26.562e9, link_version=6, has_gpm=True,
    has_pcie_counters=True, has_slices=True, util_window_s=0.2,
)  # fmt: skip


class NodeKind(NamedTuple):
    """Nodes that were bought together."""

    board: Board
    gpus: int
    cpus: int
    mem_bytes: int
    ports: int
    """InfiniBand or RoCE ports; 0: none that a probe reads."""
    port_gbps: int
    slot_width: int
    """PCIe lanes that the slots have; fewer than the board's: how the node was bought."""
    driver: str

    @property
    def port_bytes_per_s(self) -> float:
        """What one port carries one way."""
        return self.port_gbps / 8 * 1e9


PROFILED: Final = (
    NodeKind(H200, 8, 192, 2048 * GIB, ports=8, port_gbps=400, slot_width=16, driver="570.133.20"),
    NodeKind(B200, 8, 224, 3072 * GIB, ports=8, port_gbps=400, slot_width=16, driver="580.65.06"),
    NodeKind(H200, 4, 96, 1024 * GIB, ports=4, port_gbps=200, slot_width=16, driver="565.57.01"),
    NodeKind(
        H100_NVL, 4, 128, 768 * GIB, ports=2, port_gbps=200, slot_width=16, driver="560.35.05"
    ),
)
"""Nodes whose GPUs have profiling counters (GPM)."""

PLAIN: Final = (
    NodeKind(V100, 4, 80, 384 * GIB, ports=2, port_gbps=100, slot_width=16, driver="535.230.02"),
    NodeKind(V100, 16, 96, 1536 * GIB, ports=8, port_gbps=100, slot_width=16, driver="535.183.06"),
    NodeKind(
        A100_40, 8, 128, 1024 * GIB, ports=2, port_gbps=200, slot_width=16, driver="550.144.03"
    ),
    NodeKind(A100_40, 2, 48, 256 * GIB, ports=1, port_gbps=100, slot_width=16, driver="550.90.12"),
    NodeKind(A30, 4, 64, 256 * GIB, ports=1, port_gbps=100, slot_width=16, driver="535.216.03"),
    NodeKind(L40S, 8, 96, 768 * GIB, ports=2, port_gbps=200, slot_width=16, driver="560.28.03"),
    NodeKind(L40S, 4, 64, 512 * GIB, ports=1, port_gbps=200, slot_width=8, driver="550.54.15"),
    NodeKind(A6000, 10, 96, 512 * GIB, ports=1, port_gbps=100, slot_width=8, driver="545.29.06"),
    NodeKind(RTX4090, 8, 64, 384 * GIB, ports=0, port_gbps=0, slot_width=8, driver="555.42.06"),
    NodeKind(T4, 4, 40, 192 * GIB, ports=0, port_gbps=0, slot_width=16, driver="525.147.05"),
)
"""Nodes that plain NVML reports of."""
