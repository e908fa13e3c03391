"""What later tests rely on: Slurm, sshd, the driver and its device limits are real in the lab."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.cluster import Cluster
from tests.lab.conftest import need
from tests.lab.lane import SLOT, SLOTS_APART
from tests.lab.layout import CGROUP_ROOT, NODES, REPOSITORY, Layout
from tests.lab.machine import LabError
from tests.lab.prerequisites import unmet
from tests.lab.release import HOST, RELEASES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.conftest import Submit

pytestmark = pytest.mark.every_slurm

SSH = ["ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=3"]

# What the official binding sees: UUID, minor number and processes of each GPU in its order.
LIST_GPUS = """
import json, pynvml
pynvml.nvmlInit()
found = []
for index in range(pynvml.nvmlDeviceGetCount()):
    gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
    pids = [one.pid for one in pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)]
    minor = pynvml.nvmlDeviceGetMinorNumber(gpu)
    found.append({"uuid": pynvml.nvmlDeviceGetUUID(gpu), "minor": minor, "pids": pids})
print(json.dumps(found))
"""

Gpu = dict[str, Any]


def gpus_of(cluster: Cluster, node: str) -> list[Gpu]:
    done = cluster.run_on(node, [str(cluster.layout.venv / "bin/python"), "-c", LIST_GPUS])
    found: list[Gpu] = json.loads(done.stdout)
    return found


def reports(cluster: Cluster, user: str, job: int, ranks: int) -> list[dict[str, Any]]:
    """What each rank's workload.py printed, once all of them hold their GPU."""
    path = cluster.layout.shared / "home" / user / f"slurm-{job}.out"
    found: list[dict[str, Any]] = []

    def all_there() -> bool:
        text = path.read_text() if path.exists() else ""
        found[:] = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return len(found) == ranks

    cluster.wait_until(all_there, f"{ranks} ranks of job {job}")
    return found


def workload(cluster: Cluster, *options: str) -> list[str]:
    return ["/usr/bin/python3", str(cluster.layout.workload), *options]


def test_slurm_is_of_the_version_that_was_asked_for(cluster: Cluster) -> None:
    output = cluster.run_on("head", ["sinfo", "--version"]).stdout
    assert output.startswith(f"slurm-wlm {cluster.layout.release.version}.")


def test_the_nodes_are_idle_and_named_and_see_eight_gpus_each(cluster: Cluster) -> None:
    cluster.wait_idle(NODES)
    assert set(cluster.node_states()) == set(NODES)
    uuids = [gpu["uuid"] for node in NODES for gpu in gpus_of(cluster, node)]
    assert len(uuids) == len(set(uuids)) == 24


def test_the_head_has_no_driver(cluster: Cluster) -> None:
    command = ["python3", "-c", "import ctypes; ctypes.CDLL('libnvidia-ml.so.1')"]
    assert cluster.run_as("alice", command, check=False).returncode != 0
    assert cluster.run_as("alice", command, "gpu01").returncode == 0


@pytest.mark.parametrize("user", ["alice", "bob"])
def test_users_log_in_to_nodes_and_see_the_driver_there(cluster: Cluster, user: str) -> None:
    script = "import ctypes, socket; ctypes.CDLL('libnvidia-ml.so.1'); print(socket.gethostname())"
    for node in NODES:
        done = cluster.run_as(user, [*SSH, node, f'/usr/bin/python3 -c "{script}"'])
        assert done.stdout.strip() == node


def test_users_have_their_accounts(cluster: Cluster) -> None:
    done = cluster.run_on("head", ["sacctmgr", "-nP", "show", "assoc", "format=user,account,qos"])
    rows = [line.split("|") for line in done.stdout.split()]
    held = {(user, account): set(qos.split(",")) for user, account, qos in rows if user}
    # Other tests may have allowed more.
    assert held["alice", "ml"] >= {"normal", "high"}
    assert held["bob", "bio"] == {"normal"}


