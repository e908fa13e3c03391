"""Ranks over time: a line for each rank, its past to the left, above them what their peers do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.report.facts.rank_groups import rank_name, rank_place
from gpumon.report.fleet_map.lines import BLANK, Glyph, area
from gpumon.report.fleet_map.marks import MISSING as UNKNOWN
from gpumon.report.fleet_map.marks import Ink, Mark
from gpumon.report.rank_map.slots import BLANK as NOTHING
from gpumon.report.rank_map.slots import FIRST_LEVEL, MISSING, distances
from gpumon.report.text import units
from gpumon.report.text.cells import fit, text_width

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from gpumon.report.facts.rank_groups import RankGroup
    from gpumon.report.facts.tick_index import RankRow
    from gpumon.report.fleet_map.marks import MapField
    from gpumon.report.rank_map.slots import Slots

BELOW_MARK: Final = Mark("▼", Ink.WARN, 0, "far below")
ABOVE_MARK: Final = Mark("▲", Ink.WARN, 0, "far above")

_VALUE_WIDTH: Final = 4
"""Cells at the right for the newest value."""

MOST_ALONE: Final = 4
"""So many ranks with findings of a world share a line with no other one, sorted by distance."""

_ONSET: Final = "┊"
_BANDS: Final = (("p90", 2), ("p10", 0))


_WIDE: Final = 100
"""Cells from which on there is room to name each rank's GPU."""


