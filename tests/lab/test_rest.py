"""slurmrestd against Slurm's own commands of the same cluster: equal records, clear trouble.

Known differences, none of which is in these records: v0.0.36 knows no flags of nodes and names no
user of some jobs; a line break in a name ends it in scontrol's text; before v0.0.40 no answer tells
the controller's time, so `update_time` is unused; no version tells the topology.
Those of 24.11: see gpumon.sources.slurm.rest.client for what its `update_time` may be asked for.
"""

from __future__ import annotations

import base64
import json
import time

import pytest

from tests.lab.answers import answered
from tests.lab.layout import NODES
from tests.lab.machine import LabError
from tests.lab.test_gpumon import document_of, job_of, said, workload
from tests.lab.watched import end, next_document

LIFESPAN_S = 600
BROKEN_NAME = "a|b\ufffdc @x@"
"""A job of the tests of the accounting, whose name has a line break."""

BOTH = """
import json, os, sys
from gpumon.sources.slurm.poll import rest_queue
from gpumon.sources.slurm.rest import client as rest
from gpumon.sources.rest_address import RestAddress
from gpumon.sources.slurm.poll.queue import SlurmQueue

def records(queue):
    frame = queue._round()
    assert frame.queue, frame.errors
    return [[job._asdict() | {"allocations": [a._asdict() for a in job.allocations]}
             for job in frame.queue.jobs],
            [node._replace(leaf_switch="", block="")._asdict() for node in frame.queue.nodes],
            [error.message for error in frame.errors]]

rest.VERSIONS = tuple(sys.argv[3].split(",")) if sys.argv[3] else rest.VERSIONS
address = RestAddress(sys.argv[1], sys.argv[2])
by_rest = rest_queue.RestQueue("rest", address)
print(json.dumps([records(SlurmQueue()), records(by_rest), by_rest._client.version]))
"""

BEARER = """
import sys
from gpumon.sources.slurm.rest import client as rest
from gpumon.sources.rest_address import RestAddress

every = rest._header_styles
rest._header_styles = lambda *words, **more: {"bearer": every(*words, **more)["bearer"]}
print(len(rest.RestClient(RestAddress(sys.argv[1])).get("nodes")["nodes"]))
"""

UNCHANGED = """
import sys, time
from gpumon.sources.rest_address import RestAddress
from gpumon.sources.slurm.rest.client import RestClient

client = RestClient(RestAddress(sys.argv[1]))
answer = client.get("jobs")
print(len(answer["jobs"]), client.get("jobs", int(time.time()) + 60))
"""


@pytest.fixture(scope="module")
def url(cluster):
    return f"http://{cluster.layout.address('head')}:6820"


@pytest.fixture(scope="module")
def target(url):
    return f"slurm+{url}?insecure=1"


def token(cluster, user="alice", lifespan_s=LIFESPAN_S):
    done = cluster.run_as(user, ["scontrol", "token", f"lifespan={lifespan_s}"])
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("SLURM_JWT=")]
    return line.removeprefix("SLURM_JWT=")


def python(cluster, user, script, *words, env=None):
    command = [str(cluster.layout.venv / "bin/python"), "-c", script, *words]
    return cluster.run_as(user, command, env=env).stdout


def run_by_rest(cluster, gpumon, target, *, env=None, code=0):
    command = [gpumon, "--json", "--for", "0", target]
    env = env or {"SLURM_JWT": token(cluster)}
    if code:
        done = cluster.run_as("alice", command, env=env, check=False)
    else:
        done = answered(cluster, command, env=env)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout) if not code else done.stderr


@pytest.mark.every_slurm
def test_ranks_are_those_that_the_commands_lead_to(cluster, gpumon, target, submit):
    words = workload(cluster, "--index", "auto", "--sm", "90", "--seconds", "900")
    options = ("-N2", "-n4", "--ntasks-per-node=2", "--gres=gpu:2", "-w", "gpu[01-02]")
    job_id = submit("alice", words, *options, "-o", "/home/alice/four.out")
    cluster.wait_job(job_id, ["RUNNING"])
    cluster.wait_until(lambda: len(said(cluster, "alice", "four.out")) == 4, "4 contexts")
    by_rest = run_by_rest(cluster, gpumon, target)
    job = job_of(by_rest, job_id)
    assert by_rest["errors"] == []
    assert [rank["rank"] for rank in job["ranks"]] == [0, 1, 2, 3]
    assert job["gpus_unknown"] == 0
    by_commands = job_of(document_of(cluster, gpumon, "--for", "0", "slurm"), job_id)
    # What its control groups count goes on from one look to the next.
    apart = {"cgroups": None}
    if not cluster.layout.release.tells_exclusive:
        apart["exclusive"] = None
    assert {**job, **apart} == {**by_commands, **apart}


