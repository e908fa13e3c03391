"""gpumon as a user of the cluster has it: real Slurm, real sshd, stand-in drivers on the nodes."""

from __future__ import annotations

import json

import pytest

from tests.lab.answers import answered
from tests.lab.watched import LEASE_S, gone, job_of, live, next_document, probes, watching

WORK = ("--mem-gib", "40", "--sm", "90", "--tensor", "45", "--seconds", "900")


def workload(cluster, *options):
    return ["/usr/bin/python3", str(cluster.layout.workload), *options]


def said(cluster, user, file):
    """What the pretend programs of a job printed: the truth about their PIDs and UUIDs."""
    output = cluster.layout.shared / "home" / user / file
    lines = output.read_text().splitlines() if output.exists() else []
    return [json.loads(line) for line in lines if line.startswith("{")]


RUN_TIMEOUT_S = 420.0
"""Five minutes of evidence, and what a busy machine takes besides."""


def document_of(cluster, gpumon, *words, user="alice", code=0):
    done = answered(cluster, [gpumon, "--json", *words], user, timeout=RUN_TIMEOUT_S, code=code)
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def sixteen(cluster, submit):
    """A running job of 16 ranks on two whole nodes."""
    options = ("-N2", "-n16", "--ntasks-per-node=8", "--gres=gpu:8", "-w", "gpu[01-02]")
    words = workload(cluster, "--index", "auto", *WORK)
    cluster.run_as("alice", ["rm", "-f", "sixteen.out"])
    job_id = submit("alice", words, *options, "-J", "sixteen", "-o", "/home/alice/sixteen.out")
    cluster.wait_job(job_id, ["RUNNING"])
    cluster.wait_until(lambda: len(said(cluster, "alice", "sixteen.out")) == 16, "16 contexts")
    return job_id


@pytest.mark.every_slurm
def test_sixteen_ranks_on_two_nodes_have_their_node_pid_and_uuid(cluster, gpumon, sixteen):
    document = document_of(cluster, gpumon, "--for", "3", "slurm")
    job = job_of(document, sixteen)
    truth = {int(one["env"]["SLURM_PROCID"]): one for one in said(cluster, "alice", "sixteen.out")}
    assert [rank["rank"] for rank in job["ranks"]] == list(range(16))
    for rank in job["ranks"]:
        real = truth[rank["rank"]]
        assert rank["node"] == real["host"]
        assert rank["pid"] == real["pid"]
        assert rank["gpu_uuids"] == real["gpu_uuids"]
        assert rank["local_rank"] == int(real["env"]["SLURM_LOCALID"])
        assert rank["world_size"] == 16
        assert rank["why"] is None
    assert sorted(job["gpus"]) == sorted(
        uuid for one in truth.values() for uuid in one["gpu_uuids"]
    )
    assert job["gpus_unknown"] == 0
    assert job["contradictions"] == []
    assert document["errors"] == []
    gpus = {gpu["uuid"]: gpu for node in document["nodes"] for gpu in node["gpus"]}
    busy = [gpus[uuid]["sm_active_ratio"] for uuid in job["gpus"]]
    assert busy == pytest.approx([0.9] * 16)
    assert all(gpus[uuid]["processes"][0]["job_id"] == str(sixteen) for uuid in job["gpus"])


@pytest.mark.lane("waste")
@pytest.mark.every_slurm
def test_a_job_that_uses_five_of_its_eight_gpus_is_found_with_evidence(cluster, gpumon, submit):
    words = workload(cluster, "--index", "0,1,2,3,4", *WORK)
    options = ("-n1", "--gres=gpu:8", "-w", "gpu03", "-o", "/home/alice/five.out")
    job_id = submit("alice", words, *options)
    cluster.wait_job(job_id, ["RUNNING"])
    cluster.wait_until(lambda: said(cluster, "alice", "five.out"), "the contexts")
    # Nothing but faults is told before it has gone on for five minutes.
    assert document_of(cluster, gpumon, "--for", "3", "slurm")["findings"] == []
    document = document_of(cluster, gpumon, "--for", "310", "slurm")
    (finding,) = document["findings"]
    (used,) = said(cluster, "alice", "five.out")
    idle = {f"gpu:{uuid}" for uuid in job_of(document, job_id)["gpus"]} - {
        f"gpu:{uuid}" for uuid in used["gpu_uuids"]
    }
    assert finding["class"] == "partial_gpus_idle"
    assert finding["subject"] == f"job:{job_id}"
    assert finding["confidence"] == "hypothesis"
    assert {
        e["subject"] for e in finding["evidence"] if e["field"] == "compute_process_count"
    } == idle
    assert len(idle) == 3
    assert 300 <= finding["window"]["duration_s"] <= 340
    assert finding["gpu_seconds"] == pytest.approx(3 * finding["window"]["duration_s"], rel=0.01)


