"""Data sheets of the boards that the simulation knows.

Memory totals are those that NVML reports; peak rates, power limits and links come from the vendor's
data sheets (dense figures, links per direction). Idle power, thermal resistance and the rates that
copies reach in practice are round figures of what such boards show.
"""

from __future__ import annotations

from typing import Final, NamedTuple

DRIVER_RESIDUE_BYTES: Final = 8_126_464
"""Memory that an unused GPU shows as used beyond the driver's reserve, bytes."""

CORES_PER_GPU: Final = 14
"""What a job gets with each GPU unless its node has fewer, as sites set DefCpuPerGPU."""


class Board(NamedTuple):
    """What the physics needs to know of one kind of GPU."""

    name: str
    vbios: str
    part: str
    """Part number of the board."""
    mem_total_bytes: int
    mem_reserved_bytes: int
    dram_bytes_per_s: float
    peer_bytes_per_s: float
    """Peak between GPUs of a node, per direction: NVLinks together, or the host's switches."""
    links: int
    """NVLinks; 0: there are none."""
    link_bytes_per_s: float
    """What one link carries per direction, as the driver reports it."""
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
    """Additional power once a context holds the clocks up."""
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
    architecture: str
    compute_capability: str
    partition: str
    """Partition of Slurm that has such boards."""
    cores: int
    """Logical CPUs of a node of eight."""
    host_mem_bytes: int
    """Memory of such a node."""
    is_shifted: bool = False
    """Whether minor numbers do not count along the bus."""
    pcie_width: int = 16
    """Lanes of the slot."""
    cap_share: float = 1.0
    """Power limit that the site has set, over the board's own."""
    sm_reach: float = 1.0
    """What programs of its users fill of the SMs, over what tuned ones do: 1 leaves no gaps."""
    gap_share: float = 0.3
    """Of what they leave unfilled, the share that is time between kernels."""
    step_times: float = 1.0
    """Length of their training steps, over that of a model that fits one node."""
    clock_lock_share: float = 1.0
    """Clock that the site has locked, over the board's highest."""

    @property
    def kind(self) -> tuple[object, ...]:
        """What differs in boards that behave, or are set, otherwise."""
        settings = (self.pcie_width, self.cap_share, self.clock_lock_share)
        return (self.name, *settings, self.sm_reach, self.gap_share, self.step_times)

    @property
    def cores_per_gpu(self) -> int:
        """Logical CPUs that a job gets with each GPU of a node of eight."""
        return min(CORES_PER_GPU, self.cores // 8)

    @property
    def power_default_w(self) -> float:
        """Power limit as it is delivered."""
        return self.power_limit_w / self.cap_share

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
    dram_bytes_per_s=3.35e12,
    peer_bytes_per_s=450e9,
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
    architecture="Hopper",
    compute_capability="9.0",
    partition="h100",
    cores=224,
    host_mem_bytes=2_164_195_676_160,
)

A100: Final = Board(
    name="NVIDIA A100-SXM4-80GB",
    vbios="92.00.36.00.02",
    part="692-2G506-0210-002",
    mem_total_bytes=84_990_623_744,
    mem_reserved_bytes=629_145_600,
    dram_bytes_per_s=2.04e12,
    peer_bytes_per_s=300e9,
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
    architecture="Ampere",
    compute_capability="8.0",
    partition="a100",
    cores=256,
    host_mem_bytes=1_081_953_550_336,
    is_shifted=True,
)

H200: Final = H100._replace(
    name="NVIDIA H200",
    part="692-2G520-0290-000",
    mem_total_bytes=150_754_820_096,
    dram_bytes_per_s=4.8e12,
    mem_clock_mhz=3201.0,
    partition="h200",
)

B200: Final = H100._replace(
    name="NVIDIA B200",
    vbios="97.00.64.00.03",
    part="692-2G525-0220-000",
    mem_total_bytes=192_265_846_784,
    dram_bytes_per_s=8.0e12,
    peer_bytes_per_s=900e9,
    link_bytes_per_s=50_000e6,
    link_version=7,
    switches=(9, 9),
    power_limit_w=1000.0,
    idle_w=140.0,
    context_w=60.0,
    clock_max_mhz=1965.0,
    clock_idle_mhz=120.0,
    power_min_w=200.0,
    mem_clock_mhz=3996.0,
    heat_k_per_w=0.038,
    architecture="Blackwell",
    compute_capability="10.0",
    partition="b200",
    cores=224,
)

A100_PCIE: Final = A100._replace(
    name="NVIDIA A100-PCIE-40GB",
    part="900-21001-0000-000",
    mem_total_bytes=42_949_672_960,
    dram_bytes_per_s=1.555e12,
    peer_bytes_per_s=11e9,
    links=0,
    switches=(),
    port_gbps=100.0,
    power_limit_w=250.0,
    idle_w=36.0,
    power_min_w=150.0,
    mem_clock_mhz=1215.0,
    heat_k_per_w=0.15,
    partition="a100-pcie",
    cores=128,
    host_mem_bytes=540_431_955_968,
    is_shifted=False,
)

