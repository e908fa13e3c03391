"""Instants as people type them: minutes ago, a time of day, a date, so long before or after."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta
from typing import Final

EXAMPLES: Final = "10 (minutes ago), 10:35, -10m, +30s, 2026-11-20T10:35"

_SHIFT: Final = re.compile(r"([+-])\s*(\d{1,9}(?:\.\d{1,3})?)\s*([smhd]?)\Z")
_MINUTES_AGO: Final = re.compile(r"\d{1,4}(?:\.\d{1,3})?\Z", re.ASCII)
_SECONDS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_CLOCK: Final = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?\Z")


def instant_of(text: str, shown: float, newest: float) -> float:
    """Unix time that a text means; times without a zone are this machine's own.

    Args:
        text: A bare number is minutes before `newest`, a time of day the latest one up to it;
            `-10m` counts from `shown`.
        shown: Unix time of what is on screen.
        newest: Unix time of the newest tick.

    Raises:
        ValueError: It means none; the message gives examples.
    """
    text = text.strip()
    if _MINUTES_AGO.match(text):
        return newest - float(text) * _SECONDS["m"]
    if shift := _SHIFT.match(text):
        sign = -1.0 if shift[1] == "-" else 1.0
        return shown + sign * float(shift[2]) * _SECONDS[shift[3]]
    try:
        if clock := _CLOCK.match(text):
            return _latest(int(clock[1]), int(clock[2]), int(clock[3] or 0), newest)
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        message = f"“{text}” is not a time; write {EXAMPLES}"
        raise ValueError(message) from None


def outside_words(at: float, start: float, end: float) -> str:
    """That no tick is of a time, and which one is shown in its place; empty: there is one.

    Args:
        at: Unix time that was asked for.
        start: Unix time of the oldest tick.
        end: Unix time of the newest.
    """
    # What was typed may have whole seconds only.
    if at < start - 1.0:
        return f"nothing before {_moment(start, end)} is stored"
    if at > end + 1.0:
        return f"{_moment(at, end)} is still to come"
    return ""


def _moment(at: float, now: float) -> str:
    """A time of day; of another day with its date."""
    try:
        moment = time.localtime(at)
    except (ValueError, OverflowError, OSError):
        return "that"
    is_today = moment[:3] == time.localtime(now)[:3]
    return time.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M:%S", moment)


def _latest(hour: int, minute: int, second: int, newest: float) -> float:
    """The last moment up to `newest` at which local clocks showed this."""
    day = datetime.fromtimestamp(newest).astimezone().replace(tzinfo=None)
    found = day.replace(hour=hour, minute=minute, second=second, microsecond=0)
    if found.timestamp() > newest:
        found -= timedelta(days=1)
    return found.timestamp()
