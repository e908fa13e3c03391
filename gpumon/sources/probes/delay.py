"""How long a report was on its way, which no clock of one machine can measure alone."""

from __future__ import annotations

from typing import Final

JITTER_S: Final = 2.0
"""Less is no delay: a report waits up to a second for what surrounds the GPUs."""

STEADY: Final = 3
"""Reports in a row that come as they were made, after which the longer way counts as the way.

What a healed cable lets through comes all at once instead. A node that was paused for a while, or
whose clock did, comes late for ever.
"""

_FOLLOWS: Final = 0.05
"""Share by which the shortest way known follows an ordinary one: clocks drift apart."""

_APART_S: Final = 0.01
"""Two reports are dated at least so far apart: wall and monotonic clock differ by less by then."""


class Delay:
    """Compares the node's monotonic clock with the monitor's, report by report of one probe."""

    def __init__(self) -> None:
        """Nothing has come."""
        self._shortest_s: float | None = None
        self._reported_s = 0.0
        self._made_s = 0.0
        self._heard_s = 0.0
        self._steady = 0

    def of(self, made_s: float, heard_s: float) -> float:
        """Seconds that a report took beyond what reports of this probe take at their quickest.

        Args:
            made_s: The node's monotonic clock when it was made.
            heard_s: The monitor's monotonic clock when it came.

        Returns:
            0 where the difference is ordinary. Never so much that this report would be older than
            the one before, whatever the node says of its clock.
        """
        # Reports of one probe come in the order in which they were made.
        most_s = max(0.0, heard_s - self._reported_s - _APART_S)
        delay_s = round(min(self._excess_s(made_s, heard_s), most_s), 3)
        self._reported_s = heard_s - delay_s
        return delay_s

    def _excess_s(self, made_s: float, heard_s: float) -> float:
        way_s = heard_s - made_s
        comes_as_made = heard_s - self._heard_s > 0.5 * (made_s - self._made_s)
        self._made_s, self._heard_s = made_s, heard_s
        if self._shortest_s is None or way_s <= self._shortest_s:
            self._shortest_s = way_s
            self._steady = -1
            return 0.0
        excess_s = way_s - self._shortest_s
        if excess_s <= JITTER_S:
            self._shortest_s += _FOLLOWS * excess_s
            self._steady = -1
            return 0.0
        # The first late one comes after a silence whatever follows it.
        self._steady = self._steady + 1 if comes_as_made else 0
        if self._steady >= STEADY:
            self._shortest_s = way_s
            self._steady = -1
            return 0.0
        return excess_s
