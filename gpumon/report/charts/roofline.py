"""A roofline in braille: what is computed for each byte, and how fast, below what bounds it.

Imports numpy, as `plot` does.
"""

from __future__ import annotations

from math import ceil, floor, isfinite, log10
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.report.charts.chart import AXIS_WIDTH
from gpumon.report.charts.plot import (
    DOTS_ACROSS,
    DOTS_DOWN,
    dots_of,
    toned_cells,
)
from gpumon.report.text.ascii_only import BRAILLE
from gpumon.report.text.cells import Cell, Tone, fit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.report.text.cells import Line


_DECADES: Final = 2
"""Below the highest ceiling this many powers of ten are shown at least."""

_MOST_DECADES: Final = 5
"""And this many at most: what lies lower is drawn at the lower edge."""

_TONES: Final = tuple(Tone)
_POINT: Final = "●"


class Place(NamedTuple):
    """One point of a roofline; both are positive."""

    intensity: float
    """Operations for each byte of memory that is moved."""
    per_s: float
    """Operations each second."""


class Roof(NamedTuple):
    """What bounds a GPU, and where it is below that."""

    memory_per_s: float
    """Bytes each second that the memory can move."""
    peaks: tuple[tuple[str, float], ...]
    """Operations each second that pipes can do, the fastest first, with their labels."""
    memory_label: str
    point: Place
    """Mean of all."""
    spread: tuple[Place, ...]
    """Its parts: GPUs, or stretches of time."""


class _Frame:
    """Where a place of the roofline is drawn."""

    def __init__(self, roof: Roof, across: int, height: int) -> None:
        self.across, self.height = across, height
        top = roof.peaks[0][1]
        ridge = top / roof.memory_per_s
        places = [place for place in (roof.point, *roof.spread) if isfinite(place.intensity)]
        xs = [min(max(place.intensity, ridge / 1e4), ridge * 1e4) for place in places]
        self._left = floor(log10(min([ridge / 30, *xs])))
        self._right = ceil(log10(max([ridge * 10, *xs])))
        lowest = log10(min([top, *(max(place.per_s, 1.0) for place in places)]))
        decades = min(max(log10(top) - lowest + 0.2, _DECADES), _MOST_DECADES)
        self._bottom = log10(top) - decades
        # One line above the highest ceiling, for its label.
        self._top = log10(top) + 1.3 * decades / max(1, height - 2)

    def column(self, intensity: float) -> float:
        """Dot column of an intensity, inside the plot."""
        share = (log10(intensity) - self._left) / (self._right - self._left)
        return min(max(share, 0.0), 1.0) * (self.across * DOTS_ACROSS - 1)

    def row(self, per_s: float) -> float:
        """Dot row from the bottom of a speed, inside the plot."""
        share = (log10(max(per_s, 1.0)) - self._bottom) / (self._top - self._bottom)
        return min(max(share, 0.0), 1.0) * (self.height * DOTS_DOWN - 1)

    def intensity(self, column: int) -> float:
        """The intensity at a dot column."""
        share = column / (self.across * DOTS_ACROSS - 1)
        return float(10.0 ** (self._left + share * (self._right - self._left)))

    def is_above(self, per_s: float) -> bool:
        """Whether a speed lies within the scale."""
        return log10(per_s) >= self._bottom

    def powers_across(self) -> Iterator[tuple[int, int]]:
        """Powers of ten and their columns of characters."""
        for power in range(self._left, self._right + 1):
            yield power, int(self.column(10.0**power)) // DOTS_ACROSS

    def powers_up(self) -> Iterator[tuple[int, int]]:
        """Powers of ten and their rows of characters from the bottom."""
        for power in range(ceil(self._bottom), floor(self._top) + 1):
            yield power, int(self.row(10.0**power)) // DOTS_DOWN


