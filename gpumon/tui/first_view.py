"""Which view of the whole fleet a terminal begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.tui.action import ROOTS

if TYPE_CHECKING:
    from gpumon.model.tick import Tick
    from gpumon.report.filter_tables import RowFilter
    from gpumon.tui.action import ViewName

MANY_NODES: Final = 33
"""Nodes from which on who sees everybody's jobs begins with the map of the fleet: a list of them
no longer fits on a screen. Who sees only their own begins with these, however large the cluster."""

NEED_NO_QUEUE: Final[tuple[ViewName, ...]] = ("gpus", "nodes", "fleet")
"""Views that show something where none of the targets is a queue."""


def first_view(tick: Tick, last: str | None, passes: RowFilter | None) -> ViewName:
    """The view that a filter is about, else the one of last time, else what suits the fleet.

    Args:
        tick: The first picture.
        last: What was chosen last; a view that would be empty here, or is none, does not count.
        passes: The filter of the command line.
    """
    has_queue = tick.queue_at is not None or any("slurm" in t.url for t in tick.targets)
    has_jobs = has_queue or bool(tick.jobs)
    if passes is not None:
        is_of_gpus = passes.jobs is None
        return "gpus" if is_of_gpus or (tick.gpus and not has_jobs) else "jobs"
    for root in ROOTS:
        if root == last and (has_jobs or root in NEED_NO_QUEUE):
            return root
    users = {view.job.user for view in tick.jobs}
    if len(tick.nodes) >= MANY_NODES and len(users) > 1:
        return "fleet"
    return "jobs" if has_jobs or not (tick.gpus or tick.targets) else "gpus"
