"""One line of the map as characters with their inks: pure, so that only changes are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.report.facts.losses import stake_together
from gpumon.report.fleet_map.density import short_name
from gpumon.report.fleet_map.map import activities, shares
from gpumon.report.fleet_map.marks import FREE, WORKING, Ink, Mark
from gpumon.report.text import units as words
from gpumon.report.text.cells import fit
from gpumon.report.wording.loss_words import LEAST_GPUS, rate_cell

if TYPE_CHECKING:
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.fleet_map.density import Block, MapLine
    from gpumon.report.fleet_map.layout import MapLayout
    from gpumon.report.fleet_map.map import MapMarks, Unit


class Glyph(NamedTuple):
    """One character of the map."""

    char: str
    ink: Ink
    ground: Ink | None = None
    """Ink behind the character; None: the terminal's ground."""


BLANK: Final = Glyph(" ", Ink.TEXT)
_CELL: Final = "■"
_UPPER: Final = "▀"
_LOWER: Final = "▄"


def glyphs(
    map_marks: MapMarks, layout: MapLayout, line: MapLine, *, is_mean: bool, has_colour: bool
) -> tuple[Glyph, ...]:
    """The characters of one line from the left edge on."""
    row = [BLANK] * layout.width
    if line.is_gap:
        return tuple(row)
    if not line.blocks:
        text = heading(map_marks.digest, line, layout.width - 2)
        _write(row, 1, text, Ink.DIM)
        _write(row, 1, text.partition(" · ")[0], Ink.STRONG)
        return tuple(row)
    if line.label and layout.left > 1:
        name = short_name(line.label, layout.label_width)
        if layout.is_group_a_line:
            for x, each in ((1, line.label), *line.beside):
                _write(row, x, short_name(each, layout.label_width), Ink.STRONG)
        else:
            _write(row, 1, name.rjust(layout.label_width), Ink.DIM)
    if layout.is_by_node:
        _draw_nodes(row, map_marks, layout, line, is_mean, has_colour)
    else:
        for block in line.blocks:
            _draw_gpus(row, map_marks, layout, block.x, block.unit, has_colour)
    return tuple(row)


def redraw_node(
    row: list[Glyph],
    map_marks: MapMarks,
    layout: MapLayout,
    line: MapLine,
    block: Block,
    *,
    is_mean: bool,
    has_colour: bool,
) -> range:
    """Draw one node of a line again, and return its columns; numbers need the whole line.

    What shares its character is drawn with it.
    """
    if not layout.is_by_node:
        _draw_gpus(row, map_marks, layout, block.x, block.unit, has_colour)
        return range(block.x, min(len(row), block.x + layout.block_width))
    near = line._replace(blocks=tuple(each for each in line.blocks if each.x == block.x))
    _draw_nodes(row, map_marks, layout, near, is_mean, has_colour)
    return range(block.x, min(len(row), block.x + 1))


def heading(digest: Digest, line: MapLine, width: int) -> str:
    """The name of a group, how large it is, and what it loses."""
    nodes = len(line.cluster.units)
    gpus = sum(unit.size for unit in line.cluster.units)
    text = f"{line.cluster.name} · {words.counted(nodes, 'node')} · {words.gpus(gpus)}"
    known = digest.stakes_by_node
    stake = stake_together(known[u.name] for u in line.cluster.units if u.name in known)
    if max(stake.losing) >= LEAST_GPUS:
        text += f" · lost/h {rate_cell(stake.losing).text}"
    return fit(text, width).rstrip()


def _write(row: list[Glyph], x: int, text: str, ink: Ink, ground: Ink | None = None) -> None:
    for offset, char in enumerate(text):
        if 0 <= x + offset < len(row):
            row[x + offset] = Glyph(char, ink, ground)


def _draw_nodes(
    row: list[Glyph],
    map_marks: MapMarks,
    layout: MapLayout,
    line: MapLine,
    is_mean: bool,
    has_colour: bool,
) -> None:
    cells: dict[int, list[Mark]] = {}
    for block in line.blocks:
        cells.setdefault(block.x, []).append(map_marks.node_mark(block.unit, is_mean))
    for x, marks in cells.items():
        if x < len(row):
            both = layout.is_half and len(marks) == 2
            row[x] = _halves(marks[0], marks[1]) if both else _single(marks[0], has_colour)


def _draw_gpus(
    row: list[Glyph], map_marks: MapMarks, layout: MapLayout, x: int, unit: Unit, has_colour: bool
) -> None:
    if layout.gpus_x:
        name = short_name(unit.name, layout.name_width).rjust(layout.name_width)
        _write(row, x, name, Ink.DIM)
    marks = map_marks.marks(unit)
    x += layout.gpus_x
    if layout.density == "numbers":
        _draw_numbers(row, map_marks, x, unit, marks)
        return
    if not layout.is_half:
        for slot, mark in enumerate(marks):
            at = x + slot * layout.gpu_step
            if at < len(row):
                row[at] = _single(mark, has_colour)
        return
    half = (unit.size + 1) // 2
    for offset in range(half):
        if x + offset < len(row):
            upper = marks[offset]
            lower = marks[half + offset] if half + offset < len(marks) else FREE
            row[x + offset] = _halves(upper, lower)


def _draw_numbers(
    row: list[Glyph], map_marks: MapMarks, x: int, unit: Unit, marks: tuple[Mark, ...]
) -> None:
    """A sign where there is a state to show, then the value."""
    field = map_marks.field
    node = map_marks.digest.tick.nodes[unit.name]
    values = (
        shares(map_marks.digest, node, field) if field.keys else activities(map_marks.digest, node)
    )
    for slot, mark in enumerate(marks):
        value = values[slot] if slot < len(values) else None
        text = ""
        if value is not None and field.name_of is None and mark is not FREE:
            text = f"{value:.0f}" if field.unit == "°C" else words.percent(value)
        if mark.is_filled and field.name_of is None:
            _write(row, x + slot * 4 + 1, text.rjust(3), Ink.TEXT, mark.ink)
        else:
            _write(row, x + slot * 4, f" {mark.sign}{text:>2}"[-4:].ljust(4), mark.ink)


def area(mark: Mark, *, has_colour: bool) -> str:
    """The character of one mark: an area where colours show its step, else its sign."""
    # "Working" is not a step of a scale: without colours full blocks would hide the cursor.
    is_area = mark is WORKING or (mark.is_filled and has_colour and mark.sign in "░▒▓█")
    return _CELL if is_area else mark.sign


def _single(mark: Mark, has_colour: bool) -> Glyph:
    return Glyph(area(mark, has_colour=has_colour), mark.ink)


def _halves(upper: Mark, lower: Mark) -> Glyph:
    """Two marks in one character; a state, or the worse of two, is shown by its sign."""
    if upper.is_filled and lower.is_filled:
        if upper == lower and upper.sign not in "░▒▓█":
            return Glyph(upper.sign, upper.ink)
        return Glyph(_UPPER, upper.ink, lower.ink)
    worse = upper if upper.rank >= lower.rank else lower
    if not worse.is_filled:
        return Glyph(worse.sign, worse.ink)
    return Glyph(_UPPER if upper.is_filled else _LOWER, worse.ink)