class _Sheet:
    """Dots and labels on their way to become characters."""

    def __init__(self, frame: _Frame) -> None:
        self._frame = frame
        self._dots = np.zeros((frame.height * DOTS_DOWN, frame.across * DOTS_ACROSS), np.bool_)
        self._tones = np.full((frame.height, frame.across), _TONES.index(Tone.DIM), np.int8)

    def _set(self, row: int, column: int, tone: Tone) -> None:
        self._dots[row, column] = True
        self._tones[row // DOTS_DOWN, column // DOTS_ACROSS] = _TONES.index(tone)

    def dot(self, place: Place) -> None:
        """One dim dot."""
        if isfinite(place.intensity) and place.intensity > 0.0:
            row, column = self._frame.row(place.per_s), self._frame.column(place.intensity)
            self._set(round(row), round(column), Tone.PAST)

    def slope(self, memory_per_s: float, peak: float) -> None:
        """What the memory allows, up to a pipe's peak."""
        before = None
        for column in range(self._frame.across * DOTS_ACROSS):
            bound = memory_per_s * self._frame.intensity(column)
            if not self._frame.is_above(bound):
                continue
            row = round(self._frame.row(min(bound, peak)))
            # A slope that is steeper than one dot a column stays one line.
            for each in range(row if before is None else min(before + 1, row), row + 1):
                self._set(each, column, Tone.INFO)
            if bound >= peak:
                return
            before = row

    def peak(self, memory_per_s: float, peak: float, every: int) -> None:
        """What a pipe can do, right of the slope: each n-th dot."""
        for column in range(0, self._frame.across * DOTS_ACROSS, every):
            if memory_per_s * self._frame.intensity(column) >= peak:
                self._set(round(self._frame.row(peak)), column, Tone.INFO)

    def lines(self, roof: Roof) -> list[Line]:
        """From the top, with labels and the scale at the left."""
        codes, tones = dots_of(self._dots), self._tones
        chars = np.where(codes > 0, codes + BRAILLE, ord(" "))
        if isfinite(roof.point.intensity):
            row, column = (
                self._frame.row(roof.point.per_s),
                self._frame.column(roof.point.intensity),
            )
            at = (int(row) // DOTS_DOWN, int(column) // DOTS_ACROSS)
            chars[at], tones[at] = ord(_POINT), _TONES.index(Tone.WARN)
        for text, row, column in _labels(roof, self._frame):
            place = slice(column, column + len(text))
            is_inside = 0 <= row < len(chars) and 0 <= column <= chars.shape[1] - len(text)
            if is_inside and (chars[row, place] == ord(" ")).all():
                chars[row, place] = [ord(char) for char in text]
                tones[row, place] = _TONES.index(Tone.INFO)
        scale = {row: _speed(10.0**power) for power, row in self._frame.powers_up()}
        return [
            (
                Cell(fit(scale.get(row, ""), AXIS_WIDTH, "right"), Tone.DIM),
                Cell("│", Tone.DIM),
                *toned_cells(chars[row], tones[row]),
            )
            for row in reversed(range(self._frame.height))
        ]


def roofline_lines(roof: Roof, width: int, height: int) -> list[Line]:
    """The roofline with both scales; `height` lines, the lowest one is the scale below."""
    frame = _Frame(roof, max(8, width - AXIS_WIDTH - 1), max(3, height - 1))
    sheet = _Sheet(frame)
    for place in roof.spread:
        sheet.dot(place)
    sheet.slope(roof.memory_per_s, roof.peaks[0][1])
    for number, (_, peak) in enumerate(roof.peaks):
        # The highest is drawn through, the others are dotted.
        sheet.peak(roof.memory_per_s, peak, 1 if number == 0 else 4)
    return [*sheet.lines(roof), _scale_below(frame)]


def _labels(roof: Roof, frame: _Frame) -> Iterator[tuple[str, int, int]]:
    """Text, row and first column of each label."""
    for number, (label, peak) in enumerate(roof.peaks):
        # The highest one's is above it, the others' below: the lines may lie close.
        row = int(frame.row(peak)) // DOTS_DOWN + (1 if number == 0 else -1)
        yield label, row, frame.across - len(label)
    ridge = roof.peaks[0][1] / roof.memory_per_s
    middle = (frame.column(ridge) // DOTS_ACROSS) // 2
    row = int(frame.row(roof.memory_per_s * frame.intensity(int(middle) * DOTS_ACROSS)))
    # To the right the slope rises, so that below it there is room.
    yield roof.memory_label, row // DOTS_DOWN - 1, int(middle) + 2


def _scale_below(frame: _Frame) -> Line:
    text = [" "] * frame.across
    unit = " op/B"
    for power, column in frame.powers_across():
        label = _times(10.0**power)
        first = min(max(0, column - len(label) // 2), frame.across - len(label) - len(unit))
        if all(char == " " for char in text[max(0, first - 1) : first + len(label)]):
            text[first : first + len(label)] = label
    text[-len(unit) :] = unit
    return (Cell(" " * AXIS_WIDTH + "└", Tone.DIM), Cell("".join(text), Tone.DIM))


def _times(value: float) -> str:
    if value >= 1e3:
        return f"{value / 1e3:g}k"
    return f"{value:g}"


def _speed(per_s: float) -> str:
    """Operations each second, as short as a scale wants them."""
    for size, sign in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if per_s >= size:
            return f"{per_s / size:g} {sign}"
    return f"{per_s:g}"
