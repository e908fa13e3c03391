"""Where devices sit in the PCI tree, and which of them are near to one another."""

import os
import re
from typing import Dict, List, NamedTuple, Optional, Tuple

from gpumon.probe.kernel import files

SWITCH = "switch"
ROOT = "root"
NUMA = "numa"
SYSTEM = "system"
NEARNESS = (SWITCH, ROOT, NUMA, SYSTEM)
"""From near to far: below one PCI switch, below one root complex, on one NUMA node, elsewhere."""

BUS_ID = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?\Z", re.I)
FUNCTION = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z", re.I)
COMPLEX = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}\Z", re.I)


def normal(bus_id: str) -> str:
    """A bus id as sysfs writes it: NVML's `00000000:1B:00.0` is `0000:1b:00.0`; empty if none."""
    match = BUS_ID.match(bus_id.strip())
    if not match:
        return ""
    domain, bus, device, function = match.groups()
    return ("%04x:%s:%s.%s" % (int(domain or "0", 16), bus, device, function or "0")).lower()


class Place(NamedTuple):
    """Where a device sits."""

    path: Tuple[str, ...]
    """From the root complex over the bridges to the device itself; empty: not known."""
    numa_node: Optional[int]

    @classmethod
    def of(cls, root: str, bus_id: str) -> "Place":
        """Place of the device with a bus id, read below `root`."""
        name = normal(bus_id)
        link = "%s/sys/bus/pci/devices/%s" % (root, name)
        if not name or not os.path.exists(link):
            return cls((), None)
        return cls.at(root, os.path.realpath(link))

    @classmethod
    def at(cls, root: str, path: str) -> "Place":
        """Place of the PCI device whose folder a path leads to or through."""
        parts = path[len(os.path.realpath(root or "/")) :].split("/")
        chain = tuple(p.lower() for p in parts if COMPLEX.match(p) or FUNCTION.match(p))
        try:
            numa: Optional[int] = files.whole(files.read(path + "/numa_node", 32))
        except (OSError, ValueError):
            numa = None
        return cls(chain, numa)

    @property
    def bus_id(self) -> str:
        """Bus id of the device itself, empty where not known."""
        return self.path[-1] if self.path else ""


def nearness(one: Place, other: Place) -> str:
    """How near two devices are, one of `NEARNESS`.

    Below a switch: their paths share a bridge below the root complex's own port, since each root
    port leads to one slot. Ports of one root complex are only joined inside the CPU.
    """
    shared = 0
    for left, right in zip(one.path[:-1], other.path[:-1]):
        if left != right:
            break
        shared += 1
    if shared >= 2:
        return SWITCH
    if shared == 1:
        return ROOT
    if one.numa_node is not None and one.numa_node == other.numa_node:
        return NUMA
    return SYSTEM


def nearest(place: Place, others: Dict[str, Place]) -> Tuple[str, List[str]]:
    """Which of the others are nearest, and how near; none where no place is known."""
    if not place.path:
        return SYSTEM, []
    by: Dict[str, List[str]] = {}
    for name in sorted(others):
        if others[name].path:
            by.setdefault(nearness(place, others[name]), []).append(name)
    for how in NEARNESS:
        if how in by:
            return how, by[how]
    return SYSTEM, []
