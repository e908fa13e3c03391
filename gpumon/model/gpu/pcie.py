"""What a PCIe link carries."""

from __future__ import annotations

from typing import Final

_LANE_BYTES_PER_S: Final = {
    1: 2.5e9 * 8 / 10 / 8,
    2: 5e9 * 8 / 10 / 8,
    3: 8e9 * 128 / 130 / 8,
    4: 16e9 * 128 / 130 / 8,
    5: 32e9 * 128 / 130 / 8,
    6: 64e9 * 242 / 256 / 8,
}
"""One lane, one direction, by PCIe generation: transfer rate times line coding, from the PCI
Express base specifications. Packet headers still go off."""


def pcie_bytes_per_s(gen: float | None, lanes: float | None) -> float | None:
    """What a PCIe link carries in one direction before packet headers, None where unknown."""
    if gen is None or lanes is None or int(gen) not in _LANE_BYTES_PER_S:
        return None
    return _LANE_BYTES_PER_S[int(gen)] * lanes
