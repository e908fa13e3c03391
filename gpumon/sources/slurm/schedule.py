"""When Slurm may be asked again: a good neighbour asks seldom, and more seldom in trouble."""

from __future__ import annotations

from typing import Final

JOBS_PERIOD_S: Final = 30.0
"""Between two lists of jobs; sites complain about tools that ask more often."""

NODES_PERIOD_S: Final = 60.0
"""Between two lists of nodes, which change less."""

REST_FACTOR: Final = 20.0
"""A call of one second is followed by at least 20 seconds without: 5 % of a controller thread."""

LONGEST_BACKOFF_S: Final = 600.0
"""Cap of the doubling after errors."""


class Schedule:
    """Beats of one kind of call, on a clock that never jumps."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._backoff_s = period_s
        self.due_at = float("-inf")
        """Time of the next beat; the first call is due at once."""

    def answered(self, started_at: float, ended_at: float) -> None:
        """Take note of a call that brought records: back to the normal period."""
        self._backoff_s = self._period_s
        self._rest(started_at, ended_at, self._period_s)

    def failed(self, started_at: float, ended_at: float) -> None:
        """Take note of a call that brought nothing: twice as long as before, up to the cap."""
        self._backoff_s = min(2.0 * self._backoff_s, LONGEST_BACKOFF_S)
        self._rest(started_at, ended_at, self._backoff_s)

    def _rest(self, started_at: float, ended_at: float, period_s: float) -> None:
        rest_s = REST_FACTOR * (ended_at - started_at)
        self.due_at = max(started_at + period_s, ended_at + rest_s)
