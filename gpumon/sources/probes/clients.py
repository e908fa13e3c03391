"""How many ssh clients may run here at once: bounded by what this machine and its user have.

And whether the machine has CPU time to spare for the logins of more.
"""

from __future__ import annotations

import os
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OWN_BYTES: Final = 1_450_000
"""Memory of a running client that it shares with no other: 1.38 MB of 8.5 MB resident, measured
with 500 of OpenSSH 9.2's."""

LOGIN_CPU_S: Final = 0.062
"""CPU time of a client's login with OpenSSH's own choice of keys, measured on loopback."""

MEMORY_SHARE: Final = 8
"""Clients take at most an eighth of the memory: 1,480 of them on a machine of 16 GiB."""

FILES_EACH: Final = 3
"""Pipes that gpumon holds of each."""

FILES_RESERVED: Final = 256
"""Descriptors left to gpumon's other work: history holds most of them."""

PROCESS_SHARE: Final = 2
"""Clients are at most half of the processes that the user may run."""

MOST: Final = 2000
"""No machine runs more: their lines at a period of 2 s take 0.4 of a core (0.3 ms here and 0.1 ms
in the client each, measured), and one thread reads them all."""

FEW: Final = 32
"""So many run anywhere; limits are read only for more."""

IDLE_SHARE: Final = 0.1
"""A machine whose CPUs are idle for less of the time is busy: what starts then waits for a CPU. A
choice."""

BUSY_LOOK_S: Final = 0.5
"""Ticks are compared over so long at least: 50 of each CPU."""

_BYTES: Final = ("memory.max", "memory.limit_in_bytes")
_PROCESSES: Final = ("pids.max",)


class Limits(NamedTuple):
    """What this machine has and what this user may take of it; None: no limit is known."""

    memory_bytes: int | None = None
    files: int | None = None
    """Descriptors that a process may open, once it has raised its own limit."""
    processes: int | None = None


class Bound(NamedTuple):
    """How many clients may run at once, and why no more."""

    clients: int
    because: str
    way_out: str


def read_limits(proc: Path | None = None, cgroups: Path | None = None) -> Limits:
    """The limits of this process: of the machine, of its control groups, of its user."""
    import resource
    from pathlib import Path

    proc, cgroups = proc or Path("/proc"), cgroups or Path("/sys/fs/cgroup")

    memory = [*_total_bytes(proc), *_of_cgroups(proc, cgroups, _BYTES)]
    processes = list(_of_cgroups(proc, cgroups, _PROCESSES))
    own, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if own != resource.RLIM_INFINITY:
        processes.append(own)
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Limits(
        min(memory, default=None),
        None if files == resource.RLIM_INFINITY else files,
        min(processes, default=None),
    )


class Ticks(NamedTuple):
    """Of all CPUs since the machine came up."""

    idle: int
    total: int


def read_ticks(proc: Path | None = None) -> Ticks | None:
    """CPU time of this machine (proc_stat(5)); None where it cannot be read."""
    from pathlib import Path

    try:
        with ((proc or Path("/proc")) / "stat").open("rb", buffering=0) as stat:
            words = stat.read(512).partition(b"\n")[0].split()
        # user nice system idle iowait irq softirq steal; guests' time is in user's.
        ticks = [int(word) for word in words[1:9]]
    except (OSError, ValueError):
        return None
    return Ticks(ticks[3] + ticks[4], sum(ticks)) if len(ticks) > 4 else None


def _total_bytes(proc: Path) -> Iterator[int]:
    try:
        lines = (proc / "meminfo").read_text("ascii").splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        words = line.split()
        if words[:1] == ["MemTotal:"] and words[1:2] and words[1].isdecimal():
            yield int(words[1]) * 1024


def _of_cgroups(proc: Path, cgroups: Path, names: tuple[str, ...]) -> Iterator[int]:
    """Limits of the groups of this process and of all groups above them, of either version."""
    try:
        lines = (proc / "self/cgroup").read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        root = cgroups / controllers if controllers else cgroups
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            if not folder.is_relative_to(root):
                break
            for name in names:
                try:
                    text = (folder / name).read_text("ascii").strip()
                except (OSError, ValueError):
                    continue
                if text.isdecimal():
                    yield int(text)


