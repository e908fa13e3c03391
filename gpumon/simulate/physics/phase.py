"""One phase of a step: what it asks of a GPU, and what that GPU makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from gpumon.simulate.physics.board import Board

UTIL, MEM_BUSY, SM, OCCUPANCY, TENSOR, DRAM = 0, 1, 2, 3, 4, 5
PCIE_TX, PCIE_RX, NVLINK_TX, NVLINK_RX, CPU, WATTS = 6, 7, 8, 9, 10, 11
FP32, CAPPED, FABRIC, READ, WRITE, HOT, FP64, LOST = 12, 13, 14, 15, 16, 17, 18, 19
CHANNELS: Final = 20
"""Number of quantities that are integrated over time."""

DRAM_EFFICIENCY: Final = 0.85
"""Share of the peak bandwidth that memory reaches while it is busy without a pause."""

BESIDES_FP32: Final = 0.06
"""Share of cycles in which kernels of any kind use the fp32 pipes: norms, softmax, scaling."""

CLOCK_EXPONENT: Final = 2.4
"""Dynamic power grows with this power of the clock, because voltage grows with it."""

_SPINS_BELOW: Final = 0.3
"""SM activity below which a kernel waits rather than computes."""

REASON_IDLE: Final = 0x1
"""The GPU idles (nvml.h: nvmlClocksEventReasonGpuIdle)."""
REASON_LOCKED: Final = 0x2
"""A user has locked the clocks below the board's own."""
REASON_POWER_CAP: Final = 0x4
"""The clock is lowered to stay below the power limit (nvml.h: nvmlClocksEventReasonSwPowerCap)."""
REASON_HEAT: Final = 0x20
"""The driver lowers the clock so that the die stays below its highest temperature."""


class Work(NamedTuple):
    """What one phase asks for, at the highest clock that it is given."""

    seconds: float
    kernel: float = 0.0
    """Share of the phase in which a kernel runs."""
    sm: float = 0.0
    """Share of SMs with a resident warp while a kernel runs."""
    occupancy: float = 0.0
    """Resident warps over those that fit, over all SMs, while a kernel runs."""
    tensor: float = 0.0
    dram: float = 0.0
    fma: float = 0.0
    """Share of cycles in which the fp32 pipes do the bulk of the work."""
    pcie_tx_bytes: float = 0.0
    pcie_rx_bytes: float = 0.0
    nvlink_bytes: float = 0.0
    """Bytes in each direction during the phase."""
    fabric_bytes: float = 0.0
    """Bytes in each direction between nodes during the phase."""
    read_bytes: float = 0.0
    """Bytes read from the shared filesystem during the phase."""
    write_bytes: float = 0.0
    cpu_cores: float = 0.0
    """Host cores in use per GPU."""
    mem_bytes: float = 0.0
    """Device memory held by the process; 0: no context yet."""
    clock_share: float = 1.0
    """Highest clock that heat leaves, over the board's own."""
    fp64: float = 0.0
    """Share of cycles in which the fp64 pipes compute."""
    encoder: float = 0.0
    decoder: float = 0.0
    """Share of the time in which the engines of video work."""
    lost: float = 0.0
    """Share of the phase that is lost to what is wrong with the job."""


class Phase(NamedTuple):
    """One phase as a particular board runs it."""

    seconds: float
    rates: tuple[float, ...]
    """Per channel, the constant rate during the phase."""
    clock_mhz: float
    reasons: int
    mem_bytes: float
    encoder: float = 0.0
    decoder: float = 0.0


def run_on(board: Board, work: Work) -> Phase:
    """The phase on a board: a demand above the power limit lowers the clock and takes longer."""
    # What waits in a collective fills no more SMs, nor fewer, in any program.
    reach = board.sm_reach if work.sm > _SPINS_BELOW else 1.0
    sm, tensor, fma = reach * work.sm, reach * work.tensor, reach * work.fma
    busy = work.kernel * (1.0 - board.gap_share * (1.0 - reach))
    dynamic_w = busy * board.dynamic_w(sm, tensor, work.dram, fma)
    if work.mem_bytes:
        dynamic_w = max(dynamic_w, board.context_w)
    given = min(work.clock_share, board.clock_lock_share)
    dynamic_w *= given**CLOCK_EXPONENT
    room_w = board.power_limit_w - board.idle_w
    is_capped = dynamic_w > room_w
    slowed = (room_w / dynamic_w) ** (1 / CLOCK_EXPONENT) if is_capped else 1.0
    clock = given * slowed
    # Work names how long it takes at the clock that heat leaves; a lock is the board's own.
    stretched = work.clock_share / given if work.kernel else 1.0
    seconds = work.seconds * stretched / slowed
    is_quiet = work.kernel == 0.0 and seconds >= 1.0
    reasons = REASON_POWER_CAP if is_capped else REASON_IDLE if is_quiet else 0
    is_hot = work.clock_share < 1.0
    reasons |= REASON_HEAT if is_hot else 0
    if board.clock_lock_share < 1.0 and work.kernel and not is_capped:
        reasons |= REASON_LOCKED
    # Without NVLink peers exchange through the host's switches.
    peer_bytes = 0.0 if board.links else work.nvlink_bytes
    link_bytes = work.nvlink_bytes if board.links else 0.0
    rates = (
        busy,
        busy * min(1.0, work.dram / DRAM_EFFICIENCY),
        busy * sm,
        busy * reach * work.occupancy,
        busy * tensor,
        busy * work.dram,
        (work.pcie_tx_bytes + peer_bytes) / seconds,
        (work.pcie_rx_bytes + peer_bytes) / seconds,
        link_bytes / seconds,
        link_bytes / seconds,
        work.cpu_cores,
        board.idle_w + min(room_w, dynamic_w),
        busy * min(1.0, fma + BESIDES_FP32 * sm),
        1.0 if is_capped else 0.0,
        work.fabric_bytes / seconds,
        work.read_bytes / seconds,
        work.write_bytes / seconds,
        1.0 if is_hot else 0.0,
        busy * reach * work.fp64,
        work.lost,
    )
    at_rest = is_quiet and not work.mem_bytes
    clock_mhz = board.clock_idle_mhz if at_rest else board.clock_max_mhz * clock
    return Phase(
        seconds=seconds,
        rates=rates,
        clock_mhz=15.0 * round(clock_mhz / 15.0),  # in steps of 15 MHz, as NVML reports them
        reasons=reasons,
        mem_bytes=work.mem_bytes,
        encoder=work.encoder,
        decoder=work.decoder,
    )
