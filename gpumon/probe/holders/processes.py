"""Who holds the GPUs: owner, program, Slurm job and step, and the variables that name a rank."""

import json
import os
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Tuple

from gpumon.probe import tiers
from gpumon.probe.holders.membership import container, enroot, membership
from gpumon.probe.kernel import files
from gpumon.probe.kernel.numa import Numa
from gpumon.probe.kernel.process_stat import (
    HIDING,
    PAGE_BYTES,
    TICKS_PER_S,
    Use,
    process_stat,
    with_exact_memory,
)
from gpumon.probe.rows import NO_PERMISSION, NO_PROCESS, NOT_SUPPORTED, Row, too_many

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

IO = {b"read_bytes:": "process_io_read_bytes", b"write_bytes:": "process_io_write_bytes"}
"""Lines of /proc/PID/io, which only the owner and root may read, by their catalogue keys."""

USE = ["process_cpu_us", "process_rss_bytes", "state", "process_stopped_s", "process_stuck_s"]
"""What /proc/PID/stat has at every reading, and what follows from the one before."""

PERIOD_S = tiers.PERIODS_S[tiers.MEDIUM] - tiers.SLACK_S
"""How often what processes use is read: as often as the driver lists them."""

WAIT = "process_cpu_wait_us"
"""What /proc/PID/schedstat has of the main thread, in nanoseconds there."""

HALTS = {"process_stopped_s": ("T", "t"), "process_stuck_s": ("D",)}
"""For how long each reading found a process in one of these states (proc(5)): stopped by a signal
or a debugger, and in uninterruptible sleep."""

PLACE = ["cpus_allowed", "cpus_allowed_count", "cpu_numa_nodes"]
"""What /proc/PID/status has of the CPUs that a process may use."""

ENDED_TURNS = 2
"""For so many of these turns a process that has ended is left out, while the driver's list, which
may be older, still has it: by then every GPU has been asked again."""

PLACE_PERIOD_S = 30.0
"""How often that is read again: a program may choose its CPUs once it runs, and seldom later."""

EVERY = ["name", "uid", "start_time_s", "parent_pid", "inner_pid", "job_id", "rank_vars"]
EVERY += [*USE, WAIT, *PLACE, *sorted(IO.values())]
"""What is missing of a process that cannot be read at all."""

MAX_VALUE = 256
"""Longer values of rank variables are cut; a rank or an address needs far less."""

MAX_PROCESSES = 4096
"""Most processes that one report describes."""

HOST_PID_NAMESPACE = "pid:[4026531836]"
"""The kernel's fixed number of the first PID namespace (PROC_PID_INIT_INO, proc_ns.h)."""


def rank_variables(environ: bytes) -> Dict[str, str]:
    """The named rank variables of a /proc/PID/environ text, everything else dropped."""
    found: Dict[str, str] = {}
    for entry in environ.split(b"\0"):
        name, _, value = entry.partition(b"=")
        key = name.decode("ascii", "replace")
        if key in RANK_VARIABLES:
            found[key] = value[:MAX_VALUE].decode("utf-8", "replace")
    return found


def inner_pid(status: str) -> Optional[int]:
    """PID by which a container knows a process, of /proc/PID/status; None outside of one."""
    for line in status.splitlines()[:64]:
        name, _, rest = line.partition(":")
        pids = rest.split()
        if name == "NSpid" and len(pids) > 1:
            try:
                return files.whole(pids[-1])
            except ValueError:
                return None
    return None


class Read(NamedTuple):
    """A process as it was read last."""

    row: Row
    is_first: bool
    """Whether it was read once so far: no rate follows from that, so it is read again soon."""


class Stat(NamedTuple):
    """What was read of /proc/PID/stat."""

    start: Optional[float]
    """Start in seconds since boot; None: nothing could be read."""
    parent: int
    use: Dict[str, float]
    """CPU time and memory, as far as they are there."""
    state: str
    """One letter of proc(5); empty: not known."""
    reason: str
    """Why nothing is known, else empty."""


class Known(NamedTuple):
    """What was read of a process when it was first seen."""

    row: Row
    folders: Dict[str, str]
    """Folder of its job by controller."""
    since: Dict[str, float]
    """When the CPUs that it may use were read last (`PLACE_PERIOD_S`), and since when each reading
    found it in the states of `HALTS`, by their names."""


def _unknown(reason: str) -> Stat:
    return Stat(start=None, parent=0, use={}, state="", reason=reason)


def _used(use: Optional[Use]) -> Dict[str, float]:
    """CPU time and resident memory in the catalogue's units; nothing where they are not known."""
    if use is None:
        return {}
    return {
        "process_cpu_us": use.cpu_ticks * 1_000_000 // TICKS_PER_S,
        "process_rss_bytes": use.rss_pages * PAGE_BYTES,
    }