def bound(limits: Limits) -> Bound:
    """The tightest of the limits; one client runs anywhere."""
    found = [Bound(MOST, f"gpumon runs at most {MOST:,} ssh clients", "")]
    if limits.memory_bytes is not None:
        why = (
            f"each ssh client takes {OWN_BYTES / 1e6:.1f} MB, and all together an eighth of the "
            f"{limits.memory_bytes / 2**30:.1f} GiB of memory here"
        )
        clients = limits.memory_bytes // MEMORY_SHARE // OWN_BYTES
        found.append(Bound(clients, why, "a machine with more memory reads more of them"))
    if limits.files is not None:
        why = f"each ssh client takes {FILES_EACH} of the {limits.files:,} files that may be open"
        clients = (limits.files - FILES_RESERVED) // FILES_EACH
        found.append(Bound(clients, why, "ask an administrator for a larger `ulimit -Hn`"))
    if limits.processes is not None:
        why = f"ssh clients may be half of the {limits.processes:,} processes that you may run"
        clients = limits.processes // PROCESS_SHARE
        found.append(Bound(clients, why, "ask an administrator for more processes (`ulimit -u`)"))
    tightest = min(found, key=lambda one: one.clients)
    return tightest._replace(clients=max(1, tightest.clients))


class Clients:
    """Shares the clients that this machine takes among all pools of this gpumon."""

    def __init__(
        self,
        limits: Limits | None = None,
        cpus: int | None = None,
        ticks: Callable[[], Ticks | None] = read_ticks,
    ) -> None:
        """`limits` and `cpus` are those of this process where not given; `ticks` reads the CPUs."""
        self._lock = threading.Lock()
        self._cpus = cpus
        self._ticks = ticks
        self._before: Ticks | None = None
        self._ticks_at = float("-inf")
        self._is_busy = False
        self._wanted: dict[int, int] = {}
        self._limits = limits
        self._bound: Bound | None = None

    @property
    def bound(self) -> Bound:
        """How many may run at once, in all pools together."""
        if self._bound is None:
            limits = self._limits or read_limits()
            self._bound = bound(limits)
        return self._bound

    def share(self, who: int, wanted: int) -> int:
        """How many of the `wanted` clients a pool may run now: as large a part as any other's.

        Args:
            who: The pool, by a number of its own.
            wanted: Clients for all its nodes; 0: it is over.
        """
        with self._lock:
            if self._wanted.get(who, 0) != wanted:
                self._wanted[who] = wanted
                if not wanted:
                    del self._wanted[who]
                self._open_files()
            total = sum(self._wanted.values())
            if total <= FEW and self._limits is None:
                return wanted
            most = self.bound.clients
            return wanted if total <= most else max(1, most * wanted // total)

    @property
    def first_starts(self) -> int:
        """Clients that the CPUs here log in within `BUSY_LOOK_S`."""
        cpus = self._cpus or os.cpu_count() or 1
        return int(cpus * BUSY_LOOK_S / LOGIN_CPU_S)

    def is_busy(self, now: float) -> bool:
        """Whether the machine had hardly a CPU idle since it was asked before, or until then.

        Args:
            now: Monotonic time. Asked again before `BUSY_LOOK_S` are over it says the same.
        """
        with self._lock:
            if now - self._ticks_at >= BUSY_LOOK_S:
                before, self._before, self._ticks_at = self._before, self._ticks(), now
                if before is None or self._before is None:
                    self._is_busy = False
                elif self._before.total > before.total:
                    idle = self._before.idle - before.idle
                    self._is_busy = idle < IDLE_SHARE * (self._before.total - before.total)
            return self._is_busy

    def _open_files(self) -> None:
        """Raise this process's own limit of open files as far as the clients need it.

        Most systems begin with 1,024 for the sake of old programs, and let each process raise it.
        """
        total = sum(self._wanted.values())
        if self._limits is not None or total <= FEW:
            return
        import resource

        needed = FILES_RESERVED + FILES_EACH * min(total, self.bound.clients)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if resource.RLIM_INFINITY != soft < needed:
            within = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, within), hard))


@lru_cache(maxsize=1)
def of_this_machine() -> Clients:
    """The one share-out of all pools of this process."""
    return Clients()
