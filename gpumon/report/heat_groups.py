"""By what the nodes of a heat map are put together: only what somebody has told."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.report.slurm_nodes import rooms

if TYPE_CHECKING:
    from gpumon.report.digest import Digest
    from gpumon.report.heat import Unit


class Cluster(NamedTuple):
    """Nodes that belong together."""

    name: str
    units: tuple[Unit, ...]


GROUPINGS: Final = ("partition", "NVLink domain", "name", "state")
"""Racks and leaf switches are missing: neither NVML nor the lists of the queue tell them."""

_DIGITS: Final = re.compile(r"(\d+)")


def natural(name: str) -> tuple[tuple[int, int | str], ...]:
    """Sort key that counts: gpu9 before gpu10."""
    parts = (part for part in _DIGITS.split(name) if part)
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in parts)


def clusters(digest: Digest, units: tuple[Unit, ...], grouping: str) -> tuple[Cluster, ...]:
    """The nodes by group, both in the order of their names; those of no group come last."""
    found: dict[str, list[Unit]] = {}
    for unit in sorted(units, key=lambda unit: natural(unit.name)):
        found.setdefault(group_of(digest, unit.name, grouping), []).append(unit)
    names = sorted(found, key=lambda name: (name.startswith("no "), natural(name)))
    return tuple(Cluster(name, tuple(found[name])) for name in names)


def group_of(digest: Digest, name: str, grouping: str) -> str:
    """The group of a node; begins with `no ` where nothing tells it."""
    if grouping == "partition":
        room = rooms(digest).get(name)
        return (room.node.partitions or ("",))[0] or "no partition" if room else "no partition"
    if grouping == "NVLink domain":
        return _domain(digest, name)
    if grouping == "name":
        return name.rstrip("0123456789").rstrip("-_") or "no prefix"
    return digest.tick.nodes[name].state or "no state"


def _domain(digest: Digest, name: str) -> str:
    """Cluster and clique of the NVLink fabric; GPUs that share both reach each other."""
    node = digest.tick.nodes[name]
    for uuid in node.gpu_uuids:
        gpu = digest.tick.gpus.get(uuid)
        cluster = gpu.label("fabric_cluster") if gpu else None
        # All zeros is what a node tells whose links end inside it.
        if gpu is None or not cluster or not cluster.strip("0-"):
            continue
        clique = gpu.block.value("fabric_clique", gpu.row)
        return f"{cluster[:8]}/{'?' if clique is None else int(clique)}"
    return "no domain beyond the node"
