"""Numbers as a person would say them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def clock_time(at: float) -> str:
    """A Unix time as hours and minutes of the local day."""
    return datetime.fromtimestamp(at, UTC).astimezone().strftime("%H:%M")


def span(seconds: float) -> str:
    """A length of time."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def gib(count: float) -> str:
    """Bytes as GiB."""
    return f"{count / 2**30:.1f} GiB"


def listed(things: Sequence[str]) -> str:
    """Things, at least one of them: `a`, `a and b`, `a, b and c`."""
    *before, last = things
    return f"{', '.join(before)} and {last}" if before else last


def counted(count: int, word: str) -> str:
    """A number of things: `1 GPU`, `3 GPUs`."""
    return f"{count} {noun(count, word)}"


def noun(count: int, word: str) -> str:
    """What follows a number: `GPU` or `GPUs`, `processes`, `recoveries`."""
    if count == 1:
        return word
    if word.endswith("ry"):
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith("ss") else f"{word}s"