def label_width(groups: Sequence[RankGroup], width: int) -> int:
    """Cells at the left for the numbers of ranks, and where there is room their GPUs."""
    rows = [row for group in groups for row in group.rows]
    digits = max((len(rank_name(row)) for row in rows), default=1)
    longest = max(len("99 ranks"), 2 * digits + 1)
    if width >= _WIDE:
        places = max((text_width(rank_place(row)) for row in rows), default=0)
        longest = max(longest, min(digits + 1 + places, width // 5))
    return longest + 4


def slot_count(groups: Sequence[RankGroup], width: int) -> int:
    """How many slots fit into so many cells."""
    return max(1, width - label_width(groups, width) - _VALUE_WIDTH - 1)


class StripLine(NamedTuple):
    """A heading, a gap, a band of the peers, or the strip of one or several ranks."""

    group: int
    members: tuple[int, ...] = ()
    """Ranks that share the line; none: a heading or a band."""
    band: int | None = None
    """Which percentile of the peers is drawn."""
    is_gap: bool = False


class RankStrips:
    """Which rank is on which line, and how each line is drawn."""

    def __init__(
        self,
        groups: Sequence[RankGroup],
        slots: Slots,
        field: MapField,
        size: tuple[int, int],
        *,
        is_by_distance: bool = False,
        is_whole: bool = True,
        onset: tuple[float, Ink] | None = None,
        signs: Mapping[int, Mark] | None = None,
        chosen: frozenset[int] | None = None,
        has_areas: bool = False,
    ) -> None:
        """`is_whole`: ranks share lines where there are more of them than lines.

        `onset`: Unix time at which a finding began; `signs`: findings by rank; `chosen`: the ranks
        to show, whose peers remain all ranks of their world; `has_areas`: colours show steps.
        """
        self.groups = groups
        self.slots = slots
        self.field = field
        self.width, height = size
        self.rows: tuple[RankRow, ...] = tuple(row for group in groups for row in group.rows)
        self.left = label_width(groups, self.width)
        self._digits = max((len(rank_name(row)) for row in self.rows), default=1)
        self._signs = signs or {}
        self._shown = _shown(groups, chosen)
        self._codes = np.stack([column.codes for column in slots.columns])
        self._off = np.stack([column.off for column in slots.columns])
        self._distance = distances(slots) if is_by_distance else None
        self._glyphs = _glyphs(field, has_areas=has_areas)
        self._onset = None if onset is None else (slots.place_of(onset[0]), onset[1])
        self.per_line = _per_line(groups, self._shown, height) if is_whole else 1
        self.lines = tuple(self._arranged())
        self._line_of = {
            rank: number for number, line in enumerate(self.lines) for rank in line.members
        }

    @property
    def height(self) -> int:
        """Number of all lines."""
        return len(self.lines)

    def _arranged(self) -> list[StripLine]:
        lines: list[StripLine] = []
        for number, (group, shown) in enumerate(zip(self.groups, self._shown, strict=True)):
            if number:
                lines.append(StripLine(number, is_gap=True))
            lines.append(StripLine(number))
            if group.are_peers:
                lines += [StripLine(number, band=band) for _, band in _BANDS]
            found, others = self._ordered(shown)
            lines += [StripLine(number, (rank,)) for rank in found]
            for at in range(0, len(others), self.per_line):
                lines.append(StripLine(number, tuple(others[at : at + self.per_line])))
        return lines

    def _ordered(self, shown: list[int]) -> tuple[list[int], list[int]]:
        """Ranks that get a line of their own, and all others, each in the order of the lines.

        By distance those with a finding come first: what was found need not be seen in the field.
        """
        far = self._distance
        if far is None:
            return [], shown
        order = sorted(shown, key=far.__getitem__, reverse=True)
        found = [rank for rank in order if rank in self._signs]
        found.sort(key=lambda rank: -self._signs[rank].rank)
        alone = found[:MOST_ALONE]
        return alone, [rank for rank in order if rank not in alone]

    def line(self, number: int, cursor: int) -> tuple[Glyph, ...]:
        """The characters of one line; the line of the cursor has a bold name."""
        line = self.lines[number]
        if line.is_gap:
            return ()
        if not line.members and line.band is None:
            title = self.groups[line.group].title
            if self.per_line > 1:
                title += f" · a line is the worst of {self.per_line}"
            return tuple(Glyph(char, Ink.STRONG) for char in fit(f" {title}", self.width).rstrip())
        row = [BLANK] * self.width
        if line.band is not None:
            name = next(name for name, band in _BANDS if band == line.band)
            _write(row, 3, name, Ink.INFO)
            values = [column.bands[line.group, line.band] for column in self.slots.columns]
            _write_value(row, float(values[-1]), self.field, Ink.INFO)
            codes = _levels(np.array(values), self.field)
        else:
            self._name(row, line.members, is_marked=cursor in line.members)
            worst = self._worst(line.members)
            codes = self._codes[np.arange(len(worst)), worst]
            newest = float(self.slots.columns[-1].values[worst[-1]])
            _write_value(row, newest, self.field, self._glyphs[int(codes[-1])].ink)
        glyphs = self._glyphs
        row[self.left : self.left + len(codes)] = [glyphs[code] for code in codes.tolist()]
        if self._onset is not None and self._onset[0] is not None:
            _write(row, self.left + self._onset[0], _ONSET, self._onset[1])
        return tuple(row[: self.width])

    def _worst(self, members: tuple[int, ...]) -> NDArray[np.intp]:
        """The rank that its line shows in each slot: missing, else furthest from its peers."""
        some = np.array(members, np.intp)
        if len(some) == 1:
            return np.broadcast_to(some, len(self._codes))
        far = np.nan_to_num(np.abs(self._off[:, some]), nan=-1.0)
        far = np.where(self._codes[:, some] == MISSING, np.inf, far)
        picked: NDArray[np.intp] = some[far.argmax(axis=1)]
        return picked

    def _name(self, row: list[Glyph], members: tuple[int, ...], *, is_marked: bool) -> None:
        ink = Ink.STRONG if is_marked else Ink.DIM
        found = [self._signs[rank] for rank in members if rank in self._signs]
        if is_marked:
            _write(row, 0, "›", Ink.STRONG)
        if found:
            sign = max(found, key=lambda mark: mark.rank)
            _write(row, 1, sign.sign, sign.ink)
        room = self.left - 4
        first, last = self.rows[members[0]], self.rows[members[-1]]
        if len(members) > 1:
            text = f"{rank_name(first)}–{rank_name(last)}"
            if self._distance is not None or rank_name(first) == rank_name(last):
                text = f"{len(members)} ranks"
        else:
            text = rank_name(first).rjust(self._digits)
            if self.width >= _WIDE:
                text += f" {rank_place(first)}"
        _write(row, 3, fit(text, room), ink)

    # Where a rank is

    @property
    def ranks(self) -> tuple[int, ...]:
        """The first rank of each line."""
        return tuple(line.members[0] for line in self.lines if line.members)

    def spot(self, rank: int, back: int) -> tuple[int, int] | None:
        """Line and position of a rank, so many slots back; None where it is not shown."""
        line = self._line_of.get(rank)
        return None if line is None else (line, self.left + self._slot(back))

    def _slot(self, back: int) -> int:
        return max(0, len(self.slots.columns) - 1 - back)

    def under(self, number: int, x: int) -> tuple[int, int] | None:
        """The rank at a line and a column, and how many slots back that is."""
        if not 0 <= number < len(self.lines) or not self.lines[number].members:
            return None
        slot = min(max(0, x - self.left), len(self.slots.columns) - 1)
        return self.lines[number].members[0], len(self.slots.columns) - 1 - slot

    def shown(self, rank: int, back: int) -> int:
        """The rank that the line of a rank shows, so many slots back."""
        members = self.lines[self._line_of[rank]].members
        return int(self._worst(members)[self._slot(back)])

    def moved(self, rank: int, down: int) -> int:
        """The rank so many lines below, above for negative numbers."""
        some = [number for number, line in enumerate(self.lines) if line.members]
        line = self._line_of.get(rank, some[0] if some else 0)
        if not some:
            return rank
        return self.lines[some[max(0, min(len(some) - 1, some.index(line) + down))]].members[0]


def _shown(groups: Sequence[RankGroup], chosen: frozenset[int] | None) -> list[list[int]]:
    """The ranks to show by group."""
    shown: list[list[int]] = []
    first = 0
    for group in groups:
        some = range(first, first + len(group.rows))
        shown.append([rank for rank in some if chosen is None or rank in chosen])
        first += len(group.rows)
    return shown


def _per_line(groups: Sequence[RankGroup], shown: list[list[int]], height: int) -> int:
    """How many ranks share a line, so that all groups fit if they can."""
    heads = sum(1 + len(_BANDS) * group.are_peers for group in groups) + len(groups) - 1
    room = max(height - heads, len(groups), 1)
    total = sum(len(ranks) for ranks in shown)
    count = max(1, -(-total // room))
    while count < total and sum(-(-len(ranks) // count) for ranks in shown) > room:
        count += 1
    return count


def _glyphs(field: MapField, *, has_areas: bool) -> tuple[Glyph, ...]:
    """How each code of `slots` is drawn."""
    marks = (UNKNOWN, *field.levels, BELOW_MARK, ABOVE_MARK)
    return (BLANK, *(Glyph(area(mark, has_colour=has_areas), mark.ink) for mark in marks))


def _levels(values: NDArray[np.float32], field: MapField) -> NDArray[np.uint8]:
    known = ~np.isnan(values)
    codes = np.full(len(values), NOTHING, np.uint8)
    codes[known] = FIRST_LEVEL + np.searchsorted(field.edges, values[known], "right")
    return codes


def _write(row: list[Glyph], x: int, text: str, ink: Ink) -> None:
    for offset, char in enumerate(text):
        if 0 <= x + offset < len(row):
            row[x + offset] = Glyph(char, ink)


def _write_value(row: list[Glyph], value: float, field: MapField, ink: Ink) -> None:
    text = value_text(value, field)
    _write(row, len(row) - len(text), text, ink)


def value_text(value: float, field: MapField) -> str:
    """A share as whole percent, a temperature in degrees, `–` where it is not known."""
    if value != value:
        return units.MISSING
    return f"{value:.0f}" if field.unit == "°C" else units.percent(value)


def measured_text(value: float, field: MapField) -> str:
    """The same with its unit, which nothing that is missing has: `86 %`, `61 °C`, `–`."""
    text = value_text(value, field)
    return text if text == units.MISSING else f"{text} {field.unit}"


def time_row(strips: RankStrips, onset: tuple[float, Ink] | None) -> tuple[Glyph, ...]:
    """Times of both edges and of the middle above the lines, and where a finding began."""
    slots, left = strips.slots, strips.left
    row = [BLANK] * strips.width
    count = len(slots.columns)
    has_seconds = slots.end - slots.start < 300
    times = [
        units.clock_time(at, with_seconds=has_seconds)
        for at in (slots.start, (slots.start + slots.end) / 2, slots.end)
    ]
    _write(row, left, times[0], Ink.DIM)
    _write(row, left + count - len(times[2]), times[2], Ink.DIM)
    if count > 5 * len(times[1]):
        _write(row, left + (count - len(times[1])) // 2, times[1], Ink.DIM)
    at = None if onset is None else slots.place_of(onset[0])
    if onset is not None and at is not None:
        label = f"{_ONSET} onset "
        x = left + at
        if at + len(label) > count:
            label = f" onset {_ONSET}"
            x -= len(label) - 1
        _write(row, x, label, onset[1])
    return tuple(row)
