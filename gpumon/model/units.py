"""Sizes, times and energy that are not written as plain numbers twice."""

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
