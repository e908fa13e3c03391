"""What the terminal cancels and requeues with --allow-actions is what its row shows, no more."""

from __future__ import annotations

import itertools
import os

import pytest

from tests.lab.layout import HEAD
from tests.tui.test_terminal import Session

pytestmark = pytest.mark.every_slurm

TARGET = "slurm?nodes=none"
count = itertools.count()
GPU = ("-n1", "--mem=100", "--gres=gpu:1")

DONE = "done"
"""What changes in the status line; another screen in between has it drawn whole."""


@pytest.fixture
def terminal(cluster, gpumon, tmp_path):
    """Opens a terminal of alice's that may change jobs."""
    sessions = []

    def watch(target=TARGET, node=HEAD, env=()):
        # A terminal begins where the last one was left.
        state = f"/tmp/actions-{os.getpid()}-{next(count)}"
        env = {"TERM": "xterm-256color", "XDG_STATE_HOME": state, **dict(env)}
        argv = cluster.argv_as("alice", [gpumon, "--allow-actions", target], node, env)
        sessions.append(Session("", tmp_path, words=argv))
        return sessions[-1]

    yield watch
    for session in sessions:
        if session.process.poll() is None:
            cluster.signal(session.process)
            session.process.kill()
            session.process.wait()


def press(session, keys, shown):
    """Keys, and what they have on the screen."""
    session.output = b""
    os.write(session.master, keys.encode())
    session.read_until(shown.encode())


def states(cluster, job_id):
    """State of every record of a job by the id that people use, while it has not ended."""
    words = ["squeue", "-h", "-t", "PD,R,S,CF", "-o", "%i %T", "-u", "alice"]
    lines = cluster.run_as("alice", words).stdout.splitlines()
    found = dict(line.split(" ", 1) for line in lines)
    return {label: state for label, state in found.items() if label.startswith(str(job_id))}


def numbers(cluster, job_id):
    """Slurm's own number of every task by its label."""
    lines = cluster.run_as("alice", ["squeue", "-h", "-o", "%i %A", "-j", str(job_id)]).stdout
    return dict(line.split() for line in lines.splitlines())


def await_states(cluster, job_id, wanted):
    cluster.wait_until(lambda: states(cluster, job_id) == wanted, f"{job_id} as {wanted}")


def choose(session, label):
    """The commands on the page of the job with this label."""
    session.read_until(label.encode())
    press(session, f":job {label}\r", f"{label} sbatch")
    press(session, "x", "ABOUT")


@pytest.mark.parametrize("task", [3, 1])
def test_one_task_of_an_array_is_cancelled_and_the_others_live_on(cluster, terminal, submit, task):
    array = submit("alice", "#!/bin/sh\nexec sleep 900\n", *GPU, "--array=1-3")
    running = {f"{array}_{n}": "RUNNING" for n in (1, 2, 3)}
    await_states(cluster, array, running)
    # The last one has the number of the array, which Slurm's commands take for all of it.
    assert numbers(cluster, array)[f"{array}_3"] == str(array)
    session = terminal()
    label = f"{array}_{task}"
    choose(session, label)
    press(session, "G\r", f"type {label}")
    press(session, f"{label}\r", DONE)
    press(session, "?", "help")
    press(session, "\x1b", f"scancel {label}: done")
    del running[label]
    await_states(cluster, array, running)


def test_one_task_of_an_array_is_queued_anew_and_the_others_live_on(cluster, terminal, submit):
    array = submit("alice", "#!/bin/sh\nexec sleep 900\n", *GPU, "--array=1-3")
    running = {f"{array}_{n}": "RUNNING" for n in (1, 2, 3)}
    await_states(cluster, array, running)
    session = terminal()
    label = f"{array}_3"
    choose(session, label)
    press(session, "Gk\r", f"type {label}")
    press(session, f"{label}\r", DONE)
    press(session, "?", "help")
    press(session, "\x1b", f"requeue {label}: done")
    await_states(cluster, array, {**running, label: "PENDING"})


@pytest.mark.parametrize(
    ("target", "node"), [(TARGET, HEAD), ("slurm+ssh://head?nodes=none", "gpu01")]
)
def test_tasks_that_wait_together_are_cancelled_and_those_that_run_live_on(
    cluster, terminal, submit, target, node
):
    array = submit("alice", "#!/bin/sh\nexec sleep 900\n", *GPU, "--array=1-6%2")
    running = {f"{array}_{n}": "RUNNING" for n in (1, 2)}
    waiting = f"{array}_[3-6%2]"
    await_states(cluster, array, {**running, waiting: "PENDING"})
    # What leads Slurm's commands elsewhere leads neither the reading nor the change.
    session = terminal(target, node, {"SLURM_CLUSTERS": "elsewhere", "SCANCEL_STATE": "RUNNING"})
    session.read_until(f"{array}_1".encode())
    press(session, "4", f"{array}_[3-6")
    press(session, "x", "ABOUT")
    press(session, "G\r", f"type {array}_[3-6]")
    press(session, f"{array}_[3-6]\r", DONE)
    await_states(cluster, array, running)
