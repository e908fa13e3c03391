"""Data sheets of the boards that the simulation knows.

Memory totals are those that NVML reports; peak rates, power limits and links come from the vendor's
data sheets (dense figures, links per direction). Idle power, thermal resistance and the rates that
copies reach in practice are round figures of what such boards show.
"""

from __future__ import annotations

from typing import Final, NamedTuple

DRIVER_RESIDUE_BYTES: Final = 8_126_464
"""Memory that an unused GPU shows as used beyond the driver's reserve, bytes."""


class Board(NamedTuple):
    """What the physics needs to know of one kind of GPU."""

    name: str
    vbios: str
    part: str
    """Part number of the board."""
    mem_total_bytes: int
    mem_reserved_bytes: int
    bf16_flops: float
    """Dense tensor peak, FLOP/s."""
    dram_bytes_per_s: float
    nvlink_bytes_per_s: float
    """Peak per direction."""
    links: int
    link_bytes_per_s: float
    """What one link carries per direction, as the driver tells it."""
    link_version: int
    """NVML's number of the NVLink generation."""
    switches: tuple[int, ...]
    """Links to each NVSwitch of the baseboard."""
    port_gbps: float
    """Speed of the node's network ports, one for each of its GPUs."""
    pcie_bytes_per_s: float
    """What one large copy reaches."""
    pcie_gen: int
    power_limit_w: float
    idle_w: float
    context_w: float
    """Additional power once a context keeps the clocks up."""
    clock_max_mhz: float
    clock_idle_mhz: float
    power_min_w: float
    """Lowest power limit that can be set."""
    mem_clock_mhz: float
    heat_k_per_w: float
    """Thermal resistance from core to inlet air."""
    temp_slowdown_c: float
    temp_shutdown_c: float
    temp_max_c: float
    mem_temp_max_c: float
    has_gpm: bool
    """Whether GPU performance monitoring (SM, tensor, DRAM activity) exists: Hopper and newer."""

    @property
    def port_bytes_per_s(self) -> float:
        """What collectives reach on one network port, per direction."""
        return 0.86 * self.port_gbps / 8.0 * 1e9

    def dynamic_w(self, sm: float, tensor: float, dram: float, fma: float) -> float:
        """Power above idle at full clock while kernels with these shares run, watts.

        The weights are chosen so that a dense matrix product meets the power limit and a
        communication kernel that only spins stays below a third of it.
        """
        share = 0.10 + 0.28 * sm + 0.78 * tensor + 0.30 * dram + 0.34 * fma
        return self.context_w + share * (self.power_limit_w - self.idle_w)


H100: Final = Board(
    name="NVIDIA H100 80GB HBM3",
    vbios="96.00.74.00.01",
    part="692-2G520-0200-000",
    mem_total_bytes=85_520_809_984,
    mem_reserved_bytes=629_145_600,
    bf16_flops=989e12,
    dram_bytes_per_s=3.35e12,
    nvlink_bytes_per_s=450e9,
    links=18,
    link_bytes_per_s=26_562e6,
    link_version=6,
    switches=(5, 4, 4, 5),
    port_gbps=400.0,
    pcie_bytes_per_s=52e9,
    pcie_gen=5,
    power_limit_w=700.0,
    idle_w=70.0,
    context_w=45.0,
    clock_max_mhz=1980.0,
    clock_idle_mhz=345.0,
    power_min_w=200.0,
    mem_clock_mhz=2619.0,
    heat_k_per_w=0.057,
    temp_slowdown_c=87.0,
    temp_shutdown_c=92.0,
    temp_max_c=85.0,
    mem_temp_max_c=95.0,
    has_gpm=True,
)

A100: Final = Board(
    name="NVIDIA A100-SXM4-80GB",
    vbios="92.00.36.00.02",
    part="692-2G506-0210-002",
    mem_total_bytes=84_990_623_744,
    mem_reserved_bytes=629_145_600,
    bf16_flops=312e12,
    dram_bytes_per_s=2.04e12,
    nvlink_bytes_per_s=300e9,
    links=12,
    link_bytes_per_s=25_000e6,
    link_version=4,
    switches=(2, 2, 2, 2, 2, 2),
    port_gbps=200.0,
    pcie_bytes_per_s=24e9,
    pcie_gen=4,
    power_limit_w=400.0,
    idle_w=55.0,
    context_w=25.0,
    clock_max_mhz=1410.0,
    clock_idle_mhz=210.0,
    power_min_w=100.0,
    mem_clock_mhz=1593.0,
    heat_k_per_w=0.085,
    temp_slowdown_c=89.0,
    temp_shutdown_c=92.0,
    temp_max_c=85.0,
    mem_temp_max_c=95.0,
    has_gpm=False,
)
