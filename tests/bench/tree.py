"""CPU and memory of a process with all its descendants, read from the kernel."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Usage(NamedTuple):
    """One process at one instant."""

    name: str
    cpu_s: float
    """Its own CPU time, all threads, ended ones included."""
    reaped_s: float
    """CPU time of the children that it waited for."""
    rss_mib: float
    pss_mib: float
    """Its share of memory: a page that n processes map counts 1/n."""


def descendants(root: int) -> list[int]:
    """The process and everything below it that is alive."""
    found = [root]
    for pid in found:
        try:
            tasks = list(Path(f"/proc/{pid}/task").iterdir())
        except FileNotFoundError:
            continue
        for task in tasks:
            try:
                children = (task / "children").read_text().split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            found += [int(child) for child in children]
    return found


def usage(pid: int) -> Usage | None:
    """What a process has used so far; None when it is gone."""
    try:
        # The process CPU clock (clock_getcpuclockid) counts nanoseconds, /proc only 10 ms ticks.
        cpu_s = time.clock_gettime((~pid << 3) | 2)
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, IndexError):
        return None
    pss_kib = next((int(x.split()[1]) for x in rollup.splitlines() if x.startswith("Pss:")), 0)
    return Usage(
        _role(words),
        cpu_s,
        (int(fields[13]) + int(fields[14])) / TICKS_PER_S,
        pages * PAGE_BYTES / 2**20,
        pss_kib / 1024,
    )


class Together(NamedTuple):
    """A process with everything below it at one instant."""

    cpu_s: float
    rss_mib: float
    pss_mib: float


def usage_of_all(root: int) -> Together:
    """What a process and all below it take together."""
    found = [used for pid in descendants(root) if (used := usage(pid))]
    return Together(
        sum(one.cpu_s + one.reaped_s for one in found),
        sum(one.rss_mib for one in found),
        sum(one.pss_mib for one in found),
    )


def _role(words: list[bytes]) -> str:
    """A short name for a process by its command line."""
    if b"gpumon.detect.worker.supervisor" in words:
        return "detection worker"
    if any(b"exec(b.read(" in word for word in words):
        return "probe"
    return "main"


def measure(root: int, seconds: float) -> dict[str, tuple[float, float, float]]:
    """Mean CPU share of one core, RSS and PSS in MiB, by role, over `seconds` of waiting.

    Children that were reaped in the meantime count to the process that waited for them.
    """
    before = {pid: found for pid in descendants(root) if (found := usage(pid))}
    begin = time.perf_counter()
    time.sleep(seconds)
    took_s = time.perf_counter() - begin
    shares: dict[str, tuple[float, float, float]] = {}
    for pid in descendants(root):
        now = usage(pid)
        if now is None:
            continue
        was = before.get(pid)
        used_s = now.cpu_s + now.reaped_s - (was.cpu_s + was.reaped_s if was else 0.0)
        # The probe that the program makes of itself has the program's command line.
        name = "probe" if now.name == "main" and pid != root else now.name
        share, rss, pss = shares.get(name, (0.0, 0.0, 0.0))
        shares[name] = (share + used_s / took_s, rss + now.rss_mib, pss + now.pss_mib)
    return shares
