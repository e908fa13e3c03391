"""How often a picture is judged: windows are minutes long, so not every second tells anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gpumon.model.records.tick import Tick

JUDGE_S: Final = 5.0
"""Between two judged pictures of a live fleet: so much later at most is a finding told, and an
event of the driver among them."""

FIRST_S: Final = 1.0
"""The second picture to judge comes so soon, each one after it so much later: what a start shows
is not waited for."""

MANY_JOBS: Final = 1000
"""Where more run, a look judges a part of them, and the next part follows as soon as it can."""


class Pace:
    """Says which pictures are worth judging, by their own time."""

    def __init__(self, every_s: float) -> None:
        """`every_s`: seconds between two of them; 0: every picture."""
        self._every_s = every_s
        self._rest_s = 0.0
        self._judged_at: float | None = None

    def is_due(self, tick: Tick) -> bool:
        """Whether the time has come, to the nearest beat."""
        if self._judged_at is None or len(tick.jobs) > MANY_JOBS:
            return True
        passed_s = tick.at - self._judged_at
        # A clock that was set back tells nothing of how long ago it was.
        return passed_s < 0 or passed_s + tick.period_s / 2 >= self._rest_s

    def judged(self, tick: Tick) -> None:
        """Count from a picture that is being judged."""
        self._judged_at = tick.at
        self._rest_s = min(self._rest_s + FIRST_S, self._every_s)

    def hurry(self) -> None:
        """Have the next picture judged: somebody said something of a finding."""
        self._judged_at = None
