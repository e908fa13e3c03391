"""One way to a node for its probe, for a shell and for what people type."""

from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest

from gpumon.model.records.cluster import SlurmNode
from gpumon.sources.address import Hop
from gpumon.sources.probes.road import Road, in_slurm

HOP = Hop("login", "bob", 2222)
ROADS = [
    Road("gpu07"),
    Road("gpu07", "ada"),
    Road("gpu07", "ada", 2200),
    Road("gpu07", hop=HOP),
    Road("gpu07", hop=Hop("fe80::1", "", 2222)),
    Road("gpu07", "ada", hop=Hop("login")),
]


def settings(words, tmp_path):
    """What OpenSSH makes of words: host, user and port, and those of its way through."""
    config = tmp_path / "config"
    config.write_text("")
    command = ["ssh", "-G", "-F", str(config), *words[1:]]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = dict(line.split(" ", 1) for line in printed.splitlines() if " " in line)
    through = found.get("proxycommand", "none")
    jump = found.get("proxyjump", "")
    if through != "none":
        inner = shlex.split(through.replace("-W '[%h]:%p' ", ""))
        user, host, port = settings(inner, tmp_path)[:3]
        return (found["user"], found["hostname"], found["port"], user, host, port)
    if jump:
        user, _, place = jump.rpartition("@")
        host, _, port = (
            place.rpartition(":") if "]:" in place or place.count(":") == 1 else (place, "", "22")
        )
        return (found["user"], found["hostname"], found["port"], user, host.strip("[]"), port)
    return (found["user"], found["hostname"], found["port"])


@pytest.mark.parametrize("road", ROADS)
def test_probe_shell_and_typed_command_go_to_the_same_machine(road, tmp_path):
    if shutil.which("ssh") is None:
        pytest.skip("no ssh client")
    probe = settings(road.endpoint("n").argv[:-1], tmp_path)
    assert settings(road.shell_words, tmp_path) == probe
    typed = settings(road.typed(), tmp_path)
    here = settings(("ssh", "x"), tmp_path)[0]
    assert [part or here for part in typed] == list(probe)


def test_this_machine_needs_no_way(monkeypatch):
    monkeypatch.setenv("SHELL", "/bin/zsh")
    road = Road("gpu07", is_here=True)
    assert road.shell_words == ("/bin/zsh",)
    assert road.typed("nvidia-smi", "-L") == ("nvidia-smi", "-L")
    assert "ssh" not in road.endpoint("gpu07").argv


def node(name, host_name=""):
    return SlurmNode(name, host_name, "10.0.0.7", "idle", 8)


def test_a_node_of_slurms_is_reached_under_its_host_name():
    assert in_slurm(node("n7", "gpu07-mgmt"), HOP, "n7") == Road("gpu07-mgmt", hop=HOP)
    assert in_slurm(node("n7"), None, "head") == Road("n7")
    assert in_slurm(node("n7"), None, "n7.site.org") == Road("n7", is_here=True)
    # Behind a hop this machine's name may be somebody else's.
    assert in_slurm(node("n7"), HOP, "n7") == Road("n7", hop=HOP)


@pytest.mark.parametrize("name", ["-oProxyCommand=id", "a b", "$(id)", ""])
def test_a_name_that_is_none_leads_nowhere(name):
    assert in_slurm(node(name), None, "head") is None
    if name:
        assert in_slurm(node("n7", name), None, "head") is None
