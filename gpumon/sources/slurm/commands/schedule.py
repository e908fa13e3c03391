"""When Slurm may be asked again: a good neighbour asks seldom, and more seldom in trouble."""

from __future__ import annotations

from typing import Final

JOBS_PERIOD_S: Final = 30.0
"""Between two lists of jobs; sites complain about tools that ask more often."""

NODES_PERIOD_S: Final = 60.0
"""Between two lists of nodes, which change less."""

RESERVATIONS_PERIOD_S: Final = 120.0
"""Between two lists of reservations, which people make by hand, hours ahead."""

PARTITIONS_PERIOD_S: Final = 300.0
"""Between two lists of partitions, which change with the site's configuration."""

TOPOLOGY_PERIOD_S: Final = 900.0
"""Between two reads of the network's topology, which changes when cables are laid."""

REST_FACTOR: Final = 20.0
"""A call of one second is followed by at least 20 seconds without: 5 % of a controller thread."""

HURRY_REST_S: Final = 5.0
"""Rest even before a call which the user's own change makes urgent: no one types job ids faster
than a controller answers."""

LONGEST_RETRY_S: Final = 120.0
"""Longest rest after a call that brought nothing, however long it took.

The rest in proportion spares a controller that works for us. One that is down does no work, and the
9 s that Slurm's commands then take are spent waiting here: 20 times as long would leave its return
unseen for minutes. One that is overloaded sees one call of 30 s at most in this time, and no worker
of it is held once our side has hung up.
"""


class Schedule:
    """When one kind of call is due, on a clock that never jumps."""

    def __init__(self, period_s: float, longest_retry_s: float = LONGEST_RETRY_S) -> None:
        self._period_s = period_s
        self._longest_retry_s = longest_retry_s
        self._backoff_s = period_s
        self.due_at = float("-inf")
        """Time of the next call; the first call is due at once."""
        self._rested_at = float("-inf")
        """Time before which not even an urgent call is made."""

    def answered(self, round_at: float, took_s: float, ended_at: float) -> None:
        """Take note of a call that brought records: back to the normal period.

        `round_at` is when its round began, so that what is asked in one round stays together.
        """
        self._backoff_s = self._period_s
        self.due_at = max(round_at + self._period_s, ended_at + REST_FACTOR * took_s)
        self._rested_at = ended_at + max(HURRY_REST_S, REST_FACTOR * took_s)

    def failed(self, round_at: float, took_s: float, ended_at: float) -> None:
        """Take note of a call that brought nothing: twice as long as before, up to the cap."""
        self._backoff_s = min(2.0 * self._backoff_s, self._longest_retry_s)
        rest_s = min(REST_FACTOR * took_s, LONGEST_RETRY_S)
        self.due_at = max(round_at + self._backoff_s, ended_at + rest_s)
        self._rested_at = self.due_at

    def hurry(self, now: float) -> None:
        """Ask before the next call is due, once, as soon as the last call has been rested from.

        After a call that brought nothing this changes nothing.
        """
        self.due_at = min(self.due_at, max(now, self._rested_at))
