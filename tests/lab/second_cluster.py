"""One more cluster within a lab: a controller of its own on head, nodes on the machine gpu03.

It shares slurmdbd, users and homes with the lab's own, which loses gpu03 for so long. Its nodes
have names and GPUs as a test wants them; several are on one machine, each with a slurmd.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.lab.layout import HEAD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.lab.cluster import Cluster

CARRIER = "gpu03"
CONTROLLER_PORT = 6827
REST_PORT = 6830
NODE_PORT = 6840
"""Of the first node; each further one has the next."""

DROPPED = (
    "AccountingStorageEnforce",
    "JobAcctGatherFrequency",
    "NodeName",
    "PartitionName",
    "PrologFlags",
    "TopologyPlugin",
)


@contextmanager
def second_cluster(
    cluster: Cluster,
    name: str,
    nodes: Mapping[str, str],
    more: Mapping[str, str] | None = None,
    *,
    has_rest: bool = False,
    topology: str = "",
) -> Iterator[str]:
    """A running cluster; its jobs and daemons are gone afterwards.

    Args:
        cluster: the lab that it is in.
        name: of the cluster.
        nodes: types and counts of GPUs by name of node, as `h100:8` or `h100:4,t4:4`.
        more: keys of slurm.conf beside those of the lab.
        has_rest: whether it has a slurmrestd on REST_PORT.
        topology: its topology.conf.
    """
    conf = f"/etc/slurm/{name}/slurm.conf"
    _configure(cluster, name, nodes, more or {})
    (cluster.layout.shared / "slurm" / name / "topology.conf").write_text(topology)
    _update(cluster, "state=drain", f"reason={name}")
    cluster.run_on(HEAD, ["sacctmgr", "-i", "add", "cluster", name])
    for words in (
        ("account", "ml", f"cluster={name}"),
        ("user", "alice", "account=ml", f"cluster={name}"),
    ):
        cluster.run_on(HEAD, ["sacctmgr", "-i", "add", *words])
    try:
        log = f"/var/log/slurmctld-{name}.log"
        start = f"install -d -o slurm /var/spool/slurmctld-{name} && slurmctld -f {conf}"
        cluster.run_on(HEAD, ["sh", "-c", f"touch {log}; chown slurm {log}; {start}"])
        if has_rest:
            _start_rest(cluster, name)
        for node in nodes:
            join = f"mkdir -p /var/spool/slurmd-{node} && slurmd -f {conf} -N {node}"
            cluster.run_on(CARRIER, ["sh", "-c", join])
        cluster.wait_until(lambda: _are_idle(cluster, name, len(nodes)), f"nodes of {name}", 60.0)
        yield name
    finally:
        cluster.run_on(HEAD, ["scancel", "-M", name, "--user=alice"], check=False)
        for machine in (CARRIER, HEAD):
            # Nobody's own words, which name the file, too.
            stop = ["pkill", "-f", f"^[^ ]*slurm(d|ctld) -f /etc/slurm/{name}/"]
            cluster.run_on(machine, stop, check=False)
        cluster.run_on(HEAD, ["pkill", "-f", f"^slurmrestd .*:{REST_PORT}"], check=False)
        cluster.run_on(HEAD, ["sacctmgr", "-i", "delete", "cluster", name], check=False)
        _update(cluster, "state=resume")


def _configure(
    cluster: Cluster, name: str, nodes: Mapping[str, str], more: Mapping[str, str]
) -> None:
    """Writes its files, made of the lab's own."""
    own = cluster.layout.shared / "slurm"
    folder = own / name
    folder.mkdir(exist_ok=True)
    shutil.copy(own / "cgroup.conf", folder)
    lines = (own / "slurm.conf").read_text().splitlines()
    pairs = [line.partition("=")[::2] for line in lines if not line.startswith("#")]
    settings = {key: value for key, value in pairs if key and key not in DROPPED}
    settings |= {
        "ClusterName": name,
        "SlurmctldPort": str(CONTROLLER_PORT),
        "StateSaveLocation": f"/var/spool/slurmctld-{name}",
        "SlurmdSpoolDir": "/var/spool/slurmd-%n",
        "SlurmctldPidFile": f"/run/slurm/slurmctld-{name}.pid",
        "SlurmdPidFile": "/run/slurmd-%n.pid",
        "SlurmctldLogFile": f"/var/log/slurmctld-{name}.log",
        "SlurmdLogFile": "/var/log/slurmd-%n.log",
        # The lab's own slurmd has the control groups of that machine.
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "JobAcctGatherType": "jobacct_gather/none",
        **more,
    }
    written = [f"{key}={value}" for key, value in settings.items()]
    gres = []
    for number, (node, types) in enumerate(nodes.items()):
        listed = ",".join(f"gpu:{one}" for one in types.split(","))
        written.append(
            f"NodeName={node} NodeHostname={CARRIER} NodeAddr={cluster.layout.address(CARRIER)} "
            f"Port={NODE_PORT + number} Sockets=2 CoresPerSocket=32 ThreadsPerCore=1 "
            f"RealMemory=1024000 Gres={listed} State=UNKNOWN"
        )
        first = 0
        for one in types.split(","):
            kind, _, count = one.partition(":")
            last = first + int(count) - 1
            gres.append(f"NodeName={node} Name=gpu Type={kind} File=/dev/nvidia[{first}-{last}]")
            first = last + 1
    written.append(
        f"PartitionName=gpu Nodes={','.join(nodes)} Default=YES MaxTime=1:00:00 State=UP"
    )
    (folder / "slurm.conf").write_text("\n".join([*written, ""]))
    (folder / "gres.conf").write_text("\n".join([*gres, ""]))


def _start_rest(cluster: Cluster, name: str) -> None:
    rest = (
        f"SLURM_CONF=/etc/slurm/{name}/slurm.conf SLURM_JWT=daemon setsid setpriv --reuid "
        "slurmrest --regid slurmrest --clear-groups slurmrestd -a rest_auth/jwt "
        f"0.0.0.0:{REST_PORT} </dev/null >/var/log/slurmrestd-{name}.log 2>&1 &"
    )
    cluster.run_on(HEAD, ["sh", "-c", rest])


def _are_idle(cluster: Cluster, name: str, count: int) -> bool:
    words = ["sinfo", "-M", name, "-h", "-N", "-t", "idle"]
    output = cluster.run_on(HEAD, words, check=False).stdout
    return sum(" idle" in line for line in output.splitlines()) == count


def _update(cluster: Cluster, *changes: str) -> None:
    cluster.run_on(HEAD, ["scontrol", "update", f"nodename={CARRIER}", *changes])
