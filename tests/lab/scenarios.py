"""Jobs of every kind that a queue can show, made in a running lab, and what Slurm says of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tests.lab.layout import HEAD
from tests.lab.machine import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.lab.cluster import Cluster

S = TypeVar("S")
T = TypeVar("T")

SLEEP = "exec sleep 900\n"
STEPS = (
    "srun -n1 --gres=gpu:1 --exact sleep 900 &\nsrun -n1 --gres=gpu:1 --exact sleep 900 &\nwait\n"
)
HET = """#!/bin/sh
#SBATCH -n1 --gres=gpu:1 -w gpu01
#SBATCH hetjob
#SBATCH -n2 --gres=gpu:1 -w gpu02
exec sleep 900
"""
TIMEOUT_S = 150.0

_MOST_TRIES = 30
"""A queue that stands still for none of so many looks never does."""

RUNNING: dict[str, tuple[str, ...]] = {
    "uneven": ("-N2", "-n3", "--gpus-per-task=1", "-w", "gpu[01-02]"),
    "per-task": ("-n2", "--gpus-per-task=1", "-w", "gpu01"),
    "array": ("--array=0-5%2", "-n1", "--gres=gpu:1", "-w", "gpu02", "-t", "10"),
    "het": (),
    "steps": ("-n2", "--gres=gpu:2", "-w", "gpu02"),
    "suspended": ("-n1", "--gres=gpu:1", "-w", "gpu01"),
    "endless": ("-p", "long", "-t", "UNLIMITED", "-n1", "-w", "gpu02"),
    "licensed": ("-n1", "-L", "tool:1", "-w", "gpu02"),
    "cancelled": ("-n1", "-w", "gpu01"),
    "requeued": ("-n1", "--requeue", "-w", "gpu01"),
    "timed out": ("-n1", "-t", "1", "-w", "gpu01"),
    "node failed": ("-n1", "--gres=gpu:2", "-w", "gpu03", "--no-requeue"),
    "node failed, again": ("-n1", "--gres=gpu:1", "-w", "gpu03", "--requeue"),
    "only one": ("-n1", "--qos=one", "-w", "gpu01"),
    "only two gpus": ("-n1", "--qos=two_gpus", "--gres=gpu:2", "-w", "gpu01"),
}
"""Options of the jobs that run at first; what happens to some of them later is in their name."""

PARTITIONS = {
    "closed": ("nodes=gpu[01-03]", "state=down"),
    "inactive": ("nodes=gpu[01-03]", "state=down"),
    "narrow": ("nodes=gpu[01-03]", "maxnodes=1", "maxtime=30"),
    "solo": ("nodes=gpu01",),
}

SCRIPTS = {"steps": STEPS, "het": HET, "failed": "exit 3\n"}


class Waiting(NamedTuple):
    """A job that waits."""

    options: tuple[str, ...]
    reason: str | tuple[str, ...]
    """What the reason that Slurm gives begins with; several: by who came first."""


WAITING: dict[str, Waiting] = {
    "held": Waiting(("-H", "-n1"), "JobHeldUser"),
    "held by root": Waiting(("-b", "now+1hour", "-n1"), "JobHeldAdmin"),
    "later": Waiting(("-b", "now+1hour", "-n1", "--gpus=3"), "BeginTime"),
    "licence": Waiting(("-n1", "-p", "long", "-L", "tool:1"), "Licenses"),
    "second of qos": Waiting(("-n1", "--qos=one"), "QOSMaxJobsPerUserLimit"),
    "gpus of qos": Waiting(
        ("-n1", "--qos=two_gpus", "--gres=gpu:1"),
        ("QOSMaxGRESPerUser", "Nodes_required_for_job_are_DOWN", "Priority", "Resources"),
    ),
    "partition down": Waiting(("-n1", "-p", "closed"), "PartitionDown"),
    "partition inactive": Waiting(("-n1", "-p", "inactive"), "PartitionInactive"),
    "too many nodes": Waiting(("-N2", "-p", "narrow"), "PartitionNodeLimit"),
    "too long": Waiting(("-n1", "-p", "narrow", "-t", "60"), "PartitionTimeLimit"),
    "reserved": Waiting(("-n1", "--reservation=planned", "-t", "10"), "Reservation"),
    "maintenance": Waiting(("-n1", "-w", "gpu01", "-t", "300"), "ReqNodeNotAvail"),
    "drained": Waiting(("-n1", "-w", "gpu02", "-t", "10"), "ReqNodeNotAvail"),
    "first in line": Waiting(
        ("-N1", "-p", "solo", "--gres=gpu:8", "-t", "10"),
        "Resources",
    ),
    "second in line": Waiting(
        ("-N1", "-p", "solo", "--gres=gpu:8", "-t", "10", "--nice=1000"),
        "Priority",
    ),
    "no node left": Waiting(
        ("-N1", "--gres=gpu:8", "-t", "10"),
        ("Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved", "Priority", "Resources"),
    ),
}


class Queue:
    """The jobs of a lab by the names of this module."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.jobs: dict[str, int] = {}

    def make(self) -> None:
        """Submits everything and waits until each job is where its name says, about 100 s."""
        self._make_site()
        for name, options in RUNNING.items():
            self._submit(name, *options)
        self._submit("failed", "-n1", "-w", "gpu01")
        self._submit("capped one", "-n1", "-A", "capped", "-w", "gpu01", user="bob")
        for name in (*RUNNING, "capped one"):
            self._cluster.wait_job(self.jobs[name], ["RUNNING"])
        self._cluster.wait_job(self.jobs["failed"], ["FAILED"])
        self._trouble()
        for name, waiting in WAITING.items():
            self._submit(name, *waiting.options)
        self._submit("after", "-n1", f"--dependency=afterok:{self.jobs['uneven']}")
        self._submit("never", "-n1", f"--dependency=afterok:{self.jobs['failed']}")
        self._submit("capped two", "-n1", "-A", "capped", user="bob")
        self._root("scontrol", "hold", str(self.jobs["held by root"]))
        # First of all, as the place that another job keeps would be the reason else.
        for name in ("first in line", "licence"):
            self._root("scontrol", "update", f"jobid={self.jobs[name]}", "priority=900000")
        # Only a partition that is down takes jobs in.
        self._root("scontrol", "update", "partitionname=inactive", "state=inactive")
        self._cluster.wait_job(self.jobs["timed out"], ["TIMEOUT"], TIMEOUT_S)
        self._cluster.wait_job(self.jobs["node failed"], ["NODE_FAIL"], TIMEOUT_S)
        again = self.jobs["node failed, again"]
        self._cluster.wait_job(again, ["PENDING"], TIMEOUT_S)
        # It has no reason until the scheduler has looked at it.
        self._cluster.wait_until(
            lambda: queue_lines(self._cluster, [again])[again][0]["reason"] != "None", "a reason"
        )

    def clear(self) -> None:
        """Takes back what `make` did, as far as other tests would see it."""
        self._root("scancel", "--user=alice")
        self._root("scancel", "--user=bob")
        self._root("slurmd", node="gpu03")
        for name in ("planned", "maintenance"):
            self._root("scontrol", "delete", f"reservationname={name}")
        self._root("scontrol", "update", "nodename=gpu02", "state=resume")
        self._cluster.wait_idle(["gpu01", "gpu02", "gpu03"])
        for name in PARTITIONS:
            self._root("scontrol", "delete", f"partitionname={name}")
        manage = ("sacctmgr", "-i")
        self._root(*manage, "modify", "user", "alice", "set", "qos-=one,two_gpus")
        self._root(*manage, "delete", "qos", "one,two_gpus")
        self._root(*manage, "delete", "user", "bob", "account=capped")
        self._root(*manage, "delete", "account", "capped")

    def _trouble(self) -> None:
        """What happens to running jobs and to their nodes."""
        root, jobs = self._root, self.jobs
        root("scontrol", "suspend", str(jobs["suspended"]))
        root("scontrol", "requeue", str(jobs["requeued"]))
        # Its limit is a minute, the shortest that there is: now it has run for most of it.
        root("scontrol", "update", f"jobid={jobs['timed out']}", "endtime=now+1")
        self._cluster.cancel(jobs["cancelled"])
        # The second is what 24.11's calls itself once it has read its configuration again.
        root("pkill", "-KILL", "-x", "slurmd|slurmd-wlm", node="gpu03")
        root("pkill", "-KILL", "slurmstepd", node="gpu03")
        root("scontrol", "update", "nodename=gpu02", "state=drain", "reason=bad fan [x@y]")
        create = ("scontrol", "create", "reservation")
        common = ("duration=60", "users=root", "nodes=gpu01")
        root(*create, "reservationname=maintenance", "starttime=now+2hours", "flags=maint", *common)
        root(
            *create, "reservationname=planned", "starttime=now+4hours", "duration=60",
            "users=alice", "nodes=gpu01",
        )  # fmt: skip

    def _make_site(self) -> None:
        """QOS, accounts and partitions with limits; those that exist already are kept."""
        manage = ("sacctmgr", "-i")
        self._root(*manage, "add", "qos", "one", "MaxJobsPerUser=1")
        self._root(*manage, "add", "qos", "two_gpus", "MaxTRESPerUser=gres/gpu=2")
        self._root(*manage, "modify", "user", "alice", "set", "qos+=one,two_gpus")
        self._root(*manage, "add", "account", "capped")
        self._root(*manage, "add", "user", "bob", "account=capped", "MaxJobs=1")
        for name, options in PARTITIONS.items():
            self._root("scontrol", "create", f"partitionname={name}", *options)

    def _submit(self, name: str, *options: str, user: str = "alice") -> None:
        script = SCRIPTS.get(name, SLEEP)
        self.jobs[name] = self._cluster.submit(user, script, "-J", name, *options)

    def _root(self, *words: str, node: str = HEAD) -> str:
        return self._cluster.run_on(node, words).stdout


