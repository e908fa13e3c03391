"""Tasks of an array that wait together, as Slurm's commands print them.

slurmrestd passes on what slurmctld keeps: since the first task of an array started, a bitmap in
hexadecimal, whose last digit holds tasks 0 to 3. Slurm's commands make a list of it before they
print it, and cut that list at the length of a buffer (SLURM_BITSTR_LEN in squeue(1)).
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

_BITMAP: Final = re.compile(r"0x([0-9A-Fa-f]{1,1048576})(%[0-9]{1,10})?")
_LONGEST_LIST: Final = 61
"""Characters from which on Slurm's commands cut a list, of a buffer of 64."""
_DOTS: Final = "..."

_SHORTEST_STEPS: Final = 10
"""Up to this distance of the first and the last task a regular list is printed in full."""


def waiting_tasks(told: str, most_at_once: int | None = None) -> str:
    """Numbers of tasks such as `2-7,9%2`, of a bitmap or a list; empty where there are none.

    Args:
        told: `array_task_string`.
        most_at_once: `array_max_tasks`; None or 0: no limit, or it is told in the string.
    """
    match = _BITMAP.fullmatch(told)
    if match is None:
        return "" if told == "(null)" else told
    places = bin(int(match[1], 16))[:1:-1]
    runs = [(run.start(), run.end() - 1) for run in re.finditer("1+", places)]
    if not runs:
        return told
    listed = _stepped(runs) or ",".join(f"{a}-{b}" if a < b else f"{a}" for a, b in runs)
    if len(listed) > _LONGEST_LIST:
        listed = listed[: _LONGEST_LIST - 1] + _DOTS
    limit = f"%{most_at_once}" if most_at_once else ""
    return listed + (match[2] or limit)


def _stepped(runs: list[tuple[int, int]]) -> str:
    """Single tasks at equal distances as `0-30:3`; empty where they are none."""
    first, last = runs[0][0], runs[-1][1]
    firsts = [begin for begin, _ in runs]
    steps = {late - early for early, late in pairwise(firsts)}
    is_single = all(begin == end for begin, end in runs)
    if len(steps) != 1 or not is_single or last - first <= _SHORTEST_STEPS:
        return ""
    return f"{first}-{last}:{steps.pop()}"
