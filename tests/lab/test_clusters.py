"""Two clusters of one slurmdbd, with the same numbers of jobs and the same name of a node.

`south` has a controller and a slurmrestd of its own on head, and one node, which is called gpu01
and is the machine gpu03. Everything else here is of the cluster `lab`.
"""

from __future__ import annotations

import json
import shutil

import pytest

from tests.lab.cluster import HEAD
from tests.lab.test_gpumon import WORK, workload
from tests.lab.test_rest import token

pytestmark = pytest.mark.every_slurm

REST_PORT = 6830
CONF = "/etc/slurm/south/slurm.conf"
LOG = "/var/log/slurmctld-south.log"
OWN = {
    "ClusterName": "south",
    "SlurmctldPort": "6827",
    "StateSaveLocation": "/var/spool/slurmctld-south",
    "SlurmdSpoolDir": "/var/spool/slurmd-south",
    "SlurmctldPidFile": "/run/slurm/slurmctld-south.pid",
    "SlurmdPidFile": "/run/slurmd-south.pid",
    "SlurmctldLogFile": LOG,
    "SlurmdLogFile": "/var/log/slurmd-south.log",
    # The other cluster's slurmd has the control groups of that machine.
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "JobAcctGatherType": "jobacct_gather/none",
}
DROPPED = (
    "AccountingStorageEnforce",
    "PrologFlags",
    "TopologyPlugin",
    "NodeName",
    "PartitionName",
    "JobAcctGatherFrequency",
)


def conf_of_south(cluster):
    """Its slurm.conf, made of the other's."""
    lines = (cluster.layout.shared / "slurm/slurm.conf").read_text().splitlines()
    pairs = [line.partition("=")[::2] for line in lines if not line.startswith("#")]
    kept = {key: value for key, value in pairs if key and key not in DROPPED}
    address = cluster.layout.address("gpu03")
    node = (
        f"NodeName=gpu01 NodeHostname=gpu03 NodeAddr={address} Port=6828 Sockets=2 "
        "CoresPerSocket=32 ThreadsPerCore=1 RealMemory=1024000 Gres=gpu:h100:8 State=UNKNOWN"
    )
    partition = "PartitionName=gpu Nodes=gpu01 Default=YES MaxTime=1:00:00 State=UP"
    told = [f"{key}={value}" for key, value in {**kept, **OWN}.items()]
    return "\n".join([*told, node, partition, ""])


@pytest.fixture(scope="module")
def south(cluster):
    """Starts the second cluster; its jobs and daemons are gone after the module."""
    folder = cluster.layout.shared / "slurm/south"
    folder.mkdir(exist_ok=True)
    (folder / "slurm.conf").write_text(conf_of_south(cluster))
    (folder / "gres.conf").write_text("NodeName=gpu01 Name=gpu Type=h100 File=/dev/nvidia[0-7]\n")
    shutil.copy(folder.parent / "cgroup.conf", folder)
    drain = ["scontrol", "update", "nodename=gpu03", "state=drain", "reason=south"]
    cluster.run_on(HEAD, drain)
    cluster.run_on(HEAD, ["sacctmgr", "-i", "add", "cluster", "south"])
    rest = (
        f"SLURM_CONF={CONF} SLURM_JWT=daemon setsid setpriv --reuid slurmrest --regid slurmrest "
        f"--clear-groups slurmrestd -a rest_auth/jwt 0.0.0.0:{REST_PORT} "
        "</dev/null >/var/log/slurmrestd-south.log 2>&1 &"
    )
    try:
        start = f"install -d -o slurm /var/spool/slurmctld-south && slurmctld -f {CONF}"
        cluster.run_on(HEAD, ["sh", "-c", f"touch {LOG}; chown slurm {LOG}; {start}"])
        cluster.run_on(HEAD, ["sh", "-c", rest])
        join = f"mkdir -p /var/spool/slurmd-south && slurmd -f {CONF} -N gpu01"
        cluster.run_on("gpu03", ["sh", "-c", join])
        cluster.wait_until(
            lambda: (
                "idle" in cluster.run_on(HEAD, ["sinfo", "-M", "south", "-h"], check=False).stdout
            ),
            "a node of south",
            60.0,
        )
        yield "south"
    finally:
        cluster.run_on(HEAD, ["scancel", "-M", "south", "--user=alice"], check=False)
        for node in ("gpu03", HEAD):
            # Nobody's own words, which name the file, too.
            stop = ["pkill", "-f", "^[^ ]*slurm(d|ctld) -f /etc/slurm/south"]
            cluster.run_on(node, stop, check=False)
        cluster.run_on(HEAD, ["pkill", "-f", f"^slurmrestd .*:{REST_PORT}"], check=False)
        cluster.run_on(HEAD, ["sacctmgr", "-i", "delete", "cluster", "south"], check=False)
        resume = ["scontrol", "update", "nodename=gpu03", "state=resume"]
        cluster.run_on(HEAD, resume)


