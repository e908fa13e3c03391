"""Why a job waits, since when, for what, and what would let it start sooner.

Only facts of the queue count: what is not known is shown as unknown, or left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.job_states import HOLDING_STATES
from gpumon.report.facts.array_tasks import asked_gpus, count_tasks, task_count
from gpumon.report.facts.pending_room import Hint, room_hints, time_hints
from gpumon.report.facts.slurm_nodes import job_partitions, partitions
from gpumon.report.text import units
from gpumon.report.text.cells import some_names
from gpumon.report.wording.queue_reasons import meaning_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.model.records.cluster import JobView
    from gpumon.report.facts.tick_index import Digest

_DEPENDENCY: Final = re.compile(r"(after\w*|before\w*|expand):([^,?(]+)")
"""One condition of Slurm's text, for example `afterok:123:124(unfulfilled)`."""

DEPENDENCY_WORDS: Final = {
    "after": "to start",
    "afterany": "to end",
    "afterok": "to succeed",
    "afternotok": "to fail",
    "aftercorr": "to succeed at the same task",
    "afterburstbuffer": "to stage its data out",
}
"""What a job waits for another one to do, by the type that sbatch(1) names."""


class Place(NamedTuple):
    """The place of a waiting job among those of its partition."""

    position: int
    """From 1, by priority, the older first among equals."""
    of: int
    """Jobs that wait in the partition and have a priority."""
    jobs_before: int
    """Arrays counted by task, as everywhere here."""
    gpus_before: int
    """GPUs that the jobs before it ask for, as far as Slurm says."""


def waiting(digest: Digest) -> tuple[JobView, ...]:
    """Jobs that wait."""
    return digest.remembered(
        ("waiting", ""),
        lambda: tuple(view for view in digest.tick.jobs if view.job.state == "PENDING"),
    )


def is_filtered(digest: Digest) -> bool:
    """Whether the queue has jobs that are not in view."""
    return digest.tick.queue is not None and digest.tick.queue.is_filtered


def place_of(digest: Digest, view: JobView) -> Place | None:
    """The place of a job among all that wait.

    None for one that is held, whose priority is not reported, or where others' jobs are left out.
    """
    if is_filtered(digest):
        return None
    places = digest.remembered(("places", ""), lambda: _places(digest))
    return places.get(view.job.job_id)


def _places(digest: Digest) -> Mapping[str, Place]:
    queues: dict[str, list[JobView]] = {}
    for view in waiting(digest):
        # A priority of 0 is how Slurm holds a job.
        if view.job.priority and (names := job_partitions(view.job)):
            queues.setdefault(names[0], []).append(view)
    found = {}
    for views in queues.values():
        views.sort(key=lambda v: (-(v.job.priority or 0), v.job.submit_at or 0.0, v.job.job_id))
        jobs, gpus, everyone = 0, 0, count_tasks(views)
        for view in views:
            found[view.job.job_id] = Place(jobs + 1, everyone, jobs, gpus)
            jobs += task_count(view.job)
            gpus += asked_gpus(view.job) or 0
    return found


def expected_start(view: JobView) -> float | None:
    """Unix time at which the scheduler expects to start the job, None where it does not say."""
    start = view.job.start_at
    return start if view.job.state == "PENDING" and start is not None else None


def start_words(digest: Digest, view: JobView) -> str:
    """`in 2h14m`, `now` for a moment that has passed; empty where it is not reported."""
    start = expected_start(view)
    if start is None:
        return ""
    left = start - digest.tick.at
    return f"in {units.short_duration(left)}" if left > 0 else "now"


def moment_words(digest: Digest, at: float) -> str:
    """`18:00, in 5h30m`."""
    left = at - digest.tick.at
    clock = units.clock_time(at)
    return f"{clock}, in {units.short_duration(left)}" if left > 0 else f"{clock}"


def hints(digest: Digest, view: JobView) -> tuple[Hint, ...]:
    """What holds a waiting job back and what would let it start sooner."""
    return digest.remembered(("hints", view.job.job_id), lambda: _hints(digest, view))


def wait_words(digest: Digest, view: JobView) -> tuple[str, ...]:
    """Why a job waits as Slurm says it and in plain words, then all its hints."""
    reason, meaning = view.job.reason, meaning_of(view.job.reason)
    slurms_reason = f" ({reason})" if reason and meaning.words != reason else ""
    return (
        f"The job waits{slurms_reason}: {meaning.words}.",
        *(hint.text for hint in hints(digest, view)),
    )


