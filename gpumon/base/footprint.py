"""What gpumon itself costs: its own process, its probes here, ssh clients and detection worker.

Only the end, which waits for many processes at once, imports psutil: it takes a megabyte.
"""

from __future__ import annotations

import atexit
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.base.held_process import PROC, Described, described, with_exact_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    import psutil

MEASURED_EVERY_S: Final = 1.0
"""Asked more often, the last answer is given again."""
CHILDREN_EVERY_S: Final = 10.0
"""Finding children may walk through every process of the machine, so it is done seldom."""
REAP_LIMIT_S: Final = 0.04
"""Longest wait for children that are still there at the end: quitting takes half a second at most,
and closing the sources and the detection worker may have taken 0.45 s of it."""
POLITE: Final = frozenset({"srun"})
"""Programs that are asked to end and never killed: they have to end their tasks elsewhere first."""


class Footprint(NamedTuple):
    """The cost of gpumon on this machine; what probes take on other nodes is not in it."""

    cpu_ratio: float | None
    """Cores in use since the measurement before, 1.0 for one whole core; None: only one so far."""
    rss_bytes: int
    """Resident memory of all processes, pages that they share counted in each."""
    children: tuple[str, ...]
    """Names of the child processes."""


class FootprintMeter:
    """Measures one process and everything that it started."""

    def __init__(
        self, pid: int | None = None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Measure nothing yet.

        Args:
            pid: Process to measure; None: this one.
            monotonic: Seconds that never jump.
        """
        self._monotonic = monotonic
        self._pid = os.getpid() if pid is None else pid
        self._children: list[tuple[int, int]] = []
        """PID and start of each, which together are never given anew."""
        self._children_at: float | None = None
        self._used_s: dict[tuple[int, int], float] = {}
        self._at = 0.0
        self._last: Footprint | None = None

    def footprint(self) -> Footprint:
        """The newest measurement, made now when the last one is older than a second."""
        now = self._monotonic()
        if self._last is None or now - self._at >= MEASURED_EVERY_S:
            self._last = self._measure(now)
            self._at = now
        return self._last

    def _find_children(self) -> list[tuple[int, int]]:
        """Children and theirs: by the kernel's lists, else by a walk through all processes."""
        pids = [self._pid]
        try:
            for pid in pids:
                pids += _below(pid)
        except OSError:
            # One of them ended meanwhile, or this kernel has no such lists.
            pids = [self._pid, *_walked(self._pid)]
        found = (described(pid) for pid in pids[1:])
        return [(one.pid, one.start_ticks) for one in found if one is not None]

    def _measure(self, now: float) -> Footprint:
        if self._children_at is None or now - self._children_at >= CHILDREN_EVERY_S:
            self._children = self._find_children()
            self._children_at = now
        used_s: dict[tuple[int, int], float] = {}
        rss_bytes = 0
        names = []
        own = described(self._pid)
        children = ((described(pid), start_ticks) for pid, start_ticks in self._children)
        # Who ended between two looks is no longer part of the cost, and who has its PID is not.
        living = [one for one, start in children if one is not None and one.start_ticks == start]
        for process in living if own is None else (own, *living):
            rss_bytes += with_exact_memory(process).rss_bytes
            used_s[process.pid, process.start_ticks] = process.cpu_s
            if process is not own:
                names.append(process.program)
        before, self._used_s = self._used_s, used_s
        cpu_ratio = None
        if self._last is not None and now > self._at:
            # Who is new since then counts from its start: all that it used falls in between.
            spent_s = sum(used - before.get(who, 0.0) for who, used in used_s.items())
            cpu_ratio = max(0.0, spent_s / (now - self._at))
        return Footprint(cpu_ratio, rss_bytes, tuple(names))


def _below(pid: int) -> list[int]:
    """What each thread of a process has started.

    Raises:
        OSError: The process or a thread is gone, or the kernel keeps no such lists.
    """
    found: list[int] = []
    for task in Path(f"{PROC}/{pid}/task").iterdir():
        found += map(int, (task / "children").read_text("ascii").split())
    return found


def _walked(pid: int) -> list[int]:
    """The same with all below them, by the parent that each process of the machine names."""
    children: dict[int, list[int]] = {}
    for folder in Path(PROC).iterdir():
        one: Described | None = described(int(folder.name)) if folder.name.isdecimal() else None
        if one is not None:
            children.setdefault(one.parent_pid, []).append(one.pid)
    found = children.get(pid, [])[:]
    for below in found:
        found += [one for one in children.get(below, ()) if one not in found]
    return found


def reap(pid: int | None = None, limit_s: float = REAP_LIMIT_S) -> tuple[str, ...]:
    """End what a process has left behind, and collect it.

    Sources and worker end their own children; this is for those that did not go in time.

    Args:
        pid: Whose descendants; None: this process's.
        limit_s: Waited at most for those that are asked, and for those that are killed, together.

    Returns:
        Names of what is there even now: inside a driver call that does not return, or polite.
    """
    with suppress(OSError):
        if not _below(os.getpid() if pid is None else pid):
            return ()
    import psutil

    try:
        left = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return ()
    named = {process: _name(process) for process in left}
    _send(left, "terminate")
    _, left = psutil.wait_procs(left, timeout=limit_s / 2)
    _send([process for process in left if named[process] not in POLITE], "kill")
    _, left = psutil.wait_procs(left, timeout=limit_s / 2)
    return tuple(named[process] for process in left if not _is_dead(process))


def _send(processes: list[psutil.Process], what: str) -> None:
    import psutil

    for process in processes:
        try:
            getattr(process, what)()
        except psutil.Error:
            # It has gone meanwhile, or belongs to another user by now.
            continue


def _is_dead(process: psutil.Process) -> bool:
    """Whether it is gone, or waits only for another process to collect it."""
    import psutil

    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return True


def _name(process: psutil.Process) -> str:
    import psutil

    try:
        return str(process.name())
    except psutil.Error:
        return ""


_meters: dict[str, FootprintMeter] = {}


def footprint() -> Footprint:
    """What this gpumon costs; cheap to ask at every tick. From then on its end leaves no child."""
    if "own" not in _meters:
        _meters["own"] = FootprintMeter()
        atexit.register(reap)
    return _meters["own"].footprint()
