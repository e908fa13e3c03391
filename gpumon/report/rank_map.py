"""The ranks of a job as a map: a cell for each, world by world, as large as fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.report.columns import fit
from gpumon.report.heat_lines import BLANK, Glyph, area
from gpumon.report.heat_marks import Ink
from gpumon.report.rank_groups import rank_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.report.heat_marks import Mark
    from gpumon.report.rank_groups import RankGroup

_LEFT: Final = 7
"""Cells for the number of a line's first rank."""

_SHAPES: Final = ((2, 1), (1, 1), (1, 0))
"""Cells of one rank and of the gap after each block, the largest look first."""

_BLOCK: Final = 8
"""Ranks between two gaps, as most nodes have so many GPUs."""


class MapRow(NamedTuple):
    """One line of the map."""

    group: int
    ranks: tuple[int, ...] = ()
    """None: a heading or a gap."""
    is_gap: bool = False


class RankMap:
    """Which rank is where, and how it looks."""

    def __init__(
        self,
        groups: Sequence[RankGroup],
        marks: Sequence[Mark],
        size: tuple[int, int],
        keeps: frozenset[int] | None = None,
    ) -> None:
        """`marks` has one for each rank in the order of the groups; `keeps`: those to show."""
        self.groups = groups
        self._marks = marks
        self.width, height = size
        self.rows = tuple(row for group in groups for row in group.rows)
        self._keeps = keeps
        for self._shape in _SHAPES:
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
        step, gap = self._shape
        blocks = (self.width - _LEFT) // (_BLOCK * step + gap)
        return max(1, blocks) * _BLOCK

    def _arranged(self) -> tuple[MapRow, ...]:
        lines: list[MapRow] = []
        first = 0
        for number, group in enumerate(self.groups):
            if number:
                lines.append(MapRow(number, is_gap=True))
            lines.append(MapRow(number))
            some = range(first, first + len(group.rows))
            first += len(group.rows)
            ranks = tuple(r for r in some if self._keeps is None or r in self._keeps)
            each = self._per_line
            cuts = range(0, len(ranks), each)
            lines += [MapRow(number, ranks[at : at + each]) for at in cuts]
        return tuple(lines)

    def _x(self, offset: int) -> int:
        step, gap = self._shape
        return _LEFT + offset * step + offset // _BLOCK * gap

    def line(self, number: int, cursor: int, *, has_colour: bool) -> tuple[Glyph, ...]:
        """The characters of one line."""
        line = self.lines[number]
        if line.is_gap:
            return ()
        if not line.ranks:
            title = fit(f" {self.groups[line.group].title}", self.width).rstrip()
            return tuple(Glyph(char, Ink.STRONG) for char in title)
        row = [BLANK] * self.width
        name = rank_name(self.rows[line.ranks[0]]).rjust(_LEFT - 2)
        for x, char in enumerate(name[: self.width]):
            row[x] = Glyph(char, Ink.STRONG if cursor in line.ranks else Ink.DIM)
        for offset, rank in enumerate(line.ranks):
            x = self._x(offset)
            if x < self.width:
                mark = self._marks[rank]
                row[x] = Glyph(area(mark, has_colour=has_colour), mark.ink)
        return tuple(row)

    # Where a rank is

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that are shown, in their order."""
        return tuple(rank for line in self.lines for rank in line.ranks)

    def spot(self, rank: int) -> tuple[int, int] | None:
        """Line and position of a rank, None where it is not shown."""
        for number, line in enumerate(self.lines):
            if rank in line.ranks:
                return number, self._x(line.ranks.index(rank))
        return None

    def under(self, number: int, x: int) -> int | None:
        """The rank at a place of the map."""
        ranks = self.lines[number].ranks if 0 <= number < len(self.lines) else ()
        found = (rank for o, rank in enumerate(ranks) if 0 <= x - self._x(o) < self._shape[0])
        return next(found, None)

    def moved(self, rank: int, across: int, down: int) -> int:
        """The rank so many cells to the right and lines below."""
        spot = self.spot(rank)
        if spot is None:
            return next(iter(self.ranks), rank)
        if across:
            ranks = self.ranks
            return ranks[max(0, min(len(ranks) - 1, ranks.index(rank) + across))]
        some = [number for number, line in enumerate(self.lines) if line.ranks]
        at = max(0, min(len(some) - 1, some.index(spot[0]) + down))
        below = self.lines[some[at]].ranks
        return below[min(self.lines[spot[0]].ranks.index(rank), len(below) - 1)]
