"""Whether a GPU does useful work now, as far as its counters tell: the floor of the books.

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

from math import isnan
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
side: an idle H100 draws about 70 W of 700; what a collective that waits adds is not measured)."""

BROKEN_UTILISATION: Final = 0.5
"""No busy SM beside so much utilisation and working power: the profiling counter does not work."""

_ENGINES: Final = ("decoder_util_ratio", "encoder_util_ratio")
_LINKS: Final = (
    "nvlink_rx_bytes_per_s",
    "nvlink_tx_bytes_per_s",
    "pcie_rx_bytes_per_s",
    "pcie_tx_bytes_per_s",
)
_COUNTERS: Final = (
    "sm_active_ratio",
    "gpu_util_ratio",
    "graphics_active_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "power_w",
    "power_limit_w",
    *_ENGINES,
    *_LINKS,
)


def states_of(block: Block) -> tuple[str, ...]:
    """Per GPU of a `gpu` block, in which of the books' states a second belongs that is unclaimed.

    Returns:
        `USEFUL`, `UNEXPLAINED` (below the floor), or `UNOBSERVED` (nothing tells whether it works).
    """
    columns = [block.columns.get(key) for key in _COUNTERS]
    return tuple(
        _state(*[None if c is None or isnan(c[row]) else c[row] for c in columns])
        for row in range(len(block.keys))
    )


def _state(
    sm: float | None,
    utilisation: float | None,
    graphics: float | None,
    tensor: float | None,
    memory: float | None,
    power_w: float | None,
    limit_w: float | None,
    *engines_and_links: float | None,
) -> str:
    busy = utilisation if utilisation is not None else graphics
    if sm is None and busy is None:
        return UNOBSERVED
    engines, links = engines_and_links[: len(_ENGINES)], engines_and_links[len(_ENGINES) :]
    is_powered = power_w is not None and bool(limit_w) and power_w >= WORKING_POWER * (limit_w or 0)
    if (memory or 0.0) >= MEMORY_BOUND or _reaches(engines, ENGINE_BUSY):
        return USEFUL
    if sm == 0 and is_powered and (busy or 0.0) >= BROKEN_UTILISATION:
        sm = None
    if sm is None:
        return USEFUL if is_powered and (busy or 0.0) >= SOME_UTILISATION else UNEXPLAINED
    if sm > SPINNING_SM:
        return USEFUL
    if sm < SOME_SM:
        return UNEXPLAINED
    is_work = (
        (tensor or 0.0) >= SOME_TENSOR
        or (memory or 0.0) >= SOME_MEMORY
        or _reaches(links, LINK_BUSY_BYTES_PER_S)
        or (tensor is None and memory is None and is_powered)
    )
    return USEFUL if is_work else UNEXPLAINED


def _reaches(values: tuple[float | None, ...], least: float) -> bool:
    return any(value is not None and value >= least for value in values)
