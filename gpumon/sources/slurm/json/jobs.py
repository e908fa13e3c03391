"""Jobs from Slurm's JSON (slurmrestd, `squeue --json`), of every version from v0.0.36 on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from gpumon.model.hostlist import is_host_name, is_job_id
from gpumon.model.job_states import HOLDING_STATES
from gpumon.model.records.cluster import Allocation, Job
from gpumon.model.text import plain
from gpumon.sources.slurm.json.values import (
    flags,
    harmless,
    instant,
    minutes_s,
    text,
    texts,
    whole,
)
from gpumon.sources.slurm.text.gres import GpuHolding, gpus_held
from gpumon.sources.slurm.text.job_output import output_path
from gpumon.sources.slurm.text.job_values import (
    cpus_of_tres,
    exit_of_status,
    exit_text,
    memory_of_tres,
    planned_nodes,
    sluid,
)
from gpumon.sources.slurm.text.jobs import (
    MAX_PATH,
    JobList,
    gpu_count_of,
    job_label,
    node_names,
    read_or_none,
    without_details,
)
from gpumon.sources.slurm.text.requests import PER, gpu_request

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SHOWN_FLAGS: Final = (
    "COMPLETING",
    "STAGE_OUT",
    "CONFIGURING",
    "RESIZING",
    "REQUEUED",
    "REQUEUE_FED",
    "REQUEUE_HOLD",
    "SPECIAL_EXIT",
    "STOPPED",
    "REVOKED",
    "RESV_DEL_HOLD",
    "SIGNALING",
)
"""Flags that Slurm's commands print in place of the base state, the first of them
(job_state_string in slurm_protocol_defs.c)."""

_PER: Final = {key: f"tres_per_{of.lower()}" for of, key in PER.items()}
_NO_GPUS: Final = GpuHolding(0, ())

_BITMAP: Final = re.compile(r"0x([0-9A-Fa-f]{1,1048576})(%[0-9]{1,10})?")
"""Tasks of an array that wait together, as slurmctld stores them and slurmrestd passes them on: a
bitmap whose last digit holds tasks 0 to 3. Slurm's commands make a list of it."""

_LONGEST_LIST: Final = 61
"""Characters from which on Slurm's commands cut that list, of a buffer of 64 (SLURM_BITSTR_LEN in
squeue(1))."""
_DOTS: Final = "..."

_SHORTEST_STEPS: Final = 10
"""Up to this distance of the first and the last task a regular list is printed in full."""


def read_jobs(found: Sequence[object]) -> JobList:
    """Every job of the list, in its order; one that cannot be read is counted, not fatal."""
    jobs: list[Job] = []
    unreadable = unplaced = 0
    names = _user_names(found)
    for record in found:
        try:
            job, is_placed = _job(record, names)
        except ValueError:
            unreadable += 1
        else:
            jobs.append(job)
            unplaced += not is_placed
    return JobList(tuple(jobs), unreadable, unplaced=unplaced)


def _job(record: object, names: Mapping[int, str]) -> tuple[Job, bool]:
    """One job, and whether it could be read what it holds on which node.

    Raises:
        ValueError: a value that everything else rests on is missing or cannot be read.
    """
    if not isinstance(record, dict):
        raise ValueError("no object")
    job_id = str(whole(record.get("job_id")) or "")
    user = _user(record, names)
    if not is_job_id(job_id) or not user:
        raise ValueError("no job id or user")
    state = _state(record.get("job_state"))
    is_holding = state in HOLDING_STATES
    nodes = node_names(text(record.get("nodes")))
    allocations, is_placed = (
        read_or_none(lambda: _allocations(record, nodes)) if is_holding else ((), True)
    )
    gpu_count = _gpu_count(record, allocations, len(nodes) if is_holding else 0)
    if is_holding and not sum(allocation.gpu_count for allocation in allocations):
        allocations = without_details(allocations, nodes, gpu_count)
    limit_s = minutes_s(record.get("time_limit"))
    is_endless = limit_s is None and (is_holding or state == "PENDING")
    job = Job(
        job_id=job_id,
        label=_label(job_id, record),
        name=plain(text(record.get("name")).rstrip(" ")),
        user=user,
        account=harmless(record, "account"),
        partition=harmless(record, "partition"),
        state=state,
        reason=_reason(record),
        nodes=nodes,
        allocations=allocations,
        gpu_count=gpu_count,
        submit_at=instant(record.get("submit_time")),
        start_at=instant(record.get("start_time")),
        # Slurm writes start + 365 days for a job without a limit.
        end_at=None if is_endless else instant(record.get("end_time")),
        time_limit_s=limit_s,
        is_interactive=record.get("batch_flag") is False,
        **_request(record, gpu_count),
        **_more(record, state, user),
    )
    return job, is_placed