@pytest.fixture(scope="module")
def mix(cluster):
    """Jobs of every kind at once, and a node that drains; gone after the module."""
    jobs = []

    def submit(*options, script="sleep 900\n", user="alice"):
        jobs.append(cluster.submit(user, script, *options))
        return jobs[-1]

    submit("-J", "uneven", "-N2", "-n3", "--gpus-per-task=1", "-w", "gpu[01-02]")
    submit("-J", "per-task", "-n2", "--gpus-per-task=2")
    submit("-J", "endless", "-p", "long", "-t", "UNLIMITED", "--gpus=2", "-n1")
    submit("-J", "array", "--array=0-5%2", "-n1", "--gres=gpu:1", "-t", "10")
    suspended = submit("-J", "suspended", "-n1", "--gres=gpu:1")
    submit("-J", "no gpu", "-n3", user="bob")
    het = "#!/bin/sh\n#SBATCH -n1 --gres=gpu:1\n#SBATCH hetjob\n#SBATCH -n2 --gres=gpu:1\nsleep 900"
    submit("-J", "het", script=het)
    cancelled = submit("-J", "cancelled", "--gres=gpu:1")
    failed = submit("-J", "failed", script="exit 3\n")
    for job_id in jobs[:8]:
        cluster.wait_job(job_id, ["RUNNING"])
    cluster.wait_job(failed, ["FAILED"])
    cluster.run_on("head", ["scontrol", "suspend", str(suspended)])
    cluster.cancel(cancelled)
    jobs.remove(cancelled)
    jobs.remove(failed)
    submit("-J", "too big", "-N3", "--gres=gpu:8")
    submit("-J", "a|b =c \t'", "-H", "-n1", "--gres=gpu:1")
    submit("-J", "later", "-b", "now+1hour", "--gpus=3", "-n1", user="bob")
    drain = ["scontrol", "update", "nodename=gpu03", "state=drain"]
    cluster.run_on("head", [*drain, "reason=bad fan [x@y]"])
    yield jobs
    cluster.run_on("head", ["scontrol", "update", "nodename=gpu03", "state=resume"])
    cluster.cancel(*jobs)


def both(cluster, url, *, user="alice", path="", versions=""):
    """Records by commands and by REST, asked again where the queue moved between the two."""
    env = {} if path else {"SLURM_JWT": token(cluster, user)}
    for _ in range(5):
        said = json.loads(python(cluster, user, BOTH, url, path, versions, env=env))
        for job in said[1][0]:
            if job["name"] == BROKEN_NAME:
                job["name"] = BROKEN_NAME.partition("\ufffd")[0]
        if cluster.layout.release.version == "22.05":
            # Its JSON tells no plan of the scheduler, and not how many CPUs jobs may have.
            for job in said[0][0]:
                job["expected_nodes"] = []
            for node in said[0][1]:
                node["cpus_usable"] = None
        if not cluster.layout.release.tells_exclusive:
            # Not told by its JSON, which earlier versions of the interface do not own up to.
            for job, other in zip(said[0][0], said[1][0], strict=False):
                job["is_exclusive"] = other["is_exclusive"] = None
                # After a reconfiguration its text forgets that one task can be on one node only.
                if job["gpus_per_node"] is None:
                    other["gpus_per_node"] = None
        if said[0] == said[1]:
            break
    return said


@pytest.mark.every_slurm
@pytest.mark.parametrize("age", [None, 1])
def test_records_are_those_of_the_commands_field_by_field(cluster, url, mix, age):
    """By the newest version of the interface that is served, and by the one before it."""
    served = cluster.layout.release.rest_versions
    version = "" if age is None else served[age]
    (jobs, nodes, errors), (jobs_by_rest, nodes_by_rest, errors_by_rest), found = both(
        cluster, url, versions=version
    )
    assert found == served[age or 0]
    assert errors == errors_by_rest == []
    states = {job["state"] for job in jobs}
    assert {"RUNNING", "PENDING", "SUSPENDED", "FAILED", "CANCELLED"} <= states
    labels = {job["label"] for job in jobs}
    assert any("_[" in label for label in labels)
    assert any("+1" in label for label in labels)
    assert [job["label"] for job in jobs_by_rest] == [job["label"] for job in jobs]
    for job, by_rest in zip(jobs, jobs_by_rest, strict=True):
        assert by_rest == job, job["name"]
    assert nodes_by_rest == nodes
    assert any("+drain" in node["state"] for node in nodes)
    assert all(node["gpu_files"] for node in nodes)
    uneven = next(job for job in jobs if job["name"] == "uneven" and job["state"] == "RUNNING")
    assert sorted(held["gpu_count"] for held in uneven["allocations"]) == [1, 2]


@pytest.mark.every_slurm
def test_a_stranger_sees_the_same_as_by_the_commands(cluster, url, mix):
    by_commands, by_rest, _ = both(cluster, url, user="bob")
    assert by_rest == by_commands