def test_ranks_of_a_job_on_two_nodes_are_found_by_the_official_binding(
    cluster: Cluster, submit: Submit
) -> None:
    options = ["--nodelist=gpu01,gpu02", "--gpus-per-node=8", "--ntasks-per-node=8", "-N2"]
    job = submit("alice", workload(cluster, "--index", "auto", "--seconds", "300"), *options)
    ranks = reports(cluster, "alice", job, 16)

    assert sorted(int(rank["env"]["SLURM_PROCID"]) for rank in ranks) == list(range(16))
    held = {(rank["host"], uuid): rank["pid"] for rank in ranks for uuid in rank["gpu_uuids"]}
    listed = {
        (node, gpu["uuid"]): pid
        for node in ("gpu01", "gpu02")
        for gpu in gpus_of(cluster, node)
        for pid in gpu["pids"]
    }
    assert listed == held
    for rank in ranks:
        cgroup = cluster.run_on(rank["host"], ["cat", f"/proc/{rank['pid']}/cgroup"]).stdout
        assert f"/job_{job}/step_0" in cgroup


def test_a_job_sees_only_the_gpus_that_it_was_given(cluster: Cluster, submit: Submit) -> None:
    python = str(cluster.layout.venv / "bin/python")
    job = submit("bob", [python, "-c", LIST_GPUS], "--gres=gpu:5", "--nodelist=gpu01")
    cluster.wait_job(job, {"COMPLETED"})
    output = (cluster.layout.shared / f"home/bob/slurm-{job}.out").read_text()
    seen = {gpu["uuid"] for gpu in json.loads(output)}
    assert len(seen) == 5
    assert seen < {gpu["uuid"] for gpu in gpus_of(cluster, "gpu01")}


def test_the_kernel_keeps_a_job_from_other_gpus(cluster: Cluster, submit: Submit) -> None:
    script = "for n in 0 1 2 3 4 5 6 7; do cat /dev/nvidia$n; done 2>&1"
    job = submit("bob", script, "--gres=gpu:3", "--nodelist=gpu02")
    cluster.wait_job(job, {"FAILED"})
    output = (cluster.layout.shared / f"home/bob/slurm-{job}.out").read_text()
    assert output.count("Operation not permitted") == 5
    assert output.count("No such device or address") == 3


def test_minor_numbers_of_gpu03_are_not_in_pci_order(cluster: Cluster, submit: Submit) -> None:
    outside = gpus_of(cluster, "gpu03")
    assert tuple(gpu["minor"] for gpu in outside) == NODES["gpu03"]

    command = workload(cluster, "--seconds", "300")
    job = submit("alice", command, "--gres=gpu:1", "--nodelist=gpu03")
    (rank,) = reports(cluster, "alice", job, 1)
    allocation = cluster.run_on("head", ["scontrol", "show", "job", "-d", str(job)]).stdout
    assert "GRES=gpu:h100:1(IDX:0)" in allocation
    assert rank["minors"] == [0]
    (uuid,) = rank["gpu_uuids"]
    assert uuid == outside[1]["uuid"], "minor 0 is the second GPU in PCI order"


def test_a_killed_machine_is_silent_and_comes_back(cluster: Cluster, submit: Submit) -> None:
    command = workload(cluster, "--seconds", "300")
    job = submit("alice", command, "--gres=gpu:1", "--nodelist=gpu02", "--no-requeue")
    reports(cluster, "alice", job, 1)
    cluster.power_off("gpu02")
    try:
        assert not cluster.machines["gpu02"].pids()
        assert cluster.run_as("alice", [*SSH, "gpu02", "true"], check=False).returncode == 255
        cluster.declare_down("gpu02")
        assert cluster.wait_job(job, {"NODE_FAIL"}) == "NODE_FAIL"
    finally:
        cluster.power_on("gpu02")
        cluster.wait_idle(["gpu02"])
    assert cluster.run_as("alice", [*SSH, "gpu02", "hostname"]).stdout.strip() == "gpu02"
    assert all(gpu["pids"] == [] for gpu in gpus_of(cluster, "gpu02"))


def test_a_cut_cable_stops_the_traffic_until_it_is_mended(cluster: Cluster) -> None:
    uptime = cluster.run_on("gpu01", ["stat", "-c", "%Y", "/proc/1"]).stdout
    cluster.cut_cable("gpu01")
    try:
        assert cluster.run_as("alice", [*SSH, "gpu01", "true"], check=False).returncode == 255
    finally:
        cluster.mend_cable("gpu01")
    cluster.run_as("alice", [*SSH, "gpu01", "true"])
    assert cluster.run_on("gpu01", ["stat", "-c", "%Y", "/proc/1"]).stdout == uptime
    cluster.wait_idle(["gpu01"])


