"""/proc/PID/stat, of one process and of all: who started whom, since when, and what they use."""

import os
import re
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from gpumon.probe.kernel import files
from gpumon.probe.rows import FAILED, NO_PERMISSION, NOT_SAMPLED

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
"""Unit of the times in /proc/PID/stat."""

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
"""Unit of the resident memory in /proc/PID/stat."""

HIDING = re.compile(r"\bhidepid=(?:2|4|invisible|ptraceable)\b")
"""Options of a /proc that shows no folders of other users' processes."""

MAX_PROCESSES = 16384
"""More processes than this are not scanned."""

MOST_GONE = 0.1
"""Share of the processes that end while they are scanned; of more the state is hidden."""

PERIOD_S = 5.0
"""A scan of all processes is new enough for this long."""

WHOLE_PERIOD_S = 30.0
"""How often every process is read where a few of them and those that came since are wanted. In
between a PID that was given again to a process of theirs is taken for the one that had it."""


class Use(NamedTuple):
    """What a process has used, of /proc/PID/stat."""

    cpu_ticks: int
    """Fields 14 and 15: of all its threads, in user and kernel mode."""
    waited_ticks: int
    """Fields 16 and 17: of children that have ended and were waited for, with theirs."""
    rss_pages: int
    """Field 24, resident memory."""


class ProcessStat(NamedTuple):
    """What was read of /proc/PID/stat (proc(5))."""

    state: str
    """Field 3, one letter; empty where it is none."""
    parent: int
    """Field 4, a PID."""
    start_ticks: int
    """Field 22, since boot: with the PID it names one process for ever."""
    use: Optional[Use]
    """None: not reported."""


def process_stat(data: bytes) -> ProcessStat:
    """What such a file has; raises ValueError where it has no parent or no start."""
    # The program's name may hold spaces and brackets, so count from its last bracket.
    words = data.rpartition(b")")[2].split(None, 22)
    if len(words) < 20:
        raise ValueError("a stat file of %d words" % len(words))
    parent, start = _whole(words[1]), _whole(words[19])
    state = words[0].decode("ascii", "replace")
    if len(state) > 1 or not state.isalpha():
        state = ""
    try:
        user, system, waited_user, waited_system = map(_whole, words[11:15])
        use = Use(user + system, waited_user + waited_system, _whole(words[21]))
    except (IndexError, ValueError):
        return ProcessStat(state, parent, start, None)
    return ProcessStat(state, parent, start, use)


def with_exact_memory(use: Optional[Use], folder: str) -> Optional[Use]:
    """The same with the resident memory that /proc/PID/statm has, where it can be read.

    The kernel counts it per CPU. /proc/PID/stat takes the sum roughly: of an idle program
    3,468 pages where statm had 3,523 (Linux 6.18, two CPUs); with more CPUs it can be further
    off. psutil reads statm as well.
    """
    if use is None:
        return None
    try:
        return use._replace(rss_pages=_whole(files.read_bytes(folder + "/statm", 256).split()[1]))
    except (OSError, IndexError, ValueError):
        return use


def _whole(word: bytes) -> int:
    """The word as a number that is not negative; raises ValueError."""
    if not word.isdigit() or len(word) > 20:
        raise ValueError("no number: %r" % word[:32])
    return int(word)


class ProcessSnapshot(NamedTuple):
    """All processes of the node at one time."""

    at: float
    """Monotonic time of the node."""
    stats: Dict[int, ProcessStat]
    reason: str
    """Why not all are there, else empty."""
    is_refused: bool
    """Whether one of them may not be read."""


class AllProcesses:
    """Scans all processes, once for all who ask within `PERIOD_S`."""

    def __init__(self, root: str = "/") -> None:
        """Read /proc below `root`; nothing is read yet."""
        self._proc = root.rstrip("/") + "/proc"
        self._last = ProcessSnapshot(float("-inf"), {}, NOT_SAMPLED, False)
        self._whole_at = float("-inf")
        """When all of them were read; those of the last scan may be newer."""

    def snapshot(self, now: float) -> ProcessSnapshot:
        """The last scan, or a new one where one of its processes was not read for `PERIOD_S`."""
        if now - self._whole_at >= PERIOD_S:
            self._last = self._read_all(now)
            self._whole_at = now
        return self._last

    def renewed(self, now: float, wanted: Set[int]) -> ProcessSnapshot:
        """The last scan with these processes and those that came since read again.

        Of the others it has what was read within `WHOLE_PERIOD_S`: a machine runs hundreds that
        have nothing to do with its GPUs, and what starts a process does not change.
        """
        last = self._last
        if now - last.at < PERIOD_S:
            return last
        is_complete = not (last.reason or last.is_refused)
        if now - self._whole_at >= WHOLE_PERIOD_S or not is_complete:
            return self.snapshot(now)
        pids = self._pids()
        if not 0 < len(pids) <= MAX_PROCESSES:
            return self.snapshot(now)
        reused = {pid: last.stats[pid] for pid in pids if pid in last.stats and pid not in wanted}
        ordered = sorted((pid for pid in pids if pid not in reused), key=self._order())
        found = self.some(ordered, now)
        self._last = found._replace(stats={**reused, **found.stats})
        return self._last

    def _pids(self) -> List[int]:
        return [int(name) for name in files.names(self._proc, 1 << 20) if name.isdecimal()]

    def _read_all(self, now: float) -> ProcessSnapshot:
        pids = self._pids()
        if not pids or len(pids) > MAX_PROCESSES:
            return ProcessSnapshot(now, {}, NOT_SAMPLED if pids else FAILED, False)
        found = self.some(sorted(pids, key=self._order()), now)
        is_partial = len(found.stats) < (1 - MOST_GONE) * len(pids)
        return found._replace(reason=NO_PERMISSION if is_partial or self._hides() else "")

    def some(self, pids: Iterable[int], now: float) -> ProcessSnapshot:
        """The same of some processes, in their order; one that has ended is not there."""
        stats: Dict[int, ProcessStat] = {}
        is_refused = False
        for pid in pids:
            try:
                stats[pid] = process_stat(files.read_bytes("%s/%d/stat" % (self._proc, pid), 4096))
            except PermissionError:
                is_refused = True
            except (OSError, ValueError):
                # It has ended since, or the file is strange.
                continue
        return ProcessSnapshot(now, stats, "", is_refused)

    def exact(self, pid: int, use: Optional[Use]) -> Optional[Use]:
        """What a process uses, with its resident memory counted exactly: one more file each."""
        return with_exact_memory(use, "%s/%d" % (self._proc, pid))

    def _order(self) -> Callable[[int], Tuple[float, int]]:
        """Key by which parents come before their children, as far as known.

        The time of a child that ends during the scan is then counted once or not yet, never twice.
        """
        known = self._last.stats

        def place(pid: int) -> Tuple[float, int]:
            stat = known.get(pid)
            return (float("inf") if stat is None else stat.start_ticks), pid

        return place

    def _hides(self) -> bool:
        """Whether /proc shows this user no processes of others."""
        mounts = files.read_or_empty(self._proc + "/mounts")
        return os.geteuid() != 0 and HIDING.search(mounts) is not None
