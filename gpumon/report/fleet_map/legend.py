"""The lines below the map: what its signs mean, and what the cursor is on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.report.facts.losses import mark_of
from gpumon.report.facts.slurm_nodes import is_open
from gpumon.report.fleet_map.density import WORDS
from gpumon.report.fleet_map.lines import BLANK, Glyph, area
from gpumon.report.fleet_map.map import activities, gravest_by_gpu, owner_marks, shares
from gpumon.report.fleet_map.marks import (
    CRITICAL,
    DOWN,
    DRAINED,
    FREE,
    IDLE,
    INFO,
    LOST,
    MISSING,
    OTHERS,
    STALE,
    STATES,
    WARNING,
    WORKING,
    Ink,
    Mark,
)
from gpumon.report.text import units
from gpumon.report.text.cells import safe, text_width
from gpumon.report.text.units import short_duration
from gpumon.report.wording.verdict_words import (
    finding_cell,
    reading_words,
    reason_words,
    stale_words,
)

if TYPE_CHECKING:
    from gpumon.model.records.cluster import Gpu, Node
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.fleet_map.density import Spot
    from gpumon.report.fleet_map.layout import MapLayout
    from gpumon.report.fleet_map.map import MapMarks, Unit
    from gpumon.report.fleet_map.marks import MapField


class Legend(NamedTuple):
    """One sign with its meaning."""

    mark: Mark
    words: str


MOST_OWNERS: Final = 200
"""Owners that a legend names: no line has room for more, and ten thousand take a while."""


def untold(digest: Digest, field: MapField) -> int:
    """Number of owners that the legend of a field does not name."""
    return 0 if field.name_of is None else max(0, len(owner_marks(digest, field)) - MOST_OWNERS)


def legend(digest: Digest, field: MapField, seen: frozenset[Mark]) -> tuple[Legend, ...]:
    """The signs of a field, values first, of the states those that were seen."""
    states = tuple(Legend(mark, mark.words) for mark in STATES if mark in seen)
    if field.name_of is not None:
        # States first: owners are many, and leave nothing of the line.
        return (*states, *_owners(digest, field))
    if field.key == "verdict":
        working = (Legend(WORKING, WORKING.words),) if WORKING in seen else ()
        return (*working, *states)
    steps = [Legend(mark, mark.words) for mark in field.levels]
    steps[-1] = steps[-1]._replace(words=f"{steps[-1].words} {field.unit}")
    return (*steps, *states)


def _owners(digest: Digest, field: MapField) -> list[Legend]:
    """Owners by the number of their GPUs."""
    return digest.remembered(("map owners named", field.key), lambda: _counted(digest, field))


def _counted(digest: Digest, field: MapField) -> list[Legend]:
    assert field.name_of is not None
    counts: dict[str, int] = {}
    for view in digest.tick.jobs:
        if view.gpu_uuids:
            name = field.name_of(view)
            counts[name] = counts.get(name, 0) + len(view.gpu_uuids)
    owners = owner_marks(digest, field)
    # They are in the order of their names already, and stay so among those with as many GPUs.
    names = sorted(owners, key=counts.__getitem__, reverse=True)[:MOST_OWNERS]
    return [Legend(owners[name], f"{name} {counts[name]:,}") for name in names]


_BRIEF: Final = {
    CRITICAL: "critical", IDLE: "hardly used", DRAINED: "drained", DOWN: "down", LOST: "lost",
    OTHERS: "others' or free", MISSING: "unknown",
}  # fmt: skip
"""Fewer words for signs, where the line does not hold all of them."""


def legend_glyphs(
    found: tuple[Legend, ...], width: int, *, has_colour: bool, untold: int = 0
) -> tuple[Glyph, ...]:
    """As much of a legend as fits into one line, in few words if need be, and what is left out.

    Args:
        found: Signs and words.
        width: Cells of the line.
        has_colour: Whether areas are drawn in colours.
        untold: How many more owners there are that `found` does not name.
    """
    if sum(3 + text_width(safe(item.words)) for item in found) + 2 > width:
        found = tuple(item._replace(words=_BRIEF.get(item.mark, item.words)) for item in found)
    row: list[Glyph] = [BLANK]
    for number, item in enumerate(found):
        text = f" {safe(item.words)}  "
        left = len(found) - number - 1 + untold
        more = len(f"+{left:,} more") if left else 0
        if len(row) + 1 + text_width(text.rstrip() if not left else text) + more > width:
            row += [Glyph(char, Ink.DIM) for char in f"+{left + 1:,} more"]
            break
        row.append(Glyph(area(item.mark, has_colour=has_colour), item.mark.ink))
        row += [Glyph(char, Ink.DIM) for char in text]
    return tuple(row)


def density_words(layout: MapLayout, field: MapField, *, is_mean: bool) -> str:
    """How much one cell is, and which mark several GPUs share."""
    text = WORDS[layout.density]
    if layout.density == "numbers" and field.name_of is None:
        return f"{field.title if field.keys else 'SM active'}, {field.unit} per GPU"
    if not layout.is_by_node:
        return text
    if not is_mean:
        return f"{text}: worst"
    return f"{text}: mean" if field.keys else f"{text}: most"


def spot_words(map_marks: MapMarks, layout: MapLayout, spot: Spot, *, is_mean: bool) -> str:
    """The GPU or the node under the cursor, its job, its value and its verdict, in one line."""
    if layout.is_by_node:
        return _node_words(map_marks, spot.unit, is_mean)
    node = map_marks.digest.tick.nodes[spot.unit.name]
    if spot.slot >= len(node.gpu_uuids):
        if not node.gpu_uuids and node.errors:
            return f"{spot.unit.name}: {node.errors[0].message}"
        state = f", {node.state}" if node.state else ""
        return f"{spot.unit.name}: no telemetry names this GPU{state}"
    return " · ".join(_gpu_parts(map_marks, spot, node))


def _gpu_parts(map_marks: MapMarks, spot: Spot, node: Node) -> list[str]:
    digest = map_marks.digest
    uuid = node.gpu_uuids[spot.slot]
    gpu = digest.tick.gpus.get(uuid)
    if gpu is None:
        return [f"{node.name}:{spot.slot}", "no telemetry"]
    index = spot.slot if gpu.nvml_index is None else gpu.nvml_index
    parts = [f"{node.name}:{index}"]
    view = map_marks.holder(uuid)
    if view is not None:
        parts.append(f"job {view.job.label} {view.job.user} {view.job.name}".rstrip())
    elif map_marks.has_unseen_holders(spot.unit):
        parts.append(OTHERS.words)
    elif gpu.compute_processes:
        count = len(gpu.compute_processes)
        parts.append(f"no job, {count} process{'es' if count > 1 else ''}")
    else:
        parts.append("free")
    parts.append(_value(map_marks, gpu, node, spot.slot))
    finding = gravest_by_gpu(digest).get(uuid)
    if finding is not None:
        parts.append(finding_cell(digest.tick, finding).text)
    return parts + _closure(node)


def _value(map_marks: MapMarks, gpu: Gpu, node: Node, slot: int) -> str:
    """The field's value, or why there is none."""
    field = map_marks.field
    if gpu.is_stale:
        return stale_words(map_marks.digest, gpu)
    if not field.keys:
        value = activities(map_marks.digest, node)[slot]
        is_duty = gpu.value("sm_active_ratio") is None
        return f"{'duty cycle' if is_duty else 'SM active'} {_number(value, '%')}"
    value = shares(map_marks.digest, node, field)[slot]
    if value is not None:
        return f"{field.title} {_number(value, field.unit)}"
    reason = gpu.reason(field.keys[0])
    why = reading_words(map_marks.digest, gpu, reason) if reason else reason_words(reason)
    return f"{field.title} –{f' ({why})' if why else ''}"


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return units.MISSING
    return units.quantity(value, "C") if unit == "°C" else f"{units.percent(value)} %"


