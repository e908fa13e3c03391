"""Whose the entities are that history and facts know: of the GPU or of the node in their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpumon.detect.facts.entity_facts import FACT_KEYS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gpumon.detect.facts.entity_facts import Rows
    from gpumon.detect.facts.facts import NodeFacts
    from gpumon.detect.facts.positions import NodeLayout
    from gpumon.fleet.history.reader import HistoryReader


class Owners:
    """Finds who has a value of a field; a name is read once while nobody comes or goes.

    Links belong to GPUs, all else to nodes: ports, mounts, cgroups, processes, the node itself.
    """

    def __init__(self, layout: NodeLayout) -> None:
        self._layout = layout
        self._places: dict[str, tuple[Sequence[str], NDArray[np.intp]]] = {}
        self._told: dict[tuple[str, str, str], tuple[Rows, NDArray[np.intp]]] = {}
        """Owners with a value in the facts, by node, block and field, with the facts as read."""

    def told(
        self, key: str, block: str, history: HistoryReader, nodes: Sequence[NodeFacts]
    ) -> NDArray[np.bool_]:
        """Per GPU, or per node, whether one of its entities has a value of a field now."""
        # One more, which nobody asks about, for the entities of owners that are not in view.
        found = np.zeros(len(self._known(block)) + 1, np.bool_)
        entities, values = history.newest_of_all(key, block)
        found[self._of_entities(block, entities)[~np.isnan(values)]] = True
        if key in FACT_KEYS[block]:
            for node in nodes:
                if node.block(block).keys:
                    found[self._of_facts(node, block, key)] = True
        return found[:-1]

    def _known(self, block: str) -> dict[str, int]:
        return self._layout.gpu_layout.place if block == "link" else self._layout.place

    def _of_entities(self, block: str, entities: Sequence[str]) -> NDArray[np.intp]:
        """Positions of the owners of a stretch's entities, which only become more."""
        read, places = self._places.get(block, ((), np.empty(0, np.intp)))
        if read is not entities:
            places = places[:0]
        if len(places) < len(entities):
            new = [self._owner(block, name) for name in entities[len(places) :]]
            places = np.append(places, np.array(new, np.intp))
        self._places[block] = entities, places
        return places

    def _owner(self, block: str, entity: str) -> int:
        name = entity.rpartition("/")[0] if block == "link" else entity.partition("/")[0]
        return self._known(block).get(name, -1)

    def _of_facts(self, node: NodeFacts, block: str, key: str) -> NDArray[np.intp]:
        rows = node.block(block)
        read = self._told.get((node.name, block, key))
        if read is not None and read[0] is rows:
            return read[1]
        told = zip(rows.keys, rows.values.get(key, ()), strict=False)
        names = [name for name, value in told if value is not None]
        if block not in ("link", "mig"):
            # Facts name them as frames do: within their node.
            names = [node.name] * bool(names)
        places = np.array([self._owner(block, name) for name in names], np.intp)
        self._told[node.name, block, key] = rows, places
        return places
