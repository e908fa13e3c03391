"""What the control group of a Slurm job counts: CPU, memory, I/O, pressure, processes."""

import os
from itertools import islice
from typing import Callable, Dict, List, Set, Tuple

from gpumon.probe.kernel import files, pressure
from gpumon.probe.kernel.outputs import Outputs
from gpumon.probe.rows import NOT_SAMPLED, NOT_SUPPORTED, Row

MEDIUM_PERIOD_S = 5.0
"""How often the processes of a job are counted, which reads every folder of it."""

MAX_JOBS = 64
"""Most jobs of one node that are read."""

MAX_FOLDERS = 1024
"""Most folders of one job that are read for its processes; those of a job with more are not
counted."""

UNLIMITED = 1 << 60
"""Memory limits of cgroup v1 from here on mean none: the kernel writes the largest page count."""

V2 = ""
"""The controller's name of the unified hierarchy, as /proc/PID/cgroup leaves it empty."""

EVERY = [
    "job_cpu_us",
    "job_cpu_count",
    "job_mem_used_bytes",
    "job_mem_peak_bytes",
    "job_mem_limit_bytes",
    "job_oom_kills",
    "job_io_read_bytes",
    "job_io_write_bytes",
    "job_process_count",
]

Reader = Tuple[str, str, str, Callable[[str], float]]
"""Catalogue key, controller, file, and what makes a number of its text (raises ValueError)."""


def keyed(text: str, key: str) -> int:
    """Number behind a key of a flat keyed file; raises ValueError."""
    for line in text.splitlines()[:256]:
        name, _, rest = line.partition(" ")
        if name == key:
            return files.whole(rest)
    raise ValueError("no %s" % key)


def limit(text: str) -> int:
    """A memory limit; raises ValueError where there is none."""
    number = files.whole(text)
    if number >= UNLIMITED:
        raise ValueError("unlimited")
    return number


def cpus(text: str) -> int:
    """Number of CPUs in a list such as `0-3,8`; raises ValueError."""
    total = 0
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        total += max(0, files.whole(last or first) - files.whole(first) + 1)
    return total


def io_v2(text: str, key: str) -> int:
    """Sum of one key over the devices of an io.stat text; a job without I/O has none yet."""
    total = 0
    for word in text.split():
        name, _, number = word.partition("=")
        if name == key:
            total += files.whole(number)
    return total


def io_v1(text: str, way: str) -> int:
    """Sum of `Read` or `Write` over the devices of a blkio text."""
    rows = [line.split() for line in text.splitlines()[:4096]]
    return sum(files.whole(w[2]) for w in rows if len(w) == 3 and w[1] == way)


READERS_V2: Tuple[Reader, ...] = (
    ("job_cpu_us", V2, "cpu.stat", lambda text: keyed(text, "usage_usec")),
    ("job_cpu_count", V2, "cpuset.cpus.effective", cpus),
    ("job_mem_used_bytes", V2, "memory.current", files.whole),
    ("job_mem_peak_bytes", V2, "memory.peak", files.whole),
    ("job_mem_limit_bytes", V2, "memory.max", limit),
    ("job_oom_kills", V2, "memory.events", lambda text: keyed(text, "oom_kill")),
    ("job_io_read_bytes", V2, "io.stat", lambda text: io_v2(text, "rbytes")),
    ("job_io_write_bytes", V2, "io.stat", lambda text: io_v2(text, "wbytes")),
)

BLKIO = ("blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_service_bytes")

