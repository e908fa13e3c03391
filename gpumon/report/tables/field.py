"""Catalogue fields as a table: value, what to compare it with, past, meaning."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.catalogue.field import Field, Kind
from gpumon.model.catalogue.fields import clock_event_names
from gpumon.model.gpu.code_names import FABRIC_HEALTH, FABRIC_STATES, RECOVERY_ACTIONS, code_name
from gpumon.model.records.cluster import Gpu
from gpumon.report.facts.columns import Column
from gpumon.report.facts.rows import BlockRow
from gpumon.report.tables.sections import table_section
from gpumon.report.text import units
from gpumon.report.text.cells import EMPTY_CELL, NO_VALUE, Cell, Tone
from gpumon.report.wording.trend import BARS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.report.facts.rows import Readable
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.tables.sections import Section

PAST_WIDTH: Final = 20
"""Buckets of a field's past; at one sample a second each holds a few seconds or minutes."""

SPANS_S: Final = (60.0, 120.0, 300.0, 600.0)
"""Spans of the past that are drawn, seconds: the shortest that holds what was observed."""


class FieldRow(NamedTuple):
    """One field of one entity."""

    entity: Readable
    field: Field
    label: str
    """What people call it."""
    of: str = ""
    """What to compare the value with: a limit, a peak, a total."""
    uuid: str = ""
    """GPU whose history holds the field's past; empty: there is none."""

    @property
    def key(self) -> str:
        """The field's key."""
        return self.field.key


def span_s(digest: Digest) -> float:
    """Seconds of the past that curves show."""
    observed_s = digest.tick.at - digest.tick.observed_since
    return next((span for span in SPANS_S if span >= observed_s), SPANS_S[-1])


def bars(
    times: Sequence[float],
    values: Sequence[float],
    span: tuple[float, float],
    bounds: tuple[float, float],
    width: int,
) -> str:
    """The values as `width` blocks of equal time between two fixed bounds, the newest at the right.

    A block is the mean of the values of its time, a blank where nothing is known.
    """
    (start, end), (low, high) = span, bounds
    sums, counts = [0.0] * width, [0] * width
    for at, value in zip(times, values, strict=True):
        if not isnan(value) and start <= at <= end:
            block = min(width - 1, int((at - start) / (end - start) * width))
            sums[block] += value
            counts[block] += 1
    drawn = []
    for total, count in zip(sums, counts, strict=True):
        share = (total / count - low) / (high - low) if count else 0.0
        level = max(0, min(len(BARS) - 1, round(share * (len(BARS) - 1))))
        drawn.append(BARS[level] if count else " ")
    return "".join(drawn)


def bound_of(entity: Readable, key: str) -> float | int | None:
    """What a scale ends at: the last known value, as a scale must not jump in a silence."""
    if isinstance(entity, Gpu | BlockRow):
        return entity.block.value(key, entity.row)
    return entity.value(key)


def scale(entity: Readable, field: Field, largest: float) -> tuple[float, float] | None:
    """The bounds a field is drawn between; None: its past is of no use as a curve.

    Bounds are fixed where the catalogue or the board knows them, else a round number above the
    largest value, so that the curve does not jump with every sample.
    """
    if field.kind not in (Kind.GAUGE, Kind.RATE) or not field.is_kept:
        return None
    if field.unit == "ratio":
        return (0.0, 1.0)
    bound = _BOUNDS.get(field.key)
    if bound is not None:
        return (0.0, float(bound_of(entity, bound) or round_up(largest)))
    if field.unit == "C":
        return (0.0, 100.0)
    return (0.0, round_up(largest)) if field.kind is Kind.RATE else None


_BOUNDS: Final = {
    "mem_used_bytes": "mem_total_bytes",
    "power_w": "power_limit_w",
    "sm_clock_mhz": "sm_clock_max_mhz",
}
"""Fields that are drawn up to another one."""


