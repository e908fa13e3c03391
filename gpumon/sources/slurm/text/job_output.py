"""Where a batch job writes, by the rules of sbatch(1), FILENAME PATTERN.

scontrol prints the finished path. The JSON has what the user wrote, and before v0.0.42 nothing
more.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_PATTERN: Final = re.compile(r"%([0-9]{0,2})([A-Za-z%])")
_LONGEST: Final = 4096
"""Linux's PATH_MAX."""

_DEFAULT: Final = "slurm-%j.out"
_DEFAULT_OF_ARRAY: Final = "slurm-%A_%a.out"


def output_path(pattern: str, work_dir: str, values: Mapping[str, str]) -> str | None:
    """The file that a batch job writes to; None where that rests on what is not known.

    None also for what is longer than any path: a pattern may repeat a long name at will.

    Args:
        pattern: What the user wrote; empty for Slurm's default.
        work_dir: Where the job began, to which a relative path is relative.
        values: Text by letter of the pattern: `j`, `A`, `a`, `u`, `x`; `a` only of an array task.
    """
    unknown: list[str] = []
    room = _LONGEST - len(pattern) - len(work_dir)

    def put(match: re.Match[str]) -> str:
        nonlocal room
        width, letter = match.groups()
        if letter == "%":
            return "%"
        found = values.get(letter, "")
        room -= len(found)
        if not found or room < 0:
            unknown.append(letter)
            return ""
        return found.zfill(int(width or 0)) if found.isdecimal() else found

    if room < 0:
        return None
    name = _PATTERN.sub(put, pattern or (_DEFAULT_OF_ARRAY if "a" in values else _DEFAULT))
    if unknown or not (name.startswith("/") or work_dir):
        return None
    return name if name.startswith("/") else f"{work_dir.rstrip('/')}/{name}"
