"""The row filter of a whole command: about jobs where there are any, else GPUs, else processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpumon.report.filter.bind import row_filter
from gpumon.report.filter.tree import FilterError
from gpumon.report.tables.gpu import FLEET_COLUMNS, fleet_search_text
from gpumon.report.tables.job import JOB_COLUMNS, search_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.cluster import JobView
    from gpumon.report.facts.rows import GpuRow
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.tables.process import ProcessRow


class RowFilter(NamedTuple):
    """A filter bound to the tables that a command may show."""

    text: str
    jobs: Callable[[Digest, JobView], bool] | None
    """Whether a job passes; None: it names columns that jobs lack."""
    gpus: Callable[[Digest, GpuRow], bool] | None
    """Whether a GPU passes; None: it names columns that GPUs lack."""
    processes: Callable[[Digest, ProcessRow], bool] | None = None
    """Whether a process passes; None: GPUs can be filtered so, or processes cannot."""


def understood(text: str) -> RowFilter:
    """The filter of a command.

    Raises:
        FilterError: Nothing of these can be filtered so; the message names what jobs miss.
    """
    gpus = _of_gpus(text)
    processes = _of_processes(text) if gpus is None else None
    try:
        jobs = row_filter(text, JOB_COLUMNS, search_text)
    except FilterError as error:
        if gpus is None and processes is None:
            raise error from None
        return RowFilter(text, None, gpus, processes)
    return RowFilter(text, jobs, gpus, processes)


def _of_gpus(text: str) -> Callable[[Digest, GpuRow], bool] | None:
    try:
        return row_filter(text, FLEET_COLUMNS, fleet_search_text)
    except FilterError:
        return None


def _of_processes(text: str) -> Callable[[Digest, ProcessRow], bool] | None:
    from gpumon.report.lists.all_processes import ALL_PROCESS_COLUMNS, process_search

    try:
        return row_filter(text, ALL_PROCESS_COLUMNS, process_search)
    except FilterError:
        return None
