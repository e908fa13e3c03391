"""Ways to the nodes: ssh, a step of the user's own job, and both through a login node."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager

import pytest

from tests.lab.answers import answered
from tests.lab.layout import HEAD
from tests.lab.watched import LEASE_S, gone, job_of, live, next_document, probes, watching

KEYS = "/home/alice/.ssh/authorized_keys"
KNOWN = "/home/alice/.ssh/known_hosts"


def document_of(cluster, gpumon, *words, user="alice", node=HEAD, env=None):
    argv = [gpumon, "--json", "--for", "0", *words]
    done = answered(cluster, argv, user, node, env=env, code=None)
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout)


def allowed(cluster, job_id, node):
    """UUIDs that the kernel lets a job open on a node: the truth about what it holds."""
    step = ["srun", f"--jobid={job_id}", "--overlap", "-N1", "-n1", "-w", node]
    every = ",".join(map(str, range(8)))
    program = ["/usr/bin/python3", str(cluster.layout.workload), "--seconds", "0"]
    found = []
    for index in every.split(","):
        done = cluster.run_as("alice", [*step, *program, "--index", index], check=False)
        found += [u for line in done.stdout.splitlines() for u in json.loads(line)["gpu_uuids"]]
    return sorted(found)


def steps(cluster, job_id):
    """Steps of a job that gpumon started, as the accounting keeps them."""
    words = ["sacct", "-n", "-P", "-j", str(job_id), "-o", "JobID,JobName,State"]
    lines = cluster.run_as("alice", words).stdout.splitlines()
    return [line.split("|") for line in lines if line.split("|")[1] == "gpumon"]


def wait_started(cluster, job_id, count):
    """Wait for the accounting, which learns of a step a moment after it has begun."""
    cluster.wait_until(lambda: len(steps(cluster, job_id)) >= count, f"{count} steps of {job_id}")
    assert len(steps(cluster, job_id)) == count


def is_read_once(cluster, *nodes):
    """Whether one probe runs on each of the nodes."""
    return all(len(probes(cluster, node)) == 1 for node in nodes)


@pytest.fixture
def uneven(cluster, submit):
    """A running job of alice's with three GPUs on gpu01 and on gpu03, whose order is shuffled."""
    other = submit("alice", "sleep 900", "-n1", "--gres=gpu:2", "-w", "gpu03")
    cluster.wait_job(other, ["RUNNING"])
    job_id = submit("alice", "sleep 900", "-N2", "-n2", "--gres=gpu:3", "-w", "gpu[01,03]")
    cluster.wait_job(job_id, ["RUNNING"])
    return job_id


@contextmanager
def without(cluster, file, node=HEAD):
    """A file that is away for a while."""
    cluster.run_on(node, ["mv", file, f"{file}.kept"])
    try:
        yield
    finally:
        cluster.run_on(node, ["mv", f"{file}.kept", file])


@pytest.mark.every_slurm
def test_one_step_reads_the_gpus_of_all_nodes_of_a_job_and_is_told(cluster, gpumon, uneven):
    document = document_of(cluster, gpumon, "--job", str(uneven), "slurm?nodes=srun")
    seen = {n["name"]: sorted(gpu["uuid"] for gpu in n["gpus"]) for n in document["nodes"]}
    truth = {name: allowed(cluster, uneven, name) for name in ("gpu01", "gpu03")}
    assert {name: len(uuids) for name, uuids in truth.items()} == {"gpu01": 3, "gpu03": 3}
    assert seen["gpu01"] == truth["gpu01"]
    assert seen["gpu03"] == truth["gpu03"]
    job = job_of(document, uneven)
    assert sorted(job["gpus"]) == sorted(truth["gpu01"] + truth["gpu03"])
    assert job["gpus_unknown"] == 0
    assert job["contradictions"] == []
    (note,) = document["errors"]
    assert f"job {uneven}" in note["message"]
    assert "accounting" in note["message"]
    cluster.wait_until(
        lambda: [s for _, _, s in steps(cluster, uneven)] == ["COMPLETED"], "one step that ended"
    )


@pytest.mark.every_slurm
def test_two_jobs_on_one_node_keep_their_gpus_apart(cluster, gpumon, uneven):
    document = document_of(cluster, gpumon, "slurm?nodes=srun")
    held = [set(job["gpus"]) for job in document["jobs"] if job["state"] == "RUNNING"]
    assert sorted(map(len, held)) == [2, 6]
    assert not held[0] & held[1]
    for job in document["jobs"]:
        assert job["gpus_unknown"] == 0


