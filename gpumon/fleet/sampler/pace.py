"""The time of pictures: how often one is judged, and whether the clock was set between two.

Windows are minutes long, so not every second tells anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.model.fault import SourceError
from gpumon.model.staleness import CLOCK_SET_S

if TYPE_CHECKING:
    from gpumon.model.records.tick import Tick

JUDGE_S: Final = 5.0
"""Between two judged pictures of a live fleet: so much later at most is a finding told, and an
event of the driver among them."""

FIRST_S: Final = 1.0
"""The second picture to judge comes so soon, each one after it so much later: what a start shows
is not waited for."""

CALM: Final = 2
"""So many times as long where no queue is and so no job: who holds a GPU of a machine holds it for
minutes, and what its driver says is shown without detectors."""

MANY_JOBS: Final = 1000
"""Where more run, a look judges a part of them, and the next part follows as soon as it can."""

CLOCK: Final = "clock"
"""Where an error of this machine's clock happened."""

SET_SHOWN_S: Final = 300.0
"""So long it is told (our choice): whoever looks now and then sees it."""

_CLOCK_HINT: Final = (
    "earlier times are by the old clock, and the past on screen may start over; the ledger counts "
    "by a clock that is never set; timedatectl shows whether the clock is synchronized"
)


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
        is_calm = not tick.jobs and tick.queue_at is None
        self._rest_s = min(self._rest_s + FIRST_S, self._every_s * (CALM if is_calm else 1))

    def hurry(self) -> None:
        """Have the next picture judged: somebody said something of a finding."""
        self._judged_at = None


class SetClock:
    """Tells for a while that this machine's clock was set: ages and spans on screen jump by it."""

    def __init__(self) -> None:
        self._before: tuple[float, float] | None = None
        self._error: SourceError | None = None
        self._until_s = 0.0

    def errors(self, tick: Tick) -> tuple[SourceError, ...]:
        """The error while it is news, by the steady time of the pictures."""
        if tick.steady_s is None:
            return ()
        if self._before is not None:
            moved_s = tick.at - self._before[0] - (tick.steady_s - self._before[1])
            if abs(moved_s) > CLOCK_SET_S:
                way = "forward" if moved_s > 0 else "back"
                message = f"the clock of this machine was set {way} by {abs(moved_s):.0f} s"
                self._error = SourceError(CLOCK, message, _CLOCK_HINT)
                self._until_s = tick.steady_s + SET_SHOWN_S
        self._before = (tick.at, tick.steady_s)
        return (self._error,) if self._error and tick.steady_s < self._until_s else ()
