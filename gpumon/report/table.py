"""A tick as plain text for `--once` and for output that is no terminal: no colours, no escapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from gpumon.report import units
from gpumon.report.columns import GAP, arranged, fit, place, safe, usual
from gpumon.report.digest import Digest
from gpumon.report.ended import ended_title
from gpumon.report.ended_columns import ENDED_COLUMNS
from gpumon.report.gpu_columns import FLEET_COLUMNS, fleet_order
from gpumon.report.job_columns import JOB_COLUMNS, default_order
from gpumon.report.passages import all_errors, error_lines, finding_lines, target_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumon.model.tick import Tick
    from gpumon.report.columns import Column, Line

DEFAULT_WIDTH: Final = 100

R = TypeVar("R")


def table(tick: Tick, width: int = DEFAULT_WIDTH) -> str:
    """Jobs, or GPUs where there are no jobs, then findings and errors; ends in a line break."""
    digest = Digest(tick)
    lines: list[str] = []
    if tick.jobs:
        jobs = arranged(tick.jobs, lambda view: default_order(digest, view))
        lines += table_lines(digest, JOB_COLUMNS, jobs, width)
    elif digest.gpu_rows:
        rows = arranged(digest.gpu_rows, lambda row: fleet_order(digest, row))
        lines += table_lines(digest, FLEET_COLUMNS, rows, width)
    else:
        lines.append("no jobs and no GPUs")
    if tick.ended is not None:
        lines += ["", ended_title(tick.ended)]
        if tick.ended.jobs:
            lines += table_lines(digest, ENDED_COLUMNS, tick.ended.jobs, width)
    for finding in digest.all_findings:
        lines += ["", safe(finding.subject)]
        lines += plain_lines(finding_lines(finding, width))
    errors = all_errors(tick)
    if errors:
        lines += ["", *plain_lines(error_lines(errors, width))]
    lines += ["", *plain_lines(target_lines(tick, width)), _footer(tick)]
    return "\n".join(lines) + "\n"


def table_lines(
    digest: Digest, columns: Sequence[Column[R]], rows: Iterable[R], width: int
) -> list[str]:
    """Titles and one line per row, at most `width` cells wide, blanks at the end cut off."""
    placed = place(usual(columns), width)
    gap = " " * GAP
    lines = [gap.join(fit(p.column.title, p.width, p.column.align) for p in placed)]
    lines += [
        gap.join(fit(p.column.cell(digest, row).text, p.width, p.column.align) for p in placed)
        for row in rows
    ]
    return [line.rstrip() for line in lines]


def plain_lines(lines: Iterable[Line]) -> list[str]:
    """Toned lines as text."""
    return ["".join(safe(cell.text) for cell in line).rstrip() for line in lines]


def _footer(tick: Tick) -> str:
    """When the picture was taken, and since when was observed."""
    at = units.clock_time(tick.at, with_seconds=True)
    looked = units.short_duration(max(0.0, tick.at - tick.observed_since))
    return f"at {at}, observed for {looked}"