class Processes:
    """Reads who a process is once, for with its start time a PID names one process for ever.

    What they use is read every `PERIOD_S`, of one that comes also when it is seen and once more.
    """

    def __init__(
        self, root: str = "/proc", devices: str = "/dev", numa: Optional[Numa] = None
    ) -> None:
        """Read below `root`; `devices` holds the driver's device files."""
        self._root = root
        self._devices = devices
        self._numa = numa or Numa()
        self._known: Dict[Tuple[int, float], Known] = {}
        self._read_at = float("-inf")
        """When all of them were read."""
        self._last: Dict[int, Read] = {}
        self._ended: Dict[int, int] = {}
        """Processes that have ended since they were read; for how many turns each is left out."""
        self._mounts_of: Dict[str, str] = {}
        """By mount namespace the mounts that were read in this pass."""
        self.is_new = False
        """Whether the last rows have anything that those before had not."""
        self.refused: List[Dict[str, str]] = []
        """What the last rows leave out, as errors."""
        hides = HIDING.search(files.read_or_empty(root + "/mounts"))
        self._absent = NO_PERMISSION if hides else NO_PROCESS
        # Inside a container the driver still gives the host's PIDs, which here mean others.
        self._is_inside = self._namespace() not in ("", HOST_PID_NAMESPACE)

    @property
    def ended(self) -> FrozenSet[int]:
        """PIDs that the last rows leave out: those of processes that have ended."""
        return frozenset(self._ended)

    def rows(self, pids: List[int], now: float) -> List[Row]:
        """One row per PID, not to be changed; processes that are gone are forgotten."""
        known: Dict[Tuple[int, float], Known] = {}
        before, self._last = self._last, {}
        ended_before, self._ended = self._ended, {}
        is_turn = now - self._read_at >= PERIOD_S
        if is_turn:
            self._read_at = now
        self.is_new = is_turn
        self._mounts_of.clear()
        order = sorted(set(pids))
        self.refused = []
        if len(order) > MAX_PROCESSES:
            what = "processes hold GPUs of this node"
            hint = "nvidia-smi on the node lists the others"
            self.refused = [too_many("processes", what, len(order), MAX_PROCESSES, hint)]
        for pid in order[:MAX_PROCESSES]:
            last = before.get(pid)
            if last is not None and not (is_turn or last.is_first):
                self._last[pid] = last
                continue
            self.is_new = True
            stat = self._stat(pid)
            if stat.start is None:
                turns = ended_before.get(pid, 0) - int(is_turn)
                if last is not None and "start_time_s" in last.row.values:
                    turns = ENDED_TURNS
                if turns > 0:
                    self._ended[pid] = turns
                    continue
            entry = self._known.get((pid, stat.start)) if stat.start is not None else None
            if entry is None:
                entry = self._read(pid, stat.start, stat.parent, stat.reason, now)
            if stat.start is not None:
                known[(pid, stat.start)] = entry
            if stat.start is not None and now - entry.since["place"] >= PLACE_PERIOD_S:
                self._place(entry, self._status(pid), now)
            self._last[pid] = Read(self._used(pid, entry, stat, now), last is None)
        self.is_new = self.is_new or before.keys() != self._last.keys()
        if is_turn:
            self._known = known
        else:
            self._known.update(known)
        return [read.row for read in self._last.values()]

    def jobs(self) -> Dict[str, Dict[str, str]]:
        """Folders by controller of every job, or of its SLUID, that the last rows belong to."""
        found: Dict[str, Dict[str, str]] = {}
        for row, folders, _ in self._known.values():
            job = row.labels.get("job_id") or row.labels.get("sluid")
            if job and folders:
                found.setdefault(job, {}).update(folders)
        return found

    def _namespace(self) -> str:
        try:
            return os.readlink(self._root + "/self/ns/pid")
        except OSError:
            return ""

    def _status(self, pid: int) -> str:
        return files.read_or_empty("%s/%d/status" % (self._root, pid), 8192)

    def _place(self, known: Known, status: str, now: float) -> None:
        """Note which CPUs it may use now, in place of those that were noted before."""
        known.since["place"] = now
        row = known.row
        for key in PLACE:
            row.values.pop(key, None)
            row.labels.pop(key, None)
            row.missing.pop(key, None)
        allowed = self._numa.allowed(status)
        if allowed is not None:
            row.labels["cpus_allowed"] = allowed.listed
            row.values["cpus_allowed_count"] = allowed.number
            if allowed.nodes:
                row.labels["cpu_numa_nodes"] = allowed.nodes
        row.lose(PLACE, NOT_SUPPORTED)

    def _used(self, pid: int, entry: Known, stat: Stat, now: float) -> Row:
        """A row of its own, for the last one may still be on its way out, with what it uses."""
        known = entry.row
        row = known.copy()
        row.at = now
        if stat.start is None:
            return row
        row.values.update(stat.use)
        if stat.state:
            row.labels["state"] = stat.state
            for key, states in HALTS.items():
                if stat.state not in states:
                    entry.since.pop(key, None)
                row.values[key] = (
                    now - entry.since.setdefault(key, now) if stat.state in states else 0
                )
        row.lose(USE, NOT_SUPPORTED)
        self._waited(pid, row)
        keys = sorted(IO.values())
        # What was forbidden once stays so: it is not asked again.
        if known.missing.get(keys[0]) == NO_PERMISSION:
            return row
        try:
            for line in files.read_bytes("%s/%d/io" % (self._root, pid), 4096).splitlines():
                name, _, number = line.partition(b" ")
                if name in IO:
                    row.values[IO[name]] = files.whole(number.decode("ascii"))
        except PermissionError:
            known.lose(keys, NO_PERMISSION)
            row.lose(keys, NO_PERMISSION)
        except (OSError, ValueError):
            row.lose(keys, NOT_SUPPORTED)
        row.lose(keys, NOT_SUPPORTED)
        return row

    def _waited(self, pid: int, row: Row) -> None:
        """How long its main thread has waited for a CPU, where the kernel counts that."""
        try:
            words = files.read("%s/%d/schedstat" % (self._root, pid), 256).split()
            row.values[WAIT] = files.whole(words[1]) // 1000
        except PermissionError:
            row.missing[WAIT] = NO_PERMISSION
        except (OSError, IndexError, ValueError):
            row.missing[WAIT] = NOT_SUPPORTED

    def _stat(self, pid: int) -> Stat:
        """Start, parent and use of a process, else why not."""
        try:
            found = process_stat(files.read_bytes("%s/%d/stat" % (self._root, pid), 4096))
        except PermissionError:
            return _unknown(NO_PERMISSION)
        except FileNotFoundError:
            return _unknown(self._absent)
        except (OSError, ValueError):
            return _unknown(NO_PROCESS)
        reason = self._strange(pid) if self._is_inside else ""
        if reason:
            return _unknown(reason)
        start = found.start_ticks / float(TICKS_PER_S)
        use = with_exact_memory(found.use, "%s/%d" % (self._root, pid))
        return Stat(start=start, parent=found.parent, use=_used(use), state=found.state, reason="")

    def _strange(self, pid: int) -> str:
        """Why a PID of the driver may mean another process here, empty where it does not.

        The right one has a GPU open; where that cannot be seen, it is not taken for granted.
        """
        folder = "%s/%d/fd" % (self._root, pid)
        if not os.path.exists(self._devices + "/nvidiactl"):
            return ""
        try:
            names = os.listdir(folder)[:1024]
        except OSError as error:
            return NO_PERMISSION if isinstance(error, PermissionError) else NO_PROCESS
        for name in names:
            try:
                if os.readlink("%s/%s" % (folder, name)).startswith("/dev/nvidia"):
                    return ""
            except OSError:
                # Closed meanwhile.
                continue
        return NO_PROCESS

    def _read(
        self, pid: int, start: Optional[float], parent: int, reason: str, now: float
    ) -> Known:
        row = Row(str(pid), now)
        if start is None:
            row.lose(EVERY, reason)
            return Known(row, {}, {})
        row.values["start_time_s"] = start
        row.values["parent_pid"] = parent
        folder = "%s/%d" % (self._root, pid)
        try:
            row.values["uid"] = os.stat(folder).st_uid
        except OSError:
            row.missing["uid"] = NO_PROCESS
        name = self._file(row, "name", folder + "/comm")
        if name is not None:
            row.labels["name"] = name.decode("utf-8", "replace").strip()
        environ = self._file(row, "rank_vars", folder + "/environ")
        variables = rank_variables(environ) if environ is not None else {}
        if environ is not None:
            row.labels["rank_vars"] = json.dumps(variables, sort_keys=True)
        folders = self._belongs(row, folder, variables)
        status = self._status(pid)
        inner = inner_pid(status)
        if inner is not None:
            row.values["inner_pid"] = inner
        row.lose(["inner_pid"], NOT_SUPPORTED)
        known = Known(row, folders, {})
        self._place(known, status, now)
        return known

    def _belongs(self, row: Row, folder: str, variables: Dict[str, str]) -> Dict[str, str]:
        """Label the row with its job and its container; the job's folders by controller."""
        data = self._file(row, "job_id", folder + "/cgroup")
        if data is None:
            return {}
        cgroups = data.decode("utf-8", "replace")
        found = membership(cgroups)
        job_id = found.job_id
        if found.sluid is not None and variables.get("SLURM_JOB_ID", "").isdecimal():
            job_id = variables["SLURM_JOB_ID"]
        mounts = self._mounts(folder)
        for label, value in (
            ("job_id", job_id),
            ("sluid", found.sluid),
            ("step", found.step),
            ("task", found.task),
            ("container", container(cgroups) or enroot(mounts)),
        ):
            if value is not None:
                row.labels[label] = value
        return found.folders

    def _mounts(self, folder: str) -> str:
        """Mounts of a process, read once in each pass for all that share a namespace of them."""
        try:
            namespace = os.readlink(folder + "/ns/mnt")
        except OSError:
            return files.read_or_empty(folder + "/mountinfo", 1 << 16)
        if namespace not in self._mounts_of:
            self._mounts_of[namespace] = files.read_or_empty(folder + "/mountinfo", 1 << 16)
        return self._mounts_of[namespace]

    def _file(self, row: Row, label: str, path: str) -> Optional[bytes]:
        try:
            return files.read_bytes(path)
        except PermissionError:
            row.missing[label] = NO_PERMISSION
        except OSError:
            row.missing[label] = NO_PROCESS
        return None