def test_a_command_ends_with_its_timeout_and_by_signal(cluster: Cluster) -> None:
    with pytest.raises(LabError, match="not done in 1 s"):
        cluster.run_as("alice", ["sleep", "1234"], timeout=1)
    with cluster.popen_as("alice", ["sleep", "4321"]) as process:
        cluster.wait_until(lambda: _runs(cluster, "sleep 4321"), "sleep")
        cluster.signal(process)
        assert process.wait(60) != 0
    assert not _runs(cluster, "sleep 4321")
    assert not _runs(cluster, "sleep 1234")


def _runs(cluster: Cluster, words: str) -> bool:
    return words in cluster.run_on("head", ["ps", "-eo", "args"]).stdout


def test_rest_answers_with_a_token_only(cluster: Cluster) -> None:
    token = cluster.run_as("alice", ["scontrol", "token"]).stdout.strip().removeprefix("SLURM_JWT=")
    url = f"http://head:6820/slurm/{cluster.layout.release.rest_versions[0]}/ping"
    headers = [f"X-SLURM-USER-TOKEN: {token}", "X-SLURM-USER-NAME: alice"]
    asked = cluster.run_as("alice", ["curl", "-s", *_each("-H", headers), url]).stdout
    (ping,) = json.loads(asked)["pings"]
    assert cluster.layout.release.ping in ping.items()
    refused = cluster.run_as("alice", ["curl", "-s", "-w", "%{http_code}", url]).stdout
    assert refused.endswith("401")


def test_the_local_rest_socket_knows_its_peer_by_uid(cluster: Cluster) -> None:
    version = cluster.layout.release.rest_versions[0]
    command = ["curl", "-s", "--retry", "10", "--retry-connrefused", "-w", "%{http_code}"]
    command += ["--unix-socket", "/run/slurmrest/rest.sock", f"http://x/slurm/{version}/ping"]
    assert cluster.run_on("head", command).stdout.endswith("200")
    assert cluster.run_as("alice", command).stdout.endswith("401")


def _each(option: str, values: list[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _ends(descriptor: int) -> bool:
    """Whether the process of a pidfd ends soon."""
    ended = select.poll()
    ended.register(descriptor, select.POLLIN)
    return bool(ended.poll(20_000))


@pytest.mark.parametrize("version", RELEASES)
def test_a_lab_that_a_dead_process_left_is_replaced_and_then_removed(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    need(version)
    monkeypatch.delenv("GPUMON_LAB_STATE", raising=False)
    # Between two lanes: each of them has a cluster of its own for as long as it takes.
    slot = Layout.chosen(SLOT, HOST).slot + SLOTS_APART // 2
    monkeypatch.setenv("GPUMON_LAB_SLOT", str(slot))
    monkeypatch.setenv("GPUMON_LAB_VERSION", version)
    command = [sys.executable, "-m", "tests.lab", "up", "--no-gpumon"]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    layout = Layout.chosen()
    left = Cluster(layout)
    old = [os.pidfd_open(machine.init_pid() or 0) for machine in left.machines.values()]
    try:
        left.up()
        # A process that was killed lingers for a moment.
        assert all(_ends(descriptor) for descriptor in old)
    finally:
        left.down(purge=True)
        left.unlock()
        for descriptor in old:
            os.close(descriptor)

    assert not any((CGROUP_ROOT / one / layout.cgroup).exists() for one in ("freezer", "devices"))
    cables = [layout.cable(name) for name in left.machines]
    assert not any(Path("/sys/class/net", name).exists() for name in [*cables, layout.bridge])
    assert not layout.state.exists()
    assert str(layout.state) not in Path("/proc/mounts").read_text()
    assert not _host_processes(lambda words: str(layout.state) in words)


def _host_processes(wanted: Callable[[str], bool]) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it ended
            continue
        if wanted(words):
            found.append(words)
    return found


@pytest.mark.parametrize("version", RELEASES)
def test_this_machine_is_refused_only_for_a_stated_reason(version: str) -> None:
    reason = unmet(version)
    assert reason is None or "lab" in reason
