"""GPUs that nodes of the population carry: what their data sheets and drivers say of them."""

from __future__ import annotations

from typing import Final, NamedTuple

GIB: Final = 2.0**30


class Board(NamedTuple):
    """One product, in a node as it is usually sold."""

    name: str
    """As NVML prints it."""
    mem_gib: float
    limit_w: float
    """Default power limit: the data sheet's."""
    idle_w: float
    """Without a context; about 1.6 times that with one, as the clocks stay up."""
    clock_mhz: float
    """Highest SM clock."""
    pcie_gen: int
    links: int
    """NVLinks; 0: none."""
    in_node: int
    cores_per_gpu: int
    """CPUs of the node for each GPU."""
    host_gib_per_gpu: float
    has_gpm: bool
    """Whether SM, tensor and DRAM activity can be had without root: Hopper and newer
    (nvmlGpmQueryDeviceSupport)."""
    slowdown_c: float
    share: float
    """How often it is drawn."""


BOARDS: Final = (
    Board("NVIDIA H100 80GB HBM3", 79.6, 700, 70, 1980, 5, 18, 8, 14, 240, True, 87, 0.34),
    Board("NVIDIA H200", 140.4, 700, 75, 1980, 5, 18, 8, 16, 250, True, 87, 0.10),
    Board("NVIDIA A100-SXM4-80GB", 80.0, 400, 58, 1410, 4, 12, 8, 16, 125, False, 90, 0.24),
    Board("NVIDIA A100-PCIE-40GB", 40.0, 250, 36, 1410, 4, 0, 4, 16, 96, False, 90, 0.10),
    Board("NVIDIA L40S", 45.0, 350, 34, 2520, 4, 0, 8, 12, 128, False, 93, 0.16),
    Board("NVIDIA L4", 22.5, 72, 12, 2040, 4, 0, 4, 8, 48, False, 90, 0.06),
)
"""Data sheets of the products; cores and memory as DGX and usual four and eight GPU servers have
them (DGX H100: 112 cores, 2 TiB; DGX A100: 128 cores, 1-2 TiB)."""

HOPPER: Final = BOARDS[0]
L40S: Final = BOARDS[4]
