"""Whether a GPU does useful work now, as far as its counters show: the floor of the ledger.

A floor, no praise: what lies above it is measured work of some kind, what lies below is not known
to be any. A GPU that waits in a collective reads 100 % utilisation, because the waiting is a
kernel; so utilisation alone never lifts a GPU above the floor.

With the profiling counters (GPM, DCGM) a GPU is above it where one of these holds:

- its memory, or an engine beside the SMs, is busy: `MEMORY_BOUND`, `ENGINE_BUSY`;
- more SMs are busy than a waiting collective occupies: `SPINNING_SM`;
- fewer are (at least `SOME_SM`), and tensor cores, memory or a link show that they do not wait.

Without them utilisation and power decide together. Where neither utilisation nor the SMs can be
read, nothing is known.
"""

from __future__ import annotations

from math import isnan, nan
from typing import TYPE_CHECKING, Final

from gpumon.model.records.ledger import UNEXPLAINED, UNOBSERVED, USEFUL

if TYPE_CHECKING:
    from gpumon.model.records.block import Block

SPINNING_SM: Final = 0.25
"""Share of busy SMs that a collective that waits stays below: NCCL takes at most 32 channels, one
block each, of the 132 SMs of an H100 (NCCL's NCCL_MAX_NCHANNELS, NVIDIA's H100 data sheet)."""

SOME_SM: Final = 0.05
"""Share of busy SMs below which nothing is called work: nvidia-smi's own grain is 1 %, and a
display or a monitor stays below (our choice)."""

MEMORY_BOUND: Final = 0.3
"""Share of the memory's cycles from which a GPU is called memory-bound; DCGM's guide puts the
practical peak at .8."""

SOME_MEMORY: Final = 0.05
"""Share of the memory's cycles that a kernel which only polls a flag never reaches."""

SOME_TENSOR: Final = 0.005
"""Share of the tensor cores' cycles that is none: the counter's own rounding."""

ENGINE_BUSY: Final = 0.2
"""Share of an encoder's or decoder's time from which it is at work."""

LINK_BUSY_BYTES_PER_S: Final = 100e6
"""Traffic on PCIe or NVLink from which a GPU exchanges data: a twentieth of what a slow network
port brings, and above what polling a flag in host memory takes (our choice)."""

SOME_UTILISATION: Final = 0.05
"""Utilisation below which nothing is called work."""

WORKING_POWER: Final = 0.3
"""Share of the power limit from which a GPU does more than idle or wait (our choice, on the safe
side: an idle H100 draws about 70 W of 700, an H200 77, with a context 122, with a kernel that spins
in 24 blocks, as a collective that waits does, 133)."""

BROKEN_UTILISATION: Final = 0.5
"""No busy SM beside so much utilisation and working power: the profiling counter does not work."""

_ENGINES: Final = ("decoder_util_ratio", "encoder_util_ratio")
_LINKS: Final = (
    "nvlink_rx_bytes_per_s",
    "nvlink_tx_bytes_per_s",
    "pcie_rx_bytes_per_s",
    "pcie_tx_bytes_per_s",
)


def states_of(block: Block) -> tuple[str, ...]:
    """Per GPU of a `gpu` block, to which state of the ledger a second belongs that is unclaimed.

    Returns:
        `USEFUL`, `UNEXPLAINED` (below the floor), or `UNOBSERVED` (nothing shows whether it works).
    """
    rows = range(len(block.keys))
    sm = block.columns.get("sm_active_ratio")
    if sm is None:
        return tuple(_state(block, row, nan) for row in rows)
    # Most that work are found by this one number; NaN is not above it.
    return tuple(USEFUL if sm[row] > SPINNING_SM else _state(block, row, sm[row]) for row in rows)


def _state(block: Block, row: int, sm: float) -> str:
    """Of a GPU of whose SMs no more are busy than in a collective that waits, or it is unknown."""
    busy = _value(block, "gpu_util_ratio", row)
    if isnan(busy):
        busy = _value(block, "graphics_active_ratio", row)
    if isnan(sm) and isnan(busy):
        return UNOBSERVED
    memory = _value(block, "dram_active_ratio", row)
    if memory >= MEMORY_BOUND or _reaches(block, _ENGINES, row, ENGINE_BUSY):
        return USEFUL
    if isnan(sm) or (sm == 0 and busy >= BROKEN_UTILISATION and _is_powered(block, row)):
        is_work = busy >= SOME_UTILISATION and _is_powered(block, row)
        return USEFUL if is_work else UNEXPLAINED
    if sm < SOME_SM:
        return UNEXPLAINED
    tensor = _value(block, "tensor_active_ratio", row)
    is_work = (
        tensor >= SOME_TENSOR
        or memory >= SOME_MEMORY
        or _reaches(block, _LINKS, row, LINK_BUSY_BYTES_PER_S)
        or (isnan(tensor) and isnan(memory) and _is_powered(block, row))
    )
    return USEFUL if is_work else UNEXPLAINED


def _is_powered(block: Block, row: int) -> bool:
    limit_w = _value(block, "power_limit_w", row)
    return limit_w > 0 and _value(block, "power_w", row) >= WORKING_POWER * limit_w


def _reaches(block: Block, keys: tuple[str, ...], row: int, least: float) -> bool:
    columns = block.columns
    # For each GPU of each tick: a generator takes twice as long.
    for key in keys:  # noqa: SIM110
        if key in columns and columns[key][row] >= least:
            return True
    return False


def _value(block: Block, key: str, row: int) -> float:
    """NaN where it is missing, which is above and below nothing."""
    column = block.columns.get(key)
    return nan if column is None else column[row]
