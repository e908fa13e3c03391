"""How much of their time the links between a job's GPUs are busy with an exchange."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import pcie_bytes_per_s
from gpumon_detectors.evidence.gpu_use import LEAST_KNOWN
from gpumon_detectors.evidence.watched import known_share, mean_of, newest_of, unbroken
from gpumon_detectors.placement.exchange import NVLINK, NVLINK_REACH, PORT_REACH

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpumon.plugin import JobLook, View
    from gpumon_detectors.work.profile import Profile

PCIE: Final = ("pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s")
PCIE_LINK: Final = ("pcie_gen", "pcie_width")
PORT: Final = ("nic_rx_bytes_per_s", "nic_tx_bytes_per_s", "nic_speed_gbps")

_USUAL_LANES: Final = (4.0, 16.0)
"""Generation and lanes of a GPU that tells neither: the slowest link of boards with SM counters."""


class Exchange(NamedTuple):
    """One kind of link that a job's ranks exchange over."""

    what: str
    field: str
    bytes_per_s: float
    """Of one GPU, or of one port, in the direction with more."""
    peak_bytes_per_s: float
    busy: float
    """Share of the time in which it is busy, at the rate that an exchange reaches."""

    @property
    def share(self) -> float:
        """Of its peak."""
        return self.bytes_per_s / self.peak_bytes_per_s


def nvlink_busy(profile: Profile, peak_bytes_per_s: float) -> NDArray[np.float64]:
    """Per slice the share of the time in which NVLinks are busy, of the GPU that moves least."""
    moved = np.maximum(*(profile.means[key] for key in NVLINK))
    busy: NDArray[np.float64] = moved.min(axis=1) / (NVLINK_REACH * peak_bytes_per_s)
    return np.minimum(1.0, busy)


def ports_of(view: View, job: JobLook, seconds: float) -> Exchange | None:
    """What a job's nodes exchange over their ports; None where a port's counters are not known."""
    ports = [f"{node.name}/{key}" for node in job.nodes for key in node.block("nic").keys]
    past = unbroken(view.past(ports, PORT, seconds, job.all_held_since)) if ports else None
    if past is None or len(past.times) < 2:
        return None
    speeds = newest_of(past, PORT[2]) * 1e9 / 8.0
    is_port = speeds > 0
    moved = np.maximum(*(mean_of(past, key) for key in PORT[:2]))[is_port]
    known = np.minimum(*(known_share(past, key) for key in PORT[:2]))[is_port]
    if not len(moved) or not (known >= LEAST_KNOWN).all():
        return None
    rate, peak = float(moved.mean()), float(speeds[is_port].mean())
    return Exchange(
        what="network ports",
        field=PORT[0],
        bytes_per_s=rate,
        peak_bytes_per_s=peak,
        busy=min(1.0, rate / (PORT_REACH * peak)),
    )


def copying(
    profile: Profile, key: str, fastest: tuple[float, float] | None = None
) -> NDArray[np.float64]:
    """By slice and GPU what goes over PCIe in one direction, as a share of what the link carries.

    Args:
        profile: What the GPUs do, the fields of `PCIE_LINK` among them.
        key: A field of `PCIE`.
        fastest: Generation and lanes of a link; a faster one counts as it.
    """
    most = pcie_bytes_per_s(*fastest) if fastest is not None else None
    usual = pcie_bytes_per_s(*_USUAL_LANES)
    gens, lanes = (np.fmax.reduce(profile.means[name]) for name in PCIE_LINK)
    peaks = [
        (pcie_bytes_per_s(gen, width) if gen > 0 and width > 0 else None) or usual
        for gen, width in zip(gens.tolist(), lanes.tolist(), strict=True)
    ]
    carried = np.minimum(np.array(peaks, np.float64), inf if most is None else most)
    share: NDArray[np.float64] = profile.means[key] / carried
    return share
