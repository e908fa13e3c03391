"""One rank of each of three jobs is kept from going on, and is named with what keeps it.

One is stopped by SIGSTOP, one writes to a file system that is frozen, one may use a single CPU,
which another program has. All begin at about one moment, under one gpumon. What the kernel says of
the processes is real; what the GPUs show is the stand-in driver's.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.lab.layout import CGROUP_ROOT
from tests.lab.watched import live, next_document, watching

pytestmark = pytest.mark.lane("silence")

RANKS = 4
STOPPED, FROZEN, CROWDED = "stopped", "frozen", "crowded"
NODE = {STOPPED: "gpu01", FROZEN: "gpu01", CROWDED: "gpu02"}
WHO = {STOPPED: 2, FROZEN: 1, CROWDED: 3}
"""The rank that something happens to."""

CLASS = {STOPPED: "hang", FROZEN: "hang", CROWDED: "cpu_oversubscribed"}
CAUSE = {STOPPED: "is stopped", FROZEN: "waits in the kernel", CROWDED: "without a CPU"}
SCRATCH = "/home/alice/scratch"

BUSY = 0.05
"""Share of a CPU that a rank asks for: little, so that it gets it on a busy machine as well."""

SMALL_SHARES = 64
"""Of a CPU, where everybody else has 1024."""

WORK_S = 45.0
"""So long all work before: nobody calls it a hang that was never seen at work."""

LIMIT_S = 300.0 + 120.0
"""What the slowest of the rules asks for, and more than a minute for a busy machine."""

TRAINS = {"util_gpu": 97, "power_mw": 560_000}
SPINS = {"util_gpu": 100, "power_mw": 160_000}
RESTS = {"util_gpu": 0, "power_mw": 90_000}
PIPES = {
    "trains": {2: 70, 5: 34, 10: 40},
    "spins": {2: 6, 5: 0, 10: 1},
    "rests": {2: 0, 5: 0, 10: 0},
}
"""GPM metrics of SMs, tensor cores and memory, percent."""


def output_of(cluster, name):
    return cluster.layout.shared / "home/alice" / f"{name}.out"


def held(cluster, name):
    """What the ranks of a job printed, by rank."""
    output = output_of(cluster, name)
    lines = output.read_text().splitlines() if output.exists() else []
    reports = [json.loads(line) for line in lines if line.startswith("{")]
    return {int(one["env"]["SLURM_PROCID"]): one for one in reports}


def submit_ranks(cluster, submit_job, name, options="", only=""):
    """Submits ranks that show nothing by themselves; `only` are options of one of them."""
    cluster.run_as("alice", ["rm", "-f", f"{name}.out"])
    program = f"/usr/bin/python3 {cluster.layout.workload} --index auto --mem-gib 30"
    zero = "--util 0 --sm 0 --tensor 0 --dram 0 --seconds 900"
    each = f"exec {program} {zero} $([ $SLURM_PROCID = {WHO[name]} ] && echo {only}) {options}"
    script = f"exec srun -n{RANKS} sh -c '{each}'\n"
    where = ("-n", str(RANKS), f"--gres=gpu:{RANKS}", "-w", NODE[name], "--no-requeue")
    return submit_job("alice", script, *where, "-J", name, "-o", f"/home/alice/{name}.out")


def show(driver, uuids, how):
    """Have GPUs show what a rank does; the driver's part of the story."""
    gauges = {"trains": TRAINS, "spins": SPINS, "rests": RESTS}[how]
    places = {
        uuid: int(key.split(".")[1]) for key, uuid in driver.values.items() if key.endswith(".uuid")
    }
    for uuid in uuids:
        driver.gpu(places[uuid], **gauges)
        for metric, percent in PIPES[how].items():
            driver.gpm(places[uuid], metric, percent)


