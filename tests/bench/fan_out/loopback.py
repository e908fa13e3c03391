"""Nodes behind real sshd on this machine: a server, a port and eight GPUs of its own each."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.lab.standin import driver

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S: Final = 20.0
SEPARATION: Final = Path("/run/sshd")
"""sshd as root wants this empty folder."""

_SERVER: Final = """
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
StrictModes no
PidFile none
SetEnv LD_LIBRARY_PATH={library} NVML_STANDIN_STATE={state}
"""
_CLIENT: Final = """
Host *
  HostName 127.0.0.1
  User {user}
  IdentityFile {folder}/user
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known
  StrictHostKeyChecking yes
  HostKeyAlias bench
"""


@contextmanager
def environment(folder: Path, nodes: int) -> Iterator[dict[str, str]]:
    """Environment in which `ssh nNNNNN` logs in at that node's sshd; they end with the block.

    Raises:
        CompilerMissingError: The stand-in driver cannot be built.
        FileNotFoundError: There is no sshd.
    """
    server = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    client = shutil.which("ssh")
    if server is None or client is None:
        message = "no sshd or no ssh on this machine"
        raise FileNotFoundError(message)
    for key in ("host", "user"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
        subprocess.run(words, check=True)
    (folder / "known").write_text(f"bench {(folder / 'host.pub').read_text()}")
    ports = _free_ports(nodes)
    hosts = "".join(f"Host n{n:05}\n  Port {port}\n" for n, port in enumerate(ports, 1))
    common = _CLIENT.format(user=getpass.getuser(), folder=folder)
    (folder / "client").write_text(hosts + common)
    programs = folder / "bin"
    programs.mkdir()
    wrapper = programs / "ssh"
    wrapper.write_text(f'#!/bin/sh\nexec {client} -F {folder}/client "$@"\n')
    wrapper.chmod(0o755)
    made = os.getuid() == 0 and not SEPARATION.exists()
    if made:
        SEPARATION.mkdir(mode=0o755)
    servers = []
    try:
        for number, port in enumerate(ports, 1):
            own = folder / f"n{number:05}"
            own.mkdir()
            standin = driver.start(own, "h100", gpus=8, node=own.name)
            library, state = standin.library.parent, own / "state"
            text = _SERVER.format(port=port, folder=folder, library=library, state=state)
            (own / "sshd").write_text(text)
            words = [server, "-D", "-f", str(own / "sshd"), "-E", str(own / "log")]
            servers.append(subprocess.Popen(words))
        for port in ports:
            _await(port)
        yield {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    finally:
        for one in servers:
            one.terminate()
        for one in servers:
            one.wait()
        if made:
            SEPARATION.rmdir()


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()


def _await(port: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return