def _hints(digest: Digest, view: JobView) -> tuple[Hint, ...]:
    first = (
        *_dependencies(digest, view),
        *_begin(digest, view),
        *_partition(digest, view),
    )
    last = (*_place(digest, view), *_plan(digest, view))
    advice = meaning_of(view.job.reason).advice
    return (
        *(Hint(text) for text in first),
        *time_hints(digest, view.job),
        *room_hints(digest, view.job),
        *(Hint(text) for text in last),
        *((Hint(advice),) if advice else ()),
    )


def _dependencies(digest: Digest, view: JobView) -> list[str]:
    """Each job that it waits for, with what that one does now."""
    text = view.job.dependency
    if not text:
        return []
    found = []
    if "singleton" in text:
        found.append(f"waits until no other job of {view.job.user} has its name (singleton)")
    for kind, ids in _DEPENDENCY.findall(text):
        deed = DEPENDENCY_WORDS.get(kind, f"({kind})")
        for raw in ids.split(":"):
            job_id = raw.partition("+")[0].strip()
            found.append(f"waits for {job_id} {deed}: {_doing(digest, job_id)}")
    return found or [f"waits for {text}"]


def _doing(digest: Digest, job_id: str) -> str:
    """What another job does now."""
    other = _by_name(digest).get(job_id)
    if other is None:
        if is_filtered(digest):
            return "it is not among the jobs in view (gpumon --all shows those of others)"
        return "the queue no longer lists it"
    job = other.job
    if job.state == "PENDING":
        return "it waits itself"
    if job.state not in HOLDING_STATES:
        return f"it has ended ({job.state.lower().replace('_', ' ')})"
    if job.state == "COMPLETING":
        return f"it has ended{_left_with(job.exit_code)}, its nodes are not free yet (completing)"
    if job.end_at is None or job.end_at <= digest.tick.at:
        return "it runs"
    return f"it runs, until {moment_words(digest, job.end_at)} at the latest"


def _left_with(exit_code: str) -> str:
    """` with exit 3`, ` by signal 9`; empty where it is not known."""
    status, _, signal = exit_code.partition(":")
    if signal not in ("", "0"):
        return f" by signal {signal}"
    return f" with exit {status}" if status else ""


def _by_name(digest: Digest) -> Mapping[str, JobView]:
    """Jobs by their number and by the id that people use."""
    views = digest.tick.jobs
    return digest.remembered(
        ("by name", ""),
        lambda: {v.job.job_id: v for v in views} | {v.job.label: v for v in views},
    )


def _begin(digest: Digest, view: JobView) -> list[str]:
    at = view.job.eligible_at
    if at is None or at <= digest.tick.at:
        return []
    return [f"may not start before {moment_words(digest, at)}"]


def _partition(digest: Digest, view: JobView) -> list[str]:
    """What its partitions do not allow."""
    found = []
    limit_s = view.job.time_limit_s
    for name in job_partitions(view.job):
        part = partitions(digest).get(name)
        if part is None:
            continue
        if part.state not in ("UP", ""):
            found.append(f"partition {name} is {part.state.lower()}")
        if limit_s is not None and part.time_limit_s is not None and limit_s > part.time_limit_s:
            asked = units.short_duration(limit_s)
            most = units.short_duration(part.time_limit_s)
            found.append(f"asks for {asked}, partition {name} allows {most}")
    return found


def _place(digest: Digest, view: JobView) -> list[str]:
    if is_filtered(digest) and view.job.priority:
        return ["its place by priority is not known: gpumon --all counts the jobs of others, too"]
    place = place_of(digest, view)
    if place is None or not place.jobs_before:
        return []
    jobs = units.counted(place.jobs_before, "job")
    gpus = f" and {units.gpus(place.gpus_before)}" if place.gpus_before else ""
    text = f"{place.position} of {place.of} by priority in {job_partitions(view.job)[0]}: "
    text += f"{jobs}{gpus} asked for before it; one that fits in between may start earlier"
    return [text]


def _plan(digest: Digest, view: JobView) -> list[str]:
    start = expected_start(view)
    if start is None:
        return ["when it starts is not known: the scheduler has not planned it"]
    where = f" on {some_names(view.job.expected_nodes)}" if view.job.expected_nodes else ""
    return [f"the scheduler expects to start it at {moment_words(digest, start)}{where}"]