@pytest.mark.every_slurm
def test_the_local_socket_needs_no_token_where_it_answers(cluster, mix):
    by_commands, by_rest, _ = both(
        cluster, "http://slurmrestd", user="root", path="/run/slurmrest/rest.sock"
    )
    assert by_rest == by_commands


@pytest.mark.every_slurm
def test_the_local_socket_says_whom_it_does_not_answer(cluster, gpumon):
    socket = "slurm+unix:///run/slurmrest/rest.sock"
    output = run_by_rest(cluster, gpumon, socket, env={"LANG": "C"}, code=1)
    assert "the socket does not answer this user" in output
    assert len(output.splitlines()) == 1


@pytest.mark.every_slurm
def test_a_bearer_is_enough_where_slurm_takes_it(cluster, url):
    """22.05 wants both headers of its own."""
    env = {"SLURM_JWT": token(cluster)}
    if cluster.layout.release.is_newer:
        assert python(cluster, "alice", BEARER, url, env=env).strip() == str(len(NODES))
    else:
        with pytest.raises(LabError, match="token"):
            python(cluster, "alice", BEARER, url, env=env)


@pytest.mark.every_slurm
def test_nothing_new_is_said_without_records(cluster, url, mix):
    output = python(cluster, "alice", UNCHANGED, url, env={"SLURM_JWT": token(cluster)}).split()
    assert int(output[0]) > 10
    assert output[1] == "None"


@pytest.mark.every_slurm
def test_a_token_file_serves_as_well_and_is_closed_to_others(cluster, gpumon, target):
    file = "/home/alice/token"
    script = f"umask 077; printf 'SLURM_JWT=%s\\n' {token(cluster)} > {file}"
    cluster.run_as("alice", ["sh", "-c", script])
    words = f"{target}&token_file={file}&nodes=none"
    nothing = {"LANG": "C"}
    assert run_by_rest(cluster, gpumon, words, env=nothing)["targets"][0]["ok"]
    cluster.run_as("alice", ["chmod", "644", file])
    output = run_by_rest(cluster, gpumon, words, env=nothing, code=1)
    assert f"the token file {file} is open to others" in output


def test_plain_http_to_another_address_is_refused(cluster, gpumon, url):
    output = run_by_rest(cluster, gpumon, f"slurm+{url}", code=2)
    assert "plain HTTP would show the token" in output


@pytest.mark.every_slurm
def test_an_expired_token_is_one_line_and_is_never_shown(cluster, gpumon, target):
    old = token(cluster, lifespan_s=1)
    cluster.wait_until(lambda: time.time() > _expiry(old) + 1, "the token's end")
    output = run_by_rest(cluster, gpumon, f"{target}&nodes=none", env={"SLURM_JWT": old}, code=1)
    assert "slurmrestd jobs: the token expired 0 min ago" in output
    assert "scontrol token" in output
    assert len(output.splitlines()) == 1
    assert old not in output


def _expiry(secret):
    body = secret.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))["exp"]


@pytest.mark.every_slurm
def test_a_controller_that_is_gone_is_one_line(cluster, gpumon, target):
    env = {"SLURM_JWT": token(cluster)}
    cluster.run_on("head", ["pkill", "-STOP", "slurmctld"])
    try:
        output = run_by_rest(cluster, gpumon, f"{target}&nodes=none", env=env, code=1)
    finally:
        cluster.run_on("head", ["pkill", "-CONT", "slurmctld"])
    assert len(output.splitlines()) == 1


@pytest.mark.every_slurm
@pytest.mark.lane("silence")
def test_a_stopped_slurmrestd_is_said_and_comes_back(cluster, gpumon, url, target, said):
    """The beat of a running gpumon is 30 s, doubled after a failure."""
    env = {"SLURM_JWT": token(cluster)}
    found = cluster.run_on("head", ["pgrep", "-f", "^slurmrestd .*6820"]).stdout.split()
    words = [gpumon, "--watch", "1", f"{target}&nodes=none"]
    process = cluster.popen_as("alice", words, env=env)
    try:
        next_document(process, lambda document: document["nodes"])
        cluster.run_on("head", ["kill", "-KILL", *found])
        gone = next_document(process, lambda document: document["errors"])
        assert "cannot be reached" in gone["errors"][0]["message"]
        # As machine.sh starts it.
        start = (
            "SLURM_JWT=daemon setsid setpriv --reuid slurmrest --regid slurmrest --clear-groups "
            "slurmrestd -a rest_auth/jwt 0.0.0.0:6820 </dev/null >/var/log/slurmrestd-2.log 2>&1 &"
        )
        cluster.run_on("head", ["sh", "-c", start])
        back = next_document(process, lambda document: not document["errors"])
        assert back["nodes"]
        said(gone["errors"][0]["message"], gone["errors"][0]["hint"])
        assert back["targets"][0]["ok"]
    finally:
        end(cluster, process)
