"""Jobs from the text of `scontrol show job -d`, of every version that prints it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpumon.model.hostlist import expand, is_host_name, is_job_id
from gpumon.model.job_states import HOLDING_STATES
from gpumon.model.records.cluster import Allocation, Job
from gpumon.model.text import plain
from gpumon.sources.slurm.text.gres import gpus_held, gpus_in_tres, gpus_listed
from gpumon.sources.slurm.text.job_output import output_path
from gpumon.sources.slurm.text.job_values import (
    count,
    exit_text,
    memory_of_tres,
    nodes_of_tres,
    planned_nodes,
    sluid,
)
from gpumon.sources.slurm.text.records import announced, keyed_lines, pairs, split_records
from gpumon.sources.slurm.text.requests import gpu_request, gpus_requested
from gpumon.sources.slurm.text.times import duration_s, instant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_PLAIN_LINES: Final = frozenset(
    {
        "Priority",
        "Features",
        "JobState",
        "Requeue",
        "RunTime",
        "SubmitTime",
        "StartTime",
        "Partition",
        "NodeList",
        "NumNodes",
        "OverSubscribe",
        "ReqNodeList",
        "Reservation",
        "SLUID",
        "SchedNodeList",
        "TresPerJob",
        "TresPerNode",
        "TresPerTask",
        "TresPerSocket",
    }
)
"""First keys of the lines that are read pair by pair."""

_TRES_LINES: Final = ("AllocTRES", "TRES", "ReqTRES")
"""Where TRES are: 22.05 and older print one `TRES=`, newer ones two lines."""

_PATHS: Final = ("WorkDir", "StdOut", "StdErr")
"""Lines whose whole rest is one value, blanks included."""

_JOB_GRES: Final = "JOB_GRES"
"""What the job holds on all nodes together, also while its nodes' lines no longer say."""

MAX_PATH: Final = 1024
"""Longest path that is stored whole; sites rarely come near Linux's limit of 4096."""

_NO_TASK: Final = "4294967294"
"""NO_VAL (slurm.h), which Slurm prints as the task of those tasks of an array that were cancelled
while they waited together; squeue calls them by their number alone."""

_USER: Final = re.compile(r"UserId=(.*?)\(([0-9]+)\) GroupId=")
_DETAIL: Final = re.compile(r" {5}Nodes=(\S+) CPU_IDs=(\S*) Mem=(\S*) GRES(?:_IDX)?=(.*)")
"""Up to 18.08 the last key is `GRES_IDX`."""
_DETAIL_MARK: Final = "     Nodes="
_CPU_RANGE: Final = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
_CPU_IDS_CUT: Final = 120
"""From this length on Slurm may have cut the list to fit its buffer of 128 bytes."""


class JobList(NamedTuple):
    """Jobs that were read, and how many records were not."""

    jobs: tuple[Job, ...]
    unreadable: int
    announced: int | None = None
    """Records that scontrol announced, where it did."""
    unplaced: int = 0
    """Jobs among these of which it could not be read what they hold on which node."""


def parse_jobs(text: str) -> JobList:
    """Every job of the text, in its order; a record that cannot be read is counted, not fatal."""
    jobs: list[Job] = []
    unreadable = unplaced = 0
    for lines in split_records(text, "JobId"):
        try:
            job, is_placed = _job(lines)
        except ValueError:
            unreadable += 1
        else:
            jobs.append(job)
            unplaced += not is_placed
    return JobList(tuple(jobs), unreadable, announced(text, "JobId"), unplaced)


