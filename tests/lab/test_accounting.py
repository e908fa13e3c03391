"""Jobs that have ended, as a real slurmdbd tells it by sacct, through a hop and by slurmrestd.

22.05 by slurmrestd does not tell the status of a job that failed, nor any run of a job but its
last, and no version tells there of jobs that were cancelled while held.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from datetime import datetime

import pytest

from gpumon.sources.slurm.commands.schedule import LONGEST_RETRY_S
from tests.lab.answers import answered
from tests.lab.test_rest import token

pytestmark = pytest.mark.every_slurm

CPU_TOLERANCE_S = 0.05
TARGET = "slurm?nodes=none"

LEAPS = """
import json, sys, threading, time
from gpumon.sources.slurm.poll.target import SlurmSource
from gpumon.sources.source import SystemClock, Wish
from gpumon.sources.address import Sampling, parse

class Leaping(SystemClock):
    leapt_s = 0.0
    def monotonic(self):
        return time.monotonic() + self.leapt_s
    def wait(self, event, seconds):
        until = self.monotonic() + seconds
        while not event.is_set() and self.monotonic() < until:
            event.wait(0.05)
        return event.is_set()

clock = Leaping()
source = SlurmSource(parse(sys.argv[1]), Sampling(1.0, False, lambda job: True), clock)
woken = threading.Event()
source.start(woken.set)
for line in sys.stdin:
    leap_s, wishes = line.split()
    clock.leapt_s += float(leap_s)
    if wishes == "True":
        source.wish(Wish(ended_since=time.time() - 3600))
    ended = queue = None
    while True:
        woken.clear()
        for frame in source.poll():
            ended = frame if frame.ended else ended
            queue = frame if frame.queue else queue
        if ended is not None and queue is not None:
            break
        woken.wait()
    known = ended.ended.records
    print(json.dumps({
        "ended": known and sorted(one.job.job_id for one in known.jobs),
        "at": known and known.at,
        "errors": ended.ended.errors,
        "jobs": [job.job_id for job in queue.queue.jobs],
        "jobs_at": queue.queue.jobs_at,
    }), flush=True)
"""
"""One source that is never started anew, whose rests are leapt over.

