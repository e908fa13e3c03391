"""What became of a cancel or a requeue, as the answers of the queue show it.

That Slurm's command ended well says little: `scancel` does so, too, where it has found no such job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.job_name import job_name
from gpumon.model.job_states import has_ended

if TYPE_CHECKING:
    from gpumon.model.job_name import JobName
    from gpumon.model.records.cluster import Job
    from gpumon.model.records.tick import Tick
    from gpumon.report.next_steps.commands import Change

ANSWERS: Final = 3
"""Answers of the queue after which what has not shown is reported as missing."""

SILENT_S: Final = 120.0
"""Seconds without any answer of the queue, after which nothing is known."""

_WAITING: Final = frozenset({"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"})
"""States of a job that is queued again."""


class Awaited(NamedTuple):
    """A change that was sent, and that no answer of the queue has shown yet."""

    change: Change
    restarts: dict[str, int]
    """How often each job that it is about had restarted before, by label."""
    sent_at: float
    """Unix time of the tick before it."""
    queue_at: float | None
    """Unix time of the newest answer that was read."""
    answers: int = 0
    """Answers that have not shown it."""


def awaited(change: Change, tick: Tick) -> Awaited:
    """A change that was sent just now, beside what was known before."""
    restarts = {job.label: job.restart_count or 0 for job in _concerned(change.job, tick)}
    return Awaited(change, restarts, tick.at, tick.queue_at)


def progress_of(one: Awaited, tick: Tick) -> tuple[Awaited | None, str]:
    """What a tick shows of a change.

    Returns:
        The change, as long as it has to be awaited, and what to report once it has not.
    """
    if tick.queue_at is None or tick.queue_at == one.queue_at:
        if tick.at - one.sent_at > SILENT_S and not one.answers:
            return None, "sent, but the queue has not answered since: look with squeue"
        return one, ""
    jobs = _concerned(one.change.job, tick)
    left = _left_to_do(one, jobs)
    if left is None:
        return None, f"done: {_seen(one.change, jobs)}"
    one = one._replace(queue_at=tick.queue_at, answers=one.answers + 1)
    if one.answers < ANSWERS:
        return one, ""
    return None, f"sent, but after {ANSWERS} answers of the queue {left}"


def why_not_now(change: Change, tick: Tick | None) -> str:
    """Why a change would not do what its page says any more; empty: it would."""
    if tick is None or tick.queue_at is None:
        return ""
    target = change.job
    alive = [job for job in _concerned(target, tick) if not has_ended(job.state)]
    if not alive:
        return f"the queue no longer lists {target.label} as a job that could be ended"
    if target.waits_together:
        names = [name for job in alive if (name := job_name(job.job_id, job.label))]
        if len(names) != 1 or names[0].label != target.label:
            now = ", ".join(name.label or name.shown for name in names[:4])
            return f"some of {target.label} have changed by now: {now}"
    return ""


def _concerned(target: JobName, tick: Tick) -> list[Job]:
    """Records of the queue that a command about this job is about."""
    named = ((view.job, job_name(view.job.job_id, view.job.label)) for view in tick.jobs)
    return [job for job, name in named if name is not None and target.covers(name)]


def _left_to_do(one: Awaited, jobs: list[Job]) -> str | None:
    """What of a change does not show yet; None: it shows."""
    if one.change.kind == "cancel":
        alive = [j for j in jobs if not has_ended(j.state) and j.state != "COMPLETING"]
        return f"{alive[0].label} is still {alive[0].state}" if alive else None
    if not jobs:
        return f"{one.change.job.label} has left it instead of waiting again"
    for job in jobs:
        has_restarted = (job.restart_count or 0) > one.restarts.get(job.label, 0)
        if job.state not in _WAITING and not has_restarted:
            return f"{job.label} is still {job.state}"
    return None


def _seen(change: Change, jobs: list[Job]) -> str:
    """What shows that a change was made."""
    if not jobs:
        return f"{change.job.label} has left the queue"
    return f"the queue shows {jobs[0].label} {jobs[0].state}"
