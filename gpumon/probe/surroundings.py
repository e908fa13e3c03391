"""Everything about a node but its GPUs, read by a thread that the report does not wait for long.

A file of the kernel can block as a driver's call can: a port's counters ask the adapter, and the
environment of a process waits for its memory's lock.
"""

import os
import re
import threading
import time
from typing import Any, Callable, Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple

from gpumon.probe import tiers
from gpumon.probe.holders.process_tree import ProcessTrees
from gpumon.probe.holders.processes import Processes
from gpumon.probe.holders.users import Users
from gpumon.probe.kernel.cgroups import MAX_JOBS, Cgroups
from gpumon.probe.kernel.driver_files import Board, boards, name_unopened
from gpumon.probe.kernel.filesystems import Filesystems
from gpumon.probe.kernel.host import Host
from gpumon.probe.kernel.local_filesystems import LocalFilesystems
from gpumon.probe.kernel.log import KernelLog
from gpumon.probe.kernel.numa import Numa
from gpumon.probe.kernel.pci import Place
from gpumon.probe.kernel.ports import Ports
from gpumon.probe.kernel.process_stat import AllProcesses
from gpumon.probe.rows import NOT_SAMPLED, NOT_SUPPORTED, Row, block, too_many

PATIENCE_S = 1.0
"""A reading is reported as stuck after this long; a whole one takes a few milliseconds."""

NAMES = ("node", "process", "nic", "filesystem", "local_filesystem", "cgroup")
"""Blocks that are read here."""

GPU_NUMA = "gpu_numa_node"
"""The one field of a GPU that the kernel knows and the driver is not asked for."""

PERIOD_S = 5.0
"""How often the folders are listed."""

CONTROLLERS = ("cpuacct", "cpuset", "memory", "blkio", "freezer", "devices")
"""Hierarchies of cgroup v1 in which Slurm makes folders and which the readers use."""

JOB = re.compile(r"(?:job_(\d{1,10})|(s[0-9A-HJKMNP-TV-Z]{13}))\Z")
"""A job's folder, by number or, from Slurm 26.05 on, by SLUID."""

MAX_ENTRIES = 4096
"""Most entries of the kind wanted that are taken of one folder."""


class JobFolders:
    """Finds the jobs of a node that have a control group, also those that touch no GPU."""

    def __init__(self, root: str = "/") -> None:
        """List folders below /sys/fs/cgroup of `root`."""
        self._base = root.rstrip("/") + "/sys/fs/cgroup"
        self._at = float("-inf")
        self._found: Dict[str, Dict[str, str]] = {}
        self.refused: List[Dict[str, str]] = []
        """What there was no room for, as errors."""

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
            self._found = self._find()
        count = len(known.keys() | self._found.keys())
        self.refused = []
        if count > most:
            hint = "sstat reports CPU time and memory of the others"
            self.refused = [too_many("control groups", "jobs on this node", count, most, hint)]
        jobs = dict(known)
        for job in sorted(self._found):
            if len(jobs) >= most:
                break
            jobs.setdefault(job, self._found[job])
        return jobs

    def _find(self) -> Dict[str, Dict[str, str]]:
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
        names = os.listdir(folder)
    except OSError:  # another version of cgroups, or no Slurm
        return []
    found = ["/" + name for name in names if name.startswith(start) and name.endswith(end)]
    return found[:MAX_ENTRIES]


def _jobs(found: Dict[str, Dict[str, str]], controller: str, top: str, path: str) -> None:
    for name, job in _job_names(top + path):
        found.setdefault(job, {})[controller] = path + name


def _job_names(folder: str) -> List[Tuple[str, str]]:
    named = [(name, JOB.match(name[1:])) for name in _named(folder, "")]
    return [(name, match.group(1) or match.group(2)) for name, match in named if match]


class Wanted(NamedTuple):
    """What one reading is about."""

    gpus: Dict[str, str]
    """PCI bus id of every GPU by its UUID."""
    pids: List[int]
    """Processes that hold a GPU."""