A line says how far, and whether somebody asks for ended jobs.
"""


@pytest.fixture(scope="module")
def by_name(cluster):
    """Numbers of jobs that have ended in every way, by their names."""

    def submit(name, script, *options, user="alice"):
        jobs[name] = cluster.submit(user, script, "-J", name, *options)

    jobs: dict[str, int] = {}
    submit("completed", "srun -N2 sleep 2\n", "-N2", "--gres=gpu:2", "-w", "gpu[01-02]")
    submit("failed", "exit 3\n", "-n1", "--gres=gpu:1")
    submit("killed", "kill -9 $$\n", "-n1")
    submit("a|b\nc @x@", "sleep 1\n", "-n1")
    submit("cancelled", "sleep 900\n", "-n1", "--gres=gpu:4")
    submit("held", "sleep 900\n", "-n1", "-H", "--gres=gpu:1")
    submit("bobs", "exit 0\n", "-n1", user="bob")
    submit("array", "sleep 1\n", "-n1", "--array=0-1", "--gres=gpu:1")
    submit("running", "sleep 900\n", "-n1", "--gres=gpu:1", "-w", "gpu03")
    cluster.wait_job(jobs["cancelled"], ["RUNNING"])
    cluster.run_as("alice", ["scancel", str(jobs["cancelled"]), str(jobs["held"])])
    cluster.wait_job(jobs["completed"], ["COMPLETED"])
    cluster.wait_job(jobs["failed"], ["FAILED"])
    cluster.wait_until(lambda: _is_written(cluster, jobs), "the accounting has it all")
    yield jobs
    cluster.cancel(jobs["running"])


def _is_written(cluster, jobs):
    """Whether slurmdbd has the end of every job and of its steps."""
    ids = ",".join(str(number) for name, number in jobs.items() if name != "running")
    done = cluster.run_on("head", ["sacct", "-n", "-P", "-j", ids, "-o", "JobID,State"])
    lines = done.stdout.split("\n")
    waiting = [line for line in lines if line.endswith(("|RUNNING", "|PENDING", "|COMPLETING"))]
    tasks = {f"{jobs['array']}_{task}|COMPLETED" for task in (0, 1)}
    return not waiting and tasks <= set(lines)


def ended(cluster, gpumon, *words, user="alice", node="head", env=None):
    command = [gpumon, "--json", "--for", "0", "--ended", *words]
    done = answered(cluster, command, user, node, env=env)
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout)


def of(document, jobs):
    """Ended jobs of the document by number, only those of this module."""
    ours = {str(number) for number in jobs.values()}
    return {
        job["job_id"]: job
        for job in document["ended_jobs"]
        if job["label"].partition("_")[0] in ours
    }


def test_every_end_is_told_as_it_was(cluster, gpumon, by_name):
    document = ended(cluster, gpumon, TARGET)
    assert document["errors"] == []
    found = of(document, by_name)
    seen = {
        name: (found[str(number)]["state"], *_exit(found[str(number)]))
        for name, number in by_name.items()
        if str(number) in found
    }
    assert seen["completed"] == ("COMPLETED", 0, 0)
    assert seen["failed"] == ("FAILED", 3, 0)
    assert seen["killed"] == ("FAILED", 0, 9)
    assert seen["cancelled"][0] == seen["held"][0] == "CANCELLED"
    assert "bobs" not in seen
    assert "running" not in seen
    completed = found[str(by_name["completed"])]
    assert completed["gpu_count"] == 4
    assert completed["nodes"] == ["gpu01", "gpu02"]
    assert completed["gpu_seconds"] == 4 * completed["elapsed_s"] > 0
    assert completed["cpu_used_s"] > 0
    assert completed["max_rss_bytes"] > 2**20
    assert [step["step"] for step in completed["steps"]] == ["batch", "extern", "0"]
    assert completed["energy_j"] is None
    assert completed["gpu_util_ratio"] is None
    held = found[str(by_name["held"])]
    assert (held["nodes"], held["gpu_seconds"], held["max_rss_bytes"]) == ([], 0, None)
    assert sorted(job["label"] for job in found.values() if job["name"] == "array") == [
        f"{by_name['array']}_0",
        f"{by_name['array']}_1",
    ]


def _exit(job):
    return job["exit_status"], job["exit_signal"]


def test_everybodys_jobs_only_when_asked_for(cluster, gpumon, by_name):
    everyone = of(ended(cluster, gpumon, "--all", TARGET), by_name)
    assert everyone[str(by_name["bobs"])]["user"] == "bob"
    bobs = ended(cluster, gpumon, "--user", "bob", TARGET)["ended_jobs"]
    assert {job["user"] for job in bobs} == {"bob"}


def test_a_login_node_tells_the_same(cluster, gpumon, by_name):
    near = of(ended(cluster, gpumon, TARGET), by_name)
    far = ended(cluster, gpumon, "slurm+ssh://head?nodes=none", node="gpu01")
    assert of(far, by_name) == near


def test_slurmrestd_tells_the_same(cluster, gpumon, by_name):
    by_text = of(ended(cluster, gpumon, TARGET), by_name)
    target = f"slurm+http://{cluster.layout.address('head')}:6820?insecure=1&nodes=none"
    document = ended(cluster, gpumon, target, env={"SLURM_JWT": token(cluster)})
    assert document["errors"] == []
    by_rest = of(document, by_name)
    assert by_text.keys() - by_rest.keys() == {str(by_name["held"])}
    is_newer = cluster.layout.release.is_newer
    for job_id, job in by_rest.items():
        text = by_text[job_id]
        if job["name"] == "failed" and not is_newer:
            assert _exit(job) == (None, None)
        else:
            assert _exit(job) == _exit(text)
        assert _comparable(job) == _comparable(text)
        assert job["cpu_used_s"] == pytest.approx(text["cpu_used_s"], abs=CPU_TOLERANCE_S)


def _comparable(job):
    """Without what slurmrestd rounds otherwise, or tells of the same person by name."""
    apart = ("exit_status", "exit_signal", "cancelled_by", "cpu_used_s", "cpu_used_ratio", "steps")
    steps = [(step["step"], step["state"], step["max_rss_bytes"]) for step in job["steps"]]
    return {key: value for key, value in job.items() if key not in apart}, steps


@pytest.fixture
def interrupted(cluster, submit):
    """Numbers of jobs that were requeued, lost their node, or were cancelled in part."""
    cluster.wait_idle(["gpu01", "gpu02"])
    script = "sleep 900\n"
    jobs = {
        "again": submit("alice", script, "-n1", "--gres=gpu:3", "-w", "gpu01", "--requeue"),
        "lost": submit("alice", script, "-n1", "--gres=gpu:2", "-w", "gpu02", "--no-requeue"),
        "moved": submit("alice", script, "-n1", "--gres=gpu:5", "-w", "gpu02", "--requeue"),
        "half": submit("alice", script, "-n1", "--gres=gpu:1", "-w", "gpu01", "--array=0-3"),
    }
    ids = ",".join(map(str, jobs.values()))

    def have_run():
        """Whether all seven have run for some seconds, so that their times are worth a sum."""
        ran = cluster.run_on("head", ["squeue", "-h", "-r", "-t", "R", "-j", ids, "-o", "%M"])
        times = ran.stdout.split()
        return len(times) == 7 and all(int(time[-2:]) >= 4 for time in times)

    cluster.wait_until(have_run, "seven at work")
    root = lambda *words: cluster.run_on("head", words)  # noqa: E731
    root("scontrol", "requeue", str(jobs["again"]))
    root("scontrol", "update", "nodename=gpu02", "state=down", "reason=lab")
    try:
        cluster.run_as("alice", ["scancel", f"{jobs['half']}_[0,2]"])
        cluster.wait_job(jobs["lost"], ["NODE_FAIL"])
        for name in ("again", "moved"):
            cluster.wait_job(jobs[name], ["PENDING"])
        if cluster.layout.release.is_newer:
            # 22.05 would let it wait for two minutes.
            root("scontrol", "update", f"jobid={jobs['again']}", "starttime=now")
            cluster.wait_job(jobs["again"], ["RUNNING"])
    finally:
        # It may have come back by itself (ReturnToService).
        cluster.run_on(
            "head", ["scontrol", "update", "nodename=gpu02", "state=resume"], check=False
        )
    cluster.cancel(*jobs.values())
    unfinished = ("RUNNING", "PENDING", "COMPLETING")

    def is_over():
        lines = runs_of(cluster, jobs, "-D")
        return not any(state in line for line in lines for state in unfinished)

    cluster.wait_until(is_over, "the accounting has every run")
    return jobs


def runs_of(cluster, jobs, *options):
    """Lines of sacct: number, start, end, state and TRES of every run, or of the last ones."""
    ids = ",".join(map(str, jobs.values()))
    fields = "JobID,Start,End,State,AllocTRES%200"
    words = ["sacct", *options, "-a", "-X", "-n", "-P", "-j", ids, "-o", fields]
    return cluster.run_on("head", words).stdout.splitlines()


def brute_force(lines):
    """GPU-seconds of such lines, added up without a thought."""
    total = 0.0
    for line in lines:
        _, start, end, _, tres = line.split("|")
        gpus = re.search(r"gres/gpu=(\d+)", tres)
        if gpus and "T" in start and "T" in end:
            elapsed = datetime.fromisoformat(end) - datetime.fromisoformat(start)
            total += int(gpus[1]) * elapsed.total_seconds()
    return total


def test_gpu_time_is_that_of_every_run(cluster, gpumon, interrupted):
    every = runs_of(cluster, interrupted, "-D")
    assert {line.split("|")[3] for line in every} >= {"REQUEUED", "NODE_FAIL"}
    expected = brute_force(every)
    assert expected > brute_force(runs_of(cluster, interrupted)) > 0
    rest = f"slurm+http://{cluster.layout.address('head')}:6820?insecure=1&nodes=none"
    for target, env in ((TARGET, None), (rest, {"SLURM_JWT": token(cluster)})):
        document = ended(cluster, gpumon, target, env=env)
        ids = {str(number) for number in interrupted.values()}
        reported = [
            (job["label"], job["state"], job["gpu_seconds"])
            for job in document["ended_jobs"]
            if job["label"].partition("_")[0] in ids
        ]
        # slurmrestd of 22.05 tells of each job the last run that began alone, and says so; here
        # no job has begun twice there.
        is_short = target == rest and not cluster.layout.release.is_newer
        assert document["ended_window"]["last_runs_only"] == is_short
        assert sum(seconds or 0 for _, _, seconds in reported) == expected, reported


def test_the_table_names_the_state(cluster, gpumon, by_name):
    done = answered(cluster, [gpumon, "--once", "--for", "0", "--since", "2h", TARGET])
    listed = done.stdout.partition("ended in the last 2 h")[2].split("\n")
    (line,) = [line for line in listed if line.startswith(f"{by_name['failed']} ")]
    assert line.split()[2] == "F"


def test_use_of_running_steps_for_the_owner_alone(cluster, gpumon, by_name):
    number = str(by_name["running"])
    words = [gpumon, "--json", "--for", "0", "--all", "--job", number, "--steps", TARGET]

    def reported(user):
        document = json.loads(answered(cluster, words, user).stdout)
        (job,) = document["jobs"]
        return job["running_steps"], [error["message"] for error in document["errors"]]

    cluster.wait_until(
        lambda: (reported("alice")[0] or [{}])[-1].get("max_rss_bytes"), "a first sample"
    )
    steps, errors = reported("alice")
    assert {step["step"] for step in steps} == {"batch", "extern"}
    assert errors == []
    steps, errors = reported("bob")
    assert steps is None
    assert "only to its owner" in errors[0]


@contextmanager
def without_slurmdbd(cluster):
    cluster.run_on("head", ["pkill", "-KILL", "-x", "slurmdbd"])
    try:
        yield
    finally:
        start = "rm -f /run/slurmdbd.pid /run/slurm/slurmdbd.pid; slurmdbd >/dev/null 2>&1"
        cluster.run_on("head", ["sh", "-c", start])
        asked = ["sacctmgr", "-n", "show", "cluster"]
        cluster.wait_until(
            lambda: cluster.run_on("head", asked, check=False).returncode == 0, "slurmdbd answers"
        )


def test_a_dead_slurmdbd_is_one_line_and_the_queue_stays_live(cluster, gpumon, by_name):
    rest = f"slurm+http://{cluster.layout.address('head')}:6820?insecure=1&nodes=none"
    with without_slurmdbd(cluster):
        for target, env in ((TARGET, None), (rest, {"SLURM_JWT": token(cluster)})):
            document = ended(cluster, gpumon, target, env=env)
            (error,) = document["errors"]
            assert error["where"] == "accounting"
            assert "(slurmdbd) cannot be reached" in error["message"]
            # 24.11's slurmrestd asks slurmdbd about partitions, too, and complains of its own.
            is_asked = cluster.layout.release.is_newer and target == rest
            assert ("partitions say so, too" in error["message"]) == is_asked
            assert "controller" not in error["message"]
            assert len(document["partitions"]) == 3
            assert document["ended_jobs"] is None
            assert document["targets"][0]["ok"]
            assert str(by_name["running"]) in {job["job_id"] for job in document["jobs"]}


@pytest.mark.parametrize("way", ["commands", "slurmrestd"])
def test_records_come_back_by_themselves_when_slurmdbd_does(cluster, by_name, way, said):
    rest = f"slurm+http://{cluster.layout.address('head')}:6820?insecure=1&nodes=none"
    target = TARGET if way == "commands" else rest
    command = [str(cluster.layout.venv / "bin/python"), "-c", LEAPS, target]
    env = None if way == "commands" else {"SLURM_JWT": token(cluster)}
    process = cluster.popen_as("alice", command, env=env)

    def reported(after_s, *, wishes=True):
        process.stdin.write(f"{after_s} {wishes}\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    try:
        before = reported(0.0)
        assert before["errors"] == []
        assert str(by_name["failed"]) in before["ended"]
        with without_slurmdbd(cluster):
            gone = reported(LONGEST_RETRY_S)
        ((where, message, hint),) = gone["errors"]
        assert where == "accounting"
        assert "(slurmdbd) cannot be reached" in message
        assert "asks again" in hint
        said(message, hint)
        # What was known stays, with its own time; the queue goes on.
        assert (gone["ended"], gone["at"]) == (before["ended"], before["at"])
        assert str(by_name["running"]) in gone["jobs"]
        assert gone["jobs_at"] > before["jobs_at"]
        back = reported(LONGEST_RETRY_S + 1.0, wishes=False)
        assert back["errors"] == []
        assert back["at"] > before["at"]
        assert set(before["ended"]) <= set(back["ended"])
    finally:
        cluster.signal(process)
        process.communicate()


def test_a_cluster_without_accounting_says_so(cluster, gpumon, by_name):
    folder = "/run/without-accounting"
    script = (
        f"mkdir -p {folder}; cp /etc/slurm/*.conf {folder}; rm -f {folder}/slurmdbd.conf; "
        "sed -i 's/^AccountingStorageType=.*/AccountingStorageType=accounting_storage\\/none/;"
        f"/^AccountingStorageEnforce/d' {folder}/slurm.conf; chmod -R a+rX {folder}"
    )
    cluster.run_on("head", ["sh", "-c", script])
    document = ended(cluster, gpumon, TARGET, env={"SLURM_CONF": f"{folder}/slurm.conf"})
    (error,) = document["errors"]
    assert "keeps no accounting" in error["message"]
    assert document["targets"][0]["ok"]