def _more(record: Mapping[str, Any], state: str, user: str) -> dict[str, Any]:
    """What is reported about the job besides what everything else rests on."""
    step = record.get("step_id")
    unique = step.get("sluid") if isinstance(step, dict) else None
    allocated, asked = text(record.get("tres_alloc_str")), text(record.get("tres_req_str"))
    cpus = whole(record.get("cpus"))
    return {
        "qos": harmless(record, "qos"),
        "reservation": harmless(record, "resv_name"),
        "features": harmless(record, "features"),
        "dependency": harmless(record, "dependency"),
        "priority": whole(record.get("priority")),
        "eligible_at": instant(record.get("eligible_time")),
        "restart_count": whole(record.get("restart_cnt")),
        "exit_code": exit_text(_exit(record.get("exit_code")), state),
        "node_count": whole(record.get("node_count")),
        # 22.05 leaves out the CPUs of some jobs that wait, beside their TRES.
        "cpu_count": cpus_of_tres(allocated or asked) if cpus is None else cpus,
        "mem_bytes": memory_of_tres(allocated or asked),
        "expected_nodes": planned_nodes(text(record.get("scheduled_nodes"))),
        "work_dir": _path(record, "current_working_directory"),
        **_outputs(record, user),
        "sluid": sluid(text(unique) or text(record.get("sluid"))),
        "user_id": whole(record.get("user_id")),
    }


def _request(record: Mapping[str, Any], gpu_count: int | None) -> dict[str, Any]:
    """What it asked for, and where."""
    request = gpu_request(_asked(record), gpu_count)
    return {
        "gpu_types": request.types,
        "gpus_per_node": request.per_node,
        "nodes_required": _named(record, "required_nodes"),
        "nodes_excluded": _named(record, "excluded_nodes"),
        "is_exclusive": _is_exclusive(record),
    }


def _is_exclusive(record: Mapping[str, Any]) -> bool | None:
    """Whether it wants its nodes alone; None from 26.05, whose JSON says it nowhere."""
    shared = flags(record.get("shared"))
    # Slurm's unique id, here in `step_id`, came with 26.05, too.
    return None if not shared and "step_id" in record else "NONE" in shared


def _asked(record: Mapping[str, Any]) -> dict[str, str]:
    """Its request in the keys of the text."""
    least, most = whole(record.get("node_count")), whole(record.get("max_nodes"))
    tasks = whole(record.get("tasks"))
    return {
        **{name: text(record.get(key)) for name, key in _PER.items()},
        "NumNodes": "" if least is None else f"{least}-{most}" if most else str(least),
        "NumTasks": "" if tasks is None else str(tasks),
    }