@pytest.fixture
def scratch(cluster, tmp_path):
    """An ext4 file system of alice's on the node, in a file; thawed whatever happens."""
    node = NODE[FROZEN]
    image = cluster.layout.state / "scratch.ext4"
    with image.open("wb") as file:
        file.truncate(32 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    made = subprocess.run(
        ["losetup", "-f", "--show", str(image)], check=True, capture_output=True, text=True
    )
    device = made.stdout.strip()
    number = subprocess.run(
        ["stat", "-c", "%Hr %Lr", device], check=True, capture_output=True, text=True
    ).stdout.split()
    try:
        cluster.run_on(node, ["mknod", "-m", "0600", "/dev/scratch", "b", *number])
        cluster.run_on(node, ["install", "-d", "-o", "alice", SCRATCH])
        cluster.run_on(node, ["mount", "-t", "ext4", "/dev/scratch", SCRATCH])
        cluster.run_on(node, ["chown", "alice", SCRATCH])
        yield
    finally:
        cluster.run_on(node, ["fsfreeze", "-u", SCRATCH], check=False)
        cluster.run_on(node, ["umount", "-l", SCRATCH], check=False)
        cluster.run_on(node, ["rm", "-f", "/dev/scratch"], check=False)
        subprocess.run(["losetup", "-d", device], check=False)
        image.unlink(missing_ok=True)


def outside(cluster, node, pid):
    """What this machine calls a process of a node."""
    for own in cluster.machines[node].pids():
        with suppress(OSError):  # it has ended meanwhile
            lines = Path(f"/proc/{own}/status").read_text().splitlines()
            if f"NSpid:\t{own}\t{pid}" in lines:
                return own
    raise AssertionError(f"{node} has no process {pid}")


def take_cores(cluster, stack, ranks):
    """Leaves one rank a CPU that another program has already.

    The two share a weight that is small among everybody's, so that nobody else waits for them, and
    of which the rank has the smaller part. Nothing of that shows on the node but the one CPU.
    """
    node, pid = NODE[CROWDED], ranks[WHO[CROWDED]]["pid"]
    cpu = str(max(os.sched_getaffinity(0)))
    rank = outside(cluster, node, pid)
    everybody = CGROUP_ROOT / "cpu"
    group = everybody / f"{cluster.layout.cgroup}-{CROWDED}"
    group.mkdir(exist_ok=True)
    spin = ["taskset", "-c", cpu, "sh", "-c", "echo $$; while :; do :; done"]
    process = cluster.popen_as("root", spin, node)

    def give_back():
        (everybody / "cgroup.procs").write_text(str(rank))
        cluster.signal(process)
        process.communicate()
        group.rmdir()

    stack.callback(give_back)
    (group / "cpu.shares").write_text(str(SMALL_SHARES))
    for one in (rank, outside(cluster, node, process.stdout.readline().strip())):
        (group / "cgroup.procs").write_text(str(one))
    cluster.run_on(node, ["renice", "-n", "19", "-p", str(pid)])
    cluster.run_on(node, ["taskset", "-cp", cpu, str(pid)])


def start(cluster, submit):
    """Submits the jobs; returns their ranks once all of them are at work."""
    jobs = {
        STOPPED: submit_ranks(cluster, submit, STOPPED),
        FROZEN: submit_ranks(cluster, submit, FROZEN, only=f"--append {SCRATCH}/steps"),
        CROWDED: submit_ranks(cluster, submit, CROWDED, options=f"--busy {BUSY}"),
    }
    for job_id in jobs.values():
        cluster.wait_job(job_id, ["RUNNING"])
    cluster.wait_until(
        lambda: all(len(held(cluster, name)) == RANKS for name in jobs), "all ranks at work"
    )
    return jobs, {name: held(cluster, name) for name in jobs}


def hold(cluster, stack, ranks):
    """Keeps one rank of each job from going on until the stack is closed."""
    stopped = str(ranks[STOPPED][WHO[STOPPED]]["pid"])
    cluster.run_on(NODE[STOPPED], ["kill", "-STOP", stopped])
    stack.callback(cluster.run_on, NODE[STOPPED], ["kill", "-CONT", stopped], check=False)
    cluster.run_on(NODE[FROZEN], ["fsfreeze", "-f", SCRATCH])
    stack.callback(cluster.run_on, NODE[FROZEN], ["fsfreeze", "-u", SCRATCH], check=False)
    take_cores(cluster, stack, ranks[CROWDED])


def uuids_of(ranks):
    return [uuid for one in ranks.values() for uuid in one["gpu_uuids"]]


@pytest.mark.usefixtures("scratch")
def test_each_rank_that_is_kept_from_going_on_is_named_with_its_cause(cluster, gpumon, submit):
    jobs, ranks = start(cluster, submit)
    drivers = {node: cluster.driver(node) for node in dict.fromkeys(NODE.values())}
    for name, of_job in ranks.items():
        show(drivers[NODE[name]], uuids_of(of_job), "trains")
    for driver in drivers.values():
        driver.write()
    by_job: dict[str, Any] = {}

    def is_complete(document):
        for name, job_id in jobs.items():
            for found in document["findings"]:
                if (found["class"], found["subject"]) == (CLASS[name], f"job:{job_id}"):
                    by_job[name] = found
        return all(name in by_job and CAUSE[name] in by_job[name]["summary"] for name in jobs)

    with ExitStack() as stack:
        process = stack.enter_context(watching(cluster, gpumon, "slurm"))
        next_document(process, lambda d: live(d, *NODE.values()))
        began_at = time.time()
        next_document(process, lambda _: time.time() > began_at + WORK_S, 2 * WORK_S)
        hold(cluster, stack, ranks)
        # Of the job that is stopped one GPU rests; of the frozen one all look alike.
        driver = drivers[NODE[STOPPED]]
        show(driver, uuids_of(ranks[STOPPED]) + uuids_of(ranks[FROZEN]), "spins")
        show(driver, ranks[STOPPED][WHO[STOPPED]]["gpu_uuids"], "rests")
        driver.write()
        begun = time.time()
        document = next_document(
            process,
            lambda d: is_complete(d) or time.time() > begun + LIMIT_S,
            2 * LIMIT_S,
        )
        summaries = {name: found["summary"] for name, found in by_job.items()}
        assert is_complete(document), (
            f"of {jobs} after {LIMIT_S:.0f} s only this was told: {summaries}"
        )
    for name, found in by_job.items():
        one = ranks[name][WHO[name]]
        texts = [line["text"] for line in found["evidence"]]
        assert f"rank {WHO[name]} (" in found["summary"], name
        assert any(f"process {one['pid']}" in text for text in texts), name