READERS_V1: Tuple[Reader, ...] = (
    ("job_cpu_us", "cpuacct", "cpuacct.usage", lambda text: files.whole(text) // 1000),
    ("job_cpu_count", "cpuset", "cpuset.effective_cpus", cpus),
    ("job_mem_used_bytes", "memory", "memory.usage_in_bytes", files.whole),
    ("job_mem_peak_bytes", "memory", "memory.max_usage_in_bytes", files.whole),
    ("job_mem_limit_bytes", "memory", "memory.limit_in_bytes", limit),
    ("job_oom_kills", "memory", "memory.oom_control", lambda text: keyed(text, "oom_kill")),
    ("job_io_read_bytes", "blkio", BLKIO[0], lambda text: io_v1(text, "Read")),
    ("job_io_write_bytes", "blkio", BLKIO[0], lambda text: io_v1(text, "Write")),
    ("job_io_read_bytes", "blkio", BLKIO[1], lambda text: io_v1(text, "Read")),
    ("job_io_write_bytes", "blkio", BLKIO[1], lambda text: io_v1(text, "Write")),
)


class Cgroups:
    """Reads the control groups of jobs."""

    def __init__(self, root: str = "/") -> None:
        """Read /sys/fs/cgroup, and /proc for the jobs' outputs, below `root`."""
        self._base = root.rstrip("/") + "/sys/fs/cgroup"
        self._counted: Dict[str, Tuple[float, List[int]]] = {}
        self._deep: Set[str] = set()
        """Jobs with more folders than are read."""
        self._outputs = Outputs(root.rstrip("/") + "/proc")

    def rows(self, now: float, jobs: Dict[str, Dict[str, str]]) -> List[Row]:
        """One row per job.

        Args:
            now: Monotonic time of the node.
            jobs: For every job its folder by controller, as /proc/PID/cgroup names both.
        """
        rows = []
        for job in sorted(jobs)[:MAX_JOBS]:
            row = Row(job, now)
            folders = {name: self._folder(name, path) for name, path in jobs[job].items()}
            for readers in (READERS_V2, READERS_V1):
                for field, controller, file, number in readers:
                    if controller in folders and field not in row.values:
                        _read(row, field, folders[controller] + "/" + file, number)
            unified = folders.get(V2, "")
            pressure.read(row, unified + "/%s.pressure" if unified else "", "job_")
            self._count(row, now, folders)
            row.lose(EVERY, NOT_SUPPORTED)
            rows.append(row)
        self._counted = {job: known for job, known in self._counted.items() if job in jobs}
        self._deep &= set(jobs)
        if rows:
            self._outputs.ask({job: pids for job, (_, pids) in self._counted.items()})
        for row in rows:
            self._outputs.add_to(row)
        return rows

    @property
    def refused(self) -> List[Dict[str, str]]:
        """What the last rows leave out, as errors."""
        message = "more than %d folders below its control group: its processes are not counted"
        hint = "systemd-cgls on the node shows them"
        return [
            {"where": "job %s" % job, "message": message % MAX_FOLDERS, "hint": hint}
            for job in sorted(self._deep)
        ]

    def _folder(self, controller: str, path: str) -> str:
        """Where a hierarchy is mounted; beside v1 the unified one has a folder of its own."""
        if controller == V2:
            has_v1 = os.path.isdir(self._base + "/unified")
            return self._base + ("/unified" if has_v1 else "") + path
        return "%s/%s%s" % (self._base, controller, path)

    def _count(self, row: Row, now: float, folders: Dict[str, str]) -> None:
        """Processes of the job, from whichever hierarchy lists the most."""
        at, pids = self._counted.get(row.key, (float("-inf"), []))
        if now - at >= MEDIUM_PERIOD_S:
            found = [processes(folder) for folder in sorted(set(folders.values()))]
            pids = max((pids for pids, _ in found), key=len) if found else []
            self._counted[row.key] = (now, pids)
            self._deep.discard(row.key)
            if not all(is_whole for _, is_whole in found):
                self._deep.add(row.key)
        if row.key in self._deep:
            row.missing["job_process_count"] = NOT_SAMPLED
        elif pids:
            row.values["job_process_count"] = len(pids)


def processes(folder: str) -> Tuple[List[int], bool]:
    """PIDs that a control group and the groups below it hold, and whether these are all."""
    found: List[int] = []
    for number, (path, _, _) in enumerate(islice(os.walk(folder), MAX_FOLDERS + 1)):
        if number == MAX_FOLDERS:
            return found, False
        words = files.read_or_empty(path + "/cgroup.procs").split()
        found.extend(int(word) for word in words if word.isdecimal() and len(word) < 20)
    return found, True


def _read(row: Row, field: str, path: str, number: Callable[[str], float]) -> None:
    try:
        row.values[field] = number(files.read(path))
        row.missing.pop(field, None)
    except OSError as error:
        row.missing[field] = files.why(error)
    except ValueError:
        row.missing[field] = NOT_SUPPORTED
