"""Who holds the GPUs: owner, program, Slurm job and step, and the variables that name a rank."""

import json
import os
import re
from typing import Dict, List, Optional, Tuple

from gpumon.probe.rows import NO_PERMISSION, NO_PROCESS, Row

RANK_VARIABLES = frozenset(
    (
        "SLURM_JOB_ID",
        "SLURM_STEP_ID",
        "SLURM_PROCID",
        "SLURM_LOCALID",
        "SLURM_NODEID",
        "SLURM_NTASKS",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_TASK_PID",
        "SLURM_ARRAY_JOB_ID",
        "SLURM_ARRAY_TASK_ID",
        "RANK",
        "LOCAL_RANK",
        "GROUP_RANK",
        "ROLE_RANK",
        "ROLE_NAME",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "TORCHELASTIC_RUN_ID",
        "TORCHELASTIC_RESTART_COUNT",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "PMI_RANK",
        "PMI_SIZE",
        "PMI_LOCAL_RANK",
        "PMIX_RANK",
        "PMIX_NAMESPACE",
        "MV2_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_LOCAL_RANK",
        "MV2_COMM_WORLD_SIZE",
        "MPI_LOCALRANKID",
    )
)
"""The only variables that ever leave a node."""

JOB = re.compile(r"/job_(\d+)/step_([^/]+)(?:/user)?(?:/task_(\d+))?")
"""Slurm's part of a cgroup path: v1 and v2 alike up to 25.11."""

MAX_VALUE = 256
"""Longer values of rank variables are cut; a rank or an address needs far less."""


def job_step_task(cgroups: str) -> Tuple[Optional[str], Optional[str], Optional[str]]:
    """Job, step and task of a /proc/PID/cgroup text; the line that says most wins.

    Some v1 controllers carry no task, others not even the job, so every line is read.
    """
    best: Tuple[Optional[str], Optional[str], Optional[str]] = (None, None, None)
    for line in cgroups.splitlines():
        match = JOB.search(line)
        if match and (best[0] is None or (best[2] is None and match.group(3))):
            best = (match.group(1), match.group(2), match.group(3))
    return best


def rank_variables(environ: bytes) -> Dict[str, str]:
    """The named rank variables of a /proc/PID/environ text, everything else dropped."""
    found: Dict[str, str] = {}
    for entry in environ.split(b"\0"):
        name, _, value = entry.partition(b"=")
        key = name.decode("ascii", "replace")
        if key in RANK_VARIABLES:
            found[key] = value[:MAX_VALUE].decode("utf-8", "replace")
    return found


class Processes:
    """Reads each process once: with its start time a PID names one process for ever."""

    def __init__(self, root: str = "/proc") -> None:
        """Read below `root`."""
        self._root = root
        self._known: Dict[Tuple[int, float], Row] = {}

    def rows(self, pids: List[int], now: float) -> List[Row]:
        """One row per PID; processes that are gone are forgotten."""
        rows, known = [], {}
        for pid in sorted(set(pids)):
            start, reason = self._start_time_s(pid)
            row = self._known.get((pid, start)) if start is not None else None
            if row is None:
                row = self._read(pid, start, reason, now)
            if start is not None:
                known[(pid, start)] = row
            row.at = now
            rows.append(row)
        self._known = known
        return rows

    def _start_time_s(self, pid: int) -> Tuple[Optional[float], str]:
        """Start in seconds since boot, else None and why: with hidepid=1 it may not be read."""
        try:
            with open("%s/%d/stat" % (self._root, pid), "rb") as file:
                # The program's name may hold spaces and brackets, so count from its last bracket.
                ticks = file.read().rpartition(b")")[2].split()[19]
            return int(ticks) / float(os.sysconf("SC_CLK_TCK")), ""
        except PermissionError:
            return None, NO_PERMISSION
        except (OSError, IndexError, ValueError):
            return None, NO_PROCESS

    def _read(self, pid: int, start: Optional[float], reason: str, now: float) -> Row:
        row = Row(str(pid), now)
        if start is None:
            row.lose(["name", "uid", "start_time_s", "job_id", "rank_vars"], reason)
            return row
        row.values["start_time_s"] = start
        folder = "%s/%d" % (self._root, pid)
        try:
            row.values["uid"] = os.stat(folder).st_uid
        except OSError:
            row.missing["uid"] = NO_PROCESS
        name = self._file(row, "name", folder + "/comm")
        if name is not None:
            row.labels["name"] = name.decode("utf-8", "replace").strip()
        cgroups = self._file(row, "job_id", folder + "/cgroup")
        if cgroups is not None:
            job, step, task = job_step_task(cgroups.decode("utf-8", "replace"))
            for label, value in (("job_id", job), ("step", step), ("task", task)):
                if value is not None:
                    row.labels[label] = value
        environ = self._file(row, "rank_vars", folder + "/environ")
        if environ is not None:
            row.labels["rank_vars"] = json.dumps(rank_variables(environ), sort_keys=True)
        return row

    def _file(self, row: Row, label: str, path: str) -> Optional[bytes]:
        try:
            with open(path, "rb") as file:
                return file.read(1 << 20)
        except PermissionError:
            row.missing[label] = NO_PERMISSION
        except OSError:
            row.missing[label] = NO_PROCESS
        return None
