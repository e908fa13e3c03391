"""What the catalogue has of one measured quantity."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

ANY_COUNT: Final = 2.0**63
"""Upper bound of counters, which nothing else bounds."""

ANY_MEMORY: Final = 2.0**40
"""Upper bound of one device's memory, bytes."""

_LONG_UNITS: Final = (
    *(("_w", "_watts"), ("_j", "_joules"), ("_c", "_celsius"), ("_s", "_seconds")),
)
"""Ends of keys that OpenMetrics spells out (its base units)."""


class Kind(StrEnum):
    """How a field behaves over time, and with it how it is stored."""

    GAUGE = "gauge"
    """A level; float64 in frames, float32 in history."""
    RATE = "rate"
    """A level that a source derived from two readings of a counter."""
    COUNTER = "counter"
    """Only grows until it wraps or resets; 64-bit integer, never averaged."""
    MASK = "mask"
    """A set of bits; 64-bit integer."""
    ID = "id"
    """A number that names something; 64-bit integer, no arithmetic."""

    @property
    def is_integer(self) -> bool:
        """Whether frames store the field as 64-bit integers."""
        return self in (Kind.COUNTER, Kind.MASK, Kind.ID)


class Field(NamedTuple):
    """One measured quantity."""

    key: str
    """Name in frames, history and JSON; carries the unit."""
    block: str
    """The kind of entity it belongs to: `gpu`, `process`, `context`, `node`."""
    kind: Kind
    unit: str
    """`ratio`, `bytes`, `W`, `J`, `C`, `MHz`, `bytes/s`, `s`, or empty for plain numbers."""
    low: float
    """Smallest value that is not garbage."""
    high: float
    """Largest value that is not garbage."""
    title: str
    """Column title on screen."""
    doc: str
    origin: str
    """Where the probe reads it: NVML call, NVML field id, GPM metric id, /proc file."""
    dcgm: str = ""
    """The DCGM field with the same meaning, where one exists."""
    is_kept: bool = True
    """Whether history stores it over time; what hardly ever changes would only fill memory."""

    @property
    def openmetrics(self) -> str:
        """Metric name in OpenMetrics output: base unit as suffix, counters end in `_total`."""
        stem = self.key
        for short, long in _LONG_UNITS:
            # A rate has its `per_s` still, which every unit in front of it would need as well.
            if stem.endswith(short) and not stem.endswith("_per_s"):
                stem = stem.removesuffix(short) + long
        return f"gpumon_{stem}" + ("_total" if self.kind is Kind.COUNTER else "")
