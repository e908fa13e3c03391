"""Facts as the worker knows them, and who is where: kept up from what the monitor tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpumon.detect.fact_columns import FactColumns
from gpumon.detect.facts import GpuFacts, NodeFacts
from gpumon.detect.layout import GpuLayout
from gpumon.detect.rows import NO_ROWS, rows_from
from gpumon.model.cluster import SlurmNode
from gpumon.model.fault import SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class FactBook:
    """The facts as the worker knows them."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeFacts] = {}
        self.gpus: dict[str, GpuFacts] = {}
        self.layout = GpuLayout(self.gpus)
        """Who is where; another object only where GPUs came, went or moved."""
        self.columns = FactColumns(self.layout, self.gpus)
        self._changed: set[str] = set()
        self._is_moved = False

    def take(self, message: dict[str, Any]) -> None:
        """Take in what `FactSender.changes` told."""
        for name, head, blocks, gone, event_at in message["nodes"]:
            self._node(name, head, blocks, gone, event_at)
        for name in message["nodes_gone"]:
            self._forget_gpus(self.nodes.pop(name))
        if self._is_moved:
            self.layout = GpuLayout(self.gpus)
            self.columns = FactColumns(self.layout, self.gpus)
        else:
            self.columns.refresh(self._changed)
        self._changed, self._is_moved = set(), False

    def _node(
        self,
        name: str,
        head: Sequence[Any],
        blocks: Mapping[str, Any],
        gone: Sequence[str],
        event_at: Mapping[str, float],
    ) -> None:
        has_telemetry, silent_since, errors, slurm, uuids, stale, lost = head
        known = self.nodes.get(name)
        kept = {k: v for k, v in known.blocks.items() if k not in gone} if known else {}
        kept.update({kind: rows_from(rows) for kind, rows in blocks.items()})
        times = dict(known.event_at) if known else {}
        # The age is told in every report, so the first moment told is the least blurred.
        times = {**event_at, **times}
        keys = kept.get("event", NO_ROWS).keys
        node = NodeFacts(
            name,
            has_telemetry,
            silent_since,
            tuple(SourceError(*error) for error in errors),
            None if slurm is None else _slurm_node(slurm),
            tuple(uuids),
            kept,
            {key: times[key] for key in keys if key in times},
        )
        if known and known.gpu_uuids != node.gpu_uuids:
            self._forget_gpus(known)
        self.nodes[name] = node
        self._gpus_of(node, frozenset(stale), frozenset(lost))

    def _gpus_of(self, node: NodeFacts, stale: frozenset[str], lost: frozenset[str]) -> None:
        rows = node.block("gpu")
        places = {uuid: row for row, uuid in enumerate(rows.keys)}
        for uuid in node.gpu_uuids:
            row = places[uuid]
            index = rows.value("index", row)
            before = self.gpus.get(uuid)
            facts = GpuFacts(
                uuid,
                node.name,
                None if index is None else int(index),
                rows.label("name", row),
                rows,
                row,
                uuid in stale,
                uuid in lost,
            )
            if before is None or (before.node, before.name) != (facts.node, facts.name):
                self._is_moved = True
            self.gpus[uuid] = facts
            self._changed.add(uuid)

    def _forget_gpus(self, node: NodeFacts) -> None:
        for uuid in node.gpu_uuids:
            facts = self.gpus.get(uuid)
            if facts is not None and facts.node == node.name:
                del self.gpus[uuid]
                self._is_moved = True


def _slurm_node(value: Sequence[Any]) -> SlurmNode:
    # JSON knows no tuples, and records hold nothing else.
    return SlurmNode._make(tuple(item) if isinstance(item, list) else item for item in value)
