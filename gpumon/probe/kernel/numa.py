"""NUMA nodes: which CPUs belong to each, how far they are apart, and which ones a process may use.

Everything is read of sysfs and of one small file of /proc; nothing of it asks a device.
"""

import re
from typing import Dict, FrozenSet, List, NamedTuple, Optional

from gpumon.probe.kernel import files

MAX_NODES = 64
"""Most NUMA nodes that are read; machines of today have up to 32 with CPUs."""

MAX_CPUS = 8192
"""Most CPUs of one list: as many as a kernel for x86 can be built for (CONFIG_NR_CPUS)."""

MAX_LIST = 256
"""Longer lists of CPUs are cut behind a comma, and an ellipsis shows it."""

NODE = re.compile(r"node(\d{1,4})\Z")


def cpu_list(text: str) -> FrozenSet[int]:
    """CPUs of a list such as `0-3,8`; raises ValueError."""
    found: List[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        low, high = files.whole(first), files.whole(last or first)
        if high >= MAX_CPUS:
            raise ValueError("no such CPU: %r" % part[:32])
        found.extend(range(low, high + 1))
        if len(found) > MAX_CPUS:
            raise ValueError("a CPU comes again: %r" % part[:32])
    return frozenset(found)


class Allowed(NamedTuple):
    """The CPUs that a process may run on."""

    listed: str
    """As the kernel lists them, `0-3,8`, cut where it is long."""
    number: int
    nodes: str
    """NUMA nodes that they belong to, `0,1`; empty: not known."""


class Numa:
    """NUMA nodes of the machine, read once: they stay while it runs."""

    def __init__(self, root: str = "/") -> None:
        """Read /sys below `root`."""
        folder = root.rstrip("/") + "/sys/devices/system/node"
        self._cpus: Dict[int, FrozenSet[int]] = {}
        self._distances: Dict[int, str] = {}
        for name in files.names(folder, 4 * MAX_NODES):
            match = NODE.match(name)
            if match and len(self._distances) < MAX_NODES:
                number = int(match.group(1))
                self._distances[number] = _distance(folder + "/" + name)
                # Memory of a GPU or of CXL is a node without CPUs.
                cpus = _cpus(folder + "/" + name)
                if cpus:
                    self._cpus[number] = cpus

    @property
    def distances(self) -> str:
        """From each node with CPUs to every node, by number: `0:10,21 1:21,10`; empty: unknown."""
        order = sorted(self._distances)
        if not order or any(len(self._distances[n].split()) != len(order) for n in order):
            return ""
        rows = []
        for number in sorted(self._cpus):
            row = self._distances[number].split()
            near = [word for word, other in zip(row, order) if other in self._cpus]
            rows.append("%d:%s" % (number, ",".join(near)))
        return " ".join(rows)

    def allowed(self, status: str) -> Optional[Allowed]:
        """What a text of /proc/PID/status has of CPUs; None where it has nothing."""
        for line in status.splitlines()[:128]:
            name, _, rest = line.partition(":")
            if name == "Cpus_allowed_list":
                try:
                    cpus = cpu_list(rest)
                except ValueError:
                    return None
                nodes = [str(n) for n in sorted(self._cpus) if self._cpus[n] & cpus]
                return Allowed(_short(rest.strip()), len(cpus), ",".join(nodes))
        return None


def _short(text: str) -> str:
    if len(text) <= MAX_LIST:
        return text
    return text[:MAX_LIST].rpartition(",")[0] + ",\u2026"


def _distance(folder: str) -> str:
    text = files.read_or_empty(folder + "/distance", 4096).strip()
    return text if all(word.isdecimal() for word in text.split()) else ""


def _cpus(folder: str) -> FrozenSet[int]:
    try:
        return cpu_list(files.read_or_empty(folder + "/cpulist", 16384))
    except ValueError:
        return frozenset()
