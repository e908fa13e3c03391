"""Why jobs wait on a cluster with two types of GPUs, CPU and memory hogs, licences and limits.

Each sentence is held against what Slurm's own lists say is free.
"""

from __future__ import annotations

import json

import pytest

from tests.lab.answers import answered
from tests.lab.layout import HEAD
from tests.lab.second_cluster import second_cluster

pytestmark = pytest.mark.every_slurm

NODES = {"fat": "h100:8", "both": "h100:4,t4:4", "lean": "t4:8"}

MORE = {
    "SelectTypeParameters": "CR_Core_Memory",
    "DefMemPerCPU": "1000",
    "AccountingStorageEnforce": "associations,limits,qos",
    "Licenses": "solver:2",
}

SLEEP = "sleep 900\n"

RESERVE = (
    "scontrol -M {} create reservation reservationname=course start=now+2hours",
    "duration=60 users=alice nodes=lean",
)

REASONS = {
    "licences": "Licenses",
    "limited": "QOSMaxGRESPerUser",
    "reserved": "Reservation",
    "never": "Dependency",
}
"""Those that Slurm always finds, by job; the others may be behind one that comes first."""

SAID = {
    "types": (
        "asks for 7 h100 GPUs on one node: no node has 7 free, 1 has 4",
        "with t4 instead it would fit now, on lean",
    ),
    "required": ("asks for 5 h100 GPUs on one node, which must be fat: fat has 2 free",),
    "excluded": (
        "1 node has 2 free, but none has 195 GiB of memory free too, 23 GiB at most",
        "without its list of excluded nodes it would fit now, on fat, lean",
    ),
    "crowded": (
        "asks for 5 t4 GPUs on one node: 1 node has 5 free",
        "but none has 8 CPUs free too, 1 at most",
    ),
    "alone": (
        "asks for 1 h100 GPU on one node: 1 node has 1 free",
        "but none is empty, and it wants its nodes alone",
    ),
    "licences": (
        "waits for a license",
        "it lacks something other than GPUs, CPUs or memory",
    ),
    "limited": ("GPUs", "it lacks something other than GPUs, CPUs or memory"),
    "reserved": ("reservation not begun yet",),
    "never": ("waits for 1 to succeed",),
}
"""What is said of each."""


@pytest.fixture(scope="module")
def waiting(cluster, gpumon):
    """What is said of each waiting job, by its name."""
    with second_cluster(cluster, "mixed", NODES, MORE) as name:
        script = [
            "sacctmgr -i add qos tight MaxTRESPerUser=gres/gpu=1",
            f"sacctmgr -i modify user alice where cluster={name} set qos+=tight",
            " ".join(RESERVE).format(name),
        ]
        cluster.run_on(HEAD, ["sh", "-c", " && ".join(script)])

        def submit(job, *options):
            return cluster.submit("alice", SLEEP, "-M", name, "-J", job, *options)

        fillers = [
            submit("training", "-w", "fat", "--gres=gpu:h100:6", "-n1"),
            submit("cpus", "-w", "lean", "-n61", "-N1"),
            submit("memory", "-w", "both", "-n1", "--mem=1000000M"),
            submit("licensed", "-n1", "-L", "solver:2", "--mem=10", "-w", "lean"),
            submit("within", "-n1", "--gres=gpu:t4:1", "--qos=tight", "--mem=10", "-w", "lean"),
        ]
        for job_id in fillers:
            cluster.wait_until(
                lambda job_id=job_id: state(cluster, name, job_id) == "RUNNING", f"job {job_id}", 60
            )
        # What Slurm looks at first has a reason of its own; behind one that waits for room it is
        # just the order.
        submit("licences", "-n1", "-L", "solver:1", "--mem=10", "--gres=gpu:h100:1", "-w", "fat")
        submit("limited", "-n1", "--qos=tight", "--gres=gpu:h100:1", "--mem=10", "-w", "fat")
        submit("types", "-N1", "-n1", "--gres=gpu:h100:7", "--mem=10")
        submit("required", "-w", "fat", "-N1", "-n1", "--gres=gpu:h100:5", "--mem=10")
        submit("excluded", "-x", "fat,lean", "-N1", "-n1", "--gres=gpu:2", "--mem=200000M")
        submit("crowded", "-N1", "-n8", "--gres=gpu:t4:5", "--mem-per-cpu=10")
        submit("alone", "-x", "both,lean", "-N1", "--exclusive", "--gres=gpu:h100:1", "--mem=10")
        submit("reserved", "-n1", "--reservation=course", "--gres=gpu:t4:2", "--mem=10")
        submit("never", "-N1", "-n1", "--gres=gpu:t4:1", "--mem=10", "-d", "afterok:1")

        def shown():
            words = [gpumon, "--json", "--for", "0", "--all", f"slurm?cluster={name}&nodes=none"]
            env = {"GPUMON_SHARE": "no"}
            document = json.loads(answered(cluster, words, env=env).stdout)
            jobs = {job["name"]: job for job in document["jobs"] if job["state"] == "PENDING"}
            return jobs, document

        jobs = {}

        def all_wait():
            jobs.clear()
            jobs.update(shown()[0])
            reasons = {job["name"]: job["reason"] for job in jobs.values()}
            return len(jobs) == 9 and REASONS.items() <= reasons.items()

        cluster.wait_until(all_wait, "nine jobs with their reasons", 60)
        yield jobs
        cluster.run_on(HEAD, ["scontrol", "-M", name, "delete", "reservation=course"], check=False)


def state(cluster, name, job_id):
    words = ["scontrol", "-M", name, "show", "job", "-o", str(job_id)]
    said = cluster.run_on(HEAD, words).stdout
    return dict(word.split("=", 1) for word in said.split() if "=" in word)["JobState"]


@pytest.mark.parametrize("name", SAID)
def test_what_is_lacking_is_named(waiting, name):
    found = waiting[name]["waiting"]
    shown = " | ".join((found["meaning"], *found["hints"]))
    for part in SAID[name]:
        assert part in shown