def _job(lines: Sequence[str]) -> tuple[Job, bool]:
    """One job, and whether it could be read what it holds on which node.

    Raises:
        ValueError: a value that everything else rests on is missing or cannot be read.
    """
    ids, _, name = lines[0].partition(" JobName=")
    head = pairs(ids)
    job_id = head.get("JobId", "")
    if not (is_job_id(job_id) and job_id.isdecimal()):
        raise ValueError("no job id")
    user, user_id, fields, tres = _body(lines[1:])
    state = fields["JobState"].upper() if "JobState" in fields else ""
    if not re.fullmatch(r"[A-Z_]{1,32}", state) or user is None:
        raise ValueError("no state or user")
    nodes = node_names(fields.get("NodeList", ""))
    is_holding = state in HOLDING_STATES
    details, is_placed = read_or_none(lambda: _details(lines, nodes)) if is_holding else ((), True)
    gpu_count = gpu_count_of(details, tres, fields, len(nodes) if is_holding else 0)
    if is_holding and not sum(detail.gpu_count for detail in details):
        details = without_details(details, nodes, gpu_count)
    reason = fields.get("Reason", "None")
    job = Job(
        job_id=job_id,
        label=job_label(job_id, head),
        name=plain(name.rstrip(" ")),
        user=plain(user),
        account=_word(fields, "Account"),
        partition=_word(fields, "Partition"),
        state=state,
        reason="" if reason == "None" else plain(reason),
        nodes=nodes,
        allocations=details,
        gpu_count=gpu_count,
        submit_at=instant(fields.get("SubmitTime", "")),
        start_at=instant(fields.get("StartTime", "")),
        end_at=instant(fields.get("EndTime", "")),
        time_limit_s=duration_s(fields.get("TimeLimit", "")),
        is_interactive=fields.get("BatchFlag") == "0",
        qos=_word(fields, "QOS"),
        reservation=_word(fields, "Reservation"),
        features=_word(fields, "Features"),
        dependency=_word(fields, "Dependency"),
        priority=count(fields.get("Priority", "")),
        eligible_at=instant(fields.get("EligibleTime", "")),
        restart_count=count(fields.get("Restarts", "")),
        exit_code=exit_text(fields.get("ExitCode", ""), state),
        node_count=count(fields.get("NumNodes", "")),
        cpu_count=count(fields.get("NumCPUs", "")),
        mem_bytes=memory_of_tres(_first_tres(tres)),
        expected_nodes=planned_nodes(fields.get("SchedNodeList", "")),
        work_dir=_path(fields, "WorkDir"),
        stdout_path=_output(fields, "StdOut", head, job_id, name, user),
        stderr_path=_output(fields, "StdErr", head, job_id, name, user),
        sluid=sluid(head.get("SLUID", fields.get("SLUID", ""))),
        user_id=user_id,
        **_request(fields, gpu_count),
    )
    return job, is_placed


def _request(fields: Mapping[str, str], gpu_count: int | None) -> dict[str, Any]:
    """Which GPUs it asked for, and where."""
    request = gpu_request(fields, gpu_count)
    return {
        "gpu_types": request.types,
        "gpus_per_node": request.per_node,
        "nodes_required": planned_nodes(fields.get("ReqNodeList", "")),
        "nodes_excluded": planned_nodes(fields.get("ExcNodeList", "")),
        # From 26.05 on the first says NO of every job that shares no cores.
        "is_exclusive": fields["Exclusive"] == "NODE"
        if "Exclusive" in fields
        else fields.get("OverSubscribe") == "NO",
    }


def _first_tres(tres: Mapping[str, str]) -> str:
    """What is allocated, else what is asked for."""
    texts = (tres.get(key, "") for key in _TRES_LINES)
    return next((text for text in texts if text not in ("", "(null)")), "")


def _output(
    fields: Mapping[str, str], key: str, head: Mapping[str, str], job_id: str, name: str, user: str
) -> str | None:
    """Where the job writes; scontrol leaves patterns with a width, such as `%6j`, to others.

    None for tasks of an array that wait together: Slurm prints one path that none will have. Since
    26.05 an empty `StdErr=` says that errors go where the rest goes.
    """
    if key == "StdErr" and fields.get(key) == "":
        key = "StdOut"
    task = head.get("ArrayTaskId", "")
    path = fields.get(key, "")
    if path in ("", "(null)") or (task and not task.isdecimal()) or task == _NO_TASK:
        return None
    values = {"j": job_id, "A": head.get("ArrayJobId", job_id), "x": name.rstrip(" "), "u": user}
    found = output_path(path, "", {**values, "a": task} if task else values)
    return plain(found, MAX_PATH) if found else None


def _path(fields: Mapping[str, str], key: str) -> str | None:
    """A file's path as text that may be shown; None where there is none."""
    value = fields.get(key, "")
    return None if value in ("", "(null)") else plain(value, MAX_PATH)


def _body(
    lines: Sequence[str],
) -> tuple[str | None, int | None, dict[str, str], dict[str, str]]:
    """User's name and number, pairs of the plain lines, TRES and gres by key; the first count."""
    user: str | None = None
    user_id: int | None = None
    fields: dict[str, str] = {}
    tres: dict[str, str] = {}
    for key, line in keyed_lines(list(lines)):
        if key in _PLAIN_LINES:
            for name, value in pairs(line).items():
                fields.setdefault(name, value)
        elif key in _TRES_LINES or key == _JOB_GRES:
            tres.setdefault(key, line.partition("=")[2])
        elif key in _PATHS:
            fields.setdefault(key, line.partition("=")[2])
        elif key == "UserId" and user is None:
            match = _USER.match(line)
            user, user_id = (match[1], count(match[2])) if match else (None, None)
    return user, user_id, fields, tres


