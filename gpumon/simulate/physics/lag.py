"""The two lags between load and reading: board power follows load, heat follows power.

Both are first-order and linear, so a deviation from any solution decays by itself. That is what
lets a program jump to any time in closed form.
"""

from __future__ import annotations

from math import exp, expm1
from typing import Final

POWER_TAU_S: Final = 0.2
"""Time constant of board power after a change of load, seconds."""

HEAT_TAU_S: Final = 25.0
"""Time constant of die and heat sink after a change of power, seconds."""

_COUPLING: Final = 1.0 / (1.0 - HEAT_TAU_S / POWER_TAU_S)
"""Part of a deviation of power that follows it in the heat: from the two equations."""


def relax(power_w: float, heat_w: float, seconds: float) -> tuple[float, float]:
    """Deviation of power and of heat-filtered power after `seconds`, watts."""
    fast = exp(-seconds / POWER_TAU_S)
    driven = power_w * _COUPLING
    return power_w * fast, (heat_w - driven) * exp(-seconds / HEAT_TAU_S) + driven * fast


def settle(power_w: float, heat_w: float, load_w: float, seconds: float) -> tuple[float, float]:
    """Power and heat-filtered power after `seconds` of a constant load, watts."""
    power, heat = relax(power_w - load_w, heat_w - load_w, seconds)
    return load_w + power, load_w + heat


def cycle_start(power_w: float, heat_w: float, seconds: float) -> tuple[float, float]:
    """Where a cycle of `seconds` must start so that it ends there too.

    Args:
        power_w: Power after one cycle that started from zero.
        heat_w: Heat-filtered power after that cycle.
        seconds: Length of the cycle.
    """
    power = -power_w / expm1(-seconds / POWER_TAU_S)
    coupled = power * _COUPLING * (exp(-seconds / POWER_TAU_S) - exp(-seconds / HEAT_TAU_S))
    return power, -(heat_w + coupled) / expm1(-seconds / HEAT_TAU_S)
