"""What one GPU ran and runs, and its readings at any instant."""

from __future__ import annotations

from bisect import bisect_right
from operator import add, itemgetter
from typing import TYPE_CHECKING, NamedTuple

from gpumon.simulate.physics.lag import POWER_TAU_S, relax
from gpumon.simulate.physics.phase import (
    CAPPED,
    CHANNELS,
    CPU,
    FABRIC,
    HOT,
    NVLINK_RX,
    NVLINK_TX,
    PCIE_RX,
    PCIE_TX,
    READ,
    WATTS,
    WRITE,
)

if TYPE_CHECKING:
    from gpumon.simulate.cluster.schedule import SimJob
    from gpumon.simulate.physics.phase import Phase
    from gpumon.simulate.physics.program import Program, Sample, Turned

COUNTED = (PCIE_TX, PCIE_RX, NVLINK_TX, NVLINK_RX, CAPPED, CPU, FABRIC, READ, WRITE, HOT)
"""Channels that a GPU, or its host on its behalf, counts from one job into the next."""

CPU_AT, FABRIC_AT = COUNTED.index(CPU), COUNTED.index(FABRIC)
READ_AT, WRITE_AT = COUNTED.index(READ), COUNTED.index(WRITE)
HOT_AT = COUNTED.index(HOT)

_COUNTED_OF = itemgetter(*COUNTED)


class Totals(NamedTuple):
    """What a GPU carries from one job into the next."""

    power_w: float
    heat_w: float
    energy_j: float
    counted: tuple[float, ...]
    """Integrals per channel of `COUNTED`: bytes, seconds, core-seconds."""


class Stay(NamedTuple):
    """One stretch of a GPU's life: one program, from a start until the next stay."""

    start: float
    program: Program | Turned
    entry: Totals
    job: SimJob | None
    spot: int = 0
    """Position of the node in the job."""
    local: int = 0
    """Position of the GPU among the job's GPUs on the node."""
    is_used: bool = False
    """Whether a process of the job ever opens the GPU."""


class Span(NamedTuple):
    """A program over one window: the part of a reading that GPUs with the same program share."""

    now: Sample
    means: tuple[float, ...]
    """Per channel, the mean over the window."""


class Reading(NamedTuple):
    """One GPU at one instant, before its own board colours it."""

    stay: Stay
    phase: Phase
    means: tuple[float, ...]
    totals: Totals


class Spans:
    """Evaluates each program once per instant and window, however many GPUs share it."""

    def __init__(self, now: float, window_s: float, beside: Spans | None = None) -> None:
        """Evaluate up to an instant.

        Args:
            now: The instant, Unix time.
            window_s: Length of the window before it, seconds.
            beside: Spans of another window at the same instant, to share work with.
        """
        self.now = now
        self.window_s = window_s
        self._known: dict[tuple[int, float], Span] = {}
        self._samples: dict[tuple[int, float], Sample] = {} if beside is None else beside._samples

    def of(self, stay: Stay) -> Span:
        """The stay's program over the window, cut at the start of the stay."""
        key = (id(stay.program), stay.start)
        span = self._known.get(key)
        if span is None:
            seconds = self.now - stay.start
            sample = self._samples.get(key)
            if sample is None:
                sample = self._samples[key] = stay.program.at(seconds)
            span = self._known[key] = span_of(stay.program, seconds, self.window_s, sample)
        return span


def span_of(
    program: Program | Turned, seconds: float, window_s: float, known: Sample | None = None
) -> Span:
    """A program's state, computed unless known, and its means over the window that ends there."""
    now = known or program.at(seconds)
    covered = min(window_s, seconds)
    if covered <= 0.0:
        return Span(now, now.phase.rates)
    before = program.at(seconds - covered)
    means = [
        (late - early) / covered
        for late, early in zip(now.integrals, before.integrals, strict=True)
    ]
    # The board's power lags behind its load: what was drawn is the exact integral.
    means[WATTS] = (now.energy_j - before.energy_j) / covered
    return Span(now, tuple(means))


class Timeline:
    """Stays of one GPU, oldest first; stays are only ever added at the end."""

    def __init__(self, start: float, idle: Program) -> None:
        quiet = Totals(idle.entry_w, idle.entry_w, 0.0, (0.0,) * len(COUNTED))
        self._starts = [start]
        self._stays = [Stay(start, idle, quiet, None)]

    def add(self, stay: Stay) -> None:
        """Begin another stay; its entry is what the stay before it leaves behind."""
        last = self._stays[-1]
        if stay.start <= last.start:
            self._stays[-1] = stay._replace(entry=last.entry)
            return
        left = totals_at(last, last.program.at(stay.start - last.start), stay.start)
        self._starts.append(stay.start)
        self._stays.append(stay._replace(entry=left))

    def stay_at(self, now: float) -> Stay:
        """The stay that covers an instant."""
        return self._stays[max(0, bisect_right(self._starts, now) - 1)]

    def read(self, spans: Spans) -> Reading:
        """The GPU at the instant and over the window of `spans`."""
        now = spans.now
        here = max(0, bisect_right(self._starts, now) - 1)
        stay = self._stays[here]
        span = spans.of(stay)
        means = span.means
        age_s = now - stay.start
        if age_s < spans.window_s and here:
            means = self._across(here, span, age_s, spans.window_s)
        return Reading(stay, span.now.phase, means, totals_at(stay, span.now, now))

    def _across(self, here: int, span: Span, age_s: float, window_s: float) -> tuple[float, ...]:
        """Means over a window that reaches back into the stay before."""
        earlier = self._stays[here - 1]
        lived_s = self._starts[here] - earlier.start
        tail_s = min(window_s - age_s, lived_s)
        tail = span_of(earlier.program, lived_s, tail_s).means
        whole = age_s + tail_s
        return tuple(
            (span.means[channel] * age_s + tail[channel] * tail_s) / whole
            for channel in range(CHANNELS)
        )


def totals_at(stay: Stay, sample: Sample, now: float) -> Totals:
    """Power, heat and counters of a GPU, given its program's sample."""
    entry, idle_w = stay.entry, stay.program.entry_w
    extra_w = entry.power_w - idle_w
    # What the job before left in power and heat fades on its own, also while something runs.
    power_w, heat_w = relax(extra_w, entry.heat_w - idle_w, max(0.0, now - stay.start))
    energy_j = entry.energy_j + sample.energy_j + POWER_TAU_S * (extra_w - power_w)
    counted = tuple(map(add, entry.counted, _COUNTED_OF(sample.integrals)))
    return Totals(sample.power_w + power_w, sample.heat_w + heat_w, energy_j, counted)