@pytest.mark.every_slurm
def test_minor_numbers_in_another_order_give_the_right_uuids(cluster, gpumon, submit):
    """Also for a job without any process: the way is IDX, gres.conf file, minor number, UUID."""
    options = ("-n1", "--gres=gpu:3", "-w", "gpu03")
    first = submit("alice", "sleep 900", *options)
    second = submit("alice", "sleep 900", *options)
    for job_id in (first, second):
        cluster.wait_job(job_id, ["RUNNING"])
    document = document_of(cluster, gpumon, "--for", "0", "slurm")
    (node,) = [node for node in document["nodes"] if node["name"] == "gpu03"]
    assert [gpu["minor_number"] for gpu in node["gpus"]] != list(range(8))
    held = []
    for job_id in (first, second):
        # What the kernel lets the job open is the truth about what it was given.
        words = ["srun", f"--jobid={job_id}", "--overlap", *workload(cluster)]
        done = cluster.run_as("alice", [*words, "--index", "0,1,2", "--seconds", "0"])
        allowed = json.loads(done.stdout)["gpu_uuids"]
        assert sorted(job_of(document, job_id)["gpus"]) == sorted(allowed)
        held += allowed
    assert len(set(held)) == 6


@pytest.mark.every_slurm
def test_a_stranger_sees_the_job_and_why_its_ranks_have_no_number(cluster, gpumon, sixteen):
    job = job_of(
        document_of(cluster, gpumon, "--for", "0", "--user", "alice", "slurm", user="bob"), sixteen
    )
    assert len(job["gpus"]) == 16
    assert len(job["ranks"]) == 16
    assert {rank["rank"] for rank in job["ranks"]} == {None}
    assert {rank["why"] for rank in job["ranks"]} == {"no permission to read its environment"}
    own = document_of(cluster, gpumon, "--for", "0", "slurm", user="bob")
    assert str(sixteen) not in [job["job_id"] for job in own["jobs"]]
    assert {job["user"] for job in own["jobs"]} <= {"bob"}


@pytest.mark.every_slurm
def test_a_refused_key_is_one_line_and_the_rest_stays_live(cluster, gpumon, sixteen, said):
    file = "/home/alice/.ssh/known_hosts"
    cluster.run_as("alice", ["sed", "-i.kept", "/gpu02/d", file])
    try:
        document = document_of(cluster, gpumon, "--for", "0", "slurm")
    finally:
        cluster.run_as("alice", ["mv", f"{file}.kept", file])
    (error,) = document["errors"]
    assert error["where"] == "gpu02"
    assert "host key" in error["message"]
    assert error["hint"]
    said(error["message"], error["hint"])
    job = job_of(document, sixteen)
    assert len(job["ranks"]) == 8
    assert job["gpus_unknown"] == 8


@pytest.mark.every_slurm
def test_no_probe_survives_the_kill_of_gpumon(cluster, gpumon, sixteen):
    with watching(cluster, gpumon, "slurm") as process:
        next_document(process, lambda document: live(document, "gpu01", "gpu02"))
        running = {node: probes(cluster, node) for node in ("gpu01", "gpu02")}
        assert all(running.values())
        cluster.signal(process)
        for node, old in running.items():
            gone(cluster, node, old, LEASE_S + 5)


@pytest.mark.every_slurm
def test_no_probe_survives_the_kill_of_ssh_and_the_node_comes_back(cluster, gpumon, sixteen, said):
    with watching(cluster, gpumon, "slurm") as process:
        next_document(process, lambda document: live(document, "gpu01", "gpu02"))
        old = probes(cluster, "gpu01")
        cluster.run_on("head", ["pkill", "-KILL", "-u", "alice", "-f", "^ssh .* gpu01 "])
        gone(cluster, "gpu01", old, LEASE_S + 5)
        lost = next_document(process, lambda d: any(e["where"] == "gpu01" for e in d["errors"]))
        said(*(lost["errors"][0][key] or "" for key in ("message", "hint")))
        back = next_document(process, lambda d: not d["errors"] and live(d, "gpu01", "gpu02"))
        assert len(job_of(back, sixteen)["ranks"]) == 16
        assert probes(cluster, "gpu01").isdisjoint(old)


