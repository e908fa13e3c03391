"""Whose turn it is: dear detectors rest between looks, large fleets are judged part by part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gpumon.detect.contract import Declaration

JOBS_A_LOOK: Final = 1000
"""Jobs of one look where there are more: ten looks see the largest fleets once."""

EARLY_S: Final = 0.5
"""A look that comes so little too early counts as the turn: the beats of a clock are never exact,
and the next look may be seconds away."""


class Turns:
    """Remembers when each detector was asked last, and about which part of the jobs."""

    def __init__(self) -> None:
        self._asked_at: dict[str, float] = {}
        self._count: dict[str, int] = {}

    def take(
        self, key: str, now: float, jobs: int, declared: Declaration
    ) -> tuple[int, int] | None:
        """Number and count of the part to judge now, None where the detector rests.

        The first look sees everything: a single report has no second one. A part is asked about
        every `every_s` at the earliest, so the pause between two looks is the share of one part.
        """
        parts = -(-jobs // JOBS_A_LOOK) if declared.subjects == "job" and jobs else 1
        asked = self._count.get(key, 0)
        if not asked:
            parts = 1
        elif now - self._asked_at[key] + EARLY_S < declared.every_s / parts:
            return None
        self._asked_at[key] = now
        self._count[key] = asked + 1
        return asked % parts, parts
