"""What the processes that hold GPUs use together with all that they have started, such as loaders.

A scan goes through the processes of the trees and those that came since the last one; through all
of the node now and then. The CPU time of a tree only grows. Of each process that two scans have
seen its growth counts, of one that began in between all of it, and of one that has ended what its
parent got when it waited for it. What no parent waited for is lost.
"""

import time
from typing import Callable, Dict, List, NamedTuple, Optional, Set

from gpumon.probe.kernel.process_stat import (
    PAGE_BYTES,
    PERIOD_S,
    TICKS_PER_S,
    AllProcesses,
    ProcessSnapshot,
    ProcessStat,
    Use,
)
from gpumon.probe.rows import NO_PERMISSION, NOT_SAMPLED, NOT_SUPPORTED, Row

COUNTED = "process_tree_cpu_us"
FIELDS = ["descendant_count", COUNTED, "process_tree_rss_bytes"]

MOST_COST = 0.002
"""Share of a core that scans may take; a scan that is dear makes the next one wait."""


SOON_S = 0.5
"""How long after the first scan the processes of the trees are read again, for a first rate."""


def thread_cpu_s() -> float:
    """CPU time of this thread, seconds."""
    return time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)


class Tree(NamedTuple):
    """A process that holds a GPU, with all that it has started."""

    start_ticks: int
    below: int
    """How many processes there are below it."""
    cpu_ticks: int
    """What was counted so far, of those that have ended included."""
    rss_pages: int


class Member(NamedTuple):
    """A process of a tree at the last scan."""

    parent: int
    start_ticks: int
    use: Use


