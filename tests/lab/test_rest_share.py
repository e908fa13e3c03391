"""All gpumons of a user ask a real slurmrestd once, as a relay in front of it counts."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.lab.cluster import COMMAND_TIMEOUT_S
from tests.lab.layout import NODES
from tests.lab.test_rest import token

pytestmark = pytest.mark.every_slurm

RELAY = """
import socket, sys, threading

def pump(source, target):
    while data := source.recv(65536):
        target.sendall(data)
    target.shutdown(socket.SHUT_WR)

def serve(client):
    with client, socket.create_connection((sys.argv[1], 6820)) as behind:
        asked = client.recv(65536)
        with open(sys.argv[2], "ab") as log:
            log.write(asked.split(b"\\r\\n")[0] + b"\\n")
        behind.sendall(asked)
        back = threading.Thread(target=pump, args=(client, behind), daemon=True)
        back.start()
        pump(behind, client)
        back.join()

server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""
"""Passes on what is asked and answered, and writes each question's first line down."""

LOG = "/home/alice/asked"
EVERY_KIND = {"jobs", "nodes", "partitions", "reservations"}


@pytest.fixture
def relay(cluster):
    """Address of a relay to slurmrestd."""
    cluster.run_as("alice", ["rm", "-rf", LOG, "/home/alice/.cache/gpumon"])
    words = ["/usr/bin/python3", "-c", RELAY, cluster.layout.address("head"), LOG]
    process = cluster.popen_as("alice", words)
    yield f"slurm+http://127.0.0.1:{process.stdout.readline().strip()}?nodes=none"
    cluster.signal(process)
    process.communicate()


def asked(cluster):
    """How often each list was asked for, in the version of the interface that is served."""
    lines = cluster.run_as("alice", ["cat", LOG]).stdout.splitlines()
    served = f"/slurm/{cluster.layout.release.rest_versions[0]}/"
    paths = [line.split()[1] for line in lines]
    return Counter(path.removeprefix(served) for path in paths if path.startswith(served))


def test_three_gpumons_cost_one_and_a_fourth_nothing(cluster, gpumon, relay, submit):
    job_id = submit("alice", ["sleep", "900"], "-n1", "--gres=gpu:1")
    cluster.wait_job(job_id, ["RUNNING"])
    secret = token(cluster)
    env = {"SLURM_JWT": secret, "GPUMON_SHARE": "yes"}
    words = [gpumon, "--json", "--for", "0", relay]
    started = [cluster.popen_as("alice", words, env=env) for _ in range(3)]
    documents = [
        json.loads(process.communicate(timeout=COMMAND_TIMEOUT_S)[0]) for process in started
    ]
    # A token that was renewed meanwhile is the same user's.
    env["SLURM_JWT"] = token(cluster, lifespan_s=900)
    documents.append(json.loads(cluster.run_as("alice", words, env=env).stdout))
    for document in documents:
        assert document["errors"] == []
        assert {node["name"] for node in document["nodes"]} == set(NODES)
        assert str(job_id) in [job["job_id"] for job in document["jobs"]]
        assert len(document["partitions"]) == 3
    assert asked(cluster) == dict.fromkeys(EVERY_KIND, 1)
    folder = "/home/alice/.cache/gpumon"
    modes = cluster.run_as("alice", ["find", folder, "-printf", "%m %u\n"]).stdout.split("\n")
    assert set(modes) - {""} == {"700 alice", "600 alice"}
    for part in secret.split("."):
        grep = ["grep", "-rlF", "-e", part, folder]
        assert cluster.run_as("alice", grep, check=False).returncode == 1


def test_who_speaks_for_somebody_else_or_for_nobody_reads_no_answer(cluster, gpumon, relay):
    words = [gpumon, "--json", "--for", "0", relay]

    def run_gpumon(**env):
        done = cluster.run_as("alice", words, env={"GPUMON_SHARE": "yes", **env}, check=False)
        assert "Traceback" not in done.stderr
        return done

    assert run_gpumon(SLURM_JWT=token(cluster)).returncode == 0
    assert run_gpumon(SLURM_JWT=token(cluster, "bob")).returncode == 0
    assert asked(cluster) == dict.fromkeys(EVERY_KIND, 2)
    assert "SLURM_JWT is not set" in run_gpumon(LANG="C").stderr
    assert run_gpumon(SLURM_JWT="an-opaque-one").returncode == 1
    assert run_gpumon(SLURM_JWT=token(cluster), GPUMON_SHARE="no").returncode == 0
    assert asked(cluster)["nodes"] == 3
