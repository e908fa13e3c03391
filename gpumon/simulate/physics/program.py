"""What a GPU runs over time: phases in loops, evaluated at any instant in closed form."""

from __future__ import annotations

from bisect import bisect_right
from operator import add
from typing import TYPE_CHECKING, NamedTuple

from gpumon.simulate.physics.lag import POWER_TAU_S, cycle_start, relax, settle
from gpumon.simulate.physics.phase import CHANNELS, WATTS, Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

_ZERO: tuple[float, ...] = (0.0,) * CHANNELS


class Sample(NamedTuple):
    """State of a program at one instant."""

    integrals: tuple[float, ...]
    """Per channel, the integral since the program started."""
    power_w: float
    heat_w: float
    """Power filtered by the heat sink: what the temperature follows."""
    phase: Phase
    energy_j: float
    """Exact integral of `power_w` since the start."""


class _Point(NamedTuple):
    integrals: tuple[float, ...]
    power_w: float
    heat_w: float
    phase: Phase


class _Counted(NamedTuple):
    """What a program has counted when it enters a loop."""

    done: tuple[tuple[float, ...], ...]
    """Per phase of the loop, integrals at which its first pass begins it."""
    laps: int
    """Laps before this one."""
    lap: tuple[float, ...]
    """Integrals of a whole lap."""


class Loop:
    """The same phases, `count` times in a row."""

    def __init__(self, phases: Sequence[Phase], count: int = 1) -> None:
        self.phases = tuple(phases)
        self.count = count
        starts, sums, states = [0.0], [_ZERO], [(0.0, 0.0)]
        for phase in self.phases:
            starts.append(starts[-1] + phase.seconds)
            sums.append(_plus(sums[-1], phase.rates, phase.seconds))
            states.append(settle(*states[-1], phase.rates[WATTS], phase.seconds))
        self._cycle_s = starts.pop()
        self._cycle_sum = sums.pop()
        self._starts, self._sums = starts, sums
        # Every pass converges to the cycle that ends where it starts, from any entry.
        self._steady = cycle_start(*states[-1], self._cycle_s)
        states = [self._steady]
        for phase in self.phases[:-1]:
            states.append(settle(*states[-1], phase.rates[WATTS], phase.seconds))
        self._states = states
        self.seconds = self._cycle_s * count
        self.total = _plus(_ZERO, self._cycle_sum, count)

    def done_from(self, before: tuple[float, ...]) -> tuple[tuple[float, ...], ...]:
        """Integrals at which each phase of the first pass begins, from those at the entry."""
        return tuple(_plus(before, sums, 1.0) for sums in self._sums)

    def at(self, seconds: float, power_w: float, heat_w: float, counted: _Counted) -> _Point:
        """State `seconds` after an entry at this power and heat."""
        passes = min(int(seconds / self._cycle_s), self.count - 1)
        rest = seconds - passes * self._cycle_s
        here = max(0, bisect_right(self._starts, rest) - 1)
        phase = self.phases[here]
        into = rest - self._starts[here]
        power, heat = settle(*self._states[here], phase.rates[WATTS], into)
        extra_power, extra_heat = relax(
            power_w - self._steady[0], heat_w - self._steady[1], seconds
        )
        # One pass over the channels for all that was counted: this is the hottest line of all.
        laps = counted.laps
        integrals = tuple(
            [
                done + laps * lap + passes * whole + rate * into
                for done, lap, whole, rate in zip(
                    counted.done[here], counted.lap, self._cycle_sum, phase.rates, strict=True
                )
            ]
        )
        return _Point(integrals, power + extra_power, heat + extra_heat, phase)

    def integral(self, channel: int, seconds: float, counted: _Counted) -> float:
        """One channel's integral `seconds` after an entry."""
        passes = min(int(seconds / self._cycle_s), self.count - 1)
        rest = seconds - passes * self._cycle_s
        here = max(0, bisect_right(self._starts, rest) - 1)
        before = counted.done[here][channel] + counted.laps * counted.lap[channel]
        into = rest - self._starts[here]
        return before + passes * self._cycle_sum[channel] + self.phases[here].rates[channel] * into

    def leave(self, power_w: float, heat_w: float) -> tuple[float, float]:
        """Power and heat after the last pass."""
        power, heat = relax(power_w - self._steady[0], heat_w - self._steady[1], self.seconds)
        return self._steady[0] + power, self._steady[1] + heat