@pytest.mark.every_slurm
def test_a_step_reaches_both_components_of_a_heterogeneous_job(cluster, gpumon, submit):
    script = (
        "#!/bin/sh\n#SBATCH -n1 --gres=gpu:1 -w gpu01\n#SBATCH hetjob\n"
        "#SBATCH -n1 --gres=gpu:2 -w gpu03\nexec sleep 900\n"
    )
    leader = submit("alice", script)
    cluster.wait_job(leader, ["RUNNING"])
    document = document_of(cluster, gpumon, "slurm?nodes=srun")
    held = {job["label"]: job["gpus"] for job in document["jobs"] if job["state"] == "RUNNING"}
    assert {label: len(gpus) for label, gpus in held.items()} == {
        f"{leader}+0": 1,
        f"{leader}+1": 2,
    }


@pytest.mark.every_slurm
def test_a_job_with_gpus_per_task_shows_the_gpu_of_one_task_and_counts_the_rest(
    cluster, gpumon, submit
):
    """Slurm gives no task of a later step more than a task of the job was given."""
    options = ("-n4", "-N2", "--ntasks-per-node=2", "--gpus-per-task=1", "-w", "gpu[01,03]")
    job_id = submit("alice", "sleep 900", *options)
    cluster.wait_job(job_id, ["RUNNING"])
    job = job_of(document_of(cluster, gpumon, "slurm?nodes=srun"), job_id)
    assert len(job["gpus"]) == 2
    assert job["gpus_unknown"] == 2
    assert job["contradictions"] == []


@pytest.mark.every_slurm
def test_refused_keys_are_replaced_by_a_step_of_the_job(cluster, gpumon, uneven):
    with without(cluster, KEYS):
        document = document_of(cluster, gpumon, "--job", str(uneven), "slurm")
    assert len(job_of(document, uneven)["gpus"]) == 6
    assert live(document, "gpu01", "gpu03")
    (note,) = document["errors"]
    assert note["where"] == "srun"
    wait_started(cluster, uneven, 1)


@pytest.mark.every_slurm
def test_no_step_in_somebody_elses_job(cluster, gpumon, uneven):
    with without(cluster, "/home/bob/.ssh/authorized_keys"):
        document = document_of(cluster, gpumon, "--job", str(uneven), "slurm", user="bob")
    refused = [error for error in document["errors"] if "the key is refused" in error["message"]]
    assert {error["where"] for error in refused} == {"gpu01", "gpu03"}
    assert steps(cluster, uneven) == []


@pytest.mark.every_slurm
@pytest.mark.lane("loss")
def test_the_step_ends_with_its_job_and_leaves_nothing_to_complain_of(cluster, gpumon, uneven):
    with watching(cluster, gpumon, "--job", str(uneven), "slurm?nodes=srun") as process:
        next_document(process, lambda d: live(d, "gpu01", "gpu03"))
        old = probes(cluster, "gpu01")
        assert old
        cluster.cancel(uneven)
        # Well before the lease would end it.
        gone(cluster, "gpu01", old, LEASE_S - 5)
        next_document(process, lambda d: not d["jobs"] or not d["errors"])
    wait_started(cluster, uneven, 1)


@pytest.mark.every_slurm
@pytest.mark.lane("loss")
def test_no_probe_survives_the_kill_of_srun_and_one_other_step_follows(cluster, gpumon, uneven):
    with watching(cluster, gpumon, "--job", str(uneven), "slurm?nodes=srun") as process:
        next_document(process, lambda d: live(d, "gpu01", "gpu03"))
        old = {node: probes(cluster, node) for node in ("gpu01", "gpu03")}
        cluster.run_on(HEAD, ["pkill", "-KILL", "-u", "alice", "-f", f"^srun --jobid={uneven} "])
        next_document(process, lambda d: any("srun in job" in e["message"] for e in d["errors"]))
        for node, pids in old.items():
            assert pids
            gone(cluster, node, pids, LEASE_S + 5)
        next_document(process, lambda d: not live(d, "gpu01") and not live(d, "gpu03"))
        back = next_document(process, lambda d: live(d, "gpu01", "gpu03"))
        assert len(job_of(back, uneven)["gpus"]) == 6
        for node in old:
            assert len(probes(cluster, node)) == 1
    wait_started(cluster, uneven, 2)


@pytest.mark.every_slurm
@pytest.mark.lane("loss")
def test_no_probe_of_a_step_survives_the_kill_of_gpumon(cluster, gpumon, uneven):
    with watching(cluster, gpumon, "--job", str(uneven), "slurm?nodes=srun") as process:
        next_document(process, lambda d: live(d, "gpu01", "gpu03"))
        old = {node: probes(cluster, node) for node in ("gpu01", "gpu03")}
        cluster.signal(process)
        for node, pids in old.items():
            assert pids
            gone(cluster, node, pids, LEASE_S + 5)


