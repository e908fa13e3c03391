"""Values of Slurm's JSON, read by their shape: their form changed with nearly every version.

A number may be bare, as text, or as `{"set", "infinite", "number"}`; a text may be in a list;
what is unknown may be absent, `null`, or a number that means "not set".
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from gpumon.base.errors import DamagedError
from gpumon.model.text import plain
from gpumon.sources.slurm.text.times import LATEST

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_FLAGS: Final = 64
"""Most words of one list of flags that are read; Slurm knows about 30 of each kind."""

_NOT_SET: Final = frozenset({2**32 - 1, 2**32 - 2, 2**64 - 1, 2**64 - 2})
"""INFINITE and NO_VAL (slurm.h), of 32 and 64 bits, which v0.0.39 leaks into times and ids."""

_LARGEST: Final = 2**63
"""Numbers of Slurm have at most 64 bits; larger ones, and its signs for not set, are no value."""

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}(?:\.[0-9]{1,18})?")
_FLAG: Final = re.compile(r"[A-Z][A-Z0-9_]{0,31}")


class NotAnObjectError(DamagedError, ValueError):
    """The text is not JSON object."""


def parse_object(body: bytes) -> dict[str, Any]:
    """The JSON object that the bytes are.

    Raises:
        NotAnObjectError: they are something else.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NotAnObjectError("no JSON") from error
    if not isinstance(value, dict):
        raise NotAnObjectError("JSON, but not an object")
    return value


def number(value: object) -> float | int | None:
    """A finite number of any form; None where it is not set, infinite or none at all."""
    if isinstance(value, dict):
        if value.get("set") is False or value.get("infinite") is True:
            return None
        inner = value.get("number")
        return None if isinstance(inner, dict) else number(inner)
    if isinstance(value, str) and (match := _NUMBER.fullmatch(value.strip())):
        # float() knows fewer blanks than strip().
        value = float(match[0]) if "." in match[0] else int(match[0])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # A comparison with NaN is false, so that it ends here, too.
    return value if abs(value) < _LARGEST and value not in _NOT_SET else None


def whole(value: object) -> int | None:
    """A whole number that is not negative; None for everything else."""
    found = number(value)
    return int(found) if found is not None and found >= 0 and found == int(found) else None


def instant(value: object) -> float | None:
    """Unix time; None where it is none."""
    seconds = number(value)
    return float(seconds) if seconds is not None and 0 < seconds < LATEST else None


def minutes_s(value: object) -> float | None:
    """Seconds of a number of minutes; None where it is none, below 0, or longer than can be."""
    minutes = number(value)
    return 60.0 * minutes if minutes is not None and 0 <= minutes < LATEST else None


def text(value: object) -> str:
    """A text as it came, the first of a list of texts; empty where there is none.

    Harmless only after `plain`.
    """
    if isinstance(value, list):
        value = value[0] if value else ""
    return value if isinstance(value, str) else ""


def harmless(record: Mapping[str, Any], key: str) -> str:
    """A member as text that may be shown; empty where it is absent, `(null)` or no text."""
    found = text(record.get(key))
    return "" if found == "(null)" else plain(found)


def texts(value: object) -> tuple[str, ...]:
    """Texts of a list, of which others are left out; a bare text is a list of one."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list):
        return ()
    return tuple(item for item in value if isinstance(item, str))


def flags(value: object) -> tuple[str, ...]:
    """State words, upper case, each once, whether they came as a list, or joined by `+` or `,`."""
    words = [
        word.strip().upper()
        for item in texts(value)[:MAX_FLAGS]
        for word in re.split(r"[+,]", item[:1024])
    ]
    return tuple(dict.fromkeys(word for word in words if _FLAG.fullmatch(word)))[:MAX_FLAGS]


def records(answer: Mapping[str, Any], key: str) -> list[Any] | None:
    """A list of the answer; None where it has none, or something else under that name."""
    found = answer.get(key)
    return found if isinstance(found, list) else None
