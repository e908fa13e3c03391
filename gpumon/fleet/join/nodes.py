"""Nodes, each under one name, whatever the sources that tell of it call it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.fleet.join.devices import is_stale, worth
from gpumon.model.records.block import EMPTY_BLOCK, with_rest
from gpumon.model.records.cluster import Node
from gpumon.sources.address import rank_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpumon.model.fault import SourceError
    from gpumon.model.records.block import Block
    from gpumon.model.records.cluster import Gpu, SlurmNode
    from gpumon.model.records.frame import Frame, QueueRecords


class NodeNames:
    """Finds the queue's name of a node: NodeName, NodeHostName, NodeAddr, then short name."""

    def __init__(self, nodes: Iterable[SlurmNode]) -> None:
        """Index the queue's nodes by everything they may be called."""
        self._names: dict[str, str] = {}
        listed = tuple(nodes)
        aliases = (
            [(node.name, node.name) for node in listed],
            [(node.host_name, node.name) for node in listed],
            [(node.address, node.name) for node in listed],
            [(node.name.partition(".")[0], node.name) for node in listed],
        )
        for pairs in aliases:
            found: dict[str, set[str]] = {}
            for alias, name in pairs:
                found.setdefault(alias, set()).add(name)
            for alias, owners in found.items():
                # Two nodes that answer to one name are told apart by a better name, or not at all.
                if alias and len(owners) == 1:
                    self._names.setdefault(alias, next(iter(owners)))

    def lists(self, name: str) -> bool:
        """Whether the queue lists a node of that very name."""
        return self._names.get(name) == name

    def canonical(self, name: str, others: Sequence[str]) -> str:
        """The queue's name of a node, else the name its source uses."""
        for alias in (name, *others, name.partition(".")[0]):
            if alias in self._names:
                return self._names[alias]
        return name


def by_uuid(named: Sequence[tuple[str, Frame]], names: NodeNames) -> list[tuple[str, Frame]]:
    """Frames under the name of the node that their GPUs are in.

    Two targets that tell of one GPU tell of one node, whatever each calls it. The name that the
    queue lists counts, else that of a probe. A frame whose GPUs are in several nodes keeps its own,
    and so does one whose own name the queue lists: that is for whoever runs the cluster to mend.

    Args:
        named: Name and frame, as `NodeNames` found them.
        names: The queue's names.
    """
    if len({frame.origin for _, frame in named if frame.block("gpu").keys}) < 2:
        return list(named)
    nodes: dict[str, tuple[bool, int, str]] = {}
    for name, frame in named:
        rank = names.lists(name), rank_of(frame.origin)
        for uuid in frame.block("gpu").keys:
            known = nodes.get(uuid)
            if known is None or rank > known[:2]:
                nodes[uuid] = (*rank, name)
    found = []
    for name, frame in named:
        better = {nodes[uuid][2] for uuid in frame.block("gpu").keys}
        is_one = len(better) == 1 and not names.lists(name)
        found.append((better.pop() if is_one else name, frame))
    return found


def nodes_of(
    named: Sequence[tuple[str, Frame]],
    queue: QueueRecords | None,
    on_node: Mapping[str, list[Gpu]],
    errors: Mapping[str, tuple[SourceError, ...]],
    now: float,
    stale_after_s: float,
    left: Mapping[tuple[str, str], float],
) -> dict[str, Node]:
    """Every node that the queue lists, a source tells of, or something is wrong with.

    Args:
        named: Name and frame, as `by_uuid` found them.
        queue: Last answer of the queue, None without one.
        on_node: The GPUs of each node.
        errors: What is wrong now with a node.
        now: Unix time of the tick.
        stale_after_s: Age beyond which values are no longer shown as the present.
        left: Since when a source looks at a node no more, by origin and node: Unix time.
    """
    newest: dict[str, Frame] = {}
    blocks: dict[str, dict[str, Block]] = {}
    fresh: set[str] = set()
    """Nodes of which something is of the present."""
    # What is best comes last, and counts.
    aged = [(name, frame, is_stale(frame, now, stale_after_s)) for name, frame in named]
    for name, frame, is_old in sorted(aged, key=lambda one: worth(one[1], is_old=one[2])):
        newest[name] = frame
        known = blocks.setdefault(name, {})
        before = known.get("node") if name in fresh else None
        known.update(frame.blocks)
        if not is_old:
            if before is not None and "node" in frame.blocks:
                known["node"] = with_rest(frame.blocks["node"], before)
            fresh.add(name)
    states = {node.name: node.state for node in queue.nodes} if queue else {}
    nodes = {}
    for name in dict.fromkeys((*states, *newest, *errors)):
        frame_now = newest.get(name)
        ordered = sorted(on_node.get(name, ()), key=lambda gpu: (gpu.nvml_index or 0, gpu.uuid))
        nodes[name] = Node(
            name=name,
            gpu_uuids=tuple(gpu.uuid for gpu in ordered),
            taken_at=frame_now.taken_at if frame_now else None,
            is_stale=frame_now is not None and is_stale(frame_now, now, stale_after_s),
            state=states.get(name),
            errors=errors.get(name, ()),
            lateness_s=frame_now.lateness_s if frame_now else None,
            block=blocks[name].get("node", EMPTY_BLOCK) if frame_now else None,
            blocks=blocks.get(name, {}),
            left_at=left.get((frame_now.origin, frame_now.node)) if frame_now else None,
        )
    return nodes