class Surroundings:
    """Reads the node. Other threads only take what it publishes."""

    def __init__(
        self,
        root: str = "/",
        monotonic: Callable[[], float] = time.monotonic,
        wanted_tiers: Sequence[str] = tiers.ALL,
        name_patience_s: float = 0.0,
    ) -> None:
        """Read /proc, /sys and /dev below `root`; nothing is read before the thread runs.

        A reading waits `name_patience_s` for the names of users; 0: not at all.
        """
        self._tiers = wanted_tiers
        self._name_patience_s = name_patience_s
        self._root = root.rstrip("/")
        self._monotonic = monotonic
        self._wanted = Wanted({}, [])
        self._rows: Dict[str, List[Row]] = {name: [] for name in NAMES}
        self._rows["node"] = [Row(os.uname().nodename, monotonic())]
        self._numa_nodes: Dict[str, Optional[int]] = {}
        self._boards: List[Board] = []
        self._events: List[Row] = []
        self._reported: Optional[List[Row]] = None
        """The processes that were taken last."""
        self._ended: FrozenSet[int] = frozenset()
        self._reported_ended: FrozenSet[int] = frozenset()
        """Processes that have ended since the driver listed them, as they were left out last."""
        self._refused: List[Dict[str, str]] = []
        self._reading: Tuple[str, float] = ("", 0.0)
        self._asked_at = 0.0
        self._failure = ""
        self._lock = threading.Lock()
        self._go = threading.Event()
        self._done = threading.Event()
        self._done.set()

    def start(self) -> None:
        """Run on a daemon thread: a read that never returns must not keep the process alive."""
        threading.Thread(target=self._run, name="host", daemon=True).start()

    def ask(self, gpus: List[Row], pids: List[int]) -> None:
        """Ask for another reading unless one is still under way."""
        if self._done.is_set():
            bus_ids = {gpu.key: gpu.labels.get("pci_bus_id", "") for gpu in gpus}
            self._wanted = Wanted(bus_ids, pids)
            self._asked_at = self._monotonic()
            self._done.clear()
            self._go.set()

    def wait(self) -> None:
        """Wait until the reading is complete, at most until `PATIENCE_S` after it was asked for."""
        self._done.wait(max(0.0, self._asked_at + PATIENCE_S - self._monotonic()))

    def add_to(self, gpus: List[Row]) -> None:
        """Give GPUs the NUMA node that each is attached to, as far as it has been read.

        Those that the driver does not open are given what the kernel knows of them.
        """
        with self._lock:
            known, known_boards = self._numa_nodes, self._boards
        name_unopened(gpus, known_boards)
        for gpu in gpus:
            numa_node = known.get(gpu.key)
            if numa_node is not None:
                gpu.values[GPU_NUMA] = numa_node
                gpu.missing.pop(GPU_NUMA, None)
            else:
                gpu.missing[GPU_NUMA] = NOT_SUPPORTED if gpu.key in known else NOT_SAMPLED

    def still_held(self, contexts: List[Tuple[int, Row]], is_new: bool) -> Optional[List[Row]]:
        """Contexts of processes that have not ended since; None while these are as reported last.

        Args:
            contexts: What the driver listed last, by PID.
            is_new: Whether any of it was not reported yet.
        """
        with self._lock:
            ended = self._ended
        if not is_new and ended == self._reported_ended:
            return None
        self._reported_ended = ended
        return [row for pid, row in contexts if pid not in ended]

    def take(self, extra: Row) -> Tuple[Dict[str, Any], List[Row], List[Dict[str, str]]]:
        """Blocks of the last whole reading, Xids of the kernel's log, and errors.

        Processes are left out while they are as they were taken last.

        Args:
            extra: What else is known of the node.
        """
        with self._lock:
            rows, events = self._rows, self._events
        # A reading that hangs is reported again, but what else is known of the node is of now.
        node = Row(rows["node"][0].key, rows["node"][0].at)
        node.add(rows["node"][0])
        node.add(extra)
        for key in list(extra.values) + list(extra.labels):
            node.missing.pop(key, None)
        shown = {**rows, "node": [node]}
        if self._reported is rows["process"]:
            del shown["process"]
        self._reported = rows["process"]
        return {name: block(part) for name, part in shown.items()}, events, self._errors()

    def _errors(self) -> List[Dict[str, str]]:
        with self._lock:
            refused = list(self._refused)
        what, since = self._reading
        waited = self._monotonic() - since
        if not self._done.is_set() and waited >= PATIENCE_S:
            message = "reading %s has not returned for %.0f s" % (what, waited)
            hint = "a device or a process of the node may hang; look at dmesg on it"
        elif self._failure:
            message, hint = self._failure, "please report this with the kernel's version"
        else:
            return refused
        return [{"where": "host", "message": message, "hint": hint}, *refused]

    def _run(self) -> None:
        reader = Reader(self._root, self._monotonic, self._tiers, self._name_patience_s)
        while True:
            self._go.wait()
            self._go.clear()
            try:
                rows, events = reader.read(self._wanted, self._note)
                self._failure = ""
                with self._lock:
                    self._rows, self._events = rows, events
                    self._ended = reader.ended
                    self._numa_nodes = reader.numa_nodes
                    self._boards = reader.boards
                    self._refused = reader.refused
            except Exception as error:  # noqa: BLE001 - a strange file must not end the thread
                self._failure = "reading %s failed: %r" % (self._reading[0], error)
            self._done.set()

    def _note(self, what: str) -> None:
        self._reading = (what, self._monotonic())


