"""By what the nodes of the map are put together: only what a source reports."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.base.steps import result_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Mapping

    from gpumon.model.records.cluster import SlurmNode
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.fleet_map.map import Unit


class Cluster(NamedTuple):
    """Nodes that belong together."""

    name: str
    units: tuple[Unit, ...]


GROUPINGS: Final = ("partition", "leaf switch", "block", "NVLink domain", "name", "state")
"""Racks are missing, as no source reports them: a leaf switch or a block comes nearest."""

_NONE: Final = "no "
"""How the name of a group begins whose nodes belong to none; no name of Slurm's holds a blank."""

_OF_SLURM: Final[dict[str, Callable[[SlurmNode], str]]] = {
    "partition": lambda node: (node.partitions or ("",))[0],
    "leaf switch": lambda node: node.leaf_switch,
    "block": lambda node: node.block,
}
"""Groupings that Slurm reports, and how."""

_DIGITS: Final = re.compile(r"(\d+)")


def natural(name: str) -> tuple[tuple[int, int | str], ...]:
    """Sort key that counts: gpu9 before gpu10."""
    parts = (part for part in _DIGITS.split(name) if part)
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in parts)


def clusters(digest: Digest, units: tuple[Unit, ...], grouping: str) -> tuple[Cluster, ...]:
    """The nodes by group, those in the order of their names; groups as `grouped` orders them."""
    in_order = sorted(units, key=lambda unit: natural(unit.name))
    return result_of(grouped(digest, in_order, grouping))


def grouped(
    digest: Digest, units: Iterable[Unit], grouping: str
) -> Generator[None, None, tuple[Cluster, ...]]:
    """The same of nodes that are in the order of their names already, in steps.

    The group that loses most comes first, as in every list, then by name; those of no group last.
    """
    found: dict[str, list[Unit]] = {}
    of = _OF_SLURM.get(grouping)
    if of is None:
        for unit in units:
            found.setdefault(group_of(digest, unit.name, grouping), []).append(unit)
    else:
        # Each name is worked out once for a node, without a call for each of ten thousand units.
        reported = {name: of(node) for name, node in _listed(digest).items()}
        yield
        for unit in units:
            name = reported.get(unit.name) or f"{_NONE}{grouping}"
            found.setdefault(name, []).append(unit)
    lost: dict[str, float] = {}
    for name, members in found.items():
        yield
        lost[name] = urgency_of(digest, members)
    names = sorted(found, key=lambda name: (name.startswith(_NONE), -lost[name], natural(name)))
    return tuple(Cluster(name, tuple(found[name])) for name in names)


def urgency_of(digest: Digest, units: Iterable[Unit]) -> float:
    """GPU-hours that nodes lose an hour, weighed by how sure that is, to a whole GPU.

    Rounded, so that groups seldom change places: a reader has to find again what moved.
    """
    known = digest.stakes_by_node
    return float(round(sum(known[one.name].urgency for one in units if one.name in known)))


def following(
    digest: Digest,
    units: Collection[Unit],
    grouping: str,
    may_have_domain: Callable[[], Collection[str]],
) -> str:
    """The next grouping that the fleet reports; the same one where it reports no other.

    Args:
        digest: The tick.
        units: All its nodes, the same object as long as they are the same.
        grouping: The one to go on from.
        may_have_domain: Names of the nodes whose GPUs may share a fabric: mostly none.
    """
    at = GROUPINGS.index(grouping)
    for other in (*GROUPINGS[at + 1 :], *GROUPINGS[:at]):
        of = _OF_SLURM.get(other)
        if of is not None:
            is_reported = _is_of_queue(digest, units, other, of)
        else:
            is_reported = _is_of_nodes(digest, units, other, may_have_domain)
        if is_reported:
            return other
    return grouping


def _is_of_queue(
    digest: Digest, units: Collection[Unit], grouping: str, of: Callable[[SlurmNode], str]
) -> bool:
    """Whether Slurm reports the group of any of these nodes; found once for each of its answers."""
    queue = digest.tick.queue
    nodes = queue.nodes if queue else ()
    found: list[object] = digest.lasting(("grouping is reported", grouping), list)
    if not found or found[0] is not nodes or found[1] is not units:
        # Mostly no node has one, and then the names are not needed.
        names = [node.name for node in nodes if of(node)]
        is_reported = bool(names) and not {unit.name for unit in units}.isdisjoint(names)
        found[:] = (nodes, units, is_reported)
    return bool(found[2])


def _is_of_nodes(
    digest: Digest,
    units: Collection[Unit],
    grouping: str,
    may_have_domain: Callable[[], Collection[str]],
) -> bool:
    """The same of what the nodes report themselves; found once in a tick."""

    def is_reported() -> bool:
        names: Iterable[str] = (unit.name for unit in units)
        if grouping == "NVLink domain":
            candidates = may_have_domain()
            names = (name for name in names if name in candidates) if candidates else ()
        return any(not group_of(digest, name, grouping).startswith(_NONE) for name in names)

    return digest.remembered(("grouping is reported", grouping), is_reported)


def group_of(digest: Digest, name: str, grouping: str) -> str:
    """The group of a node; begins with `no ` where none is reported."""
    if grouping in _OF_SLURM:
        node = _listed(digest).get(name)
        return (_OF_SLURM[grouping](node) if node else "") or f"{_NONE}{grouping}"
    if grouping == "NVLink domain":
        return _domain(digest, name)
    if grouping == "name":
        return name.rstrip("0123456789").rstrip("-_") or "no prefix"
    return digest.tick.nodes[name].state or "no state"


def _listed(digest: Digest) -> Mapping[str, SlurmNode]:
    """The queue's nodes by name."""
    queue = digest.tick.queue
    found = queue.nodes if queue else ()
    return digest.remembered(("queue nodes", ""), lambda: {node.name: node for node in found})


def _domain(digest: Digest, name: str) -> str:
    """Cluster and clique of the NVLink fabric; GPUs that share both reach each other."""
    uuids, known = digest.tick.nodes[name].gpu_uuids, digest.tick.gpus
    first = known.get(uuids[0]) if uuids else None
    if first is not None and first.block.keys == uuids:
        # Mostly one report has all GPUs of a node, and no fabric.
        uuids = uuids if first.block.labels.get("fabric_cluster") else ()
    for uuid in uuids:
        gpu = known.get(uuid)
        if gpu is None:
            continue
        cluster = gpu.label("fabric_cluster")
        # A node whose links end inside it reports zeros alone.
        if not cluster or not cluster.strip("0-"):
            continue
        clique = gpu.block.value("fabric_clique", gpu.row)
        return f"{cluster[:8]}/{'?' if clique is None else int(clique)}"
    return "no domain beyond the node"
