"""What people said about findings, as it comes back from a file: nothing in it is believed."""

from __future__ import annotations

from typing import Final

from gpumon.detect.life import Mute

MAX_NOTES: Final = 10_000
"""More is no file of a person's."""

MAX_TEXT: Final = 512
"""Longer is no name of a detector, a class or a subject."""

_LATEST: Final = 2**53
"""No Unix time lies beyond."""


def notes_from(value: object) -> tuple[list[tuple[str, str, str]], list[Mute]]:
    """Acknowledged identities and mutes; what is neither is left out."""
    given = value if isinstance(value, dict) else {}
    known = [_identity(row) for row in _rows(given.get("acknowledged"))]
    mutes = [_mute(row) for row in _rows(given.get("muted"))]
    return [one for one in known if one is not None], [one for one in mutes if one is not None]


def _rows(value: object) -> list[list[object]]:
    rows = value if isinstance(value, list | tuple) else []
    return [list(r) for r in rows[:MAX_NOTES] if isinstance(r, list | tuple) and len(r) == 3]


def _identity(row: list[object]) -> tuple[str, str, str] | None:
    texts = [item for item in row if isinstance(item, str) and len(item) <= MAX_TEXT]
    return (texts[0], texts[1], texts[2]) if len(texts) == 3 else None


def _mute(row: list[object]) -> Mute | None:
    finding_class, subject, until = row
    if not isinstance(finding_class, str | None) or not isinstance(subject, str | None):
        return None
    if isinstance(until, bool) or not isinstance(until, int | float):
        return None
    # A whole number has no bound in JSON; -inf and inf are none of a person's either.
    if not abs(until) < _LATEST:
        return None
    return Mute(finding_class, subject, float(until))