class Reader:
    """Reads every part of the node once."""

    def __init__(
        self,
        root: str,
        monotonic: Callable[[], float],
        wanted_tiers: Sequence[str],
        name_patience_s: float = 0.0,
    ) -> None:
        """Read below `root`; without the medium tier neither mounts nor ports are read."""
        self._monotonic = monotonic
        self._root = root
        self._bus_ids: Dict[str, str] = {}
        self.numa_nodes: Dict[str, Optional[int]] = {}
        """NUMA node of every GPU by its UUID, None where the kernel knows none: never changed in
        place."""
        self.boards: List[Board] = []
        """What the kernel knows of the GPUs, read where one of them has no bus id."""
        self.refused: List[Dict[str, str]] = []
        """What the last reading leaves out, as errors."""
        self.ended: FrozenSet[int] = frozenset()
        """Processes that held a GPU and have ended, which the last reading leaves out."""
        numa = Numa(root)
        self._distances = numa.distances
        every = AllProcesses(root)
        self._host = Host(root, tiers.SLOW in wanted_tiers, every)
        self._trees = ProcessTrees(every, tiers.MEDIUM in wanted_tiers)
        self._processes = Processes(root + "/proc", root + "/dev", numa)
        self._users = Users(root + "/etc/passwd")
        self._holders: List[Row] = []
        """Processes on GPUs as they were reported last; the same list as long as nothing is new."""
        self._named = 0
        """How many names of users were known then."""
        self._name_patience_s = name_patience_s
        self._ports = Ports(root)
        self._has_medium = tiers.MEDIUM in wanted_tiers
        self._filesystems = Filesystems(root)
        self._spaces = LocalFilesystems(root)
        self._cgroups = Cgroups(root)
        self._folders = JobFolders(root)
        self._log = KernelLog(root)

    def read(
        self, wanted: Wanted, note: Callable[[str], None]
    ) -> Tuple[Dict[str, List[Row]], List[Row]]:
        """Rows by block, and Xids; `note` takes what is read next."""
        now = self._monotonic()
        rows: Dict[str, List[Row]] = {}
        note("processes")
        held = self._processes.rows(wanted.pids, now)
        self.ended = self._processes.ended
        self._users.ask(held)
        if self._processes.is_new or self._trees.is_due(now):
            self._holders = [row.copy() for row in held]
            self._trees.add_to(self._holders, now)
            self._named = -1
        note("control groups")
        # A job that left its GPUs alone has no process on them, and is found by its folder.
        jobs = self._folders.beside(now, self._processes.jobs(), MAX_JOBS)
        rows["cgroup"] = self._cgroups.rows(now, jobs)
        note("the node")
        node = self._host.read(now)
        if self._distances:
            node.labels["numa_distances"] = self._distances
        node.lose(["numa_distances"], NOT_SUPPORTED)
        rows["node"] = [node]
        self._locate_gpus(wanted.gpus)
        note("file systems")
        rows["filesystem"] = self._filesystems.rows(now) if self._has_medium else []
        rows["local_filesystem"] = self._spaces.rows(now) if self._has_medium else []
        note("network ports")
        rows["nic"] = self._ports.rows(now, wanted.gpus) if self._has_medium else []
        note("the kernel's log")
        events = self._log.rows(now, wanted.gpus)
        parts = (
            self._processes,
            self._folders,
            self._cgroups,
            self._filesystems,
            self._spaces,
            self._ports,
            self._log,
        )
        self.refused = [error for part in parts for error in part.refused]
        # Without the log, Xids from before the probe's start stay unseen: the row has to show it.
        if self._log.reason:
            node.missing["kernel_log"] = self._log.reason
        else:
            node.labels["kernel_log"] = "readable"
        # By now the names of users had the time that all the rest has taken.
        self._users.wait(self._name_patience_s)
        rows["process"] = self._named_holders()
        return rows, events

    def _named_holders(self) -> List[Row]:
        """The processes with the names of their owners, in a new list where any is new."""
        known = self._users.answers
        if known != self._named:
            # Those reported last may still be on their way out.
            self._holders = [row.copy() for row in self._holders]
            self._users.add_to(self._holders)
            self._named = known
        return self._holders

    def _locate_gpus(self, bus_ids: Dict[str, str]) -> None:
        """Where the GPUs sit, once for those that are there."""
        if bus_ids != self._bus_ids:
            self._bus_ids = bus_ids
            self.boards = boards(self._root) if "" in bus_ids.values() else []
            self.numa_nodes = {
                uuid: Place.of(self._root, bus_id).numa_node for uuid, bus_id in bus_ids.items()
            }
