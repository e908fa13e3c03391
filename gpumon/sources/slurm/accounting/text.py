"""Ended jobs from the text of `sacct --parsable`, of every version that prints it.

Every value but the last key ends with a delimiter that is drawn again for each question, so that no
job's name can hold it: a line break or a `|` in a name then shifts nothing and forges nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpumon.model.hostlist import is_job_id
from gpumon.model.job_states import run_has_ended
from gpumon.model.records.accounting import EndedJob, StepUsage
from gpumon.model.records.cluster import Job
from gpumon.model.text import plain
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
from gpumon.sources.slurm.text.gres import gpus_in_tres
from gpumon.sources.slurm.text.jobs import node_names
from gpumon.sources.slurm.text.times import duration_s, instant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OLD_FIELDS: Final = (
    "JobIDRaw",
    "JobID",
    "JobName",
    "User",
    "Account",
    "Partition",
    "State",
    "ExitCode",
    "Submit",
    "Eligible",
    "Start",
    "End",
    "Elapsed",
    "Timelimit",
    "NodeList",
    "AllocTRES",
    "TotalCPU",
    "MaxRSS",
    "NTasks",
    "ConsumedEnergyRaw",
)
"""Fields of every version since 15.08."""

FIELDS: Final = (
    *OLD_FIELDS,
    "TRESUsageInTot",
    "QOS",
    "Reservation",
    "Constraints",
    "WorkDir",
    "AdminComment",
)
"""Fields of versions since 20.02; older ones refuse the whole question for one they do not know."""

_JOB_ID: Final = re.compile(r"([1-9][0-9]{0,9})(?:\.([A-Za-z0-9+_]{1,32}))?")
_STATE: Final = re.compile(r"([A-Z_]{1,32})\+?(?: by ([0-9]{1,10}))?")
_EXIT: Final = re.compile(r"[0-9]{1,5}:[0-9]{1,5}")
_SIZE: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,6})?)([KMGTPE]?)")
_CPU: Final = re.compile(
    r"(?:([0-9]{1,9})-)?(?:([0-9]{1,9}):)?([0-9]{1,9}):([0-9]{1,2}(?:\.[0-9]{1,6})?)"
)
_POWERS: Final = {letter: power for power, letter in enumerate("_KMGTPE")} | {"": 0}


def parse_ended(text: str, delimiter: str, fields: Sequence[str] = FIELDS) -> EndedList | None:
    """Every ended run of the text; a record that cannot be read is counted, not fatal.

    A step belongs to the run that it follows: all runs of a job have the job's number. Runs that
    have not ended are left out. None: the text lacks the line of titles, so it is no answer.
    """
    titles = delimiter.join((*fields, "\n"))
    _, found, body = text.partition(titles)
    if not found:
        return None
    unreadable = 0
    runs: list[tuple[Mapping[str, str], list[StepUsage]]] = []
    steps: list[StepUsage] | None = None
    for row in _rows(body, delimiter, fields):
        match = None if row is None else _JOB_ID.fullmatch(row["JobIDRaw"])
        if row is None or match is None:
            # It may be the head of a run, whose steps then belong to no job.
            unreadable, steps = unreadable + 1, None
        elif not match[2]:
            steps = []
            runs.append((row, steps))
        elif steps is not None and runs[-1][0]["JobIDRaw"] == match[1]:
            steps.append(_step(match[1], match[2], row))
    jobs: list[EndedJob] = []
    for head, used in runs:
        try:
            ended = _job(head, used)
        except ValueError:
            unreadable += 1
            continue
        if ended is not None:
            jobs.append(ended)
    return EndedList(with_counted_gpus(jobs), unreadable)


def _rows(body: str, delimiter: str, fields: Sequence[str]) -> list[dict[str, str] | None]:
    """Records by field; None for one that has too many or too few values."""
    # A name may begin with a line break: only one before a job's number ends a record.
    ends = re.compile(
        re.escape(delimiter) + r"\n(?=[0-9]{1,10}[^\n]{0,40}" + re.escape(delimiter) + r"|\Z)"
    )
    *records, rest = ends.split(body)
    rows: list[dict[str, str] | None] = []
    for record in records:
        values = record.split(delimiter)
        whole = len(values) == len(fields)
        rows.append(dict(zip(fields, values, strict=True)) if whole else None)
    return [*rows, None] if rest.strip() else rows


def _job(row: Mapping[str, str], steps: Sequence[StepUsage]) -> EndedJob | None:
    """One run, None where it has not ended.

    Raises:
        ValueError: a value that everything else rests on is missing or cannot be read.
    """
    state, cancelled_by = _state(row["State"])
    if not run_has_ended(state):
        return None
    job_id, end_at, user = row["JobIDRaw"], instant(row["End"]), plain(row["User"])
    if not user:
        raise ValueError("no user")
    tres = row["AllocTRES"]
    job = Job(
        job_id=job_id,
        label=row["JobID"] if is_job_id(row["JobID"]) else job_id,
        name=plain(row["JobName"].rstrip(" ")),
        user=user,
        account=plain(row["Account"]),
        partition=plain(row["Partition"]),
        state=state,
        reason="",
        nodes=node_names(row["NodeList"]),
        allocations=(),
        gpu_count=gpus_in_tres(tres) if tres else 0,
        submit_at=instant(row["Submit"]),
        start_at=instant(row["Start"]),
        end_at=end_at,
        time_limit_s=duration_s(row["Timelimit"]),
        qos=plain(row.get("QOS", "")),
        reservation=plain(row.get("Reservation", "")),
        features=plain(row.get("Constraints", "")),
        eligible_at=instant(row["Eligible"]),
        exit_code=_exit_code(row["ExitCode"]),
        node_count=whole_number(tres_item(tres, "node")),
        cpu_count=whole_number(tres_item(tres, "cpu")),
        mem_bytes=size_bytes(tres_item(tres, "mem"), unit="M"),
        work_dir=plain(row["WorkDir"], 4096) if row.get("WorkDir") else None,
    )
    ended = ended_job(job, sane(duration_s(row["Elapsed"]), MAX_SECONDS), steps, cancelled_by)
    return with_jobstats(ended, row.get("AdminComment", ""))


def _step(job_id: str, step: str, row: Mapping[str, str]) -> StepUsage:
    """One step; what cannot be read of it is None."""
    usage = row.get("TRESUsageInTot", "")
    util = size_bytes(tres_item(usage, "gres/gpuutil"))
    util_ratio, gpu_mem = gpu_use(util, size_bytes(tres_item(usage, "gres/gpumem")))
    energy = size_bytes(row["ConsumedEnergyRaw"])
    task_count, max_rss_bytes = whole_number(row["NTasks"]), size_bytes(row["MaxRSS"])
    return StepUsage(
        job_id=job_id,
        step=step,
        name=plain(row["JobName"].rstrip(" ")),
        state=_state(row["State"])[0],
        exit_code=_exit_code(row["ExitCode"]),
        elapsed_s=sane(duration_s(row["Elapsed"]), MAX_SECONDS),
        task_count=task_count,
        cpu_used_s=cpu_time_s(row["TotalCPU"]),
        max_rss_bytes=max_rss_bytes,
        gpu_util_sum_ratio=util_ratio,
        gpu_mem_bytes=gpu_mem,
        energy_j=energy or None,
        mem_used_bytes=mem_used(size_bytes(tres_item(usage, "mem")), max_rss_bytes, task_count),
    )


def _state(text: str) -> tuple[str, str]:
    """Base state, and the number of the user of `CANCELLED by 7002`; empty where unreadable."""
    match = _STATE.fullmatch(text)
    return (match[1], match[2] or "") if match else ("", "")


def _exit_code(text: str) -> str:
    return text if _EXIT.fullmatch(text) else ""


def cpu_time_s(text: str) -> float | None:
    """Seconds of `1-02:03:04`, `02:03:04` or `03:04.567`; None for anything else."""
    match = _CPU.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return sane(((days * 24 + hours) * 60 + minutes) * 60 + seconds, MAX_SECONDS)


def tres_item(tres: str, name: str) -> str:
    """Value of one item of a TRES string such as `cpu=1,gres/gpu=2,mem=10G`; empty: none."""
    found = (item.partition("=") for item in tres.split(","))
    return next((value for key, _, value in found if key == name), "")


def size_bytes(text: str, unit: str = "") -> float | None:
    """Number of `51.54M`, `112488K` or `0`, bare ones in `unit`; None for what is none."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    return sane(float(match[1]) * 1024.0 ** _POWERS[match[2] or unit], MAX_BYTES)


def whole_number(text: str) -> int | None:
    """A whole number; None for what is none."""
    value = size_bytes(text)
    return int(value) if value is not None else None
