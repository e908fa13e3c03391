"""Where the map draws every GPU: densities, lines, and the way from cell to cell."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Final, overload

from gpumon.report.fleet_map.density import (
    BY_NODE,
    HALF,
    MOST_NAME,
    NAMED,
    STEPS,
    Block,
    MapLine,
    Spot,
    allowed,
    extent_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.report.fleet_map.density import DensityName
    from gpumon.report.fleet_map.groups import Cluster
    from gpumon.report.fleet_map.map import Unit

_BUNCH: Final = 10
"""Nodes between two gaps, where each is one character: they can be counted."""

_MARGIN: Final = 1

_FEW_BUNCHES: Final = 4
"""Bunches up to which a line takes in also a small part of another."""

_FEW_GROUPS: Final = 3
"""Groups from which on headings take too many lines, where a name before a line can do."""

_STORED_LINES: Final = 256
"""Lines whose blocks and spots are stored: more than a screen has."""

_HEADING, _GAP = -1, -2
"""In place of a line's first node where it has none."""


_x_of, _is_lower = attrgetter("x"), attrgetter("is_lower")


class MapLayout:
    """The whole map at one width and one density; made again only when one of them changes."""

    def __init__(
        self,
        clusters: tuple[Cluster, ...],
        width: int,
        density: DensityName,
        has_gaps: bool = False,
        like: MapLayout | None = None,
    ) -> None:
        """Place the groups.

        Args:
            clusters: The groups.
            width: Cells of a line.
            density: How much one cell shows.
            has_gaps: Blank lines between groups, where there is room for them.
            like: Another layout, which knows how large the nodes are where its groups are the same.
        """
        self.clusters = clusters
        self.width = width
        self.density = density
        known = like if like is not None and like.clusters is clusters else None
        extent = (known.name_width, known.most_gpus) if known else extent_of(clusters)
        self.name_width: int = extent[0]
        self.most_gpus: int = extent[1]
        self._places: dict[str, tuple[int, int]] = known._places if known else {}
        """Of each node its group, and its place there; made when it is first asked for."""
        self._made: dict[int, MapLine] = {}
        self._spots_made: dict[int, tuple[Spot, ...]] = {}
        self.has_gaps = has_gaps and self.has_headings

    @property
    def is_half(self) -> bool:
        """Whether a character holds two things."""
        return self.density in HALF

    @property
    def is_by_node(self) -> bool:
        """Whether a cell is a whole node."""
        return self.density in BY_NODE

    @property
    def gpus_x(self) -> int:
        """Column of a block's first GPU, from the block's left edge."""
        return self.name_width + 1 if self.density in NAMED else 0

    @property
    def gpu_step(self) -> int:
        """Characters from one GPU to the next."""
        return STEPS.get(self.density, 1)

    @property
    def block_width(self) -> int:
        """Characters of one node with the gap behind it."""
        if self.is_by_node:
            return 1
        across = (self.most_gpus + 1) // 2 if self.is_half else self.most_gpus
        gap = 2 if self.density in NAMED else 1
        return self.gpus_x + across * self.gpu_step + gap

    @property
    def left(self) -> int:
        """Column of a line's first block."""
        return _MARGIN + (0 if self.density in NAMED else self.label_width + 1)

    @property
    def label_width(self) -> int:
        """Cells of the name before a line of nodes that do not carry their own."""
        return self._group_width if self.is_group_a_line else self.name_width

    @cached_property
    def _group_width(self) -> int:
        return min(MOST_NAME, max((len(cluster.name) for cluster in self.clusters), default=0))

    @cached_property
    def is_group_a_line(self) -> bool:
        """Whether every group fits on one line, with its name before it."""
        if self.density in NAMED or len(self.clusters) < _FEW_GROUPS:
            return False
        per_line = self._columns_from(_MARGIN + self._group_width + 1)
        per_line *= 2 if self.density == "half nodes" else 1
        return max(len(cluster.units) for cluster in self.clusters) <= per_line

    @cached_property
    def _group_step(self) -> int:
        """Characters from one group to the next where several are side by side."""
        most = max(len(cluster.units) for cluster in self.clusters)
        cells = self._place_x(most - 1) + self.block_width - (0 if self.is_by_node else 1)
        return self._group_width + 1 + cells + 2

    @cached_property
    def groups_a_line(self) -> int:
        """Groups side by side; 0 where one takes a line or more with its heading."""
        if not self.is_group_a_line:
            return 0
        return max(1, (self.width - 2 * _MARGIN + 2) // self._group_step)

    @cached_property
    def columns(self) -> int:
        """Nodes side by side on one line."""
        return self._columns_from(self.left)

    def _columns_from(self, left: int) -> int:
        room = self.width - left - _MARGIN
        if self.is_by_node:
            bunches, rest = divmod(room + 1, _BUNCH + 1)
            # Lines of a hundred or of two hundred can be counted; one more node cannot be seen.
            rest = 0 if bunches > _FEW_BUNCHES and rest < _BUNCH // 2 else min(rest, _BUNCH)
            return max(1, bunches * _BUNCH + rest)
        return max(1, (room + 1) // self.block_width)

    @property
    def per_line(self) -> int:
        """Nodes on one full line."""
        return self.columns * 2 if self.density == "half nodes" else self.columns

    @property
    def has_headings(self) -> bool:
        """Whether groups are named on lines of their own: one alone needs no name."""
        return len(self.clusters) > 1 and not self.is_group_a_line

    @property
    def height(self) -> int:
        """Lines of the whole map."""
        if self.groups_a_line:
            return -(-len(self.clusters) // self.groups_a_line)
        each = sum(-(-len(cluster.units) // self.per_line) for cluster in self.clusters)
        gaps = len(self.clusters) - 1 if self.has_gaps else 0
        return each + gaps + (len(self.clusters) if self.has_headings else 0)

    @property
    def lines(self) -> Sequence[MapLine]:
        """Headings and lines of nodes from top to bottom, each made when it is asked for."""
        return _Lines(self)

    @cached_property
    def _starts(self) -> tuple[tuple[int, int], ...]:
        """Of every line its group and its first node there; `_HEADING` and `_GAP` have none."""
        if self.groups_a_line:
            return tuple((first, 0) for first in range(0, len(self.clusters), self.groups_a_line))
        made: list[tuple[int, int]] = []
        for number, cluster in enumerate(self.clusters):
            if self.has_gaps and made:
                made.append((number, _GAP))
            if self.has_headings:
                made.append((number, _HEADING))
            made += [(number, at) for at in range(0, len(cluster.units), self.per_line)]
        return tuple(made)

    @cached_property
    def _first_lines(self) -> dict[int, int]:
        """The first line of nodes of each group."""
        if self.groups_a_line:
            return {number: number // self.groups_a_line for number in range(len(self.clusters))}
        return {number: line for line, (number, at) in enumerate(self._starts) if at == 0}

    def line(self, number: int) -> MapLine:
        """A heading, a gap or nodes with their columns; made when it is first asked for."""
        made = self._made.get(number)
        if made is None:
            if len(self._made) >= _STORED_LINES:
                self._made.clear()
            made = self._made[number] = self._line(*self._starts[number])
        return made

    def _line(self, number: int, at: int) -> MapLine:
        cluster = self.clusters[number]
        if at < 0:
            return MapLine(cluster, "", (), is_gap=at == _GAP)
        if self.groups_a_line:
            return self._line_of_groups(self.clusters[number : number + self.groups_a_line])
        units = cluster.units[at : at + self.per_line]
        return MapLine(cluster, units[0].name, tuple(self._blocks(units, self.left)))

    def _line_of_groups(self, groups: tuple[Cluster, ...]) -> MapLine:
        blocks: list[Block] = []
        for number, cluster in enumerate(groups):
            blocks += self._blocks(cluster.units, self.left + number * self._group_step)
        step = self._group_step
        beside = tuple((_MARGIN + n * step, group.name) for n, group in enumerate(groups) if n)
        return MapLine(groups[0], groups[0].name, tuple(blocks), beside=beside)

    def _blocks(self, units: tuple[Unit, ...], left: int) -> Iterator[Block]:
        for number, unit in enumerate(units):
            is_lower = self.density == "half nodes" and number % 2 == 1
            yield Block(left + self._place_x(number), unit, is_lower)

    def _place_x(self, number: int) -> int:
        """Column of a line's n-th node, from its first one on."""
        place = number // 2 if self.density == "half nodes" else number
        return place * self.block_width + (place // _BUNCH if self.is_by_node else 0)

    # The cursor's ways

    def spots(self, line: int) -> tuple[Spot, ...]:
        """What the cursor can be on in one line, from left to right, the upper half first."""
        made = self._spots_made.get(line)
        if made is None:
            if len(self._spots_made) >= _STORED_LINES:
                self._spots_made.clear()
            found = [spot for block in self.line(line).blocks for spot in self._spots(block)]
            # In two steps, so that no key is a new tuple: a line has hundreds of spots.
            found.sort(key=_x_of)
            found.sort(key=_is_lower)
            made = self._spots_made[line] = tuple(found)
        return made

    def _spots(self, block: Block) -> Iterator[Spot]:
        if self.is_by_node:
            yield Spot(block.x, block.is_lower, block.unit, 0)
            return
        half = (block.unit.size + 1) // 2 if self.is_half else block.unit.size
        for slot in range(block.unit.size):
            is_lower = slot >= half
            across = slot - half if is_lower else slot
            x = block.x + self.gpus_x + across * self.gpu_step
            yield Spot(x, is_lower, block.unit, slot)

    def find(self, name: str, slot: int) -> tuple[int, Spot] | None:
        """The line and the spot of a GPU of a node, None where the map does not show the node."""
        line, block = self.line_of(name), self.block(name)
        if line is None or block is None:
            return None
        own = tuple(self._spots(block))
        return line, next((spot for spot in own if spot.slot == slot), own[0])

    def _place(self, name: str) -> tuple[int, int] | None:
        if not self._places:
            for number, cluster in enumerate(self.clusters):
                self._places.update({u.name: (number, at) for at, u in enumerate(cluster.units)})
        return self._places.get(name)

    def line_of(self, name: str) -> int | None:
        """The line of a node, None where the map does not show it."""
        place = self._place(name)
        return None if place is None else self._first_lines[place[0]] + place[1] // self.per_line

    def block(self, name: str) -> Block | None:
        """The place of a node on its line, None where the map does not show it."""
        line, place = self.line_of(name), self._place(name)
        if line is None or place is None:
            return None
        number, at = place
        if self.groups_a_line:
            before = self.clusters[number - number % self.groups_a_line : number]
            at += sum(len(cluster.units) for cluster in before)
            return self.line(line).blocks[at]
        return self.line(line).blocks[at % self.per_line]

    def at(self, x: int, line: int) -> Spot | None:
        """What lies under the mouse; the upper half where there are two."""
        if not 0 <= line < len(self._starts):
            return None
        reach = self.gpu_step
        return next((spot for spot in self.spots(line) if spot.x <= x < spot.x + reach), None)

    def beside(self, name: str, slot: int, steps: int) -> tuple[int, Spot] | None:
        """The spot so many to the right, left for negative numbers, over the ends of lines."""
        found = self.find(name, slot)
        if found is None:
            return None
        line, spot = found
        row = [each for each in self.spots(line) if each.is_lower == spot.is_lower]
        at = row.index(spot) + steps
        if 0 <= at < len(row):
            return line, row[at]
        next_line = self._next_line(line, 1 if steps > 0 else -1)
        if next_line is None:
            return line, spot
        there = self.spots(next_line)
        return next_line, there[0] if steps > 0 else there[-1]

    def below(self, name: str, slot: int, steps: int) -> tuple[int, Spot] | None:
        """The spot so many lines down, up for negative numbers; halves count as lines."""
        found = self.find(name, slot)
        if found is None:
            return None
        line, spot = found
        x, way = spot.x, 1 if steps > 0 else -1
        for _ in range(abs(steps)):
            after = self._one_below(line, spot, way, x)
            if after is None:
                break
            line, spot = after
        return line, spot

    def _one_below(self, line: int, spot: Spot, way: int, x: int) -> tuple[int, Spot] | None:
        wanted = way > 0
        if self.is_half and spot.is_lower != wanted:
            other = [each for each in self.spots(line) if each.is_lower == wanted]
            if other:
                return line, min(other, key=lambda each: abs(each.x - x))
        next_line = self._next_line(line, way)
        if next_line is None:
            return None
        there = self.spots(next_line)
        # From below one comes to the lower half first.
        near = [each for each in there if each.is_lower == (self.is_half and not wanted)] or there
        return next_line, min(near, key=lambda each: abs(each.x - x))

    def _next_line(self, line: int, way: int) -> int | None:
        line += way
        while 0 <= line < len(self._starts) and not self.line(line).blocks:
            line += way
        return line if 0 <= line < len(self._starts) else None


class _Lines(Sequence[MapLine]):
    """The lines of a layout as if all of them were there."""

    def __init__(self, layout: MapLayout) -> None:
        self._layout = layout

    def __len__(self) -> int:
        return len(self._layout._starts)

    @overload
    def __getitem__(self, number: int) -> MapLine: ...

    @overload
    def __getitem__(self, number: slice) -> tuple[MapLine, ...]: ...

    def __getitem__(self, number: int | slice) -> MapLine | tuple[MapLine, ...]:
        every = range(len(self))[number]
        if isinstance(every, int):
            return self._layout.line(every)
        return tuple(map(self._layout.line, every))


def fitting(
    clusters: tuple[Cluster, ...],
    width: int,
    height: int,
    *,
    has_colour: bool,
    like: MapLayout | None = None,
) -> MapLayout:
    """The largest cells that need no scrolling, else the smallest there are."""
    names = allowed(has_colour=has_colour)
    layout = like
    for name in names:
        layout = MapLayout(clusters, width, name, like=layout)
        if layout.height <= height and layout.left + layout.block_width <= width + 1:
            airy = MapLayout(clusters, width, name, has_gaps=True, like=layout)
            return airy if airy.height <= height else layout
    return layout or MapLayout(clusters, width, names[-1])
