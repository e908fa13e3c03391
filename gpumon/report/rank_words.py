"""What stands below a picture of ranks: what its signs mean, and what the cursor is on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.report import units
from gpumon.report.heat_marks import MISSING, STATES, WORKING
from gpumon.report.heat_words import Legend, legend_glyphs
from gpumon.report.rank_groups import rank_name, rank_place
from gpumon.report.rank_marks import rank_finding
from gpumon.report.rank_strips import ABOVE_MARK, BELOW_MARK, RankStrips, value_text
from gpumon.report.words import finding_cell

if TYPE_CHECKING:
    from gpumon.report.digest import Digest, RankRow
    from gpumon.report.heat_lines import Glyph
    from gpumon.report.heat_marks import HeatField, Mark
    from gpumon.report.rank_map import RankMap


def rank_legend(
    field: HeatField, seen: frozenset[Mark] | None, width: int, has_colour: bool
) -> tuple[Glyph, ...]:
    """The steps of the scale; over time the signs of outliers, on a map the states seen on it."""
    signs = [Legend(mark, mark.words) for mark in field.levels] if field.keys else []
    if field.keys:
        signs[-1] = signs[-1]._replace(words=f"{signs[-1].words} {field.unit}")
    else:
        signs = [Legend(WORKING, WORKING.words)]
    if seen is not None:
        states = tuple(mark for mark in STATES if mark in seen)
    else:
        states = (BELOW_MARK, ABOVE_MARK, MISSING)
    signs += [Legend(mark, mark.words) for mark in states]
    return legend_glyphs(tuple(signs), width, has_colour=has_colour)


def rank_words(
    digest: Digest, row: RankRow, field: HeatField, picture: RankStrips | RankMap, back: int
) -> str:
    """The rank under the cursor: its place, its value beside that of its peers, its finding."""
    name = rank_name(row)
    parts = [f"rank {name}" if row.rank is not None else "no process", rank_place(row)]
    if isinstance(picture, RankStrips):
        parts += _past(row, field, picture, back)
    elif field.keys and row.gpu is not None:
        values = [row.gpu.value(key) for key in field.keys]
        if None in values or (len(values) == 2 and not values[1]):
            parts.append(f"{field.title} {units.MISSING}")
        else:
            known = [float(value) for value in values if value is not None]
            value = known[0] / known[1] if len(known) == 2 else known[0]
            parts.append(f"{field.title} {value_text(value, field)} {field.unit}")
    finding = rank_finding(digest, row)
    if finding is not None:
        parts.append(finding_cell(finding).text)
    return " · ".join(parts)


def _past(row: RankRow, field: HeatField, picture: RankStrips, back: int) -> list[str]:
    """The value in the slot of the cursor, and the peers' median and band there."""
    slots = picture.slots
    slot = max(0, len(slots.columns) - 1 - back)
    column = slots.columns[slot]
    at = picture.rows.index(row)
    clock = units.clock_time(slots.start + slot * slots.slot_s, with_seconds=True)
    parts = [f"{clock} {field.title} {value_text(float(column.values[at]), field)} {field.unit}"]
    first = 0
    for group, band in zip(picture.groups, column.bands, strict=True):
        if first <= at < first + len(group.rows) and not bool((band != band).any()):
            low, middle, high = (value_text(float(value), field) for value in band)
            parts.append(f"peers {middle} ({low} to {high})")
        first += len(group.rows)
    return parts