class ProcessTrees:
    """Sums over the trees of the processes that hold GPUs, with what the next scan compares."""

    def __init__(
        self, every: AllProcesses, scans: bool = True, cpu_s: Callable[[], float] = thread_cpu_s
    ) -> None:
        """`scans` allows scans now and then; `cpu_s` is the clock, seconds, that they cost."""
        self._all = every
        self._scans = scans
        self._cpu_s = cpu_s
        self._at = float("-inf")
        self._scanned_at = float("-inf")
        """When all processes were scanned, which is not as often as those of trees were read."""
        self._is_first = False
        self._wait_s = 0.0
        self._reason = NOT_SAMPLED
        """Why the last scan has no tree; empty where it has them."""
        self._trees: Dict[int, Tree] = {}
        self._members: Dict[int, Member] = {}
        """All processes of all trees, as the last whole scan has seen them."""
        self._newest = 0
        """Start of the youngest process at that scan, ticks."""
        self._unreported: Dict[int, int] = {}
        """By parent what those of its children had used that were gone at that scan although the
        kernel had not added it to the parent's own counts yet: it will be there now. Ticks."""

    def is_due(self, now: float) -> bool:
        """Whether `add_to` would give something else than the last time."""
        is_soon = self._is_first and not self._reason and now - self._at >= SOON_S
        return is_soon or (self._scans and now - self._scanned_at >= self._wait_s)

    def add_to(self, rows: List[Row], now: float) -> None:
        """Give the rows of processes that hold GPUs what their trees use, or a reason."""
        starts = {
            int(row.key): round(row.values["start_time_s"] * TICKS_PER_S)
            for row in rows
            if "start_time_s" in row.values
        }
        if self._scans and starts and now - self._scanned_at >= self._wait_s:
            began = self._cpu_s()
            snapshot = self._all.renewed(now, set(self._members).union(starts))
            self._reason = self._take(snapshot, starts)
            if not self._reason:
                self._newest = max(stat.start_ticks for stat in snapshot.stats.values())
            self._is_first = self._scanned_at == float("-inf")
            # Another reader may have scanned a moment ago.
            self._at, self._scanned_at = snapshot.at, now
            self._wait_s = max(PERIOD_S, (self._cpu_s() - began) / MOST_COST)
        elif self._is_first and not self._reason and now - self._at >= SOON_S:
            # A single report would never get a rate: those known are read once more.
            self._is_first = False
            self._reason = self._take(self._all.some(list(self._members), now), starts)
            self._at = now
        for row in rows:
            pid = int(row.key)
            tree = None if self._reason else self._trees.get(pid)
            if tree is None or tree.start_ticks != starts.get(pid):
                row.lose(FIELDS, row.missing.get("start_time_s") or self._reason or NOT_SAMPLED)
                continue
            row.values["descendant_count"] = tree.below
            row.values[COUNTED] = tree.cpu_ticks * 1_000_000 // TICKS_PER_S
            row.values["process_tree_rss_bytes"] = tree.rss_pages * PAGE_BYTES
            row.read_at[COUNTED] = self._at

    def _take(self, snapshot: ProcessSnapshot, starts: Dict[int, int]) -> str:
        """Make the trees again from a scan; why not, where it lacks some of them."""
        if snapshot.is_refused or snapshot.reason:
            return NO_PERMISSION if snapshot.is_refused else snapshot.reason
        stats = snapshot.stats
        roots = [pid for pid, start in starts.items() if _is_in(stats, pid, start)]
        members: Dict[int, Member] = {}
        for pid in _family(roots, stats):
            use = self._all.exact(pid, stats[pid].use)
            if use is None:
                return NOT_SUPPORTED
            members[pid] = Member(stats[pid].parent, stats[pid].start_ticks, use)
        grown = self._grown(members, stats)
        counts = dict.fromkeys(members, 0)
        used = {pid: m.use.cpu_ticks + m.use.waited_ticks for pid, m in members.items()}
        pages = {pid: member.use.rss_pages for pid, member in members.items()}
        for pid, member in reversed(list(members.items())):
            if member.parent in members:
                counts[member.parent] += counts[pid] + 1
                for sums in (grown, used, pages):
                    sums[member.parent] += sums[pid]
        before, self._trees = self._trees, {}
        for pid in roots:
            if pid in members:
                last = before.get(pid)
                is_known = last is not None and last.start_ticks == starts[pid]
                ticks = last.cpu_ticks + grown[pid] if last and is_known else used[pid]
                self._trees[pid] = Tree(starts[pid], counts[pid], ticks, pages[pid])
        self._members = members
        return ""

    def _grown(self, members: Dict[int, Member], stats: Dict[int, ProcessStat]) -> Dict[int, int]:
        """Ticks by which each process has grown, with what it got of children that ended.

        Of these the part that was counted while they lived is taken off.
        """
        ended: Dict[int, int] = {}
        for pid, member in self._members.items():
            if not _is_in(stats, pid, member.start_ticks):
                heir = self._heir(member, members)
                if heir is not None:
                    counted = member.use.cpu_ticks + member.use.waited_ticks
                    ended[heir] = ended.get(heir, 0) + counted
        grown: Dict[int, int] = {}
        unreported: Dict[int, int] = {}
        for pid, member in members.items():
            cpu_ticks, waited_ticks, _ = member.use
            last = self._members.get(pid)
            if last is None or last.start_ticks != member.start_ticks:
                # One older than the last scan and new to the tree brings an unknown past along.
                is_new = member.start_ticks >= self._newest
                grown[pid] = cpu_ticks + waited_ticks if is_new else 0
                continue
            reported = max(0, waited_ticks - last.use.waited_ticks)
            counted = ended.get(pid, 0) + self._unreported.get(pid, 0)
            grown[pid] = max(0, cpu_ticks - last.use.cpu_ticks) + max(0, reported - counted)
            # One that ends during a scan is reported at the next one, or never.
            if pid in ended and counted > reported:
                unreported[pid] = min(ended[pid], counted - reported)
        self._unreported = unreported
        return grown

    def _heir(self, member: Member, members: Dict[int, Member]) -> Optional[int]:
        """The nearest process above one that has ended which still is there, if any."""
        parent = member.parent
        while parent in self._members:
            above = self._members[parent]
            now = members.get(parent)
            if now is not None and now.start_ticks == above.start_ticks:
                return parent
            parent = above.parent
        return None


def _is_in(stats: Dict[int, ProcessStat], pid: int, start_ticks: int) -> bool:
    """Whether this very process is there, and no later one with its PID."""
    stat = stats.get(pid)
    return stat is not None and stat.start_ticks == start_ticks


def _family(roots: List[int], stats: Dict[int, ProcessStat]) -> List[int]:
    """The roots and all below them, each once and after its parent."""
    children: Dict[int, List[int]] = {}
    for pid, stat in stats.items():
        children.setdefault(stat.parent, []).append(pid)
    found: Set[int] = set()
    ahead = list(roots)
    while ahead:
        pid = ahead.pop()
        if pid not in found:
            found.add(pid)
            ahead += children.get(pid, ())
    order: List[int] = []
    # From those whose parents are no part of it: PIDs that were given again during the
    # scan can make a ring, which has none.
    ahead = [pid for pid in found if stats[pid].parent not in found]
    while ahead:
        pid = ahead.pop()
        order.append(pid)
        ahead += children.get(pid, ())
    return order