@pytest.mark.every_slurm
@pytest.mark.lane("loss")
@pytest.mark.usefixtures("patient")
def test_no_probe_of_a_step_survives_a_cut_cable_and_the_node_is_read_again(
    cluster, gpumon, uneven
):
    with watching(cluster, gpumon, "--job", str(uneven), "slurm?nodes=srun") as process:
        next_document(process, lambda d: live(d, "gpu01", "gpu03"))
        old = probes(cluster, "gpu03")
        cluster.cut_cable("gpu03")
        try:
            next_document(process, lambda d: live(d, "gpu01") and not live(d, "gpu03"))
            gone(cluster, "gpu03", old, LEASE_S + 10)
            next_document(
                process,
                lambda d: live(d, "gpu01") and any(e["where"] == "gpu03" for e in d["errors"]),
            )
        finally:
            cluster.mend_cable("gpu03")
        # What the old probe had sent into the cut cable arrives first.
        cluster.wait_until(lambda: probes(cluster, "gpu03") - old, "another probe", 120)
        # srun may give up the whole step once the lost node answers: then all is started anew.
        back = next_document(
            process,
            lambda d: (
                live(d, "gpu01", "gpu03")
                and not any("gpu03" in str(e) for e in d["errors"])
                and is_read_once(cluster, "gpu01", "gpu03")
            ),
            after=time.time(),
        )
        assert len(job_of(back, uneven)["gpus"]) == 6


@pytest.mark.every_slurm
def test_inside_a_job_a_filtered_view_has_the_right_uuids(cluster, gpumon, submit):
    first = submit("alice", "sleep 900", "-n1", "--gres=gpu:2", "-w", "gpu03")
    cluster.wait_job(first, ["RUNNING"])
    inside = submit("alice", "sleep 900", "-n1", "--gres=gpu:2", "-w", "gpu03")
    cluster.wait_job(inside, ["RUNNING"])
    words = ["srun", f"--jobid={inside}", "--overlap", gpumon, "--json", "--for", "0", "slurm"]
    document = json.loads(answered(cluster, words).stdout)
    assert sorted(job_of(document, inside)["gpus"]) == allowed(cluster, inside, "gpu03")
    other = job_of(document, first)
    assert set(other["gpus"]) <= set(allowed(cluster, first, "gpu03"))
    assert len(other["gpus"]) + other["gpus_unknown"] == 2


@pytest.mark.every_slurm
@pytest.mark.parametrize("ways", ["", "?nodes=srun"])
def test_behind_a_login_node_all_is_as_it_is_on_it(cluster, gpumon, uneven, ways):
    near = job_of(document_of(cluster, gpumon, "slurm"), uneven)
    far = document_of(cluster, gpumon, f"slurm+ssh://head{ways}", node="gpu02")
    assert sorted(job_of(far, uneven)["gpus"]) == sorted(near["gpus"])
    assert job_of(far, uneven)["gpus_unknown"] == 0
    assert live(far, "gpu01", "gpu03")
    assert len(far["errors"]) == (1 if ways else 0)


def failure(cluster, gpumon):
    words = [gpumon, "--json", "--for", "0", "slurm+ssh://head"]
    done = cluster.run_as("alice", words, "gpu02", check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    return line


@pytest.mark.every_slurm
def test_a_login_node_that_refuses_the_key_is_one_line(cluster, gpumon, said):
    with without(cluster, KEYS):
        line = failure(cluster, gpumon)
        said(line)
        assert "Permission denied" in line


@pytest.mark.every_slurm
def test_a_login_node_with_an_unknown_key_is_one_line(cluster, gpumon, said):
    cluster.run_as("alice", ["sed", "-i.kept", "/head/d", KNOWN])
    try:
        line = failure(cluster, gpumon)
        said(line)
        assert "Host key verification failed" in line
    finally:
        cluster.run_as("alice", ["mv", f"{KNOWN}.kept", KNOWN])


@pytest.mark.every_slurm
def test_a_login_node_that_is_down_is_one_line(cluster, gpumon, said):
    cluster.run_on(HEAD, ["pkill", "-f", "^/usr/sbin/sshd|^sshd: /usr/sbin/sshd"])
    try:
        line = failure(cluster, gpumon)
        said(line)
        assert "Connection refused" in line
    finally:
        cluster.run_on(HEAD, ["/usr/sbin/sshd", "-E", "/var/log/sshd.log"])


@pytest.mark.every_slurm
@pytest.mark.lane("loss")
@pytest.mark.usefixtures("patient")
def test_a_node_that_the_login_node_cannot_reach_is_named(cluster, gpumon, uneven, said):
    cluster.cut_cable("gpu03")
    try:
        document = document_of(cluster, gpumon, "--for", "12", "slurm+ssh://head", node="gpu02")
    finally:
        cluster.mend_cable("gpu03")
    assert live(document, "gpu01")
    assert [error["where"] for error in document["errors"]] == ["gpu03"]
    said(document["errors"][0]["message"], document["errors"][0]["hint"])
