"""A tick as plain text for `--once` and for output that is no terminal: no colours, no escapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from gpumon.report.facts.columns import GAP, arranged, place, usual, widened
from gpumon.report.facts.rows import host_row
from gpumon.report.facts.tick_index import Digest
from gpumon.report.headline.lines import headline
from gpumon.report.tables.ended import ENDED_COLUMNS
from gpumon.report.tables.gpu import FLEET_COLUMNS, fleet_order, fleet_widths
from gpumon.report.tables.host import load_facts
from gpumon.report.tables.job import JOB_COLUMNS, default_order
from gpumon.report.tables.process import (
    MACHINE_PROCESS_COLUMNS,
    PROCESS_NODE_COLUMN,
    all_process_rows,
    unread_words,
)
from gpumon.report.text import units
from gpumon.report.text.cells import fit, safe
from gpumon.report.wording.ended import ended_title
from gpumon.report.wording.gpu_cells import processes_of
from gpumon.report.wording.paragraphs import (
    all_errors,
    error_lines,
    facts,
    finding_lines,
    target_lines,
)
from gpumon.report.wording.space import space_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gpumon.model.finding import Finding
    from gpumon.model.records.cluster import Gpu, Job, JobView
    from gpumon.model.records.tick import Tick
    from gpumon.report.facts.columns import Column
    from gpumon.report.facts.rows import GpuRow
    from gpumon.report.lists.filter_tables import RowFilter
    from gpumon.report.tables.process import ProcessRow
    from gpumon.report.text.cells import Line

DEFAULT_WIDTH: Final = 100
"""Columns of a table where no terminal reports its width. A choice: fits a mail and a log."""

R = TypeVar("R")


def table(
    tick: Tick,
    width: int = DEFAULT_WIDTH,
    passes: RowFilter | None = None,
    wanted: Callable[[Job], bool] | None = None,
    user: str | None = None,
) -> str:
    """The headline, jobs, or GPUs where there are none, findings and errors; ends in a line break.

    Findings are in the order of every list: what loses most comes first.

    Args:
        tick: What to report.
        width: Cells of a line.
        passes: Which jobs to report, with their findings; one that only GPUs or processes have
            columns for makes it their table. None: all.
        wanted: Which jobs were asked for by name. None: all.
        user: Where there are no jobs, whose GPUs: those on which this user has processes. None:
            everyone's.
    """
    digest = Digest(tick)
    rows, findings = _jobs_or_gpus(digest, width, passes, wanted, user)
    lines = plain_lines(headline(digest, width, is_tall=True))
    lines += ["", *rows] if lines else rows
    if tick.ended is not None:
        lines += ["", ended_title(tick.ended)]
        ended = [one for one in tick.ended.jobs if wanted is None or wanted(one.job)]
        if ended:
            lines += table_lines(digest, ENDED_COLUMNS, ended, width)
    for finding in digest.by_loss(findings):
        lines += ["", safe(finding.subject)]
        lines += plain_lines(finding_lines(tick, finding, width))
    errors = all_errors(tick)
    if errors:
        lines += ["", *plain_lines(error_lines(errors, width))]
    lines += ["", *plain_lines(target_lines(tick, width)), _footer(tick)]
    return "\n".join(lines) + "\n"


def _jobs_or_gpus(
    digest: Digest,
    width: int,
    passes: RowFilter | None,
    wanted: Callable[[Job], bool] | None,
    user: str | None,
) -> tuple[list[str], tuple[Finding, ...]]:
    """The table itself, and the findings about what it shows."""
    tick, findings = digest.tick, digest.tick.findings
    passes_gpu = None if passes is None else passes.gpus
    if tick.jobs and (passes is None or passes.jobs is not None):
        jobs = arranged(tick.jobs, lambda view: default_order(digest, view))
        passes_job = None if passes is None else passes.jobs
        if wanted is not None or passes_job is not None:
            jobs = [
                view
                for view in jobs
                if (wanted is None or wanted(view.job))
                and (passes_job is None or passes_job(digest, view))
            ]
            findings = tuple(f for view in jobs for f in digest.findings_by_job.get(_id(view), ()))
        lines = table_lines(digest, JOB_COLUMNS, jobs, width)
        return lines + _if_none(jobs, len(tick.jobs), "job"), findings
    if not digest.gpu_rows:
        return ["no jobs and no GPUs"], findings
    if passes is not None and passes.processes is not None:
        return _processes_alone(digest, width, passes.processes, user)
    rows = arranged(digest.gpu_rows, lambda row: fleet_order(digest, row))
    if user is not None:
        rows = [row for row in rows if any(one.is_of(user) for one in processes_of(digest, row))]
    if passes is not None:
        rows = [row for row in rows if passes_gpu is not None and passes_gpu(digest, row)]
    if passes is not None or user is not None:
        shown = [row.whole.uuid for row in rows if row.whole is not None]
        findings = tuple(f for uuid in shown for f in digest.findings_by_gpu.get(uuid, ()))
    columns = widened(FLEET_COLUMNS, fleet_widths(digest))
    lines = table_lines(digest, columns, rows, width)
    lines += _if_none(rows, len(digest.gpu_rows), "GPU")
    if tick.queue_at is None:
        lines += _host(rows, width)
        lines += _processes(digest, rows, width, user)
    return lines, findings


def _if_none(shown: Sequence[object], of: int, noun: str) -> list[str]:
    """That there are some of which none was asked for: a table without rows would say nothing."""
    return [] if shown else [f"none of {units.counted(of, noun)} matches"]


def _host(rows: Sequence[GpuRow], width: int) -> list[str]:
    """Load and space of the one machine that is shown, once it has reported anything."""
    nodes = {row.node.name: row.node for row in rows if row.node.taken_at is not None}
    if len(nodes) != 1:
        return []
    (node,) = nodes.values()
    pairs = (("host", node.name), *load_facts(host_row(node)), *space_facts(node))
    return ["", *plain_lines(facts(pairs, width))]


def _processes(digest: Digest, shown: Sequence[GpuRow], width: int, user: str | None) -> list[str]:
    """The processes on these GPUs, as below them in the terminal; of several nodes with theirs.

    Of a GPU that is shown by MIG instances alone those that run in them.
    """
    gpus = {row.gpu.uuid: row.gpu for row in shown if row.gpu is not None}
    on_them = {
        (row.gpu.uuid, one.pid)
        for row in shown
        if row.gpu is not None
        for one in processes_of(digest, row)
    }
    rows = [
        row
        for row in all_process_rows(digest, gpus.values())
        if (row.uuid, row.process.pid) in on_them
    ]
    if user is not None:
        rows = [row for row in rows if row.process.is_of(user)]
    return ["", *_process_table(digest, rows, gpus.values(), width)] if rows else []


def _processes_alone(
    digest: Digest,
    width: int,
    passes: Callable[[Digest, ProcessRow], bool],
    user: str | None,
) -> tuple[list[str], tuple[Finding, ...]]:
    """The processes that pass a filter, and the findings about their GPUs."""
    gpus = digest.tick.gpus
    every = all_process_rows(digest, gpus.values())
    rows = [
        row for row in every if (user is None or row.process.is_of(user)) and passes(digest, row)
    ]
    if not rows:
        noun = "process" if len(every) == 1 else "processes"
        return [f"none of {len(every):,} {noun} matches" if every else "no processes"], ()
    shown = dict.fromkeys(row.uuid for row in rows)
    findings = tuple(f for uuid in shown for f in digest.findings_by_gpu.get(uuid, ()))
    return _process_table(digest, rows, gpus.values(), width), findings


def _process_table(
    digest: Digest, rows: Sequence[ProcessRow], gpus: Iterable[Gpu], width: int
) -> list[str]:
    """Rows of processes, with their nodes where the GPUs are of several, and what is not known."""
    columns = MACHINE_PROCESS_COLUMNS
    if len({gpu.node for gpu in gpus}) > 1:
        columns = (PROCESS_NODE_COLUMN, *columns)
    why = unread_words(rows)
    return [*table_lines(digest, columns, rows, width), *([why[:width]] if why else [])]


def _id(view: JobView) -> str:
    return view.job.job_id


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
    """When the tick was taken, and since when was observed."""
    at = units.clock_time(tick.at, with_seconds=True)
    observed = units.short_duration(max(0.0, tick.at - tick.observed_since))
    return f"at {at}, observed for {observed}"
