"""A node whose driver hangs, by plain ssh: named by call and GPU, no key waits, no probe stays."""

from __future__ import annotations

import json
import os

import pytest

from tests.lab.watched import probes
from tests.tui.test_terminal import Session

pytestmark = pytest.mark.every_slurm

NODE = "gpu01"
TARGET = f"ssh://{NODE}"
END_S = 5.0
"""A probe whose input ends does not outlive it by as much, whatever its threads are stuck in."""

WALK = (
    (b"?", b"help"),
    (b"\x1b", b"MEM GiB"),
    (b"o", b"does not list it"),
    (b"\x1b", b"MEM GiB"),
)
"""Keys, and what each has on the screen."""


@pytest.fixture
def hang(cluster):
    """Lets a call of the node's driver never return from now on, until the test ends."""

    def hang_in(function, gpu=None, *, holds_driver=False):
        driver = cluster.driver(NODE)
        driver.set(hang_holds_driver=int(holds_driver))
        driver.hang(function, gpu=gpu)
        driver.write()

    healthy = dict(cluster.driver(NODE).values)
    yield hang_in
    driver = cluster.driver(NODE)
    driver.values = healthy
    driver.write()
    # No test of another file is to count what one of these has left.
    cluster.wait_until(lambda: not probes(cluster, NODE), "no probe is left", END_S)


@pytest.fixture
def terminal(cluster, gpumon, tmp_path):
    """Opens a terminal of alice's on the login node that watches the node."""
    sessions = []

    def watch():
        words = cluster.argv_as("alice", [gpumon, TARGET], env={"TERM": "xterm-256color"})
        sessions.append(Session("", tmp_path, words=words))
        return sessions[-1]

    yield watch
    for session in sessions:
        if session.process.poll() is None:
            cluster.signal(session.process)
            session.process.kill()
            session.process.wait()


def press(session, walk):
    """Each key once the picture of the one before has come."""
    for keys, shown in walk:
        os.write(session.master, keys)
        session.read_again(shown)


def leave(cluster, session):
    """Quit: the terminal is as before, and no probe is left on the node."""
    assert probes(cluster, NODE)
    os.write(session.master, b"\x03")
    assert session.end() == 0
    session.assert_restored()
    cluster.wait_until(lambda: not probes(cluster, NODE), "the probe gone", END_S)


@pytest.mark.parametrize(
    ("function", "gpu", "where", "live", "code"),
    [
        ("nvmlInitWithFlags", None, "NVML", 0, 1),
        ("nvmlDeviceGetHandleByIndex_v2", None, "GPU 0", 0, 1),
        ("nvmlDeviceGetTemperature", None, "GPU 0 GPU-", 0, 0),
        ("nvmlDeviceGetTemperature", 3, "GPU 3 GPU-", 7, 0),
    ],
)
def test_a_script_is_told_the_call_and_the_gpu_and_all_of_the_rest(
    cluster, gpumon, hang, function, gpu, where, live, code, said
):
    hang(function, gpu, holds_driver=gpu is None)
    done = cluster.run_as("alice", [gpumon, "--json", "--for", "0", TARGET], check=False)
    document = json.loads(done.stdout)
    first = document["errors"][0]
    assert first["where"].startswith(f"{NODE} {where}")
    name = function.removesuffix("WithFlags").removesuffix("_v2")
    assert first["message"].startswith(f"{name} has not returned for ")
    is_whole = any("as a whole" in error["message"] for error in document["errors"])
    assert is_whole == (gpu is None and function != "nvmlInitWithFlags")
    said(document["errors"][-1]["message"], document["errors"][-1]["hint"])
    (node,) = document["nodes"]
    assert node["host_mem_total_bytes"]
    assert sum(gpu["power_w"] is not None for gpu in node["gpus"]) == live
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    cluster.wait_until(lambda: not probes(cluster, NODE), "the probe gone", END_S)


def test_a_driver_that_never_opens_leaves_the_node_the_keys_and_no_probe(cluster, hang, terminal):
    hang("nvmlInitWithFlags")
    session = terminal()
    session.read_until(b"waits for nvmlInit")
    press(session, ((b"\r", b"the node waits for nvmlInit for"), (b"\x1b", b"MEM GiB")))
    session.read_until(b"nvmlInit has not returned for")
    press(session, WALK)
    leave(cluster, session)


def test_a_gpu_that_comes_to_hang_is_named_and_leaves_the_keys_and_no_probe(
    cluster, hang, terminal
):
    session = terminal()
    session.read_until(b"0.0/80")
    hang("nvmlDeviceGetTemperature", 3)
    session.read_until("‼ nvmlDeviceGetTem".encode())
    press(session, (*WALK, (b"e", b"GPU 3 GPU-")))
    session.read_until(b"nvmlDeviceGetTemperature")
    leave(cluster, session)
