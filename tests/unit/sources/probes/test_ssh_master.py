"""A connection that a user shares is used and left alone; gpumon's own is never shared."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from gpumon.sources.address import Hop
from gpumon.sources.probes.ssh import endpoint, login
from tests.worlds.probe import Probe, bounded, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "127.0.0.1"

SERVER = """\
ListenAddress {host}:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
LogLevel INFO
"""

WITH_RUN = 'mount -t tmpfs none /run && mkdir /run/sshd && exec "$0" "$@"'
"""For root sshd wants a folder there, which a machine has where sshd is a service."""

CLIENT = """\
Host *
    ControlMaster auto
    ControlPath {folder}/master-%r@%h:%p
    ControlPersist 60
    IdentityFile {folder}/user_key
    IdentitiesOnly yes
    UserKnownHostsFile /dev/null
    StrictHostKeyChecking no
    LogLevel ERROR
"""


class Server(NamedTuple):
    """A real sshd on this machine, and a client whose configuration shares connections."""

    folder: Path
    port: int

    def masters(self) -> list[Path]:
        """Sockets of shared connections."""
        return list(self.folder.glob("master-*"))

    def logins(self) -> int:
        """How many connections have logged in."""
        return (self.folder / "log").read_text().count("Accepted publickey")

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        """What the user's own ssh says."""
        command = ["ssh", "-p", str(self.port), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def free_port() -> int:
    with socket.socket() as made:
        made.bind((HOST, 0))
        return int(made.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as made:
        return made.connect_ex((HOST, port)) == 0


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    sshd, client = "/usr/sbin/sshd", shutil.which("ssh")
    if client is None or shutil.which("ssh-keygen") is None or not Path(sshd).exists():
        pytest.skip("no OpenSSH client and server here")
    if pwd.getpwuid(os.getuid()).pw_shell.endswith(("nologin", "false")):
        pytest.skip("this user may not log in")
    # A UNIX socket's path is short: pytest's own name for the test's folder would not fit.
    folder = tmp_path_factory.mktemp("s")
    for name in ("host_key", "user_key"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True
        )
    port = free_port()
    (folder / "sshd_config").write_text(SERVER.format(host=HOST, port=port, folder=folder))
    (folder / "config").write_text(CLIENT.format(folder=folder))
    # OpenSSH looks for its configuration where the system says the user lives, not at $HOME.
    (folder / "ssh").write_text(f'#!/bin/sh\nexec {client} -F {folder}/config "$@"\n')
    (folder / "ssh").chmod(0o755)
    with pytest.MonkeyPatch.context() as patch, (folder / "log").open("wb") as log:
        patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        command = [sshd, "-D", "-e", "-f", str(folder / "sshd_config")]
        if os.getuid() == 0 and not Path("/run/sshd").is_dir():
            command = ["unshare", "-m", "sh", "-c", WITH_RUN, *command]
        with subprocess.Popen(command, stderr=log) as process, bounded(process, 300.0):
            eventually(lambda: answers(port) or process.poll() is not None, "sshd listens")
            made = Server(folder, port)
            if process.poll() is not None or made.ask("-S", "none", HOST, "true").returncode:
                pytest.skip(f"no login by sshd here: {(folder / 'log').read_text()[-300:]}")
            yield made
            made.ask("-O", "exit", HOST)


def reported(frame) -> bool:
    return frame.block("host") is not None or not frame.errors


@pytest.mark.parametrize("hop", [None, HOST], ids=["straight", "through a login node"])
def test_the_ssh_of_a_probe_is_nobodys_master(server: Server, hop: str | None) -> None:
    way = None if hop is None else Hop(hop, "", server.port)
    with Probe(endpoint(HOST, port=server.port, hop=way)) as probe:
        assert probe.frame(reported)
        assert server.masters() == []


def test_the_ssh_of_a_command_is_nobodys_master(server: Server) -> None:
    command = [*login(HOST, port=server.port), "cat; echo done"]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with started as process, bounded(process):
        printed = process.communicate("still here\n")[0]
    assert printed == "still here\ndone\n"
    assert server.masters() == []


def test_the_users_own_master_is_used_and_survives(server: Server) -> None:
    assert server.ask("-f", "-N", HOST).returncode == 0
    (shared,) = server.masters()
    before = server.logins()
    with Probe(endpoint(HOST, port=server.port)) as probe:
        assert probe.frame(reported)
    assert server.ask(HOST, "echo alive").stdout == "alive\n"
    assert server.logins() == before
    assert server.masters() == [shared]
    assert server.ask("-O", "check", HOST).returncode == 0