def _named(record: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Nodes that it asked for or against: a hostlist, or a list of them."""
    return planned_nodes(",".join(texts(record.get(key))))


def _outputs(record: Mapping[str, Any], user: str) -> dict[str, str | None]:
    """Where the job writes, as scontrol prints it: only batch jobs, and single tasks of arrays."""
    array, task = whole(record.get("array_job_id")), whole(record.get("array_task_id"))
    if record.get("batch_flag") is False or (array and task is None):
        return {"stdout_path": None, "stderr_path": None}
    job_id = str(whole(record.get("job_id")) or "")
    values = {"j": job_id, "A": str(array or job_id), "x": text(record.get("name")), "u": user}
    if array:
        values["a"] = str(task)
    folder = text(record.get("current_working_directory"))
    stdout = text(record.get("standard_output"))
    found = {}
    for key, pattern in (
        ("stdout", stdout),
        ("stderr", text(record.get("standard_error")) or stdout),
    ):
        path = text(record.get(f"{key}_expanded")) or output_path(pattern, folder, values)
        found[f"{key}_path"] = plain(path, MAX_PATH) if path else None
    return found


def _exit(value: object) -> str:
    """`exit:signal` of a raw wait status, or of an object that has both since v0.0.40."""
    if not isinstance(value, dict) or "return_code" not in value:
        return exit_of_status(whole(value))
    signal = value.get("signal")
    number_of = signal.get("signal_id", signal.get("id")) if isinstance(signal, dict) else signal
    code = whole(value.get("return_code"))
    return f"{code or 0}:{whole(number_of) or 0}"


def _path(record: Mapping[str, Any], key: str) -> str | None:
    """A file's path as text that may be shown; None where there is none."""
    found = text(record.get(key))
    return None if found in ("", "(null)") else plain(found, MAX_PATH)


def _user_names(found: Sequence[object]) -> dict[int, str]:
    """Login names by number, of the records that have both: v0.0.36 names no user of some jobs."""
    names: dict[int, str] = {}
    for record in found:
        number_of = whole(record.get("user_id")) if isinstance(record, dict) else None
        if isinstance(record, dict) and number_of is not None:
            name = harmless(record, "user_name")
            if name:
                names.setdefault(number_of, name)
    return names


def _user(record: Mapping[str, Any], names: Mapping[int, str]) -> str:
    """Login name, the user's number where no record has the name."""
    number_of = whole(record.get("user_id"))
    named = names.get(number_of, str(number_of)) if number_of is not None else ""
    return harmless(record, "user_name") or named


def _state(value: object) -> str:
    """The one word that Slurm's commands print for a base state with flags."""
    words = flags(value)
    if not words:
        raise ValueError("no state")
    return next((flag for flag in _SHOWN_FLAGS if flag in words), words[0])


def _reason(record: Mapping[str, Any]) -> str:
    """Slurm's words where it has some, else the reason's name; blanks become `_` as in scontrol."""
    given = harmless(record, "state_description").replace(" ", "_")
    reason = given or harmless(record, "state_reason")
    return "" if reason == "None" else reason


def _label(job_id: str, record: Mapping[str, Any]) -> str:
    """The id people use, of the members that array tasks and het components have."""
    head: dict[str, str] = {}
    array = whole(record.get("array_job_id"))
    if array:
        task = whole(record.get("array_task_id"))
        most = whole(record.get("array_max_tasks"))
        waiting = text(record.get("array_task_string"))
        head = {
            "ArrayJobId": str(array),
            "ArrayTaskId": waiting_tasks(waiting, most) if task is None else str(task),
        }
    het = whole(record.get("het_job_id"))
    if het:
        offset = whole(record.get("het_job_offset"))
        head = {**head, "HetJobId": str(het), "HetJobOffset": str("" if offset is None else offset)}
    return job_label(job_id, head)


def waiting_tasks(task_string: str, most_at_once: int | None = None) -> str:
    """Numbers of tasks such as `2-7,9%2`, of a bitmap or a list; empty where there are none.

    Args:
        task_string: `array_task_string`.
        most_at_once: `array_max_tasks`; None or 0: no limit, or it is in the string.
    """
    match = _BITMAP.fullmatch(task_string)
    if match is None:
        return "" if task_string == "(null)" else task_string
    listed = _listed(bin(int(match[1], 16))[:1:-1])
    if not listed:
        return task_string
    limit = f"%{most_at_once}" if most_at_once else ""
    return listed + (match[2] or limit)


def _listed(places: str) -> str:
    """The places of the ones as Slurm lists them: with steps where these are equal, else in part.

    A bitmap of a megabyte has millions of runs, of which a few are listed.
    """
    parts: list[str] = []
    chars = -1
    steps: set[int] = set()
    are_single = True
    begin = before = end = 0
    for run in re.finditer("1+", places):
        begin, end = run.start(), run.end() - 1
        if parts:
            steps.add(begin - before)
        before = begin
        are_single = are_single and begin == end
        if chars <= _LONGEST_LIST:
            parts.append(f"{begin}-{end}" if begin < end else f"{begin}")
            chars += len(parts[-1]) + 1
        elif len(steps) > 1 or not are_single:
            break
    first = places.find("1")
    if are_single and len(steps) == 1 and end - first > _SHORTEST_STEPS:
        return f"{first}-{end}:{steps.pop()}"
    listed = ",".join(parts)
    return listed if len(listed) <= _LONGEST_LIST else listed[: _LONGEST_LIST - 1] + _DOTS


def _gpu_count(
    record: Mapping[str, Any], allocations: tuple[Allocation, ...], nodes: int
) -> int | None:
    """GPUs allocated, or requested while pending, by the rules of the text."""
    tres = {
        "AllocTRES": text(record.get("tres_alloc_str")),
        "ReqTRES": text(record.get("tres_req_str")),
    }
    given = {key: value for key, value in tres.items() if value}
    return gpu_count_of(allocations, given, _asked(record), nodes)


def _allocations(record: Mapping[str, Any], nodes: tuple[str, ...]) -> tuple[Allocation, ...]:
    """What the job holds per node: entry i of `gres_detail` is of the i-th node."""
    details = texts(record.get("gres_detail"))
    if details and len(details) != len(nodes):
        # Which node an entry belongs to would be a guess; the sum of the TRES remains.
        return ()
    held = [gpus_held(detail) for detail in details] or [_NO_GPUS] * len(nodes)
    cpus = _cpus(record, nodes)
    return tuple(
        Allocation(
            node=node,
            gpu_count=gpus.gpu_count,
            gpu_indices=gpus.indices,
            cpu_count=cpus.get(node),
            has_shares=gpus.has_shares,
            gpu_types=gpus.types,
        )
        for node, gpus in zip(nodes, held, strict=True)
    )


def _cpus(record: Mapping[str, Any], nodes: tuple[str, ...]) -> dict[str, int]:
    """CPUs per node of the four shapes of `job_resources`; nodes it does not list are absent."""
    resources = record.get("job_resources")
    if not isinstance(resources, dict):
        return {}
    listed = resources.get("nodes")
    if isinstance(listed, dict):
        return _cpus_of_entries(listed.get("allocation"), "name", nodes)
    allocated = resources.get("allocated_nodes")
    if isinstance(allocated, dict):
        # v0.0.36 and 37 number the nodes instead of naming them.
        named = zip(nodes, (allocated.get(str(place)) for place in range(len(nodes))), strict=True)
        counts = ((node, _entry_count(entry)) for node, entry in named)
        return {node: count for node, count in counts if count}
    cores = _cpus_of_entries(allocated, "nodename", nodes)
    total, cpus = sum(cores.values()), whole(record.get("cpus"))
    # These entries list cores; the job's CPUs say how many threads each has.
    if not total or not cpus or cpus % total:
        return {}
    return {node: count * (cpus // total) for node, count in cores.items()}


def _cpus_of_entries(entries: object, key: str, nodes: tuple[str, ...]) -> dict[str, int]:
    """CPUs, or cores, of a list of entries that name their node."""
    found: dict[str, int] = {}
    known = set(nodes)
    for entry in entries if isinstance(entries, list) else ():
        name = text(entry.get(key)) if isinstance(entry, dict) else ""
        count = _entry_count(entry)
        if is_host_name(name) and name in known and count:
            found[name] = count
    return found


def _entry_count(entry: object) -> int | None:
    """CPUs of one node's entry, or its allocated cores where it counts no CPUs."""
    if not isinstance(entry, dict):
        return None
    cpus = entry.get("cpus")
    counted = whole(cpus.get("count")) if isinstance(cpus, dict) and "count" in cpus else None
    counted = whole(cpus) if counted is None else counted
    return counted if counted is not None else _cores(entry.get("sockets")) or None


def _cores(sockets: object) -> int:
    """Cores that v0.0.38 to 40 mark as allocated, by socket and core number."""
    if not isinstance(sockets, dict):
        return 0
    cores = [socket.get("cores") for socket in sockets.values() if isinstance(socket, dict)]
    return sum(
        1
        for of_socket in cores
        if isinstance(of_socket, dict)
        for status in of_socket.values()
        if isinstance(status, str) and status.lower().startswith("allocated")
    )
