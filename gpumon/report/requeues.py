"""How often a job was requeued, and why as far as Slurm tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.report.words import some_names

if TYPE_CHECKING:
    from gpumon.model.cluster import JobView
    from gpumon.report.digest import Digest

_CAUSES: Final = {
    "NodeDown": "a node failed",
    "SystemFailure": "a system failed",
    "JobLaunchFailure": "it could not be launched",
    "JobHoldMaxRequeue": "too often, it is held now",
}
"""Slurm's reasons of a waiting job that speak of its last run, as the page "Job Reason Codes" has
them. After most requeues Slurm only says BeginTime, and nothing of the cause."""

_FAILED_STATES: Final = frozenset({"down", "fail", "error", "not_responding"})


def requeue_words(digest: Digest, view: JobView) -> str:
    """`once`, `2 times: a node failed`; empty for a job that was not requeued."""
    count = view.job.restart_count or 0
    if not count:
        return ""
    times = "once" if count == 1 else f"{count} times"
    cause = _cause(digest, view) if view.job.state == "PENDING" else ""
    return f"{times}: {cause}" if cause else times


def _cause(digest: Digest, view: JobView) -> str:
    """What Slurm's reason says, or which node of the run before is down."""
    if view.job.reason in _CAUSES:
        return _CAUSES[view.job.reason]
    nodes = [digest.tick.nodes.get(name) for name in dict.fromkeys(r.node for r in view.ranks)]
    failed = tuple(
        node.name for node in nodes if node and set((node.state or "").split("+")) & _FAILED_STATES
    )
    if not failed:
        return ""
    return f"{some_names(failed)}, where it ran, {'is' if len(failed) == 1 else 'are'} down"
