"""Says why the lab cannot run here, before anything is touched."""

from __future__ import annotations

import os
import shutil
import subprocess

from tests.lab.layout import CGROUP_ROOT, CONTROLLERS
from tests.lab.machine import CLEAN_ENVIRONMENT
from tests.lab.provision import missing_daemon_users

COMMANDS = (
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "slurmrestd",
    "sbatch",
    "munged",
    "mariadbd",
    "mariadb-install-db",
    "sshd",
    "ssh-keygen",
    "ip",
    "nsenter",
    "unshare",
    "setpriv",
    "ldconfig",
)
INSTALL = "tests/lab/install-packages installs what is missing"


def unmet() -> str | None:
    """The first reason why the lab cannot run on this machine; None when it can."""
    if os.geteuid() != 0:
        return "the lab needs root"
    path = CLEAN_ENVIRONMENT["PATH"]
    missing = [command for command in COMMANDS if shutil.which(command, path=path) is None]
    if missing:
        return f"the lab needs {', '.join(missing)}: {INSTALL}"
    if shutil.which(os.environ.get("CC", "cc")) is None:
        return f"the lab needs a C compiler for the stand-in driver: {INSTALL}"
    users = missing_daemon_users()
    if users:
        return f"the lab needs the system users {', '.join(users)}: {INSTALL}"
    return _kernel_lacks()


def _kernel_lacks() -> str | None:
    for controller in CONTROLLERS:
        if not (CGROUP_ROOT / controller / "cgroup.procs").exists():
            return f"the lab needs the cgroup v1 hierarchy {CGROUP_ROOT / controller}"
        if not os.access(CGROUP_ROOT / controller, os.W_OK):
            return f"the lab cannot write to {CGROUP_ROOT / controller}"
    namespaces = ["--net", "--uts", "--ipc", "--pid", "--fork", "--mount", "--cgroup"]
    trial = ["unshare", *namespaces, "mount", "-t", "tmpfs", "trial", "/mnt"]
    done = subprocess.run(trial, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"the lab cannot make namespaces here: {done.stderr.strip()}"
    return None
