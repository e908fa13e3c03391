"""From when on a value is too old to be shown or judged as the present, and a clock was set."""

from __future__ import annotations

from typing import Final

STALE_PERIODS: Final = 3.0
"""Values older than this many periods are stale; one lost line is not yet a lost node (our choice:
two lines may be lost in a row)."""

STALE_FLOOR_S: Final = 5.0
"""No value is called stale before this, so that a short period does not flicker (our choice)."""

CLOCK_SET_S: Final = 5.0
"""A clock that went on by so much more or less than a steady one was set: a daemon that slews it
moves it by at most half a millisecond a second (adjtime(3))."""


def stale_after_s(period_s: float) -> float:
    """Age from which what comes every `period_s` is stale."""
    return max(STALE_FLOOR_S, STALE_PERIODS * period_s)
