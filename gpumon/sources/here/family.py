"""Parents and children of a process of this machine, read when it is asked for."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.base.held_process import PROC, Described, described, with_exact_memory

if TYPE_CHECKING:
    from collections.abc import Callable

RENEWED_S: Final = 2.0
"""The tree is read again after so long, while it is on a screen."""

MOST_RELATIVES: Final = 500
"""Processes of a tree that are shown; the others are counted."""

MOST_PROCESSES: Final = 65_536
"""Processes of the machine whose parents are read."""


class Relative(NamedTuple):
    """One process of the tree."""

    depth: int
    """0 is the eldest parent."""
    process: Described
    is_asked_for: bool
    """Whether it is the process itself, neither parent nor child."""


class Tree(NamedTuple):
    """The parents of a process up to the first of all, it, and all that it started."""

    relatives: tuple[Relative, ...]
    """In the order of a tree; none where the process is gone."""
    untold_count: int
    """Children that have no place among `MOST_RELATIVES`."""


def tree_of(pid: int, start_time_s: float, proc: str = PROC) -> Tree:
    """The tree of the process that began then.

    Args:
        pid: The process.
        start_time_s: Its start, seconds since boot: another process with its number has no tree.
        proc: The folder of processes.
    """
    mine = described(pid, proc)
    if mine is None or not mine.began_at(start_time_s):
        return Tree((), 0)
    known = _all_of(proc)
    known[pid] = mine
    parents = _parents_of(mine, known)
    found = [Relative(depth, one, False) for depth, one in enumerate(reversed(parents))]
    children: dict[int, list[Described]] = {}
    for one in known.values():
        children.setdefault(one.parent_pid, []).append(one)
    untold = 0
    waiting = [(len(parents), mine)]
    seen: set[int] = {one.pid for one in parents}
    while waiting:
        depth, one = waiting.pop()
        if one.pid in seen:
            continue
        seen.add(one.pid)
        if len(found) >= MOST_RELATIVES:
            untold += 1
        else:
            found.append(Relative(depth, one, one.pid == pid))
        below = sorted(children.get(one.pid, ()), key=lambda child: -child.pid)
        waiting += [(depth + 1, child) for child in below]
    measured = (one._replace(process=with_exact_memory(one.process, proc)) for one in found)
    return Tree(tuple(measured), untold)


def _all_of(proc: str) -> dict[int, Described]:
    """Every process of the machine that can be read, up to a number."""
    pids: list[int] = []
    try:
        with os.scandir(proc) as folders:
            for folder in folders:
                if folder.name.isdecimal():
                    pids.append(int(folder.name))
                if len(pids) >= MOST_PROCESSES:
                    break
    except OSError:
        return {}
    return {one.pid: one for pid in pids if (one := described(pid, proc)) is not None}


def _parents_of(mine: Described, known: dict[int, Described]) -> list[Described]:
    """Its parent, the parent of that, and so on."""
    found: list[Described] = []
    # Read one after the other, two processes may each seem to be the parent of the other.
    seen = {mine.pid}
    parent = known.get(mine.parent_pid)
    while parent is not None and parent.pid not in seen:
        seen.add(parent.pid)
        found.append(parent)
        parent = known.get(parent.parent_pid)
    return found


class Family:
    """The tree of one process, read on a thread: a machine may have very many."""

    def __init__(
        self,
        pid: int,
        start_time_s: float,
        notify: Callable[[], None],
        proc: str = PROC,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is read before it is asked for.

        Args:
            pid: The process.
            start_time_s: Its start, seconds since boot.
            notify: Called on the reading thread once the tree is read.
            proc: The folder of processes.
            monotonic: Seconds that never jump.
        """
        self._named = (pid, start_time_s)
        self._notify = notify
        self._proc = proc
        self._monotonic = monotonic
        self._read_at = float("-inf")
        self._tree: Tree | None = None
        self._thread: threading.Thread | None = None

    def tree(self) -> Tree | None:
        """What was read last, which has newer read; None: nothing yet."""
        is_reading = self._thread is not None and self._thread.is_alive()
        now = self._monotonic()
        if not is_reading and now - self._read_at >= RENEWED_S:
            self._read_at = now
            self._thread = threading.Thread(target=self._work, name="gpumon-family", daemon=True)
            self._thread.start()
        return self._tree

    def _work(self) -> None:
        found = tree_of(*self._named, self._proc)
        is_new, self._tree = found != self._tree, found
        if is_new:
            self._notify()
