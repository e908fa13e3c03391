"""The lines below a chart of ranks: what its signs mean, and what the cursor is on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.report.facts.rank_groups import rank_name, rank_place
from gpumon.report.fleet_map.legend import Legend, legend_glyphs
from gpumon.report.fleet_map.marks import MISSING, STATES, WORKING
from gpumon.report.rank_map.marks import faulty_rank, rank_finding, rank_value
from gpumon.report.rank_map.strips import (
    ABOVE_MARK,
    BELOW_MARK,
    RankStrips,
    measured_text,
    value_text,
)
from gpumon.report.text import units
from gpumon.report.wording.verdict_words import finding_cell, stale_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.model.finding import Finding
    from gpumon.model.records.cluster import Gpu, JobView
    from gpumon.report.facts.rank_groups import RankGroup
    from gpumon.report.facts.tick_index import Digest, RankRow
    from gpumon.report.fleet_map.lines import Glyph
    from gpumon.report.fleet_map.marks import MapField, Mark
    from gpumon.report.rank_map.map import RankMap


def rank_legend(
    field: MapField, seen: frozenset[Mark] | None, width: int, has_colour: bool
) -> tuple[Glyph, ...]:
    """The steps of the scale; over time the signs of outliers, on a map the states seen on it."""
    signs = [Legend(mark, mark.words) for mark in field.levels] if field.keys else []
    if field.keys:
        signs[-1] = signs[-1]._replace(words=f"{signs[-1].words} {field.unit}")
    else:
        signs = [Legend(WORKING, WORKING.words)] if seen is None or WORKING in seen else []
    if seen is not None:
        states = tuple(mark for mark in STATES if mark in seen)
    else:
        states = (BELOW_MARK, ABOVE_MARK, MISSING)
    signs += [Legend(mark, mark.words) for mark in states]
    return legend_glyphs(tuple(signs), width, has_colour=has_colour)


def rank_numbers(groups: Sequence[RankGroup], field: MapField) -> list[str]:
    """The newest value of each rank in the order of the groups, empty where it is not known."""
    found = (rank_value(row, field) for group in groups for row in group.rows)
    return ["" if value != value else value_text(value, shown) for shown, value in found]


def number_words(field: MapField) -> str:
    """What the numbers in large cells are: `SM active, %`."""
    return f"{field.title if field.keys else 'SM active'}, {field.unit or '%'}"


def amount_words(rows: Sequence[RankRow]) -> str:
    """`16 ranks`; where that is not the number of GPUs as well, `5 ranks, 8 GPUs`."""
    ranks = len({id(row.rank) for row in rows if row.rank is not None})
    gpus = len({row.uuid for row in rows if row.uuid})
    parts = [(ranks, "rank")] if ranks else []
    parts += [(gpus, "GPU")] if gpus and gpus != ranks else []
    return ", ".join(units.counted(count, noun) for count, noun in parts)


def faulty_words(digest: Digest, view: JobView, finding: Finding) -> str:
    """The one rank that a finding is about, `rank 11`, or its GPU; empty: about more, or none."""
    row = faulty_rank(digest, view, finding)
    if row is None:
        return ""
    is_numbered = row.rank is not None and row.rank.rank is not None
    return f"rank {rank_name(row)}" if is_numbered else rank_place(row)


def rank_words(
    digest: Digest, row: RankRow, field: MapField, chart: RankStrips | RankMap, back: int
) -> str:
    """The rank under the cursor: its place, its value beside that of its peers, its finding."""
    name = rank_name(row)
    is_unreported = row.gpu is not None and not row.gpu.reports_processes
    no_rank = "no rank known" if is_unreported else "no process"
    parts = [no_rank if row.rank is None else f"rank {name}", rank_place(row)]
    if isinstance(chart, RankStrips):
        parts += _past(row, field, chart, back)
    elif row.gpu is not None:
        parts += _now(digest, row, row.gpu, field, chart.groups)
    finding = rank_finding(digest, row)
    if finding is not None:
        parts.append(finding_cell(digest.tick, finding).text)
    return " · ".join(parts)


def _now(
    digest: Digest, row: RankRow, gpu: Gpu, field: MapField, groups: Sequence[RankGroup]
) -> list[str]:
    """The newest value and its time, beside the peers' median and band; or how old it is."""
    if gpu.is_stale:
        return [stale_words(digest, gpu)]
    shown, value = rank_value(row, field)
    clock = units.clock_time(gpu.taken_at, with_seconds=True)
    parts = [f"{clock} {shown.title} {measured_text(value, shown)}"]
    group = next((group for group in groups if row in group.rows), None)
    known = [] if group is None else [rank_value(peer, shown)[1] for peer in group.rows]
    known = sorted(each for each in known if each == each)
    if group is not None and group.are_peers and known and value == value:
        low, middle, high = (value_text(_share(known, q), shown) for q in (0.1, 0.5, 0.9))
        parts.append(f"peers {middle} ({low} to {high})")
    return parts


def _share(ordered: Sequence[float], quantile: float) -> float:
    """A quantile, between two values in proportion, as over time."""
    place = quantile * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _past(row: RankRow, field: MapField, chart: RankStrips, back: int) -> list[str]:
    """The value in the slot of the cursor, and the peers' median and band there."""
    slots = chart.slots
    slot = max(0, len(slots.columns) - 1 - back)
    column = slots.columns[slot]
    at = chart.rows.index(row)
    clock = units.clock_time(slots.start + slot * slots.slot_s, with_seconds=True)
    parts = [f"{clock} {field.title} {measured_text(float(column.values[at]), field)}"]
    first = 0
    for group, band in zip(chart.groups, column.bands, strict=True):
        if first <= at < first + len(group.rows) and not bool((band != band).any()):
            low, middle, high = (value_text(float(value), field) for value in band)
            parts.append(f"peers {middle} ({low} to {high})")
        first += len(group.rows)
    return parts
