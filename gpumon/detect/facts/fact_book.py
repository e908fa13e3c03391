"""Facts as the worker knows them, and who is where: kept up from what the monitor tells."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gpumon.detect.facts.entity_facts import NO_ROWS, rows_from
from gpumon.detect.facts.facts import GpuFacts, NodeFacts
from gpumon.detect.facts.positions import GpuLayout, NodeLayout, Owners
from gpumon.model.fault import SourceError
from gpumon.model.records.cluster import SlurmNode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray


def _value(key: str, gpu: GpuFacts) -> float | None:
    return None if gpu.is_stale else gpu.value(key)


def _is_stale(gpu: GpuFacts) -> float:
    return gpu.is_stale


def _is_lost(gpu: GpuFacts) -> float:
    return gpu.is_lost


class FactColumns:
    """One column per field that was asked for, kept up from look to look."""

    def __init__(self, layout: GpuLayout, gpus: Mapping[str, GpuFacts]) -> None:
        self._layout = layout
        self._gpus = gpus
        self._columns: dict[Callable[[GpuFacts], float | None], NDArray[np.float64]] = {}
        self._tellers: dict[str, Callable[[GpuFacts], float | None]] = {}

    def column(self, key: str) -> NDArray[np.float64]:
        """Newest value of every GPU, NaN where it is missing or stale, and one NaN at the end."""
        return self._known(self._tellers.setdefault(key, partial(_value, key)))

    @property
    def is_stale(self) -> NDArray[np.bool_]:
        """Per GPU whether nothing was heard of it for long."""
        return self._known(_is_stale)[:-1] > 0

    @property
    def is_lost(self) -> NDArray[np.bool_]:
        """Per GPU whether it fell off the bus."""
        return self._known(_is_lost)[:-1] > 0

    def refresh(self, uuids: Iterable[str]) -> None:
        """Take over what changed about some GPUs; all of them are in the layout."""
        changed = [(self._layout.place[uuid], self._gpus[uuid]) for uuid in uuids]
        for tell, column in self._columns.items():
            for place, gpu in changed:
                value = tell(gpu)
                column[place] = np.nan if value is None else value

    def _known(self, tell: Callable[[GpuFacts], float | None]) -> NDArray[np.float64]:
        column = self._columns.get(tell)
        if column is None:
            told = [tell(gpu) for gpu in self._gpus.values()]
            column = np.array([*told, None], np.float64)
            self._columns[tell] = column
        return column


class FactBook:
    """The facts as the worker knows them."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeFacts] = {}
        self.gpus: dict[str, GpuFacts] = {}
        self.layout = GpuLayout(self.gpus)
        """Who is where; another object only where GPUs came, went or moved."""
        self.columns = FactColumns(self.layout, self.gpus)
        self.node_layout = NodeLayout(self.layout, self.nodes)
        """The nodes beside them; another object where a GPU or a node came or went."""
        self.owners = Owners(self.node_layout)
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
        if self._is_moved or self.node_layout.names != tuple(self.nodes):
            self.node_layout = NodeLayout(self.layout, self.nodes)
            self.owners = Owners(self.node_layout)
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
            self._is_moved = True
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
