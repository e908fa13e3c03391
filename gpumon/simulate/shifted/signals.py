"""Phases of work, and what a rank's row of phases shows to a sampler.

What a probe reads is a mean over some time: of the last sixth of a second or the whole period.
The seconds that a rank has spent in each phase since it began are piecewise linear, so that both
follow exactly from its value at the edges of the window, for any length of a step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LEAST_STEP_S: Final = 0.4
"""Shorter steps are not separated: they would only make the rows longer (our choice)."""


class Phase(NamedTuple):
    """What one GPU and its rank's host side do; shares 0 to 1, bytes a second."""

    util: float = 0.0
    """Share of time in which any kernel runs."""
    sm: float = 0.0
    tensor: float = 0.0
    dram: float = 0.0
    fp32: float = 0.0
    fp64: float = 0.0
    load: float = 0.0
    """Power above idle, as a share of what lies between idle and the limit."""
    to_gpu: float = 0.0
    from_gpu: float = 0.0
    nvlink: float = 0.0
    port: float = 0.0
    """Sent and received by the network port of the rank."""
    cores: float = 0.0
    read: float = 0.0
    """From the network file system."""
    write: float = 0.0
    disk: float = 0.0
    """From local disks."""
    io_wait: float = 0.0
    """Share of time in which some task waits for I/O."""
    stuck: float = 0.0
    """Processes that wait in the kernel and cannot be ended."""
    cpu_wait: float = 0.0
    request_s: float = 0.0
    """Mean time of a read request to the file system, weighted by time; 0: as usual."""
    encoder: float = 0.0
    decoder: float = 0.0
    lost: float = 0.0
    """Share of the phase's time that the job's fault costs."""


SW_POWER_CAP: Final = 0x04
"""Bit of `clock_event_reasons` (nvml.h)."""

FIELDS: Final = Phase._fields
"""Names of the columns of what `Tape.seen` gives."""


class Tape:
    """What one rank does since its job began, as a row of phases with lengths."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._names: list[str] = []
        self._ids: list[NDArray[np.int32]] = []
        self._lengths: list[Floats] = []
        self.length_s = 0.0

    def then(self, phase: str, seconds: float) -> Tape:
        """One phase of so many seconds."""
        return self.loop((phase,), np.array([[max(0.0, seconds)]]))

    def loop(self, phases: Sequence[str], lengths: Floats) -> Tape:
        """Steps, each of which goes through the phases: lengths by step and phase, seconds."""
        for name in phases:
            if name not in self._names:
                self._names.append(name)
        ids = np.array([self._names.index(name) for name in phases], np.int32)
        self._ids.append(np.tile(ids, len(lengths)))
        self._lengths.append(np.ascontiguousarray(lengths, np.float64).ravel())
        self.length_s += float(lengths.sum())
        return self

    def until(self, phase: str, end_s: float) -> Tape:
        """One phase until so many seconds after the job's begin."""
        return self.then(phase, end_s - self.length_s)

    def branch(self) -> Tape:
        """Another tape with the same past."""
        other = Tape()
        other._names, other._ids = list(self._names), list(self._ids)
        other._lengths, other.length_s = list(self._lengths), self.length_s
        return other

    def spent(self, at: Floats) -> dict[str, Floats]:
        """Seconds spent in each phase up to times since the job's begin."""
        if not self._ids:
            return {}
        ids, lengths = np.concatenate(self._ids), np.concatenate(self._lengths)
        ends = np.concatenate(([0.0], np.cumsum(lengths)))
        return {
            name: np.interp(
                at, ends, np.concatenate(([0.0], np.cumsum(np.where(ids == number, lengths, 0.0))))
            )
            for number, name in enumerate(self._names)
        }

    def seen(self, phases: Mapping[str, Phase], begins: Floats, ends: Floats) -> Floats:
        """Means of every field of `Phase` over windows, by window and field."""
        since, until = self.spent(begins), self.spent(ends)
        width = np.maximum(ends - begins, 1e-9)
        total = np.zeros((len(ends), len(FIELDS)))
        for name in since:
            share = (until[name] - since[name]) / width
            total += share[:, None] * np.asarray(phases[name])[None, :]
        return total

    def lost_s(self, phases: Mapping[str, Phase], begin_s: float, end_s: float) -> float:
        """Seconds that the fault cost this rank between two times."""
        spent = self.spent(np.array([begin_s, end_s]))
        return sum(phases[name].lost * float(t[1] - t[0]) for name, t in spent.items())


def curve(points: Sequence[tuple[float, float]], at: Floats) -> Floats:
    """Per time what lies between the points; before the first and behind the last it is theirs."""
    ordered = sorted(points)
    xs = np.array([x for x, _ in ordered])
    ys = np.array([y for _, y in ordered])
    return np.asarray(np.interp(at, xs, ys), np.float64)
