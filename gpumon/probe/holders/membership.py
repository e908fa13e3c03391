"""What the control groups of a process name: Slurm job, step and task, and its container."""

import re
from typing import Dict, NamedTuple, Optional

JOB = re.compile(
    r"(?P<folder>(?:/(?!user\.slice/)[^/]+)*?"
    r"(?:/slurm(?:_[^/]+)?/uid_\d+/job_(?P<job_v1>\d{1,10})"
    r"|/(?:[^/]+_)?slurmstepd\.scope/"
    r"(?:job_(?P<job_v2>\d{1,10})|(?P<sluid>s[0-9A-HJKMNP-TV-Z]{13}))))"
    r"/step_(?P<step>[^/]+)(?:/user)?(?:/task_(?P<task>\d+))?"
)
"""A cgroup path below Slurm's own root, the outermost one: v1's `slurm/uid_N` or `slurm_NODE/uid_N`
(xcgroup's prefix of a slurmd), v2's scope of slurmstepd. Below `user.slice` systemd lets users make
groups of any name. From 26.05 on v2 names the job by its SLUID: `s` and thirteen characters of
Crockford's base 32."""

CONTAINER = re.compile(
    r"/(?:(?P<engine>docker|libpod|cri-containerd|crio)[-/])?(?P<id>[0-9a-f]{64})"
    r"(?:\.scope)?(?=/|$)"
)
"""A container's part of a cgroup path: Docker, Podman, containerd, CRI-O."""

ENGINES = {
    "docker": "docker",
    "libpod": "podman",
    "cri-containerd": "containerd",
    "crio": "cri-o",
}

ENROOT = "/enroot/"
NAME = re.compile(r"[\w.+-]+\Z")
PYXIS = re.compile(r"\bpyxis_[\w.-]+")

SHORT_ID = 12
"""Characters of a container's id that its engine's own commands show."""


class Membership(NamedTuple):
    """Where a process belongs."""

    job_id: Optional[str]
    sluid: Optional[str]
    step: Optional[str]
    task: Optional[str]
    folders: Dict[str, str]
    """The job's folder by controller, the unified hierarchy under an empty name."""


def membership(cgroups: str) -> Membership:
    """Slurm's part of a /proc/PID/cgroup text; the line that names most wins.

    Some v1 controllers carry no task, others not even the job, so every line is read.
    """
    best: Dict[str, Optional[str]] = {}
    folders: Dict[str, str] = {}
    for line in cgroups.splitlines()[:64]:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        match = JOB.match(path)
        if match is None or "/../" in path:
            continue
        for controller in controllers.split(","):
            folders[controller] = match.group("folder")
        if not best or (best["task"] is None and match.group("task")):
            best = match.groupdict()
    job_id = best.get("job_v1") or best.get("job_v2")
    return Membership(
        job_id=job_id,
        sluid=best.get("sluid"),
        step=best.get("step"),
        task=best.get("task"),
        folders=folders,
    )


def container(cgroups: str) -> Optional[str]:
    """Engine and short id of the container that a /proc/PID/cgroup text names, else None."""
    for line in cgroups.splitlines()[:64]:
        parts = list(CONTAINER.finditer(line))
        if parts:
            # The innermost one, where containers are nested.
            short = parts[-1].group("id")[:SHORT_ID]
            engine = ENGINES.get(parts[-1].group("engine") or "", "")
            return "%s:%s" % (engine, short) if engine else short
    return None


def enroot(mountinfo: str) -> Optional[str]:
    """Name of the Enroot container whose root file system a /proc/PID/mountinfo text shows.

    Enroot, and with it Pyxis, makes no control group of its own; what is mounted on / shows it.
    """
    for line in mountinfo.splitlines()[:256]:
        words = line.split()
        if len(words) > 4 and words[4] == "/":
            found = PYXIS.search(line)
            if found is not None:
                return "enroot:" + found.group(0)
            # Split by hand: users choose such paths, and a pattern reads them from each folder on.
            folder, slash, name = re.sub(r"/\Z", "", words[3]).rpartition("/")
            if ENROOT in folder + slash and NAME.match(name):
                return "enroot:" + name
    return None