def _word(fields: Mapping[str, str], key: str) -> str:
    """A value as text, empty for Slurm's `(null)`."""
    value = fields.get(key, "")
    return "" if value == "(null)" else plain(value)


def job_label(job_id: str, head: Mapping[str, str]) -> str:
    """The id people use, `6_1`, `6_[2-7%2]` or `7+1`."""
    array, task = head.get("ArrayJobId", ""), head.get("ArrayTaskId", "")
    if array.isdecimal() and task and task != _NO_TASK:
        return plain(f"{array}_{task}" if task.isdecimal() else f"{array}_[{task}]")
    het, offset = head.get("HetJobId", ""), head.get("HetJobOffset", "")
    if het.isdecimal() and offset.isdecimal():
        return plain(f"{het}+{offset}")
    return job_id


def node_names(hostlist: str) -> tuple[str, ...]:
    """Names of a hostlist, each fit to be an operand of a command.

    Raises:
        ValueError: One of them is no name of a host.
    """
    names = expand(hostlist)
    if not all(map(is_host_name, names)):
        raise ValueError("a node name that is none")
    return names


def read_or_none(
    read: Callable[[], tuple[Allocation, ...]],
) -> tuple[tuple[Allocation, ...], bool]:
    """Allocations, none where they cannot be read, and whether they can.

    A job whose GPUs are not listed one by one is still a job: its count is reported elsewhere.
    """
    try:
        return read(), True
    except ValueError:
        return (), False


def _details(lines: Sequence[str], nodes: Sequence[str]) -> tuple[Allocation, ...]:
    """What the job holds per node, of the lines that `-d` adds; equal nodes share a line.

    Of a job that is completing they still name nodes that it has left.
    """
    found: list[Allocation] = []
    still = frozenset(nodes)
    for line in lines:
        if not line.startswith(_DETAIL_MARK):
            continue
        match = _DETAIL.match(line)
        if match is None:
            raise ValueError("an allocation that cannot be read")
        held = gpus_held(match[4].strip())
        cpus = _cpu_count(match[2])
        found.extend(
            Allocation(
                node=node,
                gpu_count=held.gpu_count,
                gpu_indices=held.indices,
                cpu_count=cpus,
                has_shares=held.has_shares,
                gpu_types=held.types,
            )
            for node in node_names(match[1])
            if node in still
        )
    return tuple(found)


def without_details(
    details: tuple[Allocation, ...], nodes: tuple[str, ...], gpu_count: int | None
) -> tuple[Allocation, ...]:
    """Allocations of a job whose detail lines name no GPU, though it may hold some."""
    if not gpu_count:
        return details
    return (Allocation(nodes[0], gpu_count, None),) if len(nodes) == 1 else ()


def _cpu_count(text: str) -> int | None:
    """CPUs of a list such as `0-3,32-35`; None where the list is, or may be, cut off."""
    if not text or len(text) >= _CPU_IDS_CUT:
        return None
    count = 0
    for part in text.split(","):
        match = _CPU_RANGE.fullmatch(part)
        if match is None:
            return None
        count += int(match[2] or match[1]) - int(match[1]) + 1
    return count


def gpu_count_of(
    details: Sequence[Allocation],
    tres: Mapping[str, str],
    fields: Mapping[str, str],
    nodes: int,
) -> int | None:
    """GPUs allocated, or requested while pending; None where Slurm does not say.

    Args:
        details: What it holds per node, as far as that is reported.
        tres: Texts that count for the whole job, by key.
        fields: What it asked for, by key.
        nodes: On how many it is. A completing job leaves them one by one, and all texts still tell
            of all with which it began; 0: it is on none.
    """
    held = sum(detail.gpu_count for detail in details)
    if held:
        return held
    counted = _counted(tres, fields)
    began_with = nodes_of_tres(_first_tres(tres))
    if counted and nodes and began_with is not None and nodes < began_with:
        return gpus_listed(fields.get("TresPerNode", "")) * nodes or None
    return counted


def _counted(tres: Mapping[str, str], fields: Mapping[str, str]) -> int | None:
    """GPUs of all nodes."""
    held = gpus_listed(tres.get(_JOB_GRES, ""))
    if held:
        return held
    for key in _TRES_LINES:
        counted = gpus_in_tres(tres.get(key, ""))
        if counted is not None:
            return counted
    return gpus_requested(fields) if tres else None
