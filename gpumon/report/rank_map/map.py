"""The ranks of a job as a map: a cell for each, world by world, as large as fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.report.facts.rank_groups import rank_name
from gpumon.report.fleet_map.lines import BLANK, Glyph, area
from gpumon.report.fleet_map.marks import Ink
from gpumon.report.text.cells import fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.report.facts.rank_groups import RankGroup
    from gpumon.report.fleet_map.marks import Mark

_LEFT: Final = 7
"""Cells for the number of a line's first rank."""


class Shape(NamedTuple):
    """How large a rank is drawn."""

    step: int
    """Cells from one rank to the next."""
    gap: int
    """Cells after each block."""
    width: int = 1
    height: int = 1
    """Lines of a rank; one more, blank, follows where it is not one."""


_SHAPES: Final = (Shape(6, 2, 5, 2), Shape(2, 1), Shape(1, 1), Shape(1, 0))
"""The largest first, which has room for a number."""

_BLOCK: Final = 8
"""Ranks between two gaps, as most nodes have so many GPUs."""


class MapRow(NamedTuple):
    """One line of the map."""

    group: int
    ranks: tuple[int, ...] = ()
    """None: a heading or a gap."""
    is_gap: bool = False
    part: int = 0
    """Which line of these ranks it is."""


class RankMap:
    """Which rank is where, and how it is drawn."""

    def __init__(
        self,
        groups: Sequence[RankGroup],
        marks: Sequence[Mark],
        size: tuple[int, int],
        chosen: frozenset[int] | None = None,
        numbers: Sequence[str] = (),
    ) -> None:
        """`marks` and `numbers`, which large cells show, have one for each rank of the groups.

        `chosen`: the ranks to show.
        """
        self.groups = groups
        self._marks = marks
        self.width, height = size
        self.rows = tuple(row for group in groups for row in group.rows)
        self._chosen = chosen
        self._numbers = numbers or [""] * len(marks)
        for self.shape in _SHAPES:
            self.lines = self._arranged()
            if len(self.lines) <= height:
                break

    @property
    def height(self) -> int:
        """Lines of the whole map."""
        return len(self.lines)

    @property
    def _per_line(self) -> int:
        """Ranks of a full line, whole blocks of them."""
        step, gap = self.shape.step, self.shape.gap
        blocks = (self.width - _LEFT) // (_BLOCK * step + gap)
        return max(1, blocks) * _BLOCK

    def _arranged(self) -> tuple[MapRow, ...]:
        lines: list[MapRow] = []
        first = 0
        for number, group in enumerate(self.groups):
            if number:
                lines.append(MapRow(number, is_gap=True))
            lines.append(MapRow(number))
            members = range(first, first + len(group.rows))
            first += len(group.rows)
            ranks = tuple(r for r in members if self._chosen is None or r in self._chosen)
            each = self._per_line
            cuts = range(0, len(ranks), each)
            for at in cuts:
                some = ranks[at : at + each]
                lines += [MapRow(number, some, part=part) for part in range(self.shape.height)]
                if self.shape.height > 1 and at + each < len(ranks):
                    lines.append(MapRow(number, is_gap=True))
        return tuple(lines)

    def _x(self, offset: int) -> int:
        step, gap = self.shape.step, self.shape.gap
        return _LEFT + offset * step + offset // _BLOCK * gap

    def line(
        self, number: int, cursor: int, *, has_colour: bool, has_areas: bool = True
    ) -> tuple[Glyph, ...]:
        """The characters of one line.

        Args:
            number: Which line.
            cursor: The rank under it.
            has_colour: Whether numbers are on areas of colour.
            has_areas: Whether such areas show steps without a number, too; else signs do.
        """
        line = self.lines[number]
        if line.is_gap:
            return ()
        if not line.ranks:
            title = fit(f" {self.groups[line.group].title}", self.width).rstrip()
            return tuple(Glyph(char, Ink.STRONG) for char in title)
        row = [BLANK] * self.width
        name = "" if line.part else rank_name(self.rows[line.ranks[0]]).rjust(_LEFT - 2)
        for x, char in enumerate(name[: self.width]):
            row[x] = Glyph(char, Ink.STRONG if cursor in line.ranks else Ink.DIM)
        for offset, rank in enumerate(line.ranks):
            cell = self._cell(rank, line.part, has_colour, has_colour and has_areas)
            for x, glyph in enumerate(cell, self._x(offset)):
                if x < self.width:
                    row[x] = glyph
        return tuple(row)

    def _cell(self, rank: int, part: int, has_colour: bool, has_areas: bool) -> list[Glyph]:
        """One line of a rank: an area or a sign, in a large cell with the number."""
        mark = self._marks[rank]
        if self.shape.width == 1:
            return [Glyph(area(mark, has_colour=has_areas), mark.ink)]
        is_area = mark.is_filled and has_colour
        text = self._numbers[rank] if is_area else f"{mark.sign} {self._numbers[rank]}".rstrip()
        text = ("" if part else text).center(self.shape.width)
        has_ground = is_area or (has_colour and mark.ink in (Ink.WARN, Ink.BAD))
        ink, ground = (Ink.TEXT, mark.ink) if has_ground else (mark.ink, None)
        return [Glyph(char, ink, ground) for char in text]

    # Where a rank is

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that are shown, in their order."""
        return tuple(rank for line in self.lines if not line.part for rank in line.ranks)

    def spot(self, rank: int) -> tuple[int, int] | None:
        """Line and position of a rank, None where it is not shown."""
        for number, line in enumerate(self.lines):
            if rank in line.ranks:
                return number, self._x(line.ranks.index(rank))
        return None

    def under(self, number: int, x: int) -> int | None:
        """The rank at a place of the map."""
        ranks = self.lines[number].ranks if 0 <= number < len(self.lines) else ()
        found = (rank for o, rank in enumerate(ranks) if 0 <= x - self._x(o) < self.shape.step)
        return next(found, None)

    def moved(self, rank: int, across: int, down: int) -> int:
        """The rank so many cells to the right and lines below."""
        spot = self.spot(rank)
        if spot is None:
            return next(iter(self.ranks), rank)
        if across:
            ranks = self.ranks
            return ranks[max(0, min(len(ranks) - 1, ranks.index(rank) + across))]
        some = [n for n, line in enumerate(self.lines) if line.ranks and not line.part]
        at = max(0, min(len(some) - 1, some.index(spot[0]) + down))
        below = self.lines[some[at]].ranks
        return below[min(self.lines[spot[0]].ranks.index(rank), len(below) - 1)]
