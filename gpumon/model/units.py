"""Sizes, times and energy by name, and how counts and periods are written."""

from __future__ import annotations

from typing import Final

MIB: Final = 2.0**20
"""Bytes."""
GIB: Final = 2.0**30
"""Bytes."""

MINUTE_S: Final = 60.0
"""Seconds."""
HOUR_S: Final = 3600.0
"""Seconds."""
DAY_S: Final = 86400.0
"""Seconds."""

KWH_J: Final = 3.6e6
"""Joules."""


def period(value_s: float) -> str:
    """Seconds of a setting as it was given, with the unit: `0.5 s`, `10 s`."""
    return f"{value_s:.10g} s"


def counted(count: int, noun: str) -> str:
    """A number of things, whose plural ends in s: `1 tick`, `1,024 ticks`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"
