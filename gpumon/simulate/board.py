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
    mem_total_bytes: int
    mem_reserved_bytes: int
    bf16_flops: float
    """Dense tensor peak, FLOP/s."""
    dram_bytes_per_s: float
    nvlink_bytes_per_s: float
    """Peak per direction."""
    pcie_bytes_per_s: float
    """What one large copy reaches."""
    pcie_gen: int
    power_limit_w: float
    idle_w: float
    context_w: float
    """Additional power once a context keeps the clocks up."""
    clock_max_mhz: float
    clock_idle_mhz: float
    heat_k_per_w: float
    """Thermal resistance from core to inlet air."""
    has_gpm: bool
    """Whether GPU performance monitoring (SM, tensor, DRAM activity) exists: Hopper and newer."""

    def dynamic_w(self, sm: float, tensor: float, dram: float, fma: float) -> float:
        """Power above idle at full clock while kernels with these shares run, watts.

        The weights are chosen so that a dense matrix product meets the power limit and a
        communication kernel that only spins stays below a third of it.
        """
        share = 0.10 + 0.28 * sm + 0.62 * tensor + 0.30 * dram + 0.34 * fma
        return self.context_w + share * (self.power_limit_w - self.idle_w)


H100: Final = Board(
    name="NVIDIA H100 80GB HBM3",
    mem_total_bytes=85_520_809_984,
    mem_reserved_bytes=629_145_600,
    bf16_flops=989e12,
    dram_bytes_per_s=3.35e12,
    nvlink_bytes_per_s=450e9,
    pcie_bytes_per_s=52e9,
    pcie_gen=5,
    power_limit_w=700.0,
    idle_w=70.0,
    context_w=45.0,
    clock_max_mhz=1980.0,
    clock_idle_mhz=345.0,
    heat_k_per_w=0.057,
    has_gpm=True,
)

A100: Final = Board(
    name="NVIDIA A100-SXM4-80GB",
    mem_total_bytes=84_990_623_744,
    mem_reserved_bytes=629_145_600,
    bf16_flops=312e12,
    dram_bytes_per_s=2.04e12,
    nvlink_bytes_per_s=300e9,
    pcie_bytes_per_s=24e9,
    pcie_gen=4,
    power_limit_w=400.0,
    idle_w=55.0,
    context_w=25.0,
    clock_max_mhz=1410.0,
    clock_idle_mhz=210.0,
    heat_k_per_w=0.085,
    has_gpm=False,
)
