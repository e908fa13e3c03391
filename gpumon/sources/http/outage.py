"""When the last values of an address are over: after two periods without an answer."""

from __future__ import annotations

from typing import Final

FAILED_PERIODS: Final = 2.0
"""A failure is a missed period, and what was reported before two of them is not of the present."""

ANSWER_PERIODS: Final = 0.25
"""Where only one try has failed, the next one may take so much of a period to answer: what fails
once does not flicker (our choice)."""


class Outage:
    """When one address was last read, and how often it failed since."""

    def __init__(self) -> None:
        """Nothing has been read."""
        self._read_s: float | None = None
        self._failures = 0

    def read(self, asked_s: float) -> None:
        """Note an answer.

        Args:
            asked_s: When it was asked for, on the steady clock.
        """
        self._read_s = asked_s
        self._failures = 0

    def failed(self, now: float, now_s: float, period_s: float) -> float | None:
        """Note a failure; Unix time at which what was reported before is over, None: nothing was.

        Args:
            now: Unix time.
            now_s: The same on the steady clock.
            period_s: Between two polls where all is well.
        """
        self._failures += 1
        if self._read_s is None:
            return None
        periods = FAILED_PERIODS + (ANSWER_PERIODS if self._failures < FAILED_PERIODS else 0.0)
        return now + periods * period_s - (now_s - self._read_s)
