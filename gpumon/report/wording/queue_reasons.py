"""Slurm's reasons for waiting in plain words, each with a way out where there is one.

The meanings are those of Slurm's page "Job Reason Codes". Limits have some hundred names made of
the same parts, which are read here part by part.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Meaning(NamedTuple):
    """What a reason means."""

    words: str
    """A few words that fit a column."""
    advice: str = ""
    """What its owner can do, empty where nothing but waiting helps."""
    is_stuck: bool = False
    """Whether it will not start until its owner or an administrator acts."""


UNKNOWN_REASON: Final = "Slurm gives no reason yet"

_LIMITS_COMMAND: Final = "sacctmgr show qos and sacctmgr show assoc list the limits"

_NODES_OUT: Final = Meaning(
    "nodes down or reserved",
    "wait for repair, or ask for other nodes",
)

REASONS: Final = {
    "Resources": Meaning("nothing free that fits"),
    "Priority": Meaning("others come first"),
    "None": Meaning("not looked at yet"),
    "Dependency": Meaning("waits for another job"),
    "DependencyNeverSatisfied": Meaning(
        "its dependency failed", "cancel it, or run that job again", True
    ),
    "BeginTime": Meaning("begin time to come"),
    "JobHeldUser": Meaning("held by its owner", "scontrol release lets it go", True),
    "JobHeldAdmin": Meaning("held by administrators", "ask the administrators", True),
    "JobHoldMaxRequeue": Meaning(
        "held: requeued too often", "read its output, then scontrol release", True
    ),
    "JobArrayTaskLimit": Meaning(
        "array's task limit reached", "a larger number after % in --array lets more tasks run"
    ),
    "Reservation": Meaning("reservation not begun yet"),
    "ReservationDeleted": Meaning(
        "its reservation is gone", "scontrol update clears or changes the reservation", True
    ),
    "ReqNodeNotAvail": Meaning(
        "its nodes not available",
        "they are in use, reserved or down: a shorter time limit may end before a reservation",
    ),
    "Nodes_required_for_job_are_DOWN": _NODES_OUT,
    "Nodes": _NODES_OUT,
    "NodeDown": Meaning("a node it needs is down", "ask for other nodes, or wait for repair"),
    "PartitionDown": Meaning("its partition is down", "ask for another partition"),
    "PartitionInactive": Meaning("its partition is inactive", "ask for another partition"),
    "PartitionNodeLimit": Meaning(
        "node count not allowed",
        "ask for as many nodes as the partition allows; the nodes may also be down",
    ),
    "PartitionTimeLimit": Meaning("limit above partition's", "ask for less time", True),
    "PartitionConfig": Meaning("breaks a partition limit", "scontrol show partition", True),
    "BadConstraints": Meaning("can never be met", "change what it asks for", True),
    "Constraints": Meaning("no node meets constraints"),
    "Licenses": Meaning("waits for a license"),
    "AccountNotAllowed": Meaning(
        "account not allowed here", "use another account or partition", True
    ),
    "InvalidAccount": Meaning("its account is not valid", "use another account", True),
    "InvalidQOS": Meaning("its QOS is not valid", "use another QOS", True),
    "QOSNotAllowed": Meaning("QOS not allowed here", "use another QOS or partition", True),
    "QOSUsageThreshold": Meaning("used too little for QOS"),
    "DeadLine": Meaning("cannot meet its deadline", "move the deadline", True),
    "Prolog": Meaning("its prolog still runs"),
    "Cleaning": Meaning("last run being cleaned up"),
    "SchedDefer": Meaning("no immediate starts here"),
    "FedJobLock": Meaning("federation must agree"),
    "BurstBufferStageIn": Meaning("data being staged in"),
    "BurstBufferResources": Meaning("burst buffer is full"),
    "BurstBufferOperation": Meaning("the burst buffer failed", "ask the administrators", True),
    "JobLaunchFailure": Meaning(
        "could not be launched", "check paths and file systems, then scontrol release", True
    ),
    "SystemFailure": Meaning("a system failed", "ask the administrators"),
    "AccountingPolicy": Meaning("at a limit", _LIMITS_COMMAND),
    "MaxMemPerLimit": Meaning(
        "memory above the limit", "ask for less memory per CPU or node", True
    ),
    "QOSJobLimit": Meaning("QOS limit: jobs", _LIMITS_COMMAND),
    "QOSResourceLimit": Meaning("QOS limit", _LIMITS_COMMAND),
    "QOSTimeLimit": Meaning("QOS limit: time", _LIMITS_COMMAND),
    "AssociationJobLimit": Meaning("account limit: jobs", _LIMITS_COMMAND),
    "AssociationResourceLimit": Meaning("account limit", _LIMITS_COMMAND),
    "AssociationTimeLimit": Meaning("account limit: time", _LIMITS_COMMAND),
}

_LIMIT: Final = re.compile(
    r"(?P<who>AssocGrp|AssocMax|QOSGrp|QOSMax|QOSMin|Max)"
    r"(?P<what>BB|Billing|CPU|Cpu|Energy|GRES|SubmitJobs?|Jobs|License|Memory|Mem|Node|Unknown"
    r"|WallDuration|Wall)"
    r"(?P<how>RunMinutes|Minutes)?"
    r"(?P<scope>PerJob|PerNode|PerUser|PerAccount)?"
    r"(?:Limit|NotSatisfied)?"
)

_WHAT: Final = {
    "BB": "burst buffer",
    "Billing": "billing",
    "CPU": "CPUs",
    "Cpu": "CPUs",
    "Energy": "energy",
    "GRES": "GRES",
    "SubmitJob": "submitted jobs",
    "SubmitJobs": "submitted jobs",
    "Jobs": "running jobs",
    "License": "licenses",
    "Memory": "memory",
    "Mem": "memory",
    "Node": "nodes",
    "Unknown": "a resource",
    "WallDuration": "time",
    "Wall": "time",
}

_SCOPE: Final = {
    "PerJob": " a job",
    "PerNode": " a node",
    "PerUser": " a user",
    "PerAccount": " an account",
}


def meaning_of(reason: str) -> Meaning:
    """What Slurm's reason means; one that is not known is shown as Slurm writes it."""
    code = re.split(r"[,\s(]", reason.strip(), maxsplit=1)[0]
    if not code:
        return Meaning(UNKNOWN_REASON)
    known = REASONS.get(code)
    if known is not None:
        return known
    limit = _LIMIT.fullmatch(code)
    return Meaning(reason) if limit is None else _limit(limit)


def _limit(found: re.Match[str]) -> Meaning:
    """A limit in words: `QOS limit: GPUs a user`."""
    who, what = found["who"], _WHAT[found["what"]]
    owner = "account" if who.startswith("Assoc") else "QOS"
    scope = _SCOPE.get(found["scope"] or "", "")
    how = {"Minutes": " minutes", "RunMinutes": " run minutes"}.get(found["how"] or "", "")
    if who == "QOSMin":
        return Meaning(f"{owner} minimum: {what}", f"ask for more {what}", True)
    words = f"{owner} limit: {what}{how}{scope}"
    if found["scope"] in ("PerJob", "PerNode"):
        return Meaning(words, f"ask for less; {_LIMITS_COMMAND}", True)
    if how == " minutes":
        return Meaning(words, f"the budget is spent; {_LIMITS_COMMAND}")
    counted = "GRES counts GPUs and the like; " if what == "GRES" else ""
    return Meaning(words, f"{counted}it starts when running jobs end; {_LIMITS_COMMAND}")
