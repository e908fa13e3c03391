"""Numbers in row filters: as the screen shows them, or with a unit."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from gpumon.model.units import GIB, HOUR_S


class Scale(NamedTuple):
    """How numbers of one unit may be written."""

    bare: float
    """What 1 without a unit is worth, in the unit of the catalogue: as the screen shows it."""
    suffixes: dict[str, float]
    """What 1 with a suffix is worth, by the suffix in lower case."""
    says: str
    """An example for a user who wrote something else."""


_BINARY: Final = {"k": 2.0**10, "m": 2.0**20, "g": GIB, "t": 2.0**40}
_DECIMAL: Final = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_SECONDS: Final = {
    "ms": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": HOUR_S, "d": 86_400.0,
    "w": 604_800.0,
}  # fmt: skip

SCALES: Final = {
    "": Scale(1.0, {"k": 1e3, "m": 1e6}, "a number, such as 8"),
    "ratio": Scale(0.01, {"%": 0.01}, "percent as on the screen, such as 20"),
    "bytes": Scale(
        GIB,
        {
            "b": 1.0,
            **_BINARY,
            **{f"{prefix}ib": size for prefix, size in _BINARY.items()},
            **{f"{prefix}b": size for prefix, size in _DECIMAL.items()},
        },
        "GiB as on the screen, or a size such as 40G",
    ),
    "bytes/s": Scale(
        1.0,
        {
            "b/s": 1.0,
            **_DECIMAL,
            **{f"{prefix}b/s": size for prefix, size in _DECIMAL.items()},
        },
        "bytes per second, such as 300M or 1.5GB/s",
    ),
    "W": Scale(1.0, {"w": 1.0, "kw": 1000.0}, "watts, such as 300"),
    "C": Scale(1.0, {"c": 1.0, "°c": 1.0, "°": 1.0}, "degrees Celsius, such as 80"),
    "MHz": Scale(1.0, {"mhz": 1.0, "ghz": 1000.0}, "MHz, such as 1980"),
    "s": Scale(1.0, _SECONDS, "a duration, such as 90s, 45m, 2h30m, 1d or 1-02:03:04"),
    "GPU-s": Scale(HOUR_S, _SECONDS, "GPU-hours, such as 3.5, or a duration such as 45m"),
}
"""By the unit of a column. The whole numbers that have none are counts."""

_NUMBER: Final = re.compile(r"([+-]?\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})\s*(\D{0,6})", re.ASCII)
_PIECE: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([a-z]{1,3})", re.ASCII)
_CLOCK: Final = re.compile(
    r"(?:(\d{1,6})-)?(?:(\d{1,6}):)?(\d{1,4}):(\d{1,2}(?:\.\d{1,6})?)", re.ASCII
)


def scale_of(unit: str) -> Scale:
    """How numbers of a unit are written; of one that is not listed, plainly."""
    return SCALES.get(unit, SCALES[""])


def number(text: str, unit: str) -> float | None:
    """The number that a text means in a unit of the catalogue, None where it means none."""
    text = text.strip().lower()
    scale = scale_of(unit)
    found = _NUMBER.fullmatch(text)
    if found is not None:
        suffix = found.group(2)
        worth = scale.suffixes.get(suffix) if suffix else scale.bare
        return None if worth is None else float(found.group(1)) * worth
    return _duration_s(text) if unit in ("s", "GPU-s") else None


def _duration_s(text: str) -> float | None:
    """`2h30m` or Slurm's `1-02:03:04` in seconds."""
    clock = _CLOCK.fullmatch(text)
    if clock is not None:
        days, hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        return days * 86_400 + hours * HOUR_S + minutes * 60 + seconds
    total, at = 0.0, 0
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None or piece.group(2) not in _SECONDS:
            return None
        total += float(piece.group(1)) * _SECONDS[piece.group(2)]
        at = piece.end()
    return total if at else None
