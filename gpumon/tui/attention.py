"""Since when the user is absent: what is new is what was found after the last key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gpumon.model.records.tick import Tick

ABSENCE_S: Final = 60.0
"""Without a key for so long, the user is taken to be absent: shorter than a talk with
a visitor, longer than reading a page of one job (our choice)."""


class Attention:
    """When the last key came, and what was found after it.

    After an absence everything that was first seen since the key before it is new, until the next
    absence. What stands when detectors first judge is none: the beginning lies there.
    """

    def __init__(self) -> None:
        self.since: float | None = None
        """Unix time after which findings are new; None: the user was never absent."""
        self._begun_at: float | None = None
        """Unix time of the first tick that was judged, on the clock of the ticks."""
        self._newest_at = 0.0
        """Unix time of the newest tick."""
        self._left_at = 0.0
        """The same when the last key came."""
        self._key_s: float | None = None
        """The last key, or the beginning, on the clock that nobody sets; None: none yet."""
        self._rung_for: frozenset[tuple[str, str, str]] = frozenset()

    def note_key(self, now_s: float) -> None:
        """A key was pressed.

        Args:
            now_s: Seconds of a clock that nobody sets.
        """
        self._note_absence(now_s)
        self._key_s, self._left_at = now_s, self._newest_at

    def take(self, tick: Tick, now_s: float) -> bool:
        """Take the newest tick; whether something new is grave enough to ring for.

        Args:
            tick: The tick.
            now_s: Seconds of a clock that nobody sets.
        """
        self._newest_at = tick.at
        if self._begun_at is None and not _is_judged(tick):
            self._key_s = None
            return False
        if self._begun_at is None:
            self._begun_at = tick.at
        if self._key_s is None:
            self._key_s, self._left_at = now_s, tick.at
        self._note_absence(now_s)
        # Nothing of findings is imported before there are any.
        from gpumon.model.finding import Severity
        from gpumon.report.facts.tick_index import new_findings

        grave = frozenset(
            finding.identity
            for finding in new_findings(tick, self.since)
            if finding.severity.rank >= Severity.WARNING.rank
        )
        is_news = not grave <= self._rung_for
        self._rung_for = grave
        return is_news

    def _note_absence(self, now_s: float) -> None:
        if self._begun_at is None or self._key_s is None or now_s - self._key_s < ABSENCE_S:
            return
        self.since = max(self._begun_at, self._left_at)


def _is_judged(tick: Tick) -> bool:
    """Whether any detector has judged this tick, or one before it."""
    return any(one.state == "ok" for one in tick.coverage)
