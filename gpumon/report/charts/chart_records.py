"""What a chart shows: curves, instants that matter, and the scale they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpumon.report.text.cells import Tone

if TYPE_CHECKING:
    from collections.abc import Sequence


class Series(NamedTuple):
    """One curve."""

    times: Sequence[float]
    """Unix times, ascending."""
    values: Sequence[float]
    """NaN where nothing is known."""
    tone: Tone = Tone.INFO
    low: Sequence[float] = ()
    """Smallest values behind each mean; empty: there is nothing behind it."""
    high: Sequence[float] = ()


class Mark(NamedTuple):
    """An instant that matters."""

    at: float
    """Unix time."""
    label: str
    tone: Tone = Tone.WARN


class Chart(NamedTuple):
    """Curves over one stretch of time and one scale."""

    start: float
    """Unix time of the left edge."""
    end: float
    """Unix time of the right edge."""
    floor: float
    ceiling: float
    unit: str
    """Unit of the catalogue, for the ends of the scale."""
    series: tuple[Series, ...]
    """The first is drawn over the others."""
    marks: tuple[Mark, ...] = ()
    window: tuple[float, float] | None = None
    """Unix times between which something was observed; drawn below the axis."""
