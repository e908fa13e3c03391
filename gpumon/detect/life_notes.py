"""What people said about findings, as it comes back from a file: nothing in it is believed."""

from __future__ import annotations

from math import isfinite

from gpumon.detect.life import Mute

MAX_NOTES = 10_000
"""More is no file of a person's."""


def notes_from(value: object) -> tuple[list[tuple[str, str, str]], list[Mute]]:
    """Acknowledged identities and mutes; what is neither is left out."""
    given = value if isinstance(value, dict) else {}
    return (
        [(row[0], row[1], row[2]) for row in _rows(given.get("acknowledged")) if _is_texts(row)],
        [Mute(*row) for row in _rows(given.get("muted")) if _is_mute(row)],
    )


def _rows(value: object) -> list[list[str]]:
    rows = value if isinstance(value, list | tuple) else []
    return [
        list(row) for row in rows[:MAX_NOTES] if isinstance(row, list | tuple) and len(row) == 3
    ]


def _is_texts(row: list[str]) -> bool:
    return all(isinstance(item, str) and len(item) <= 512 for item in row)


def _is_mute(row: list[object]) -> bool:
    is_named = all(item is None or isinstance(item, str) for item in row[:2])
    until = row[2]
    is_number = isinstance(until, int | float) and not isinstance(until, bool)
    return is_named and is_number and isfinite(float(str(until)))
