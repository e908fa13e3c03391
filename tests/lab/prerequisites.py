"""Says why the lab cannot run here, before anything is touched."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.lab.layout import CGROUP_ROOT, CONTROLLERS
from tests.lab.machine import CLEAN_ENVIRONMENT
from tests.lab.release import RELEASES, Release, chosen_version

# What machines need where this machine's root is theirs, too; a tree was made with all of it.
MACHINE_COMMANDS = (
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "slurmrestd",
    "sbatch",
    "munged",
    "mariadbd",
    "mariadb-install-db",
    "sshd",
    "setpriv",
    "ldconfig",
)
COMMANDS = ("ssh-keygen", "ip", "nsenter", "unshare", "pivot_root", "bash")
INSTALL = "tests/lab/install-packages installs what is missing"


def unmet(version: str | None = None) -> str | None:
    """The first reason why the lab cannot run on this machine; None when it can.

    Args:
        version: of Slurm, else the chosen one.
    """
    release = RELEASES[version or chosen_version()]
    if os.geteuid() != 0:
        return "the lab needs root"
    if release.tree is not None and not is_made(release.tree):
        return f"the lab of Slurm {release.version} needs the tree {release.tree}: {INSTALL}"
    path = CLEAN_ENVIRONMENT["PATH"]
    needed = COMMANDS if release.tree else (*COMMANDS, *MACHINE_COMMANDS)
    missing = [command for command in needed if shutil.which(command, path=path) is None]
    if missing:
        return f"the lab needs {', '.join(missing)}: {INSTALL}"
    if shutil.which(os.environ.get("CC", "cc")) is None:
        return f"the lab needs a C compiler for the stand-in driver: {INSTALL}"
    users = release.missing_users()
    if users:
        return f"the lab needs the system users {', '.join(users)}: {INSTALL}"
    return _kernel_lacks(release)


def is_made(tree: Path) -> bool:
    """Whether a tree is there and was made whole."""
    return (tree / ".made-from").exists()


def _kernel_lacks(release: Release) -> str | None:
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
    if release.tree and "\toverlay\n" not in Path("/proc/filesystems").read_text():
        return "the kernel knows no overlay: the lab cannot keep its changes out of the tree"
    return None