class Program:
    """A start-up, then a lap of loops that repeats for as long as the job lives."""

    def __init__(self, head: Sequence[Loop], lap: Sequence[Loop], entry_w: float) -> None:
        self.entry_w = entry_w
        """Power, and heat, of the settled idle GPU that the program is computed from."""
        self._head = _Chain(head, (entry_w, entry_w))
        self.head_s = self._head.seconds
        """Length of the start-up."""
        state = (0.0, 0.0)
        for loop in lap:
            state = loop.leave(*state)
        self._steady = cycle_start(*state, sum(loop.seconds for loop in lap))
        self._lap = _Chain(lap, self._steady, self._head.total)

    def at(self, seconds: float) -> Sample:
        """State `seconds` after the start on a settled idle GPU."""
        seconds = max(0.0, seconds)
        if seconds < self._head.seconds:
            point = self._head.at(seconds)
        else:
            point = self._in_lap(seconds - self._head.seconds)
        energy_j = point.integrals[WATTS] - POWER_TAU_S * (point.power_w - self.entry_w)
        return Sample(*point, energy_j)

    def integral(self, channel: int, seconds: float) -> float:
        """One channel's integral since the start: far cheaper than a whole sample."""
        seconds = max(0.0, seconds)
        if seconds < self._head.seconds:
            return self._head.integral(channel, seconds)
        laps, into = divmod(seconds - self._head.seconds, self._lap.seconds)
        return self._lap.integral(channel, into, int(laps))

    def _in_lap(self, seconds: float) -> _Point:
        laps = int(seconds / self._lap.seconds)
        point = self._lap.at(min(seconds - laps * self._lap.seconds, self._lap.seconds), laps)
        left = self._head.end
        power, heat = relax(left[0] - self._steady[0], left[1] - self._steady[1], seconds)
        return _Point(point.integrals, point.power_w + power, point.heat_w + heat, point.phase)


class Turned:
    """A program that turns into another at some time, with all that it has counted by then."""

    def __init__(self, before: Program | Turned, at_s: float, after: Program) -> None:
        """`after` begins, without a start-up, `at_s` seconds after `before` did."""
        self.entry_w: float = before.entry_w
        self.head_s: float = before.head_s
        self.at_s = at_s
        self._before, self._after = before, after
        self._left = before.at(at_s)

    def at(self, seconds: float) -> Sample:
        """State `seconds` after the start on a settled idle GPU."""
        if seconds < self.at_s:
            return self._before.at(seconds)
        left, entry_w = self._left, self._after.entry_w
        now = self._after.at(seconds - self.at_s)
        power_w, heat_w = relax(left.power_w - entry_w, left.heat_w - entry_w, seconds - self.at_s)
        power_w += now.power_w
        integrals = tuple(map(add, left.integrals, now.integrals))
        energy_j = integrals[WATTS] - POWER_TAU_S * (power_w - self.entry_w)
        return Sample(
            integrals=integrals,
            power_w=power_w,
            heat_w=now.heat_w + heat_w,
            phase=now.phase,
            energy_j=energy_j,
        )

    def integral(self, channel: int, seconds: float) -> float:
        """One channel's integral since the start."""
        if seconds < self.at_s:
            return self._before.integral(channel, seconds)
        return self._left.integrals[channel] + self._after.integral(channel, seconds - self.at_s)


class _Chain:
    """Loops one after the other, with the state in which each is entered."""

    def __init__(
        self,
        loops: Sequence[Loop],
        entry: tuple[float, float],
        before: tuple[float, ...] = _ZERO,
    ) -> None:
        self._loops = tuple(loops)
        self._starts: list[float] = []
        self._done: list[tuple[tuple[float, ...], ...]] = []
        self._entries: list[tuple[float, float]] = []
        self.seconds, self.total, self.end = 0.0, _ZERO, entry
        for loop in self._loops:
            self._starts.append(self.seconds)
            self._done.append(loop.done_from(_plus(before, self.total, 1.0)))
            self._entries.append(self.end)
            self.seconds += loop.seconds
            self.total = _plus(self.total, loop.total, 1.0)
            self.end = loop.leave(*self.end)

    def at(self, seconds: float, laps: int = 0) -> _Point:
        """State at an instant, after so many laps before."""
        here, counted = self._entered(seconds, laps)
        return self._loops[here].at(seconds - self._starts[here], *self._entries[here], counted)

    def integral(self, channel: int, seconds: float, laps: int = 0) -> float:
        """One channel's integral at an instant, after so many laps before."""
        here, counted = self._entered(seconds, laps)
        return self._loops[here].integral(channel, seconds - self._starts[here], counted)

    def _entered(self, seconds: float, laps: int) -> tuple[int, _Counted]:
        here = max(0, bisect_right(self._starts, seconds) - 1)
        return here, _Counted(self._done[here], laps, self.total)


def _plus(sums: tuple[float, ...], rates: tuple[float, ...], factor: float) -> tuple[float, ...]:
    return tuple(total + rate * factor for total, rate in zip(sums, rates, strict=True))
