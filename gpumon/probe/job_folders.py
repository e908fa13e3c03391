"""The control groups of a node's Slurm jobs, found without knowing a process of theirs."""

import os
import re
from typing import Dict, List, Tuple

PERIOD_S = 5.0
"""How often the folders are looked for."""

CONTROLLERS = ("cpuacct", "cpuset", "memory", "blkio", "freezer", "devices")
"""Hierarchies of cgroup v1 in which Slurm makes folders and which the readers use."""

JOB = re.compile(r"(?:job_(\d{1,10})|(s[0-9A-HJKMNP-TV-Z]{13}))\Z")
"""A job's folder, by number or, from Slurm 26.05 on, by SLUID."""

MAX_ENTRIES = 4096
"""Most entries of one folder that are looked at."""


class JobFolders:
    """Finds the jobs of a node that have a control group, also those that touch no GPU."""

    def __init__(self, root: str = "/") -> None:
        """Look below /sys/fs/cgroup of `root`."""
        self._base = root.rstrip("/") + "/sys/fs/cgroup"
        self._at = float("-inf")
        self._found: Dict[str, Dict[str, str]] = {}

    def beside(
        self, now: float, known: Dict[str, Dict[str, str]], most: int
    ) -> Dict[str, Dict[str, str]]:
        """The known jobs, and as many others that there is room for.

        Args:
            now: Monotonic time of the node.
            known: For every job its folder by controller; they come first.
            most: How many jobs there may be in all.
        """
        if now - self._at >= PERIOD_S:
            self._at = now
            self._found = self._look()
        jobs = dict(known)
        for job in sorted(self._found):
            if len(jobs) >= most:
                break
            jobs.setdefault(job, self._found[job])
        return jobs

    def _look(self) -> Dict[str, Dict[str, str]]:
        found: Dict[str, Dict[str, str]] = {}
        for controller in CONTROLLERS:
            top = "%s/%s" % (self._base, controller)
            for slurm in _named(top, "slurm"):
                for user in _named(top + slurm, "uid_"):
                    _jobs(found, controller, top, slurm + user)
        unified = self._base + "/unified"
        top = unified if os.path.isdir(unified) else self._base
        for scope in _named(top + "/system.slice", "", "slurmstepd.scope"):
            _jobs(found, "", top, "/system.slice" + scope)
        return found


def _named(folder: str, start: str, end: str = "") -> List[str]:
    """Names in a folder, each with a slash before it, that start and end so; none without it."""
    try:
        names = os.listdir(folder)[:MAX_ENTRIES]
    except OSError:  # another version of cgroups, or no Slurm
        return []
    return ["/" + name for name in names if name.startswith(start) and name.endswith(end)]


def _jobs(found: Dict[str, Dict[str, str]], controller: str, top: str, path: str) -> None:
    for name, job in _job_names(top + path):
        found.setdefault(job, {})[controller] = path + name


def _job_names(folder: str) -> List[Tuple[str, str]]:
    named = [(name, JOB.match(name[1:])) for name in _named(folder, "")]
    return [(name, match.group(1) or match.group(2)) for name, match in named if match]
