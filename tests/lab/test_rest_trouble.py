"""slurmrestd in trouble: one clear line each, and records again without a new start."""

from __future__ import annotations

import json

import pytest

from tests.lab.layout import NODES
from tests.lab.test_rest import run_by_rest, token

pytestmark = pytest.mark.every_slurm

ASK = """
import json, sys
from gpumon.sources.slurm.rest import client as rest
from gpumon.sources.rest_address import RestAddress
from gpumon.sources.slurm.poll.rest_queue import RestQueue

address = RestAddress(sys.argv[1], "", sys.argv[2])
rest.VERSIONS = tuple(sys.argv[4].split(",")) if sys.argv[4] else rest.VERSIONS
client = rest.RestClient(address, timeout_s=float(sys.argv[3]))
queue = RestQueue("rest", address, client=client)
for line in sys.stdin:
    for schedule in queue._schedules.values():
        schedule.due_at = float("-inf")
    frame = queue._round()
    errors = [[error.message, error.hint] for error in frame.errors]
    print(json.dumps([frame.queue and len(frame.queue.nodes), errors]), flush=True)
"""
"""A queue that asks whenever a line comes in: its address, token file, patience, versions."""

STRANGER = """
import socket, sys
server = socket.create_server(("0.0.0.0", 0))
print(server.getsockname()[1])
while True:
    client, _ = server.accept()
    client.recv(65536)
    client.sendall(sys.argv[1].encode())
    client.close()
"""
"""A server that gives everybody one answer."""

FILE = "/home/alice/token-of-trouble"


@pytest.fixture
def url(cluster):
    return f"http://{cluster.layout.address('head')}:6820"


@pytest.fixture
def ask(cluster, url):
    """Asks again, by one queue that is never started anew; gives the nodes it knows and errors."""
    running = []

    def start(address=url, *, patience_s=30, versions=""):
        command = [str(cluster.layout.venv / "bin/python"), "-c", ASK]
        words = [address, FILE, str(patience_s), versions]
        process = cluster.popen_as("alice", [*command, *words])
        running.append(process)

        def once():
            process.stdin.write("\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        return once

    store_token(cluster, token(cluster))
    yield start
    for process in running:
        cluster.signal(process)
        process.communicate()


def store_token(cluster, secret):
    """Puts a token into the file that the queue reads."""
    cluster.run_as("alice", ["sh", "-c", f"umask 077; printf %s {secret} >{FILE}"])


def forged(secret):
    """The token with another signature."""
    head, _, signature = secret.rpartition(".")
    return f"{head}.{signature[::-1]}"


def restd(cluster, signal):
    cluster.run_on("head", ["pkill", f"-{signal}", "-f", "^slurmrestd .*6820"])


def test_a_token_that_is_renewed_needs_no_new_start(cluster, ask):
    once = ask()
    assert once() == [len(NODES), []]
    good = token(cluster)
    store_token(cluster, forged(good))
    nodes, ((message, hint),) = once()
    assert nodes is None
    assert "token" in message + hint
    store_token(cluster, good)
    assert once() == [len(NODES), []]


def test_a_token_that_is_wrong_is_one_line_without_it(cluster, gpumon, url, said):
    wrong = forged(token(cluster))
    target = f"slurm+{url}?insecure=1&nodes=none"
    output = run_by_rest(cluster, gpumon, target, env={"SLURM_JWT": wrong}, code=1)
    assert len(output.splitlines()) == 1
    assert "token" in output
    assert wrong not in output
    said(output.strip())


def test_a_slurmrestd_that_is_slow_is_said_and_comes_back(cluster, ask, said):
    once = ask(patience_s=2)
    assert once() == [len(NODES), []]
    restd(cluster, "STOP")
    try:
        nodes, errors = once()
    finally:
        restd(cluster, "CONT")
    assert nodes is None
    assert [message for message, _ in errors] == ["gave no complete answer within 2 s"]
    said(*errors[0])
    assert once() == [len(NODES), []]


def test_a_version_of_the_interface_that_nobody_knows_is_one_line(ask, said):
    _, ((message, hint),) = ask(versions="v0.0.99,v0.0.98")()
    assert message == "serves none of the versions v0.0.99 to v0.0.98"
    said(message, hint)
    assert "port" in hint


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("SSH-2.0-OpenSSH_9.2", "not HTTP"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n[1,2]", "something that is not a list"),
        ("HTTP/1.1 403 No\r\nContent-Length: 6\r\n\r\n<html>", "does not accept the token"),
        ("HTTP/1.1 502 No\r\nContent-Length: 6\r\n\r\n<html>", "a web page"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{", "broke off"),
    ],
)
def test_something_else_on_the_port_is_one_line(cluster, ask, answer, expected, said):
    command = ["/usr/bin/python3", "-u", "-c", STRANGER, answer]
    with cluster.popen_as("root", command) as stranger:
        try:
            port = stranger.stdout.readline().strip()
            nodes, ((message, hint),) = ask(f"http://{cluster.layout.address('head')}:{port}")()
        finally:
            cluster.signal(stranger)
    assert nodes is None
    assert expected in message
    said(message, hint)
    assert hint


def test_without_its_controller_it_gives_one_line_and_records_again_later(cluster, ask, said):
    """22.05 answers with status 500, 24.11 with 502."""
    once = ask()
    assert once() == [len(NODES), []]
    cluster.end_controller()
    try:
        nodes, ((message, hint),) = once()
    finally:
        cluster.run_on("head", ["slurmctld"])
    assert nodes is None
    assert "controller" in message + hint
    said(message, hint)
    cluster.wait_until(lambda: once() == [len(NODES), []], "records again")
