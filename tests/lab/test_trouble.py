"""Slurm's daemons dead or silent, its commands wrapped: one line each, back without a restart."""

from __future__ import annotations

import json
import shlex

import pytest

from gpumon.sources.slurm.commands.failures import UNREACHED, CommandFailedError
from gpumon.sources.slurm.poll.queue import records_of
from tests.lab.answers import answered
from tests.lab.cluster import COMMAND_TIMEOUT_S
from tests.lab.watched import next_document, watching

pytestmark = pytest.mark.every_slurm

QUEUE = "slurm?nodes=none"


def start_controller(cluster):
    cluster.run_on("head", ["slurmctld"])
    cluster.wait_until(
        lambda: cluster.run_on("head", ["scontrol", "ping"], check=False).returncode == 0,
        "slurmctld answers",
    )


@pytest.fixture
def controller(cluster):
    """Stops slurmctld by a signal, and has it back after the test."""

    def runs():
        return cluster.run_on("head", ["pgrep", "slurmctld"], check=False).returncode == 0

    def stop(signal):
        if signal == "TERM":
            cluster.end_controller()
        else:
            cluster.run_on("head", ["pkill", f"-{signal}", "slurmctld"])

    yield stop
    cluster.run_on("head", ["pkill", "-CONT", "slurmctld"], check=False)
    if not runs():
        start_controller(cluster)


@pytest.mark.parametrize(
    "signal",
    [
        pytest.param("TERM", marks=pytest.mark.lane("loss")),
        pytest.param("STOP", marks=pytest.mark.lane("silence")),
    ],
)
def test_the_last_state_stays_with_its_age_until_the_controller_is_back(
    cluster, gpumon, submit, controller, signal, said
):
    job_id = submit("alice", ["sleep", "900"], "-n1", "--gres=gpu:1")
    cluster.wait_job(job_id, ["RUNNING"])
    with watching(cluster, gpumon, QUEUE) as process:
        before = next_document(process, lambda document: document["jobs"])
        controller(signal)
        gone = next_document(process, lambda document: document["errors"])
        (error,) = gone["errors"]
        assert error["message"].startswith(UNREACHED)
        assert error["hint"]
        said(error["message"], error["hint"])
        assert [job["job_id"] for job in gone["jobs"]] == [job["job_id"] for job in before["jobs"]]
        assert not gone["targets"][0]["ok"]
        assert gone["targets"][0]["age_s"] > 5.0
        if signal == "TERM":
            start_controller(cluster)
        else:
            controller("CONT")
        back = next_document(process, lambda document: not document["errors"])
        assert back["targets"][0]["ok"]
        assert str(job_id) in [job["job_id"] for job in back["jobs"]]


def test_an_empty_list_of_a_silent_controller_is_no_empty_queue(cluster, controller):
    """22.05's squeue --json ends with status 0, newer ones fail; either way there are no jobs."""
    controller("STOP")
    done = cluster.run_as("alice", ["squeue", "--json"], check=False)
    controller("CONT")
    if done.returncode == 0:
        assert json.loads(done.stdout)["jobs"] == []
        with pytest.raises(CommandFailedError):
            records_of(done.stdout, "job", "squeue --json")
    else:
        assert done.stderr


def test_a_dead_database_takes_nothing_from_the_queue(cluster, gpumon):
    cluster.run_on("head", ["pkill", "-STOP", "slurmdbd"])
    try:
        done = answered(cluster, [gpumon, "--json", "--for", "0", QUEUE])
    finally:
        cluster.run_on("head", ["pkill", "-CONT", "slurmdbd"])
    document = json.loads(done.stdout)
    assert document["errors"] == []
    assert len(document["nodes"]) == 3


def wrapped(cluster, script):
    """A PATH on which scontrol is a script of alice's."""
    folder = "/home/alice/wrapped"
    make = f"mkdir -p {folder}; printf '%s\\n' {shlex.quote(script)} >{folder}/scontrol"
    cluster.run_as("alice", ["sh", "-c", f"{make}; chmod +x {folder}/scontrol; rm -f {folder}/log"])
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def test_a_wrapper_that_prints_tables_does_not_hide_the_jobs(cluster, gpumon, submit, said):
    job_id = submit("alice", ["sleep", "900"], "-n1", "--gres=gpu:1", "-J", "seen")
    cluster.wait_job(job_id, ["RUNNING"])
    by_json = 'case "$*" in *--json*) exec /usr/bin/scontrol "$@" ;; esac'
    env = wrapped(cluster, f"#!/bin/sh\n{by_json}\necho '| job | state |'")
    done = answered(cluster, [gpumon, "--json", "--for", "0", QUEUE], env=env)
    document = json.loads(done.stdout)
    (job,) = [job for job in document["jobs"] if job["job_id"] == str(job_id)]
    assert (job["name"], job["gpus_unknown"]) == ("seen", 1)
    assert len(document["nodes"]) == 3
    messages = [error["message"] for error in document["errors"]]
    read = (
        "scontrol --all --details show job" if cluster.layout.release.is_newer else "squeue --all"
    )
    assert any(f"{read} --json is read instead" in message for message in messages)
    said(next(message for message in messages if "instead" in message))


def test_all_gpumons_of_a_user_ask_once(cluster, gpumon):
    log = "/home/alice/wrapped/log"
    env = wrapped(cluster, f'#!/bin/sh\necho "$*" >>{log}\nexec /usr/bin/scontrol "$@"')
    env["GPUMON_SHARE"] = "yes"
    words = [gpumon, "--json", "--for", "0", QUEUE]
    started = [cluster.popen_as("alice", words, env=env) for _ in range(3)]
    documents = [
        json.loads(process.communicate(timeout=COMMAND_TIMEOUT_S)[0]) for process in started
    ]
    assert all(len(document["nodes"]) == 3 for document in documents)
    cluster.run_as("alice", words, env=env)
    calls = cluster.run_as("alice", ["cat", log]).stdout.splitlines()
    kinds = [line.split()[-1] for line in calls if "show " in line]
    assert sorted(kinds) == ["job", "node", "partition", "reservation", "topology"]
    found = cluster.run_as("alice", ["find", "/home/alice/.cache/gpumon", "-printf", "%m %u %f\\n"])
    modes = {line.split()[0] for line in found.stdout.splitlines()}
    assert modes == {"700", "600"}
    env["GPUMON_SHARE"] = "no"
    cluster.run_as("alice", words, env=env)
    again = cluster.run_as("alice", ["cat", log]).stdout.splitlines()
    assert len(again) >= len(calls) + 5
