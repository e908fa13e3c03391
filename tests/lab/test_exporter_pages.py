"""Jobs of a real Slurm on GPUs that only the pages of exporters tell of: no probe runs anywhere."""

from __future__ import annotations

import json
import socket
import time

import pytest

from tests.lab.layout import HEAD
from tests.lab.watched import job_of, next_document, probes, watching

PORT = 9400
NODES = ("gpu01", "gpu03")
"""The minor numbers of the second one are in another order than its GPUs."""

SLOW_S = 30.0
"""Longest wait for what takes a few periods."""

XID = 48
"""An uncorrectable error of memory."""


class Pages:
    """A page of each node as dcgm-exporter writes it, of what its stand-in driver is."""

    def __init__(self, cluster):
        self._home = cluster.layout.shared / "home" / "alice" / "pages"
        self.uuids = {}
        self._labels = {}
        for node in NODES:
            values = cluster.driver(node).values
            for index in range(8):
                uuid = values[f"gpu.{index}.uuid"]
                self.uuids.setdefault(node, []).append(uuid)
                minor = values[f"gpu.{index}.minor"]
                self._labels[node, uuid] = f'gpu="{index}",UUID="{uuid}",device="nvidia{minor}"'

    def write(self, busy, xid_of=""):
        """Pages on which some GPUs are busy, and one has told an Xid."""
        for node in NODES:
            lines = []
            for (on, uuid), labels in self._labels.items():
                if on != node:
                    continue
                share = 0.9 if uuid in busy else 0.0
                values = {
                    "PROF_SM_ACTIVE": share,
                    "PROF_PIPE_TENSOR_ACTIVE": share / 2,
                    "PROF_DRAM_ACTIVE": share / 2,
                    "DEV_GPU_UTIL": 100 * share,
                    "DEV_FB_USED": 40_000 if uuid in busy else 0,
                    "DEV_FB_FREE": 40_000,
                    "DEV_POWER_USAGE": 650 if uuid in busy else 70,
                    "DEV_XID_ERRORS": XID if uuid == xid_of else 0,
                }
                lines += [
                    f'DCGM_FI_{k}{{{labels},Hostname="{node}"}} {v}' for k, v in values.items()
                ]
            folder = self._home / node
            folder.mkdir(parents=True, exist_ok=True)
            fresh = folder / "metrics.new"
            fresh.write_text("\n".join([*lines, ""]))
            fresh.rename(folder / "metrics.txt")


@pytest.fixture
def pages(cluster):
    """The pages, served on the nodes as an exporter does, until the test ends."""
    found = Pages(cluster)
    found.write(busy=())
    words = ["/usr/bin/python3", "-m", "http.server", str(PORT), "--directory"]
    servers = [
        cluster.popen_as("alice", [*words, f"/home/alice/pages/{node}"], node) for node in NODES
    ]
    for node in NODES:
        cluster.wait_until(lambda node=node: answers(cluster, node), f"a page on {node}", SLOW_S)
    yield found
    for server in servers:
        cluster.signal(server)
        server.kill()
        server.communicate()


def answers(cluster, node):
    """Whether somebody listens where the exporter of a node does."""
    try:
        socket.create_connection((cluster.layout.address(node), PORT), 1.0).close()
    except OSError:
        return False
    return True


def allowed(cluster, job_id, node, count):
    """UUIDs of the GPUs that the kernel lets a job open on a node: what it really holds."""
    words = ["/usr/bin/python3", str(cluster.layout.workload), "--seconds", "0", "--index"]
    step = ["srun", f"--jobid={job_id}", "--overlap", "-N1", "-n1", "-w", node]
    done = cluster.run_as("alice", [*step, *words, ",".join(map(str, range(count)))], HEAD)
    return {u for line in done.stdout.splitlines() for u in json.loads(line)["gpu_uuids"]}


def test_jobs_of_slurm_and_gpus_of_pages_are_one_picture(cluster, gpumon, pages, submit):
    """Job and GPUs by IDX, device file and the page's `device`; findings and books follow."""
    other = submit("alice", "sleep 900", "-n1", "--gres=gpu:2", "-w", "gpu03")
    cluster.wait_job(other, ["RUNNING"])
    job_id = submit("alice", "sleep 900", "-N2", "-n2", "--gres=gpu:3", "-w", "gpu[01,03]")
    cluster.wait_job(job_id, ["RUNNING"])
    held = {node: allowed(cluster, job_id, node, 3) for node in NODES}
    mine = set().union(*held.values())
    assert {node: len(uuids) for node, uuids in held.items()} == {"gpu01": 3, "gpu03": 3}
    pages.write(busy=mine)
    target = f"dcgm+http://gpu[01,03]:{PORT}/metrics.txt"
    with watching(cluster, gpumon, "slurm?nodes=none", target) as process:
        seen = next_document(
            process, lambda d: set(job_of(d, job_id)["gpus"]) == mine and d["ledger"], SLOW_S
        )
        for node in seen["nodes"]:
            shown = {gpu["uuid"] for gpu in node["gpus"]}
            assert shown == set(pages.uuids.get(node["name"], ()))
            busy = {gpu["uuid"] for gpu in node["gpus"] if gpu["sm_active_ratio"] == 0.9}
            assert busy == held.get(node["name"], set())
        job, neighbour = job_of(seen, job_id), job_of(seen, other)
        assert job["gpus_unknown"] == neighbour["gpus_unknown"] == 0
        assert not set(neighbour["gpus"]) & mine
        assert len(neighbour["gpus"]) == 2
        assert job["contradictions"] == []
        # An exporter tells no process: that is said, and no rank is made up.
        assert job["ranks"] == []
        assert not any(probes(cluster, node) for node in NODES)

        (bad,) = sorted(held["gpu03"])[:1]
        began = time.time()
        pages.write(busy=mine, xid_of=bad)
        found = next_document(
            process, lambda d: any(f["subject"] == f"gpu:{bad}" for f in d["findings"]), SLOW_S
        )
        finding = next(f for f in found["findings"] if f["subject"] == f"gpu:{bad}")
        assert finding["class"] == "gpu_fault"
        assert str(XID) in finding["summary"]
        assert finding["confidence"] == "established"

        ended = next_document(
            process,
            lambda d: job_of(d, job_id)["waste"]["useful_gpu_seconds"] >= 30,
            SLOW_S,
            after=began,
        )
    waste = job_of(ended, job_id)["waste"]
    parts = ("useful", "wasted", "suspected", "unobserved", "unexplained")
    total = sum(waste[f"{part}_gpu_seconds"] for part in parts)
    assert total == pytest.approx(waste["allocated_gpu_seconds"], abs=0.01)
    # What nobody works on is not called useful.
    idle = job_of(ended, other)["waste"]
    assert idle["useful_gpu_seconds"] == 0.0
    assert idle["unexplained_gpu_seconds"] > 0.0
