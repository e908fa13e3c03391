"""What bounds a job or a GPU, how far below it is, and its roofline: an estimate."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.gpu.ceilings import memory_bytes_per_s, operations_per_s
from gpumon.report.text import units
from gpumon.report.text.cells import Cell, Tone, fit, paragraph
from gpumon.report.wording.what_bounds import BOUND, name_of, what_bounds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumon.model.gpu.ceilings import Ceiling
    from gpumon.model.gpu.hardware import Sheet
    from gpumon.model.records.cluster import Gpu, JobView
    from gpumon.report.charts.roofline import Roof
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Line
    from gpumon.report.wording.what_bounds import Past

_DOTS: Final = 400
"""Dots that show the spread, at most: each GPU one, of few GPUs stretches of time."""

_BAR: Final = 20
_NAME: Final = 28
_WIDE: Final = 100
"""Cells from which there is room for a bar."""

_SEEN: Final = 0.005
"""Share from which a pipe beside the busiest one has a line: half a per cent."""

_SIZES: Final = ((1e15, "P"), (1e12, "T"), (1e9, "G"))


class SpeedOfLight(NamedTuple):
    """A page: lines, and the roofline below them, where there is one."""

    lines: list[Line]
    roof: Roof | None


def speed_of_light(
    digest: Digest, gpus: Sequence[Gpu], view: JobView | None, span_s: float, width: int
) -> SpeedOfLight:
    """The page about some GPUs.

    Args:
        digest: The tick with its past.
        gpus: All of a job's, or one.
        view: The job whose they are; None: one GPU, whichever job holds it.
        span_s: How much of the past counts.
        width: Cells across.
    """
    found = what_bounds(digest, gpus, view, span_s)
    sheet, past = found.sheet, found.past
    if sheet is None or past is None:
        return SpeedOfLight(paragraph(found.why_unknown, width, Tone.DIM), None)
    lines = _head(found.gpu_count, span_s, width)
    if found.why_unknown:
        lines += paragraph(found.why_unknown, width, Tone.WARN)
    for text in filter(None, (found.verdict, found.clock)):
        lines += paragraph(text, width, Tone.INFO)
    pipes = [one for one in found.ceilings if one.is_compute]
    quiet = [one for one in pipes[1:] if one.ratio < _SEEN]
    lines += [_ceiling_line(one, sheet, width) for one in found.ceilings if one not in quiet]
    if found.note:
        lines += paragraph(found.note, width, Tone.DIM)
    return SpeedOfLight(lines, _roof(sheet, found.values, pipes, past) if pipes else None)


def _head(count: int, span_s: float, width: int) -> list[Line]:
    whose = f"mean of {count} GPUs" if count > 1 else "one GPU"
    text = f"{whose} over the last {units.short_duration(span_s)}: an estimate of the most"
    return [(Cell("Speed of light ", Tone.STRONG), Cell(fit(text, max(0, width - 15)), Tone.DIM))]


def _ceiling_line(one: Ceiling, sheet: Sheet, width: int) -> Line:
    """A name, a bar, a share, and what it does of what it could."""
    full = round(_BAR * min(1.0, one.ratio))
    tone = Tone.WARN if one.ratio >= BOUND else Tone.PLAIN
    cells = [Cell(fit(name_of(one.what, sheet), _NAME))]
    if width >= _WIDE:
        cells += [Cell("█" * full, tone), Cell("░" * (_BAR - full), Tone.DIM)]
    cells.append(Cell(f" {units.percent(min(1.0, one.ratio)):>4} %", tone))
    text = f"   {_amount(one, one.reached_per_s)} of {_amount(one, one.per_s)}"
    if one.is_compute and width >= _WIDE:
        text += f" (data sheet {_amount(one, one.published_per_s)})"
    return (*cells, Cell(text, Tone.DIM))


def _amount(one: Ceiling, per_s: float) -> str:
    if not one.is_compute:
        return units.rate(per_s)
    noun = "OPS" if one.what == "int8" else "FLOPS"
    size, sign = next((pair for pair in _SIZES if per_s >= pair[0]), _SIZES[-1])
    return f"{per_s / size:.3g} {sign}{noun}"


def _roof(sheet: Sheet, values: Mapping[str, float], pipes: Sequence[Ceiling], past: Past) -> Roof:
    """The roofline: two ceilings of pipes at most, the fastest and the one that does the most."""
    # Imported here, because numpy comes with it.
    from gpumon.report.charts.roofline import Place, Roof

    fastest = max(pipes, key=lambda one: one.per_s)
    shown = {one.what: one for one in (fastest, *pipes)}
    drawn = sorted(list(shown.values())[:2], key=lambda one: -one.per_s)
    memory = sheet.memory_bytes_per_s.value
    return Roof(
        memory_per_s=memory,
        peaks=tuple(
            (f"{name_of(one.what, sheet)} {_amount(one, one.per_s)}", one.per_s) for one in drawn
        ),
        memory_label=f"memory {units.rate(memory)}",
        point=Place(*_place(sheet, values)),
        spread=tuple(Place(*_place(sheet, part)) for part in _parts(past)),
    )


def _parts(past: Past) -> list[dict[str, float]]:
    """Means of each GPU, of few GPUs over stretches of time."""
    rows, _, count = past.values.shape
    every = -(-count // _DOTS)
    stretches = min(rows, max(1, _DOTS // count))
    edges = [rows * number // stretches for number in range(stretches + 1)]
    return [
        past.means(slice(first, last), slice(gpu, gpu + 1))
        for gpu in range(0, count, every)
        for first, last in pairwise(edges)
    ]


def _place(sheet: Sheet, values: Mapping[str, float]) -> tuple[float, float]:
    """Operations for each byte, NaN where nothing is moved, and each second."""
    done, moved = operations_per_s(sheet, values), memory_bytes_per_s(sheet, values)
    return done / moved if moved > 0.0 else float("nan"), done
