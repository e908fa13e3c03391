"""`--filter`: the language of the terminal's `/` for everything that the command shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.cluster import JobView
    from gpumon.model.records.tick import Tick
    from gpumon.report.facts.rows import GpuRow
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.lists.filter_tables import RowFilter


def why_refused(passes: RowFilter | None) -> str:
    """Why no document can be made with a filter: it is not about jobs; empty: one can."""
    if passes is None or passes.jobs is not None:
        return ""
    who = "GPUs" if passes.processes is None else "processes"
    return f"--filter names columns that only {who} have; a document filters jobs"


def passing(
    passes: RowFilter | None, tick: Tick, wanted: Callable[[JobView], bool] = lambda _view: True
) -> Callable[[JobView], bool]:
    """Which of the wanted jobs of a picture pass the filter, where there is one."""
    passes_jobs = None if passes is None else passes.jobs
    if passes_jobs is None:
        return wanted
    from gpumon.report.facts.tick_index import Digest

    digest = Digest(tick)
    return lambda view: wanted(view) and passes_jobs(digest, view)


def passing_gpus(passes: RowFilter | None) -> Callable[[Digest, GpuRow], bool] | None:
    """Which GPUs pass the filter of nodes that no queue lists; None: there it says nothing."""
    return None if passes is None else passes.gpus


def narrowed(
    passes: RowFilter | None, *, job: str | None = None, user: str | None = None
) -> RowFilter | None:
    """The filter narrowed to the job that was named, else to the user."""
    if job is not None:
        return _only(passes, "job", job)
    return passes if user is None else _only(passes, "user", user)


def _only(passes: RowFilter | None, column: str, name: str) -> RowFilter | None:
    """The filter narrowed to one name; as it is where no filter can be written with such a name."""
    from gpumon.report.filter.tree import FilterError
    from gpumon.report.lists.filter_tables import understood

    before = f"({passes.text}) & " if passes is not None and passes.text.strip() else ""
    quote = "'" if '"' in name else '"'
    try:
        return understood(f"{before}{column}=={quote}{name}{quote}")
    except FilterError:
        return passes
