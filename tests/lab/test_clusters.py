"""Two clusters of one slurmdbd, with the same numbers of jobs and the same name of a node.

`south` has a controller and a slurmrestd of its own on head, and one node, which is called gpu01
and is the machine gpu03. Everything else here is of the cluster `lab`.
"""

from __future__ import annotations

import json
import re
import time

import pytest

from tests.lab.answers import answered
from tests.lab.cluster import HEAD
from tests.lab.second_cluster import REST_PORT, second_cluster
from tests.lab.test_accounting import brute_force
from tests.lab.test_gpumon import WORK, workload
from tests.lab.test_rest import token

pytestmark = pytest.mark.every_slurm


@pytest.fixture(scope="module")
def south(cluster):
    """The second cluster, whose one node is called as one of the first."""
    output = cluster.run_on(HEAD, ["scontrol", "show", "config"]).stdout
    (following,) = re.findall(r"NEXT_JOB_ID\s*=\s*(\d+)", output)
    settings = {
        "FirstJobId": following,
        "PreemptType": "preempt/qos",
        "PreemptMode": "REQUEUE",
    }
    nodes = {"gpu01": "h100:8"}
    with second_cluster(cluster, "south", nodes, settings, has_rest=True) as name:
        for words in (
            "add qos urgent preempt=normal",
            f"modify user alice where cluster={name} set qos+=urgent",
        ):
            cluster.run_on(HEAD, ["sacctmgr", "-i", *words.split()])
        yield name


@pytest.fixture
def twins(cluster, south, submit):
    """A job of each cluster with the same number and the same name of its node."""
    words = workload(cluster, "--index", "auto", *WORK)

    def start(name, gpus):
        options = ("-J", name, "-n1", f"--gres=gpu:{gpus}", "-o", f"/home/alice/{name}-%j.out")
        if name == "lab":
            return submit("alice", words, *options, "-w", "gpu01")
        return cluster.submit("alice", words, "-M", south, *options)

    numbers = {"lab": start("lab", 3), south: start(south, 1)}
    while len(set(numbers.values())) > 1:
        lower = min(numbers, key=numbers.get)
        # What is given up must not hold the GPUs that the next one needs.
        cluster.run_on(HEAD, ["scancel", "-M", lower, str(numbers[lower])])
        numbers[lower] = start(lower, 3 if lower == "lab" else 1)
    job_id = numbers["lab"]
    for where in numbers:
        file = cluster.layout.shared / f"home/alice/{where}-{job_id}.out"
        cluster.wait_until(
            lambda file=file: file.exists() and '"pid"' in file.read_text(), f"{where} at work", 60
        )
    yield job_id
    cluster.run_on(HEAD, ["scancel", "-M", south, "--user=alice"])


def document_of(cluster, gpumon, *targets):
    words = [gpumon, "--json", "--for", "1", "--all", *targets]
    env = {"SLURM_JWT": token(cluster)}
    return json.loads(answered(cluster, words, env=env).stdout)


def places(document, job_id):
    """Where a document says that the processes of a job are."""
    (job,) = [job for job in document["jobs"] if job["job_id"] == job_id]
    return (
        job["cluster"],
        job["nodes"],
        len(job["gpus"]),
        sorted({rank["node"] for rank in job["ranks"]}),
        job["contradictions"],
    )


def test_the_commands_ask_the_cluster_that_is_named(cluster, gpumon, twins, south):
    document = document_of(cluster, gpumon, f"slurm?cluster={south}")
    assert places(document, str(twins)) == (south, ["gpu01"], 1, ["gpu01"], [])
    assert {job["cluster"] for job in document["jobs"]} == {south}
    assert [node["slurm"]["cluster"] for node in document["nodes"]] == [south]
    behind = document_of(cluster, gpumon, f"slurm+ssh://head?cluster={south}")
    assert places(behind, str(twins)) == places(document, str(twins))
    own = document_of(cluster, gpumon, "slurm+ssh://head")
    assert places(own, str(twins))[:3] == ("lab", ["gpu01"], 3)