SQUEUE = {
    "label": "%i",
    "name": "%j",
    "state": "%T",
    "reason": "%r",
    "partition": "%P",
    "account": "%a",
    "user": "%u",
    "qos": "%q",
    "node_count": "%D",
    "nodes": "%N",
    "expected_nodes": "%Y",
    "expected_start_at": "%S",
    "priority": "%Q",
    "work_dir": "%Z",
    "reservation": "%v",
}
"""What squeue prints of a job, by gpumon's names."""


def queue_lines(cluster: Cluster, jobs: Iterable[int]) -> dict[int, list[dict[str, str]]]:
    """What one squeue says of jobs: a line per task of an array and per component of a het job."""
    lines: dict[int, list[dict[str, str]]] = {job: [] for job in jobs}
    line_of = "\x1f".join(SQUEUE.values())
    words = ["squeue", "-h", "-t", "all", "-j", ",".join(map(str, lines)), "-o", line_of]
    for text in cluster.run_on(HEAD, words).stdout.splitlines():
        line = dict(zip(SQUEUE, text.split("\x1f"), strict=True))
        lines[int(re.split("[_+]", line["label"])[0])].append(line)
    return lines


def accounted_end(cluster: Cluster, job_id: int) -> dict[str, str]:
    """State and exit code that the accounting keeps."""
    words = ["sacct", "-X", "-n", "-P", "-j", str(job_id), "-o", "State,ExitCode"]
    state, code = cluster.run_on(HEAD, words).stdout.splitlines()[0].split("|")
    return {"state": state.split()[0], "exit_code": code}


def controller_record(cluster: Cluster, job_id: int) -> dict[str, str]:
    """What the controller keeps of a job, by its own keys; no value of these has a blank."""
    shown = cluster.run_on(HEAD, ["scontrol", "show", "job", "-o", str(job_id)]).stdout
    return dict(word.split("=", 1) for word in shown.split() if "=" in word)


def names_of(cluster: Cluster, hostlist: str) -> list[str]:
    """The nodes of a hostlist, as Slurm itself expands it."""
    if hostlist in ("", "(null)", "N/A"):
        return []
    return cluster.run_on(HEAD, ["scontrol", "show", "hostnames", hostlist]).stdout.split()


def steady(read: Callable[[], T], read_other: Callable[[], S]) -> tuple[S, T]:
    """What `read_other` and `read` return while nothing moves: two reads around the look agree.

    Slurm's schedulers give a job that waits for several things now one reason and now another.
    """
    before = read()
    for _ in range(_MOST_TRIES):
        seen, after = read_other(), read()
        if after == before:
            return seen, after
        before = after
    raise LabError(f"the queue did not stand still for one of {_MOST_TRIES} looks")