def _silence(digest: Digest, node: Node) -> list[str]:
    """How long a node has been silent; nothing while it reports, or is not watched."""
    if not node.is_silent or node.taken_at is None:
        return []
    return [f"node stale {short_duration(digest.tick.at - node.taken_at)}"]


def _closure(node: Node) -> list[str]:
    """Slurm's state of a node that takes no jobs."""
    return [] if node.state is None or is_open(node.state) else [f"node {node.state}"]


def _node_words(map_marks: MapMarks, unit: Unit, is_mean: bool) -> str:
    digest, field = map_marks.digest, map_marks.field
    node = digest.tick.nodes[unit.name]
    jobs = {view.job.label: view for u in node.gpu_uuids if (view := map_marks.holder(u))}
    held = map_marks.used(unit)
    mark = map_marks.node_mark(unit, is_mean)
    silence, closure = _silence(digest, node), _closure(node)
    shown = (FREE, OTHERS, *([STALE] if silence else []), *([DRAINED, DOWN] if closure else []))
    # The problem comes before its job: on narrow terminals the end is cut off.
    parts = [unit.name, *silence, *closure]
    if mark in (CRITICAL, WARNING, INFO):
        parts.append(_gravest_words(digest, node))
    elif not mark.is_filled and mark not in shown:
        parts.append(mark.words)
    parts.append(f"{held} of {units.gpus(unit.size)} held")
    if len(jobs) == 1:
        ((label, view),) = jobs.items()
        parts.append(f"job {label} {view.job.user} {view.job.name}".rstrip())
    elif jobs:
        parts.append(units.counted(len(jobs), "job"))
    values = shares(digest, node, field) if field.keys else activities(digest, node)
    known = [value for value in values if value is not None]
    title = field.title if field.keys else "SM active"
    unit_sign = field.unit if field.keys else "%"
    if known:
        low = _number(min(known), unit_sign).partition(" ")[0]
        high = _number(max(known), unit_sign)
        mean = _number(sum(known) / len(known), unit_sign)
        is_one = high.partition(" ")[0] == low
        parts.append(f"{title} {high if is_one else f'{low} to {high}, mean {mean}'}")
    return " · ".join(parts)


def _gravest_words(digest: Digest, node: Node) -> str:
    """The gravest finding about a GPU of the node."""
    by_gpu = gravest_by_gpu(digest)
    found = [by_gpu[uuid] for uuid in node.gpu_uuids if uuid in by_gpu]
    gravest = max(found, key=lambda finding: mark_of(digest.tick, finding).rank)
    return finding_cell(digest.tick, gravest).text