@pytest.mark.parametrize("way", ["commands", "rest"])
def test_two_clusters_beside_each_other_are_never_mixed(cluster, gpumon, twins, south, way):
    rest = f"slurm+http://{cluster.layout.address(HEAD)}"
    targets = {
        "commands": ("slurm", f"slurm?cluster={south}"),
        "rest": (f"{rest}:6820?insecure=1", f"{rest}:{REST_PORT}?insecure=1"),
    }[way]
    document = document_of(cluster, gpumon, *targets)
    assert document["errors"] == []
    ours, theirs = f"{twins}@lab", f"{twins}@{south}"
    assert places(document, ours) == ("lab", ["gpu01@lab"], 3, ["gpu01@lab"], [])
    found = places(document, theirs)
    # Nothing tells which device files the node of south has, but its process does.
    assert found == (south, [f"gpu01@{south}"], 1, [f"gpu01@{south}"], [])
    held = [uuid for job in document["jobs"] for uuid in job["gpus"]]
    assert len(held) == len(set(held)) == 4
    clusters = {node["name"]: node["slurm"]["cluster"] for node in document["nodes"]}
    assert clusters["gpu01@lab"] == clusters["gpu03@lab"] == "lab"
    assert clusters[f"gpu01@{south}"] == south
    names = {part["name"] for part in document["partitions"]}
    assert {"gpu@lab", f"gpu@{south}", "debug@lab"} <= names
    one = document_of(cluster, gpumon, "--job", theirs, *targets)
    assert [job["job_id"] for job in one["jobs"]] == [theirs]


def test_what_has_ended_is_told_of_each_cluster(cluster, gpumon, twins, south):
    cluster.cancel(twins)
    cluster.run_on(HEAD, ["scancel", "-M", south, str(twins)])
    ended = {}

    def both():
        document = document_of(cluster, gpumon, "--ended", "slurm", f"slurm?cluster={south}")
        ended.update({one["job_id"]: one["cluster"] for one in document["ended_jobs"]})
        return {f"{twins}@lab", f"{twins}@{south}"} <= set(ended)

    cluster.wait_until(both, "both in the accounting", 60.0)
    assert {name.rpartition("@")[2] for name in ended} == set(ended.values()) == {"lab", south}


def test_gpu_time_of_a_job_that_was_preempted_is_that_of_all_its_runs(cluster, gpumon, south):
    def submit(*options):
        return str(cluster.submit("alice", "sleep 600\n", "-M", south, "-n1", *options))

    def states(*options):
        words = ["sacct", "-M", south, "-X", "-n", "-P", "-j", ",".join(jobs), *options]
        return cluster.run_on(HEAD, [*words, "-o", "State"]).stdout.split()

    jobs = [submit("--gres=gpu:5", "--requeue")]
    cluster.wait_until(lambda: states() == ["RUNNING"], "the first run", 60)
    time.sleep(3)
    jobs.append(submit("--gres=gpu:6", "--qos=urgent"))
    cluster.wait_until(lambda: "PREEMPTED" in states("-D"), "a run that was preempted", 60)
    cluster.wait_until(lambda: "RUNNING" in states(), "the urgent job", 60)
    cluster.run_on(HEAD, ["scancel", "-M", south, *jobs])
    unfinished = {"RUNNING", "PENDING", "COMPLETING"}
    cluster.wait_until(lambda: not unfinished & set(states("-D")), "every run in the books", 60)
    fields = ["-o", "JobID,Start,End,State,AllocTRES%200"]
    every = ["sacct", "-M", south, "-D", "-X", "-n", "-P", "-j", ",".join(jobs), *fields]
    expected = brute_force(cluster.run_on(HEAD, every).stdout.splitlines())
    assert expected > 0
    rest = f"slurm+http://{cluster.layout.address(HEAD)}:{REST_PORT}?insecure=1&nodes=none"
    for target in (f"slurm?cluster={south}&nodes=none", rest):
        ended = document_of(cluster, gpumon, "--ended", target)["ended_jobs"]
        seconds = [one["gpu_seconds"] or 0 for one in ended if one["job_id"] in jobs]
        assert sum(seconds) == expected, target
