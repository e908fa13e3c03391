"""The energy of allocations: from the GPU's own counter, else from its power."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gpumon.fleet.ledger_holding import Holding
    from gpumon.model.cluster import Gpu

BEAT_S: Final = 60.0
"""How often energy is read of a GPU that is held; the counter loses nothing in between."""

LONGEST_S: Final = 3 * BEAT_S
"""No power is taken to have lasted longer than this."""


def meter(holding: Holding, gpu: Gpu | None) -> None:
    """Book the energy since the reading before, where both are known.

    Of a counter, the difference: it also covers what was not observed. One that fell was reset, and
    nothing is booked. Without a counter, the power of now over the time since then. A GPU that the
    job has a part of counts by that part.
    """
    if gpu is None or gpu.is_stale:
        return
    taken_at, before = gpu.taken_at, holding.energy_at
    if before is not None and taken_at <= before:
        return
    energy_j, power_w = gpu.value("energy_j"), gpu.value("power_w")
    if energy_j is None and power_w is None:
        return
    if before is not None:
        span_s = taken_at - before
        used_j = None
        if energy_j is not None and holding.energy_last is not None:
            used_j = energy_j - holding.energy_last
        elif power_w is not None and span_s <= LONGEST_S:
            used_j = power_w * span_s
        if used_j is not None and used_j >= 0:
            weight = holding.timeline.weight
            holding.energy_j += used_j * weight
            holding.energy_s += span_s * weight
            holding.timeline.account.meter(used_j * weight, span_s * weight)
    holding.energy_at, holding.energy_last = taken_at, energy_j
