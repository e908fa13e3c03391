"""The row filter of a whole command: about jobs where it can be, else about GPUs."""

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


class RowFilter(NamedTuple):
    """A filter bound to both tables that a command may show."""

    text: str
    jobs: Callable[[Digest, JobView], bool] | None
    """Whether a job passes; None: it names columns that only GPUs have."""
    gpus: Callable[[Digest, GpuRow], bool] | None
    """Whether a GPU passes; None: it names columns that only jobs have."""


def understood(text: str) -> RowFilter:
    """The filter of a command.

    Raises:
        FilterError: Neither jobs nor GPUs can be filtered so; the message names what jobs miss.
    """
    try:
        jobs = row_filter(text, JOB_COLUMNS, search_text)
    except FilterError as error:
        gpus = _of_gpus(text)
        if gpus is None:
            raise error from None
        return RowFilter(text, None, gpus)
    return RowFilter(text, jobs, _of_gpus(text))


def _of_gpus(text: str) -> Callable[[Digest, GpuRow], bool] | None:
    try:
        return row_filter(text, FLEET_COLUMNS, fleet_search_text)
    except FilterError:
        return None