@pytest.fixture
def twins(cluster, south, submit):
    """A job of each cluster with the same number and the same name of its node."""
    newest = dict.fromkeys(("lab", south), 0)
    words = workload(cluster, "--index", "auto", *WORK)

    def start(name, gpus):
        options = ("-J", name, "-n1", f"--gres=gpu:{gpus}", "-o", f"/home/alice/{name}.out")
        if name == "lab":
            newest[name] = submit("alice", words, *options, "-w", "gpu01")
        else:
            newest[name] = cluster.submit("alice", words, "-M", south, *options)

    start("lab", 3)
    start(south, 1)
    while newest["lab"] != newest[south]:
        start(*(("lab", 3) if newest["lab"] < newest[south] else (south, 1)))
    job_id = newest["lab"]
    for where in ("lab", south):
        file = cluster.layout.shared / f"home/alice/{where}.out"
        cluster.wait_until(
            lambda file=file: file.exists() and '"pid"' in file.read_text(), f"{where} at work", 60
        )
    yield job_id
    cluster.run_on(HEAD, ["scancel", "-M", south, "--user=alice"])


def look(cluster, gpumon, *targets):
    words = [gpumon, "--json", "--for", "1", "--all", *targets]
    env = {"SLURM_JWT": token(cluster)}
    return json.loads(cluster.run_as("alice", words, env=env).stdout)


def places(document, job_id):
    """Where a document says that the processes of a job are."""
    (job,) = [job for job in document["jobs"] if job["job_id"] == job_id]
    return (
        job["cluster"],
        job["nodes"],
        len(job["gpus"]),
        sorted({rank["node"] for rank in job["ranks"]}),
        job["contradictions"],
    )


def test_the_commands_ask_the_cluster_that_is_named(cluster, gpumon, twins, south):
    document = look(cluster, gpumon, f"slurm?cluster={south}")
    assert places(document, str(twins)) == (south, ["gpu01"], 1, ["gpu01"], [])
    assert {job["cluster"] for job in document["jobs"]} == {south}
    assert [node["slurm"]["cluster"] for node in document["nodes"]] == [south]
    behind = look(cluster, gpumon, f"slurm+ssh://head?cluster={south}")
    assert places(behind, str(twins)) == places(document, str(twins))
    own = look(cluster, gpumon, "slurm+ssh://head")
    assert places(own, str(twins))[:3] == ("lab", ["gpu01"], 3)


@pytest.mark.parametrize("way", ["commands", "rest"])
def test_two_clusters_beside_each_other_are_never_mixed(cluster, gpumon, twins, south, way):
    rest = f"slurm+http://{cluster.layout.address(HEAD)}"
    targets = {
        "commands": ("slurm", f"slurm?cluster={south}"),
        "rest": (f"{rest}:6820?insecure=1", f"{rest}:{REST_PORT}?insecure=1"),
    }[way]
    document = look(cluster, gpumon, *targets)
    assert document["errors"] == []
    ours, theirs = f"{twins}@lab", f"{twins}@{south}"
    assert places(document, ours) == ("lab", ["gpu01@lab"], 3, ["gpu01@lab"], [])
    found = places(document, theirs)
    # Nothing tells which device files the node of south has, but its process does.
    assert found == (south, [f"gpu01@{south}"], 1, [f"gpu01@{south}"], [])
    held = [uuid for job in document["jobs"] for uuid in job["gpus"]]
    assert len(held) == len(set(held)) == 4
    clusters = {node["name"]: node["slurm"]["cluster"] for node in document["nodes"]}
    assert clusters["gpu01@lab"] == clusters["gpu03@lab"] == "lab"
    assert clusters[f"gpu01@{south}"] == south
    names = {part["name"] for part in document["partitions"]}
    assert {"gpu@lab", f"gpu@{south}", "debug@lab"} <= names
    one = look(cluster, gpumon, "--job", theirs, *targets)
    assert [job["job_id"] for job in one["jobs"]] == [theirs]


def test_what_has_ended_is_told_of_each_cluster(cluster, gpumon, twins, south):
    cluster.cancel(twins)
    cluster.run_on(HEAD, ["scancel", "-M", south, str(twins)])
    ended = {}

    def both():
        document = look(cluster, gpumon, "--ended", "slurm", f"slurm?cluster={south}")
        ended.update({one["job_id"]: one["cluster"] for one in document["ended_jobs"]})
        return {f"{twins}@lab", f"{twins}@{south}"} <= set(ended)

    cluster.wait_until(both, "both in the accounting", 60.0)
    assert {name.rpartition("@")[2] for name in ended} == set(ended.values()) == {"lab", south}