A30: Final = A100_PCIE._replace(
    name="NVIDIA A30",
    part="900-21001-0040-000",
    mem_total_bytes=25_769_803_776,
    dram_bytes_per_s=0.933e12,
    power_limit_w=165.0,
    idle_w=28.0,
    context_w=14.0,
    clock_max_mhz=1440.0,
    power_min_w=100.0,
    heat_k_per_w=0.2,
    partition="a30",
    cores=96,
    host_mem_bytes=404_800_000_000,
)

L40S: Final = A100_PCIE._replace(
    name="NVIDIA L40S",
    vbios="95.02.66.00.02",
    part="900-2G133-0080-000",
    mem_total_bytes=48_305_799_168,
    dram_bytes_per_s=0.864e12,
    port_gbps=200.0,
    power_limit_w=350.0,
    idle_w=34.0,
    context_w=40.0,
    clock_max_mhz=2520.0,
    mem_clock_mhz=9001.0,
    heat_k_per_w=0.12,
    temp_slowdown_c=93.0,
    temp_shutdown_c=95.0,
    architecture="Ada",
    compute_capability="8.9",
    partition="l40s",
    cores=128,
    host_mem_bytes=1_081_953_550_336,
)

L4: Final = L40S._replace(
    name="NVIDIA L4",
    part="900-2G193-0000-000",
    mem_total_bytes=24_152_899_584,
    dram_bytes_per_s=0.3e12,
    port_gbps=100.0,
    power_limit_w=72.0,
    idle_w=12.0,
    context_w=14.0,
    clock_max_mhz=2040.0,
    power_min_w=40.0,
    mem_clock_mhz=6251.0,
    heat_k_per_w=0.5,
    partition="l4",
    cores=96,
    host_mem_bytes=404_800_000_000,
)

V100: Final = A100._replace(
    name="Tesla V100-SXM2-32GB",
    vbios="88.00.80.00.01",
    part="900-2G503-0010-000",
    mem_total_bytes=34_089_205_760,
    dram_bytes_per_s=0.9e12,
    peer_bytes_per_s=150e9,
    links=6,
    link_bytes_per_s=25_781e6,
    link_version=2,
    switches=(1, 1, 1, 1, 1, 1),
    port_gbps=100.0,
    pcie_bytes_per_s=12e9,
    pcie_gen=3,
    power_limit_w=300.0,
    idle_w=42.0,
    context_w=14.0,
    clock_max_mhz=1530.0,
    clock_idle_mhz=135.0,
    power_min_w=150.0,
    mem_clock_mhz=877.0,
    heat_k_per_w=0.12,
    temp_slowdown_c=87.0,
    temp_shutdown_c=90.0,
    temp_max_c=83.0,
    mem_temp_max_c=85.0,
    architecture="Volta",
    compute_capability="7.0",
    partition="v100",
    cores=80,
    host_mem_bytes=540_431_955_968,
    is_shifted=False,
)

T4: Final = V100._replace(
    name="Tesla T4",
    vbios="90.04.96.00.02",
    part="900-2G183-0000-001",
    mem_total_bytes=16_106_127_360,
    dram_bytes_per_s=0.32e12,
    peer_bytes_per_s=5e9,
    links=0,
    switches=(),
    power_limit_w=70.0,
    idle_w=10.0,
    context_w=16.0,
    clock_max_mhz=1590.0,
    clock_idle_mhz=300.0,
    power_min_w=60.0,
    mem_clock_mhz=5001.0,
    heat_k_per_w=0.55,
    temp_slowdown_c=93.0,
    temp_shutdown_c=96.0,
    architecture="Turing",
    compute_capability="7.5",
    partition="t4",
    cores=64,
    host_mem_bytes=269_900_000_000,
)

BOARDS: Final = (H100, A100, H200, B200, A100_PCIE, A30, L40S, L4, V100, T4)
"""One of every generation of the data sheets, and of every way to join GPUs."""


def capped(board: Board, share: float) -> Board:
    """A board whose power limit a site has lowered."""
    return board._replace(power_limit_w=board.power_limit_w * share, cap_share=share)


def locked(board: Board, share: float) -> Board:
    """A board whose clocks a site has locked below their highest."""
    return board._replace(clock_lock_share=share)


def used_at(board: Board, reach: float, gap_share: float = 0.3, step_times: float = 1.0) -> Board:
    """A board whose users' programs leave gaps that tuned ones do not, in steps of their length."""
    return board._replace(sm_reach=reach, gap_share=gap_share, step_times=step_times)


def in_slot(board: Board, lanes: int) -> Board:
    """A board in a slot of fewer lanes."""
    share = lanes / board.pcie_width
    return board._replace(pcie_width=lanes, pcie_bytes_per_s=board.pcie_bytes_per_s * share)
