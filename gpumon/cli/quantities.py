"""Times, durations and sizes as people type them."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gpumon.sources.recording.source import Span

_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*([smhd]?)\Z")
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_SIZE: Final = re.compile(r"(\d{1,12}(?:\.\d{1,3})?)\s*([KMGT]?)i?B?\Z", re.IGNORECASE)
_BYTES: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_FLEET: Final = re.compile(r"([1-9]\d{0,4})x([1-9]\d{0,2})\Z")
MIN_SIZE: Final = 16 * 2**20
"""Least size of a rolling recording. A choice: a part of it must hold more than a few minutes."""
_MAX_SIZE: Final = 2**60
"""1 EiB: more is a slip of the fingers, and its number still fits 64 bits."""


def duration(text: str) -> float:
    """Seconds of `90`, `30m`, `24h`, `7d`.

    Raises:
        argparse.ArgumentTypeError: It is no length of time.
    """
    match = _DURATION.match(text)
    if not match or not float(match[1]):
        message = "written 90, 30m, 24h or 7d"
        raise argparse.ArgumentTypeError(message)
    return float(match[1]) * _SECONDS[match[2]]


def size(text: str) -> int:
    """Bytes of `500M`, `2G`; at least 16 MiB, and no more than any disk has.

    Raises:
        argparse.ArgumentTypeError: It is no size, or out of these bounds.
    """
    match = _SIZE.match(text)
    if not match:
        message = "written 500M or 2G"
        raise argparse.ArgumentTypeError(message)
    size_bytes = int(float(match[1]) * _BYTES[match[2].upper()])
    return min(_MAX_SIZE, max(MIN_SIZE, size_bytes))


def speed(text: str) -> float:
    """Recorded seconds per real one; `0` and `max`: as fast as the machine can.

    Raises:
        argparse.ArgumentTypeError: It is no speed, or out of `MIN_SPEED` to `MAX_SPEED`.
    """
    if text in ("0", "max"):
        return inf
    try:
        number = float(text.removeprefix("x"))
    except ValueError:
        number = -1.0
    if not 0.01 <= number <= 1e6:
        message = "a number of recorded seconds per real one, or max"
        raise argparse.ArgumentTypeError(message)
    return number


def fleet(text: str) -> tuple[int, int]:
    """Nodes and GPUs per node of `6x8`.

    Raises:
        argparse.ArgumentTypeError: It is not of that form.
    """
    match = _FLEET.match(text)
    if not match:
        message = "written NODESxGPUS, for example 6x8"
        raise argparse.ArgumentTypeError(message)
    return int(match[1]), int(match[2])


def instant(text: str) -> float | str:
    """Unix time of an RFC 3339 text or a number; `+90` and `-90` are kept for `placed`.

    Raises:
        argparse.ArgumentTypeError: It is no time.
    """
    if re.fullmatch(r"[+-]\d{1,9}(\.\d{1,3})?", text):
        return text
    if re.fullmatch(r"\d{9,11}(\.\d{1,6})?", text):
        return float(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        message = "written 2026-01-31T12:00:00Z, +SECONDS from the start, or =-SECONDS from the end"
        raise argparse.ArgumentTypeError(message) from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def placed(at: float | str, span: Span) -> float:
    """Unix time of an instant of a recording."""
    if isinstance(at, str):
        return (span.start if at[0] == "+" else span.end) + float(at)
    return at
