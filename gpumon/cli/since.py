"""How far back ended jobs are asked for, written as people write it for sacct."""

from __future__ import annotations

import argparse
import re
import time
from typing import Final, NamedTuple

from gpumon.model.text import plain
from gpumon.model.units import DAY_S
from gpumon.report.text import units

LONGEST_S: Final = 31 * DAY_S
"""As far back as the accounting is asked."""

_SPAN: Final = r"(?:now-)?([0-9]{1,6}(?:\.[0-9]{1,3})?)\s*([a-z]*)"
_UNITS: Final = (("seconds", 1.0), ("minutes", 60.0), ("hours", 3600.0), ("days", DAY_S))
_WEEKS: Final = ("weeks", 7 * DAY_S)
_FORMS: Final = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d")


class Since(NamedTuple):
    """A beginning: so long before now, or one instant."""

    span_s: float | None
    at: float | None = None
    """Unix time, where it is an instant."""

    def seen_from(self, now: float) -> float:
        """Unix time of the beginning."""
        return self.at if self.at is not None else now - (self.span_s or DAY_S)


def since(text: str) -> Since:
    """The beginning that a text such as `24h`, `7days`, `now-2days` or `2026-11-20` names.

    Raises:
        argparse.ArgumentTypeError: it names none, or one too long ago.
    """
    found = _span(text.strip().lower()) or _instant(text.strip())
    if found is None:
        message = (
            f"{plain(text)!r} is not a time such as 24h, 7days, 2026-11-20 or 2026-11-20T08:00"
        )
        raise argparse.ArgumentTypeError(message)
    if found.span_s is not None and not 0 < found.span_s <= LONGEST_S:
        message = f"at most {units.span(LONGEST_S)}"
        raise argparse.ArgumentTypeError(message)
    return found


def _span(text: str) -> Since | None:
    """A length of time; a bare number counts hours, after `now-` seconds as sacct does."""
    match = re.fullmatch(_SPAN, text)
    if match is None:
        return None
    word = match[2] or ("seconds" if text.startswith("now-") else "hours")
    for name, seconds in (*_UNITS, _WEEKS):
        if name.startswith(word):
            return Since(float(match[1]) * seconds)
    return None


def _instant(text: str) -> Since | None:
    """A date, or a date and a time of day, in this machine's zone."""
    for form in _FORMS:
        try:
            return Since(None, time.mktime(time.strptime(text, form)))
        except (ValueError, OverflowError):
            continue
    return None
