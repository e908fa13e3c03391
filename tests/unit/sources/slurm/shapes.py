"""Answers of versions that cannot run here, shaped after 22.05's real ones by Slurm's own changes.

What changed in which version is what `docs/slurm.md` lists: the shape of numbers, states, texts in
lists, and `job_resources`. Values stay those of the real answer, so that records must stay equal.
"""

from __future__ import annotations

from typing import Any

SLUID = "s8FXKTA79XAR00"
TIMES = ("submit_time", "start_time", "end_time", "eligible_time")
NUMBERS = (
    "array_job_id",
    "array_task_id",
    "cpus",
    "het_job_id",
    "het_job_offset",
    "node_count",
    "priority",
    "tasks",
)
NO_VAL = 2**32 - 2


def number(value: int | None, *, is_infinite: bool = False) -> dict[str, Any]:
    is_set = value is not None
    return {"set": is_set, "infinite": is_infinite, "number": value if is_set else 0}


def jobs_of(version: int, real: dict[str, Any]) -> dict[str, Any]:
    """The whole answer `jobs` of v0.0.<version>, from the real one of v0.0.38."""
    jobs = [_job(version, dict(job)) for job in real["jobs"]]
    return {"jobs": jobs, **_around(version)}


def nodes_of(version: int, real: dict[str, Any]) -> dict[str, Any]:
    nodes = []
    for node in real["nodes"]:
        one = dict(node)
        one["free_mem"] = number(one.pop("free_memory"))
        if version >= 40:
            flags = one.pop("state_flags")
            one["state"] = [one["state"].upper(), *flags]
            for key in ("features", "active_features"):
                one[key] = one[key].split(",")
            for key in ("boot_time", "reason_changed_at"):
                one[key] = number(one[key])
        nodes.append(one)
    return {"nodes": nodes, **_around(version)}


def partitions_of(real: dict[str, Any]) -> dict[str, Any]:
    """Partitions as v0.0.39 sorts them (its parsers.c): neither state nor flags are told."""
    found = []
    for one in real["partitions"]:
        limit = one["max_time_limit"]
        found.append(
            {
                "name": one["name"],
                "nodes": {"configured": one["nodes"], "total": one["total_nodes"]},
                "accounts": {"allowed": one["allowed_accounts"], "deny": ""},
                "qos": {"allowed": "", "deny": "", "assigned": one["qos"]},
                "maximums": {"time": number(limit if limit >= 0 else None, is_infinite=limit < 0)},
                "priority": {"job_factor": 1, "tier": one["priority_tier"]},
                "tres": {"billing_weights": "", "configured": one["tres"]},
            }
        )
    return {"partitions": found, **_around(39)}


def _around(version: int) -> dict[str, Any]:
    meta: dict[str, Any] = {"plugin": {"data_parser": f"data_parser/v0.0.{version}"}}
    if version >= 40:
        numbers = {"major": "24", "micro": "5", "minor": "11"}
        meta["slurm"] = {"version": numbers, "release": "24.11.5", "cluster": "lab"}
    else:
        meta["Slurm"] = {"version": {"major": 23, "micro": 10, "minor": 2}, "release": "23.02"}
    around: dict[str, Any] = {"meta": meta, "errors": [], "warnings": []}
    return around if version < 40 else {**around, "last_update": number(1795251500)}


def _job(version: int, job: dict[str, Any]) -> dict[str, Any]:
    limit = job["time_limit"]
    job["time_limit"] = number(limit, is_infinite=limit is None)
    for key in NUMBERS:
        job[key] = number(job[key])
    if version == 39:
        # It leaked "not set" as a plain number where later versions say so.
        job["array_task_id"] = _plain(job["array_task_id"])
    if version >= 40:
        job["job_state"] = [job["job_state"]]
        for key in TIMES:
            job[key] = number(job[key])
    job["exit_code"] = _exit_code(job["exit_code"]) if version >= 40 else number(job["exit_code"])
    job["job_resources"] = _resources(version, job)
    if version >= 42:
        job["stdout_expanded"] = job["stderr_expanded"] = ""
    if version >= 45:
        job["step_id"] = {"sluid": SLUID, "job_id": job["job_id"]}
    return job


def _exit_code(status: int) -> dict[str, Any]:
    """A raw wait status as v0.0.40 and later spell it out."""
    signal = status & 0x7F
    return {
        "status": ["SIGNALED" if signal else "ERROR" if status else "SUCCESS"],
        "return_code": number(None if signal else status >> 8),
        "signal": {"id": number(signal or None), "name": "TERM" if signal else ""},
    }


def _plain(value: dict[str, Any]) -> int:
    return int(value["number"]) if value["set"] else NO_VAL


def _resources(version: int, job: dict[str, Any]) -> dict[str, Any] | None:
    old = job.get("job_resources") or {}
    if not old.get("allocated_nodes"):
        return None if version >= 42 else {}
    if version <= 40:
        return {**old, "allocated_hosts": len(old["allocated_nodes"])}
    allocation = [
        {
            "index": place,
            "name": node["nodename"],
            "cpus": {"count": _cores(node), "used": 0},
            "memory": {"used": 0, "allocated": 0},
            "sockets": [
                {
                    "index": int(socket),
                    "cores": [
                        {"index": int(core), "status": ["ALLOCATED"]} for core in one["cores"]
                    ],
                }
                for socket, one in node["sockets"].items()
            ],
        }
        for place, node in enumerate(old["allocated_nodes"])
    ]
    nodes = {"count": len(allocation), "list": old["nodes"], "whole": False}
    return {
        "select_type": ["CORE"],
        "nodes": {**nodes, "allocation": allocation},
        "cpus": sum(_cores(node) for node in old["allocated_nodes"]),
        "threads_per_core": number(None),
    }


def _cores(node: dict[str, Any]) -> int:
    return sum(len(socket["cores"]) for socket in node["sockets"].values())
