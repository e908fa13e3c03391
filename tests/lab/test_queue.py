"""What gpumon says of jobs of every kind, beside what Slurm's own commands say of them."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from tests.lab.answers import answered
from tests.lab.scenarios import (
    RUNNING,
    WAITING,
    Queue,
    accounted_end,
    controller_record,
    names_of,
    queue_lines,
    steady,
)

pytestmark = pytest.mark.every_slurm

ENDED = {
    "failed": "FAILED",
    "cancelled": "CANCELLED",
    "timed out": "TIMEOUT",
    "node failed": "NODE_FAIL",
}
OTHERS = ("after", "never", "capped two")
EVERY = sorted({*RUNNING, *WAITING, *ENDED, *OTHERS})
SAME = ("name", "state", "partition", "account", "user", "qos", "work_dir")


@pytest.fixture(scope="module")
def queue(cluster):
    found = Queue(cluster)
    try:
        found.make()
        yield found
    finally:
        found.clear()


@pytest.fixture(scope="module")
def seen(cluster, gpumon, queue):
    """gpumon's document and squeue's lines by scenario, of one moment in which nothing moved."""

    def read():
        return queue_lines(cluster, queue.jobs.values())

    def documented():
        words = [gpumon, "--json", "--for", "0", "--all", "slurm?nodes=none"]
        return json.loads(answered(cluster, words).stdout)

    document, lines = steady(read, documented)
    return document, {name: lines[job] for name, job in queue.jobs.items()}


def shown(document, label):
    (job,) = [job for job in document["jobs"] if job["label"] == label]
    return job


def moment(text):
    """Unix time of what squeue prints; None for N/A."""
    if text == "N/A":
        return None
    return datetime.fromisoformat(text).timestamp()


def at(stamp):
    return None if stamp is None else datetime.fromisoformat(stamp).timestamp()


@pytest.mark.parametrize("name", EVERY)
def test_a_job_is_shown_as_squeue_shows_it(cluster, seen, name):
    document, lines = seen
    assert lines[name]
    for line in lines[name]:
        job = shown(document, line["label"])
        assert {key: job[key] for key in SAME} == {key: line[key] for key in SAME}
        assert (job["reason"] or "None").replace("_", " ") == line["reason"].replace("_", " ")
        assert job["priority"] == int(line["priority"])
        assert (job["reservation"] or "(null)") == line["reservation"]
        assert job["nodes"] == names_of(cluster, line["nodes"])
        assert job["expected_nodes"] == names_of(cluster, line["expected_nodes"])


@pytest.mark.parametrize("name", [*WAITING, *OTHERS])
def test_the_expected_start_is_that_of_squeue(seen, name):
    document, lines = seen
    (line,) = lines[name]
    job = shown(document, line["label"])
    assert at(job["expected_start_at"]) == moment(line["expected_start_at"])


@pytest.mark.parametrize("name", WAITING)
def test_each_reason_of_a_wait_is_there(seen, name):
    document, lines = seen
    (line,) = lines[name]
    job = shown(document, line["label"])
    assert job["state"] == "PENDING"
    assert job["reason"].startswith(WAITING[name].reason)
    assert job["waiting"]["meaning"]


def test_waits_for_other_jobs_and_limits_have_their_reason(seen):
    document, lines = seen
    found = {name: shown(document, lines[name][0]["label"])["reason"] for name in OTHERS}
    assert found == {
        "after": "Dependency",
        "never": "DependencyNeverSatisfied",
        "capped two": "AssocMaxJobsLimit",
    }


@pytest.mark.parametrize("name", ENDED)
def test_the_end_of_a_job_is_that_of_the_controller_and_of_the_accounting(
    cluster, queue, seen, name
):
    """Their exit codes differ where a job did not end by itself, so the controller's counts."""
    document, lines = seen
    job = shown(document, lines[name][0]["label"])
    controller = controller_record(cluster, queue.jobs[name])
    assert job["state"] == ENDED[name] == controller["JobState"]
    assert job["exit_code"] == controller["ExitCode"]
    accounting = accounted_end(cluster, queue.jobs[name])
    assert accounting["state"] == job["state"]
    if name == "failed":
        assert job["exit_code"] == accounting["exit_code"] == "3:0"


def test_restarts_are_counted(cluster, queue, seen):
    document, lines = seen
    for name, count in (("requeued", 1), ("node failed, again", 1), ("uneven", 0)):
        job = shown(document, lines[name][0]["label"])
        assert job["restart_count"] == count
        assert int(controller_record(cluster, queue.jobs[name])["Restarts"]) == count
    again = shown(document, lines["node failed, again"][0]["label"])
    assert (again["state"], again["reason"]) == ("PENDING", "BeginTime")


def test_gpus_are_counted_however_they_were_asked_for(seen):
    document, lines = seen

    def counts(name):
        return [shown(document, line["label"])["gpu_count"] for line in lines[name]]

    assert counts("uneven") == [3]
    assert counts("per-task") == counts("steps") == [2]
    assert counts("first in line") == [8]
    assert counts("het") == [1, 1]
    assert counts("endless")[0] in (0, None)
    tasks = {line["label"].split("_")[1]: line["label"] for line in lines["array"]}
    assert shown(document, tasks["0"])["gpu_count"] == 1
    assert shown(document, tasks["1"])["gpu_count"] == 1


def test_nodes_in_trouble_are_named_with_their_reason(seen):
    document, _ = seen
    nodes = {node["name"]: node["slurm"] for node in document["nodes"]}
    assert "drain" in nodes["gpu02"]["state"]
    assert nodes["gpu02"]["reason"] == "bad fan [x@y]"
    assert nodes["gpu02"]["reason_user"] == "root"
    assert nodes["gpu03"]["state"].startswith("down")
    assert nodes["gpu03"]["reason"] == "Not responding"


def test_reservations_and_partitions_are_listed(seen):
    document, _ = seen
    found = {one["name"]: one for one in document["reservations"]}
    assert found["maintenance"]["maintenance"]
    assert not found["planned"]["maintenance"]
    assert found["planned"]["users"] == ["alice"]
    assert found["planned"]["nodes"] == ["gpu01"]
    states = {one["name"]: one["state"] for one in document["partitions"]}
    assert states == {
        "gpu": "UP",
        "debug": "UP",
        "long": "UP",
        "narrow": "UP",
        "solo": "UP",
        "closed": "DOWN",
        "inactive": "INACTIVE",
    }