def round_up(value: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** (len(str(int(value))) - 1) if value >= 1 else 1.0
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def past_cell(digest: Digest, row: FieldRow) -> Cell:
    """The last minutes as blocks, the newest at the right."""
    tick, field = digest.tick, row.field
    if tick.history is None or not row.uuid or scale(row.entity, field, 1.0) is None:
        return EMPTY_CELL
    start = tick.at - span_s(digest)
    times, values = tick.history.window(row.uuid, field.key, start, tick.at)
    known = [value for value in values if not isnan(value)]
    bounds = scale(row.entity, field, max(known, default=0.0))
    if bounds is None or not known:
        return EMPTY_CELL
    return Cell(bars(times, values, (start, tick.at), bounds, PAST_WIDTH), Tone.PAST)


def value_cell(_digest: Digest, row: FieldRow) -> Cell:
    """The newest value with its unit; codes and bits as words."""
    value = row.entity.value(row.field.key)
    return NO_VALUE if value is None else Cell(field_text(row.field, value))


def field_text(field: Field, value: float) -> str:
    """A value of the catalogue as people read it."""
    names = CODES.get(field.key)
    if names is not None:
        return code_name(value, names) or units.MISSING
    if field.key == "clock_event_reasons":
        return ", ".join(clock_event_names(int(value))) or "none"
    if field.key == "uptime_s":
        return units.short_duration(value)
    if field.unit == "s" and value < 1:
        return units.milliseconds(value, 1)
    return units.quantity(value, field.unit)


_YES_NO: Final = {0: "no", 1: "yes"}
_ON_OFF: Final = {0: "off", 1: "on"}

CODES: Final = {
    "recovery_action": RECOVERY_ACTIONS,
    "fabric_state": FABRIC_STATES,
    "fabric_health": FABRIC_HEALTH,
    "remap_pending": _YES_NO,
    "remap_failure": _YES_NO,
    "retired_pages_pending": _YES_NO,
    "persistence_mode": _ON_OFF,
    "mig_mode": _ON_OFF,
    "ecc_mode": _ON_OFF,
    "compute_mode": {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"},
    "perf_state": {number: f"P{number}" for number in range(16)},
    "link_state": {0: "inactive", 1: "active", 2: "asleep", 3: "no traffic"},
    "link_version": {
        1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0",
    },
}  # fmt: skip
"""Words for the values of fields that are codes."""


FIELD_COLUMNS: Final[tuple[Column[FieldRow], ...]] = (
    Column(
        "field",
        "WHAT",
        19,
        "left",
        priority=0,
        cell=lambda _d, r: Cell(r.label),
        order=None,
        doc="What is measured; / also finds it by its key in JSON.",
        max_width=24,
    ),
    Column(
        "value",
        "NOW",
        11,
        "left",
        priority=0,
        cell=value_cell,
        order=None,
        doc="Newest value.",
        max_width=14,
    ),
    Column(
        "of",
        "OF",
        22,
        "left",
        priority=0,
        cell=lambda _d, r: Cell(r.of, Tone.DIM),
        order=None,
        doc="What to compare the value with: a limit, a peak of the data sheet, a total.",
        max_width=26,
    ),
    Column(
        "past",
        "PAST",
        PAST_WIDTH,
        "left",
        priority=1,
        cell=past_cell,
        order=None,
        doc="The last minutes, from 0 to the value under OF, the newest on the right; a blank is "
        "unknown.",
    ),
    Column(
        "meaning",
        "MEANING",
        20,
        "left",
        priority=2,
        cell=lambda _d, r: Cell(r.field.doc, Tone.DIM),
        order=None,
        doc="What the field means.",
        max_width=120,
    ),
    Column(
        "key",
        "KEY",
        22,
        "left",
        priority=3,
        cell=lambda _d, r: Cell(r.field.key, Tone.DIM),
        order=None,
        doc="Key of the field in JSON.",
        max_width=30,
    ),
)
"""A field table has the order of its section: its columns do not sort."""


def search_text(row: FieldRow) -> str:
    """What the filter looks through beside what is shown, lower case."""
    return f"{row.field.key}\n{row.field.doc}".lower()


def field_table(
    title: str,
    digest: Digest,
    rows: Sequence[FieldRow],
    width: int,
    columns: Sequence[Column[FieldRow]] = FIELD_COLUMNS,
) -> Section:
    """A section of fields, whose columns are aligned with those of every other one."""
    return table_section(
        title,
        digest,
        columns,
        rows,
        width,
        lambda row: row.key,
        search=search_text,
        has_all_columns=True,
    )
