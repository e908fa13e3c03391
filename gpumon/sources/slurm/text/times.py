"""Instants and durations as Slurm prints them."""

from __future__ import annotations

import re
import time
from typing import Final

_SECONDS: Final = re.compile(r"[0-9]{1,13}")
_DURATION: Final = re.compile(r"(?:([0-9]{1,9})-)?(?:([0-9]{1,4}):)?([0-9]{1,9}):([0-9]{1,2})")
_LONGEST: Final = 40
"""Characters of a time stamp and some more."""

LATEST: Final = 2**40
"""Unix times beyond this are garbage; it lies 34,000 years ahead."""


def instant(text: str) -> float | None:
    """Unix time of a time stamp; None for `Unknown`, `None`, `N/A` and whatever else is none.

    Seconds since 1970 are what we ask for (`SLURM_TIME_FORMAT=%s`). A site that prevents that
    prints local time without a zone, which is read in the zone of this process.
    """
    if _SECONDS.fullmatch(text):
        seconds = int(text)
        return float(seconds) if 0 < seconds < LATEST else None
    if len(text) > _LONGEST:
        return None
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None


def duration_s(text: str) -> float | None:
    """Seconds of `1-02:03:04`, `02:03:04` or `03:04`; None for `UNLIMITED` and the like."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
