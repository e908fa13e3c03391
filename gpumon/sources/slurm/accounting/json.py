"""Ended jobs from the JSON of slurmdbd (slurmrestd, `sacct --json`), of every version by shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpumon.model.hostlist import is_job_id
from gpumon.model.job_states import run_has_ended
from gpumon.model.records.accounting import EndedJob, StepUsage
from gpumon.model.records.cluster import Job
from gpumon.model.text import plain
from gpumon.model.units import MIB
from gpumon.sources.slurm.accounting.jobstats import with_jobstats
from gpumon.sources.slurm.accounting.usage import (
    MAX_BYTES,
    MAX_SECONDS,
    EndedList,
    ended_job,
    gpu_use,
    mem_used,
    sane,
    with_counted_gpus,
)
from gpumon.sources.slurm.json.jobs import waiting_tasks
from gpumon.sources.slurm.json.values import flags, harmless, minutes_s, number, text, whole
from gpumon.sources.slurm.text.gres import gpus_in_tres
from gpumon.sources.slurm.text.jobs import job_label, node_names
from gpumon.sources.slurm.text.times import LATEST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_EXTENT: Final = ("total", "max")
"""Where a step's use is: added up over its tasks, else of its largest one."""

_DENIED_STATES: Final = frozenset({"FAILED", "OUT_OF_MEMORY"})
"""States that a job with exit status 0 and no signal cannot have."""


def read_ended(found: Sequence[object]) -> EndedList:
    """Every ended run of the list; one that cannot be read is counted, not fatal.

    Runs that have not ended are left out.
    """
    jobs: list[EndedJob] = []
    unreadable = 0
    for record in found:
        try:
            ended = _job(record)
        except ValueError:
            unreadable += 1
            continue
        if ended is not None:
            jobs.append(ended)
    return EndedList(with_counted_gpus(jobs), unreadable)


def _job(record: object) -> EndedJob | None:
    """One run, None where it has not ended.

    Raises:
        ValueError: a value that everything else rests on is missing or cannot be read.
    """
    if not isinstance(record, dict):
        raise ValueError("no object")
    job_id, user = str(whole(record.get("job_id")) or ""), _user(record)
    if not is_job_id(job_id) or not user:
        raise ValueError("no job id or user")
    state = _state(record.get("state"))
    if not run_has_ended(state):
        return None
    time = _part(record, "time")
    held = _tres(_part(record, "tres").get("allocated"))
    job = Job(
        job_id=job_id,
        label=_label(job_id, record),
        name=plain(text(record.get("name")).rstrip(" ")),
        user=user,
        account=harmless(record, "account"),
        partition=harmless(record, "partition"),
        state=state,
        reason="",
        nodes=node_names(text(record.get("nodes"))),
        allocations=(),
        gpu_count=_gpu_count(held),
        submit_at=_instant(time.get("submission")),
        start_at=_instant(time.get("start")),
        end_at=_instant(time.get("end")),
        time_limit_s=minutes_s(time.get("limit")),
        qos=harmless(record, "qos"),
        reservation=harmless(_part(record, "reservation"), "name"),
        features=harmless(record, "constraints"),
        eligible_at=_instant(time.get("eligible")),
        exit_code=_exit_code(record.get("exit_code"), state),
        node_count=whole(held.get("node")),
        cpu_count=whole(held.get("cpu")),
        mem_bytes=_scaled(held.get("mem"), MIB),
        work_dir=plain(text(record.get("working_directory")), 4096) or None,
    )
    listed = record.get("steps")
    steps = [
        _step(job_id, step)
        for step in (listed if isinstance(listed, list) else ())
        if isinstance(step, dict)
    ]
    cancelled_by = harmless(record, "kill_request_user") if state == "CANCELLED" else ""
    ended = ended_job(job, _seconds(time.get("elapsed")), steps, cancelled_by)
    return with_jobstats(ended, text(_part(record, "comment").get("administrator")))


