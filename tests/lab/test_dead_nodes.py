"""Nodes that die under jobs, and jobs that come back: what is told at every moment of it is so now.

One gpumon watches while a node loses its power and Slurm gives it up, requeues its jobs and starts
them elsewhere. Each document is held against what the programs themselves printed.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.lab.test_gpumon import WORK, workload
from tests.lab.watched import PATIENCE_S, job_of, next_document, watching

pytestmark = [pytest.mark.lane("death"), pytest.mark.every_slurm]

DEAD = "gpu02"

GIVEN_UP_S = 90.0
"""SlurmdTimeout (30 s), and what slurmctld takes to look at it."""

REQUEUED_S = 200.0
"""A job that is requeued starts after about two minutes at the earliest."""

RETRIED_S = 240.0
"""Slurm asks a node that did not answer once more after two minutes or so."""

COMPLETING_S = 125.0
"""Long enough for the rule to speak of it, as a hypothesis."""


def printed(cluster, name):
    """What the programs of a job printed, those of its newest run last."""
    folder = cluster.layout.shared / "home/alice"
    found = []
    for file in sorted(folder.glob(f"{name}*.out")):
        lines = [line for line in file.read_text().splitlines() if line.startswith("{")]
        found += [json.loads(line) for line in lines[-1:]]
    return found


class Story:
    """All that a gpumon says of some jobs, and their true places."""

    def __init__(self, cluster, submit):
        self.cluster = cluster
        self.submit = submit
        self.jobs = {}
        self.documents = []

    def start(self, name, *options, count=1):
        """A job of so many tasks of an array, each on the GPUs that it asks for."""
        self.cluster.run_as("alice", ["sh", "-c", f"rm -f {name}*.out"])
        array = (f"--array=0-{count - 1}",) if count > 1 else ()
        output = f"/home/alice/{name}{'-%a' if array else ''}.out"
        words = workload(self.cluster, "--index", "auto", *WORK)
        job_options = ("-J", name, "-n1", "-o", output, *array, *options)
        self.jobs[name] = self.submit("alice", words, *job_options)
        self.cluster.wait_until(
            lambda: len(printed(self.cluster, name)) == count, f"{name} at work", 60.0
        )

    def wait(self, process, holds, seconds=PATIENCE_S):
        """Documents until something holds of one; all of them are kept."""

        def is_enough(document):
            self.documents.append(document)
            return holds(document)

        return next_document(process, is_enough, seconds)

    def ranks(self, document, name):
        """Where a document says that the programs of a job are."""
        return sorted(
            (rank["node"], rank["pid"], tuple(rank["gpu_uuids"]))
            for job in document["jobs"]
            if job["name"] == name
            for rank in job["ranks"]
        )

    def truth(self, name):
        """Where they are, as they say themselves."""
        return sorted(
            (one["host"], one["pid"], tuple(one["gpu_uuids"]))
            for one in printed(self.cluster, name)
        )


def assert_now_is_now(document):
    """What no document may say, whatever happens: a rank, a holder or a doubt of the past."""
    fresh = {node["name"] for node in document["nodes"] if not node["stale"]}
    holders = Counter()
    for job in document["jobs"]:
        who = (job["name"], job["state"], document["generated_at"])
        assert job["contradictions"] == [], who
        assert {rank["node"] for rank in job["ranks"]} <= fresh & set(job["nodes"]), who
        assert set(job["gpus_used"]) <= set(job["gpus"]), who
        if job["state"] not in ("RUNNING", "COMPLETING"):
            assert (job["gpus"], job["ranks"]) == ([], []), who
        else:
            assert {place["node"] for place in job["allocations"]} <= set(job["nodes"]), who
            assert len(job["gpus"]) + job["gpus_unknown"] == job["gpu_count"], who
        holders.update(job["gpus"])
    assert max(holders.values(), default=0) <= 1
    assert document["stray_processes"] == []


def test_what_is_told_of_jobs_whose_node_dies_is_true_at_every_moment(
    cluster, gpumon, submit, said
):
    story = Story(cluster, submit)
    cluster.wait_idle(["gpu01", "gpu02", "gpu03"])
    story.start("moved", "--gres=gpu:3", "-x", "gpu01", "--requeue")
    story.start("given_up", "--gres=gpu:1", "-w", DEAD, "--no-requeue")
    story.start("waits", "--gres=gpu:1", "-w", DEAD, "--requeue")
    # Three of these fill the node, the fourth goes to the next one.
    story.start("half", "--gres=gpu:1", "-x", "gpu01", "--requeue", count=4)
    story.start("steady", "--gres=gpu:2", "-w", "gpu01")
    at_first = {name: story.truth(name) for name in story.jobs}
    assert {place[0] for place in at_first["moved"]} == {DEAD}
    assert {place[0] for place in at_first["half"]} == {DEAD, "gpu03"}
    with watching(cluster, gpumon, "slurm") as process:
        story.wait(
            process,
            lambda document: all(story.ranks(document, n) == at_first[n] for n in story.jobs),
        )
        cluster.power_off(DEAD)
        try:
            # Its processes are as gone as the node, which Slurm cannot know.
            cluster.run_as("alice", ["scancel", str(story.jobs["given_up"])])
            story.wait(process, lambda document: state(document, DEAD) == "down", GIVEN_UP_S)
            moved = story.wait(
                process,
                lambda document: is_at_work(story, document, "moved"),
                REQUEUED_S,
            )
            assert {place[0] for place in story.truth("moved")} == {"gpu03"}
            assert job_of(moved, story.jobs["moved"])["restart_count"] == 1
            assert job_of(moved, story.jobs["waits"])["state"] == "PENDING"
            (lost,) = [one for one in moved["findings"] if one["class"] == "telemetry_lost"]
            assert lost["subject"] == f"node:{DEAD}"
            assert "Slurm gave it up" in lost["summary"]
            said(lost["summary"])
            assert lost["confidence"] != "hypothesis"
        finally:
            cluster.power_on(DEAD)
        # 22.05 takes it back by itself, and then finds nothing to resume.
        cluster.run_on(
            "head", ["scontrol", "update", f"NodeName={DEAD}", "State=RESUME"], check=False
        )
        back = story.wait(
            process, lambda document: is_at_work(story, document, "waits"), REQUEUED_S
        )
        assert story.ranks(back, "half") == story.truth("half")
        assert story.ranks(back, "steady") == at_first["steady"]
    for document in story.documents:
        assert_now_is_now(document)


def test_a_job_that_completes_for_minutes_holds_what_it_has_not_left(
    cluster, gpumon, submit, patient, said
):
    del patient
    cluster.wait_idle(["gpu01", "gpu02"])
    story = Story(cluster, submit)
    story.start("wide", "--gres=gpu:5", "-N2", "-n2", "-w", "gpu[01-02]", "--ntasks-per-node=1")
    with watching(cluster, gpumon, "slurm") as process:
        story.wait(process, lambda document: len(story.ranks(document, "wide")) == 2)
        cluster.run_on(DEAD, ["pkill", "-STOP", "-x", "slurmd|slurmd-wlm"])
        try:
            cluster.run_as("alice", ["scancel", str(story.jobs["wide"])])
            findings_of = lambda document: [  # noqa: E731
                one
                for one in document["findings"]
                if one["class"] == "stuck_completing" and one["cleared_at"] is None
            ]
            last = story.wait(process, findings_of, COMPLETING_S + PATIENCE_S)
            job = job_of(last, story.jobs["wide"])
            assert (job["state"], job["nodes"]) == ("COMPLETING", [DEAD])
            assert job["gpu_count"] == 5
            (found,) = findings_of(last)
            assert (found["subject"], found["confidence"]) == (f"node:{DEAD}", "hypothesis")
            assert f"job {story.jobs['wide']} is still completing" in found["summary"]
            said(found["summary"])
        finally:
            cluster.run_on(DEAD, ["pkill", "-CONT", "-x", "slurmd|slurmd-wlm"])
        is_left = lambda document: (  # noqa: E731
            job_of(document, story.jobs["wide"])["state"] == "CANCELLED"
        )
        story.wait(process, is_left, RETRIED_S)
        story.wait(process, lambda document: not findings_of(document))
    for document in story.documents:
        assert_now_is_now(document)


def state(document, node):
    """The first word of what Slurm calls a node."""
    (found,) = [one for one in document["nodes"] if one["name"] == node]
    return (found["state"] or "").partition("+")[0]


def is_at_work(story, document, name):
    """Whether the newest run of a job is shown where its programs say that they are."""
    truth = story.truth(name)
    states = {job["state"] for job in document["jobs"] if job["name"] == name}
    return bool(truth) and states == {"RUNNING"} and story.ranks(document, name) == truth
