"""Facts as the worker knows them, and who is where: kept up to date by what the monitor sends."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from gpumon.detect.facts.entity_facts import NO_ROWS, rows_from
from gpumon.detect.facts.facts import GpuFacts, NodeFacts
from gpumon.detect.facts.positions import GpuLayout, NodeLayout, Owners
from gpumon.model.fault import SourceError
from gpumon.model.records.cluster import SlurmNode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

_Facts = TypeVar("_Facts")


def _value(key: str, gpu: GpuFacts) -> float | None:
    return None if gpu.is_stale else gpu.value(key)


def _is_stale(gpu: GpuFacts) -> float:
    return gpu.is_stale


def _is_lost(gpu: GpuFacts) -> float:
    return gpu.is_lost


class FactColumns(Generic[_Facts]):
    """One value of each entity for each function that was asked, up to date in each evaluation."""

    def __init__(self, place: Mapping[str, int], facts: Mapping[str, _Facts]) -> None:
        self._place = place
        self._facts = facts
        self._columns: dict[Callable[[_Facts], float | None], NDArray[np.float64]] = {}

    def column_of(self, read: Callable[[_Facts], float | None]) -> NDArray[np.float64]:
        """What a function gives for each by position, NaN for None, and one NaN at the end.

        Args:
            read: Asked again only of what changed, so it may look at nothing but the facts that
                it is given; the same function each time.
        """
        column = self._columns.get(read)
        if column is None:
            values = [read(facts) for facts in self._facts.values()]
            column = np.array([*values, None], np.float64)
            self._columns[read] = column
        return column

    def refresh(self, names: Iterable[str]) -> None:
        """Take over what changed about some; all of them have a position."""
        changed = [(self._place[name], self._facts[name]) for name in names]
        for read, column in self._columns.items():
            for place, facts in changed:
                value = read(facts)
                column[place] = np.nan if value is None else value


class GpuColumns(FactColumns[GpuFacts]):
    """What facts report of every GPU."""

    def __init__(self, place: Mapping[str, int], facts: Mapping[str, GpuFacts]) -> None:
        super().__init__(place, facts)
        self._readers: dict[str, Callable[[GpuFacts], float | None]] = {}

    def column(self, key: str) -> NDArray[np.float64]:
        """Newest value of every GPU, NaN where it is missing or stale, and one NaN at the end."""
        return self.column_of(self._readers.setdefault(key, partial(_value, key)))

    @property
    def is_stale(self) -> NDArray[np.bool_]:
        """Per GPU whether nothing was heard of it for long."""
        return self.column_of(_is_stale)[:-1] > 0

    @property
    def is_lost(self) -> NDArray[np.bool_]:
        """Per GPU whether it fell off the bus."""
        return self.column_of(_is_lost)[:-1] > 0


class FleetFacts:
    """The facts as the worker knows them."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeFacts] = {}
        self.gpus: dict[str, GpuFacts] = {}
        self.layout = GpuLayout(self.gpus)
        """Who is where; another object only where GPUs came, went or moved."""
        self.columns = GpuColumns(self.layout.place, self.gpus)
        self.node_layout = NodeLayout(self.layout, self.nodes)
        """The nodes beside them; another object where a GPU or a node came or went."""
        self.node_columns = FactColumns(self.node_layout.place, self.nodes)
        """What facts report of every node."""
        self.owners = Owners(self.node_layout)
        self._with: dict[str, dict[str, NodeFacts]] = {}
        """By block the nodes that report one of its entities."""
        self._changed: set[str] = set()
        self._is_moved = False

    def take(self, message: dict[str, Any]) -> None:
        """Take in what `FactSender.changes` gave."""
        for name, head, blocks, gone, event_at in message["nodes"]:
            self._node(name, head, blocks, gone, event_at)
        for name in message["nodes_gone"]:
            self._forget_gpus(self.nodes.pop(name))
            for nodes in self._with.values():
                nodes.pop(name, None)
        if self._is_moved:
            self.layout = GpuLayout(self.gpus)
            self.columns = GpuColumns(self.layout.place, self.gpus)
        else:
            self.columns.refresh(self._changed)
        if self._is_moved or self.node_layout.names != tuple(self.nodes):
            self.node_layout = NodeLayout(self.layout, self.nodes)
            self.node_columns = FactColumns(self.node_layout.place, self.nodes)
            self.owners = Owners(self.node_layout)
        else:
            self.node_columns.refresh(node[0] for node in message["nodes"])
        self._changed, self._is_moved = set(), False

    def nodes_with(self, block: str) -> Mapping[str, NodeFacts]:
        """By name the nodes that report facts of a block."""
        return self._with.get(block, {})

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
        of_node = {k: v for k, v in known.blocks.items() if k not in gone} if known else {}
        of_node.update({kind: rows_from(rows) for kind, rows in blocks.items()})
        times = dict(known.event_at) if known else {}
        # Every report has the age, so the first moment is the least blurred.
        times = {**event_at, **times}
        keys = of_node.get("event", NO_ROWS).keys
        node = NodeFacts(
            name=name,
            has_telemetry=has_telemetry,
            silent_since=silent_since,
            errors=tuple(SourceError(*error) for error in errors),
            slurm=None if slurm is None else _slurm_node(slurm),
            gpu_uuids=tuple(uuids),
            blocks=of_node,
            event_at={key: times[key] for key in keys if key in times},
        )
        if known and known.gpu_uuids != node.gpu_uuids:
            self._forget_gpus(known)
            self._is_moved = True
        self.nodes[name] = node
        for kind in {*of_node, *gone}:
            nodes = self._with.setdefault(kind, {})
            if node.block(kind).keys:
                nodes[name] = node
            else:
                nodes.pop(name, None)
        self._gpus_of(node, frozenset(stale), frozenset(lost))

    def _gpus_of(self, node: NodeFacts, stale: frozenset[str], lost: frozenset[str]) -> None:
        rows = node.block("gpu")
        places = {uuid: row for row, uuid in enumerate(rows.keys)}
        for uuid in node.gpu_uuids:
            row = places[uuid]
            index = rows.value("index", row)
            before = self.gpus.get(uuid)
            facts = GpuFacts(
                uuid=uuid,
                node=node.name,
                nvml_index=None if index is None else int(index),
                name=rows.label("name", row),
                rows=rows,
                row=row,
                is_stale=uuid in stale,
                is_lost=uuid in lost,
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