@pytest.mark.every_slurm
@pytest.mark.usefixtures("patient")
def test_no_probe_survives_a_cut_cable_and_the_rest_stays_live(cluster, gpumon, sixteen, said):
    with watching(cluster, gpumon, "slurm") as process:
        next_document(process, lambda document: live(document, "gpu01", "gpu02"))
        old = probes(cluster, "gpu02")
        cluster.cut_cable("gpu02")
        try:
            cut = next_document(process, lambda d: live(d, "gpu01") and not live(d, "gpu02"))
            stale = next(n for n in cut["nodes"] if n["name"] == "gpu02")["gpus"]
            assert {gpu["power_w"] for gpu in stale} == {None}
            assert {gpu["missing"]["power_w"] for gpu in stale} == {"stale"}
            gone(cluster, "gpu02", old, LEASE_S + 10)
            cut_off = next_document(
                process,
                lambda d: live(d, "gpu01") and any(e["where"] == "gpu02" for e in d["errors"]),
            )
            said(*(cut_off["errors"][0][key] or "" for key in ("message", "hint")))
        finally:
            cluster.mend_cable("gpu02")
        next_document(process, lambda d: live(d, "gpu01", "gpu02"))


@pytest.mark.every_slurm
def test_a_driver_call_that_never_returns_on_one_node_leaves_the_other_live(
    cluster, gpumon, sixteen, said
):
    driver = cluster.driver("gpu02")
    with watching(cluster, gpumon, "slurm") as process:
        next_document(process, lambda document: live(document, "gpu01", "gpu02"))
        driver.hang("nvmlDeviceGetUtilizationRates", gpu=4)
        driver.write()
        try:
            hung = next_document(process, lambda d: bool(d["errors"]))
        finally:
            driver.heal()
            driver.write()
        (error,) = hung["errors"]
        assert error["where"].startswith("gpu02")
        assert "GPU 4 GPU-" in error["where"]
        assert "nvmlDeviceGetUtilizationRates" in error["message"]
        said(error["message"], error["hint"])
        values = {node["name"]: [gpu["power_w"] for gpu in node["gpus"]] for node in hung["nodes"]}
        assert None not in values["gpu01"]
        assert None in values["gpu02"]
        assert len(job_of(hung, sixteen)["gpus"]) == 16


@pytest.mark.every_slurm
def test_a_controller_that_is_gone_is_said_and_comes_back(cluster, gpumon, sixteen, said):
    cluster.run_on("head", ["pkill", "-STOP", "slurmctld"])
    try:
        done = cluster.run_as("alice", [gpumon, "--json", "--for", "0", "slurm"], check=False)
    finally:
        cluster.run_on("head", ["pkill", "-CONT", "slurmctld"])
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    # Which of the two clocks runs out first, scontrol's or gpumon's, is a matter of milliseconds.
    assert done.stderr.startswith(
        ("gpumon: slurm: no answer in 10 s", "gpumon: scontrol show job: ")
    )
    assert len(done.stderr.splitlines()) == 1
    said(done.stderr.strip())
    assert (
        job_of(document_of(cluster, gpumon, "--for", "0", "slurm"), sixteen)["state"] == "RUNNING"
    )


@pytest.mark.every_slurm
def test_the_doctor_finds_the_cluster_in_order(cluster, gpumon):
    done = cluster.run_as("alice", [gpumon, "doctor", "ssh://gpu01"], check=False)
    states = {line.split()[1]: line.split()[0] for line in done.stdout.splitlines()}
    assert done.returncode == 0, done.stdout
    assert states["slurm"] == states["gres.conf"] == states["ssh"] == states["ssh://gpu01"] == "ok"
    assert states["driver"] == "absent"


@pytest.mark.every_slurm
def test_the_doctor_on_a_node_names_the_driver(cluster, gpumon):
    done = cluster.run_as("alice", [gpumon, "doctor"], node="gpu01", check=False)
    (line,) = [line for line in done.stdout.splitlines() if line.split()[1] == "driver"]
    assert line.startswith("ok")
    assert "8 GPUs: NVIDIA H100 80GB HBM3" in line
