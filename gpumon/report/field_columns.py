"""Every catalogue field of one GPU as a table: value, past, and why a value is missing."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.field import Field, Kind
from gpumon.model.fields import clock_event_names
from gpumon.model.gpu_fields import GPU_FIELDS
from gpumon.report import units
from gpumon.report.columns import EMPTY_CELL, NO_VALUE, Cell, Column, Tone
from gpumon.report.words import reason_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.model.cluster import Gpu
    from gpumon.report.digest import Digest

BARS: Final = "▁▂▃▄▅▆▇█"
PAST_WIDTH: Final = 24
"""Buckets of a field's past; at one sample a second each stands for a few seconds or minutes."""

SPANS_S: Final = (60.0, 120.0, 300.0, 600.0)
"""Spans of the past that are drawn, seconds: the shortest that holds what was observed."""


class FieldRow(NamedTuple):
    """One field of one GPU."""

    gpu: Gpu
    field: Field

    @property
    def key(self) -> str:
        """The field's key."""
        return self.field.key


def field_rows(gpu: Gpu) -> tuple[FieldRow, ...]:
    """The GPU's fields in catalogue order, numbers that only name something last.

    Raw byte counters are left out: their rates are shown.
    """
    shown = (f for f in GPU_FIELDS if f.kind is not Kind.COUNTER or f.unit != "bytes")
    return tuple(FieldRow(gpu, f) for f in sorted(shown, key=lambda f: f.kind is Kind.ID))


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


def scale(gpu: Gpu, field: Field, largest: float) -> tuple[float, float] | None:
    """The bounds a field is drawn between; None: its past says nothing as a curve.

    Bounds are fixed where the catalogue or the board knows them, else a round number above the
    largest value, so that the curve does not jump with every sample.
    """
    if field.kind not in (Kind.GAUGE, Kind.RATE):
        return None
    if field.unit == "ratio":
        return (0.0, 1.0)
    bound = {
        "mem_used_bytes": "mem_total_bytes",
        "power_w": "power_limit_w",
        "sm_clock_mhz": "sm_clock_max_mhz",
    }.get(field.key)
    if bound is not None:
        return (0.0, float(gpu.value(bound) or round_up(largest)))
    if field.key == "temp_c":
        return (0.0, 100.0)
    return (0.0, round_up(largest)) if field.kind is Kind.RATE else None


def round_up(value: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** (len(str(int(value))) - 1) if value >= 1 else 1.0
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def past_cell(digest: Digest, row: FieldRow) -> Cell:
    """The last minutes as blocks with their upper bound; for a missing value the reason instead."""
    tick, field = digest.tick, row.field
    reason = row.gpu.reason(field.key)
    if reason is not None:
        return Cell(reason_words(reason), Tone.WARN)
    if tick.history is None or scale(row.gpu, field, 1.0) is None:
        return EMPTY_CELL
    start = tick.at - span_s(digest)
    times, values = tick.history.window(row.gpu.uuid, field.key, start, tick.at)
    known = [value for value in values if not isnan(value)]
    bounds = scale(row.gpu, field, max(known, default=0.0))
    if bounds is None or not known:
        return EMPTY_CELL
    drawn = bars(times, values, (start, tick.at), bounds, PAST_WIDTH)
    return Cell(f"{drawn} {units.quantity(bounds[1], field.unit)}", Tone.PAST)


def value_cell(_digest: Digest, row: FieldRow) -> Cell:
    """The newest value with its unit; clock event bits as words."""
    value = row.gpu.value(row.field.key)
    if value is None:
        return NO_VALUE
    if row.field.key == "clock_event_reasons":
        return Cell(", ".join(clock_event_names(int(value))) or "none")
    return Cell(units.quantity(value, row.field.unit))


FIELD_COLUMNS: Final[tuple[Column[FieldRow], ...]] = (
    Column(
        "field",
        "FIELD",
        20,
        "left",
        0,
        lambda _d, r: Cell(r.field.key),
        None,
        "Key of the field, as in JSON.",
        24,
    ),
    Column(
        "value",
        "VALUE",
        14,
        "left",
        0,
        value_cell,
        None,
        "Newest value.",
        18,
    ),
    Column(
        "past",
        "PAST AND BOUND, OR WHY MISSING",
        PAST_WIDTH + 10,
        "left",
        1,
        past_cell,
        None,
        "The last minutes, from 0 to the bound beside it, the newest at the right; a blank is "
        "unknown. For a missing value the reason.",
    ),
    Column(
        "meaning",
        "MEANING",
        20,
        "left",
        2,
        lambda _d, r: Cell(r.field.doc, Tone.DIM),
        None,
        "What the field means.",
        120,
    ),
)
"""A field table keeps the catalogue's order: its columns do not sort."""


def search_text(digest: Digest, row: FieldRow) -> str:
    """What the row filter looks through, lower case."""
    return f"{row.field.key}\n{row.field.doc}\n{value_cell(digest, row).text}".lower()
