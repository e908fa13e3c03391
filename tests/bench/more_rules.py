"""Rules to come, for what a look will cost: copies of `hang`, and every fifth one of `throttled`.

A worker loads them by path, as `tests.bench.more_rules:More03`.
"""

from __future__ import annotations

from typing import Final

from gpumon_detectors.hardware.throttled import Throttled
from gpumon_detectors.ranks.hang import Hang

MOST: Final = 100

for _number in range(MOST):
    _name = f"More{_number:02d}"
    _base = Throttled if _number % 5 == 4 else Hang
    globals()[_name] = type(_name, (_base,), {"name": f"more_{_number:02d}"})


def paths(count: int) -> tuple[str, ...]:
    """Where so many of them are."""
    return tuple(f"{__name__}:More{number:02d}" for number in range(count))