def _step(job_id: str, record: Mapping[str, Any]) -> StepUsage:
    """One step; what cannot be read of it is None."""
    step, state, time = _part(record, "step"), _state(record.get("state")), _part(record, "time")
    used = _part(_part(record, "tres"), "requested")
    total = {
        name: value
        for extent in reversed(_EXTENT)
        for name, value in _tres(used.get(extent)).items()
    }
    util, gpu_mem = gpu_use(_scaled(total.get("gres/gpuutil")), _scaled(total.get("gres/gpumem")))
    cpu = _part(time, "total")
    seconds = _seconds(cpu.get("seconds"))
    task_count = whole(_part(record, "tasks").get("count"))
    max_rss_bytes = _scaled(_tres(used.get("max")).get("mem"))
    mem_bytes = _scaled(_tres(used.get("total")).get("mem"))
    energy = _scaled(_part(_part(record, "statistics"), "energy").get("consumed"))
    return StepUsage(
        job_id=job_id,
        step=plain(_step_name(step), 32),
        name=plain(text(step.get("name")).rstrip(" ")),
        state=state,
        exit_code=_exit_code(record.get("exit_code"), state),
        elapsed_s=_seconds(time.get("elapsed")),
        task_count=task_count,
        cpu_used_s=None
        if seconds is None
        else seconds + (_seconds(cpu.get("microseconds")) or 0) / 1e6,
        max_rss_bytes=max_rss_bytes,
        gpu_util_sum_ratio=util,
        gpu_mem_bytes=gpu_mem,
        energy_j=energy or None,
        mem_used_bytes=mem_used(mem_bytes, max_rss_bytes, task_count),
    )


def _step_name(step: Mapping[str, Any]) -> str:
    """`batch`, `extern` or a number, from an id that newer versions write `19.batch`."""
    found = step.get("id")
    if isinstance(found, dict):
        found = found.get("step_id", found.get("number"))
    name = text(found) or str(whole(found) if whole(found) is not None else "")
    return name.rpartition(".")[2]


def _user(record: Mapping[str, Any]) -> str:
    return harmless(record, "user") or harmless(_part(record, "association"), "user")


def _state(value: object) -> str:
    """The first word of a state that is bare, in a list, or as `current` of an object."""
    if isinstance(value, dict):
        value = value.get("current")
    words = flags(value)
    return next((word for word in words if run_has_ended(word)), words[0] if words else "")


def _exit_code(value: object, state: str) -> str:
    """`3:0` as sacct prints it; empty where it is not reported.

    22.05 says `SUCCESS` with 0 of jobs that failed with any other status, which is not passed on.
    """
    if not isinstance(value, dict):
        return ""
    signal = _part(value, "signal")
    by = whole(signal.get("signal_id", signal.get("id")))
    status = whole(value.get("return_code"))
    if status is None and by is None:
        return ""
    if not status and not by and state in _DENIED_STATES:
        return ""
    return f"{status or 0}:{by or 0}"


def _label(job_id: str, record: Mapping[str, Any]) -> str:
    """The id people use, `6_1` or `7+1`."""
    array, het = _part(record, "array"), _part(record, "het")
    head: dict[str, str] = {}
    task = whole(array.get("task_id"))
    waiting = waiting_tasks(text(array.get("task")))
    if whole(array.get("job_id")) and (task is not None or waiting):
        head["ArrayJobId"] = str(whole(array.get("job_id")))
        head["ArrayTaskId"] = waiting if task is None else str(task)
    offset = whole(het.get("job_offset"))
    if whole(het.get("job_id")) and offset is not None:
        head |= {"HetJobId": str(whole(het.get("job_id"))), "HetJobOffset": str(offset)}
    return job_label(job_id, head)


def _tres(found: object) -> dict[str, object]:
    """Counts of a list of `{type, name, count}` by the name that text gives them."""
    counts: dict[str, object] = {}
    for one in found if isinstance(found, list) else ():
        if isinstance(one, dict):
            kind, name = text(one.get("type")), text(one.get("name"))
            counts[f"{kind}/{name}" if name else kind] = one.get("count")
    return counts


def _gpu_count(held: Mapping[str, object]) -> int | None:
    """GPUs allocated; 0 for a job that never was, None where the accounting leaves them out."""
    if not held:
        return 0
    counts = ((name, whole(count)) for name, count in held.items())
    return gpus_in_tres(",".join(f"{name}={count}" for name, count in counts if count is not None))


def _part(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A member that is an object, an empty one where it is not."""
    found = record.get(key)
    return found if isinstance(found, dict) else {}


def _instant(value: object) -> float | None:
    seconds = number(value)
    return float(seconds) if seconds is not None and 0 < seconds < LATEST else None


def _seconds(value: object) -> float | None:
    """Seconds that may be; Slurm counts whole ones."""
    found = whole(value)
    return None if found is None else sane(float(found), MAX_SECONDS)


def _scaled(value: object, unit: float = 1.0) -> float | None:
    """A count that may be; the -2 and the huge numbers that mean nothing are none."""
    found = whole(value)
    return None if found is None else sane(found * unit, MAX_BYTES)
