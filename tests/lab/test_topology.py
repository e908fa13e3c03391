"""Where nodes stand in the network: topology/tree of a real Slurm, by its commands and by REST."""

from __future__ import annotations

import json

import pytest

from tests.lab.answers import answered
from tests.lab.machine import LabError
from tests.lab.second_cluster import second_cluster
from tests.lab.test_rest import token

pytestmark = pytest.mark.every_slurm

LEAVES = {"gpu01": "s0", "gpu02": "s0", "gpu03": "s1"}
PLACES = ("leaf_switch", "block")


def document(cluster, gpumon, target, env=None):
    words = [gpumon, "--json", "--for", "0", target]
    return json.loads(answered(cluster, words, env=env).stdout)


@pytest.mark.parametrize("target", ["slurm?nodes=none", "slurm+ssh://head?nodes=none"])
def test_every_node_tells_its_leaf_switch(cluster, gpumon, target):
    answer = document(cluster, gpumon, target)
    assert {node["name"]: node["slurm"]["leaf_switch"] for node in answer["nodes"]} == LEAVES
    assert {node["slurm"]["block"] for node in answer["nodes"]} == {None}
    assert not answer["errors"]


def test_what_the_environment_would_cut_off_is_there(cluster, gpumon):
    env = {"SLURM_TOPO_LEN": "12"}
    words = ["scontrol", "show", "topology"]
    assert "SwitchName=s\n" in cluster.run_as("alice", words, env=env).stdout
    answer = document(cluster, gpumon, "slurm?nodes=none", env=env)
    assert {node["name"]: node["slurm"]["leaf_switch"] for node in answer["nodes"]} == LEAVES


def test_slurmrestd_knows_of_no_topology(cluster, gpumon):
    """What the page about Slurm says: no path of its description names switches or blocks."""
    url = f"http://{cluster.layout.address('head')}:6820"
    secret = token(cluster)
    headers = ["-H", f"X-SLURM-USER-TOKEN: {secret}", "-H", "X-SLURM-USER-NAME: alice"]
    words = ["curl", "-s", *headers, f"{url}/openapi/v3"]
    paths = json.loads(cluster.run_as("alice", words).stdout)["paths"]
    assert any(path.endswith(("/nodes/", "/nodes")) for path in paths)
    assert not [path for path in paths if "topo" in path or "switch" in path or "block" in path]
    target = f"slurm+{url}?insecure=1&nodes=none"
    answer = document(cluster, gpumon, target, env={"SLURM_JWT": secret})
    assert {node["name"] for node in answer["nodes"]} == set(LEAVES)
    assert {node["slurm"][place] for node in answer["nodes"] for place in PLACES} == {None}


def test_jobs_are_placed_where_they_were_asked_to_run(cluster, submit):
    """The tree has a top, so that a job may still span its leaves."""
    job = submit("alice", "sleep 60", "-N2", "-n2", "--gres=gpu:1", "-w", "gpu[02-03]")
    try:
        cluster.wait_until(lambda: cluster.job_state(job) == "RUNNING", "a job across leaves", 30)
    except LabError as error:
        pytest.fail(str(error))


NODES = dict.fromkeys(("n1", "n2", "n3", "n4"), "h100:1")

BLOCKS = "BlockName=b0 Nodes=n[1-2]\nBlockName=b1 Nodes=n[3-4]\nBlockSizes=2\n"

SWITCHES = "SwitchName=b0 Nodes=n[1-2]\nSwitchName=b1 Nodes=n[3-4]\n"


def test_blocks_are_told_where_slurm_knows_of_them(cluster, gpumon):
    """Of topology/block, which came with 23.11; 22.05 calls the same places switches."""
    has_blocks = cluster.layout.release.is_newer
    kind, text = ("block", BLOCKS) if has_blocks else ("tree", SWITCHES)
    plugin = {"TopologyPlugin": f"topology/{kind}"}
    with second_cluster(cluster, "placed", NODES, plugin, topology=text):
        env = {"SLURM_CONF": "/etc/slurm/placed/slurm.conf"}
        answer = document(cluster, gpumon, "slurm?nodes=none", env=env)
    assert answer["errors"] == []
    where = "block" if has_blocks else "leaf_switch"
    found = {node["name"]: node["slurm"][where] for node in answer["nodes"]}
    assert found == {"n1": "b0", "n2": "b0", "n3": "b1", "n4": "b1"}
    assert {node["slurm"]["cluster"] for node in answer["nodes"]} == {"placed"}
