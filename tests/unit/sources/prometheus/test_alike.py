"""Nodes that are alike are read together, and each is what it would be by itself."""

from __future__ import annotations

import random
from array import array
from math import inf, nan
from typing import TYPE_CHECKING

import pytest

from gpumon.sources.prometheus import nodes as nodes_module
from gpumon.sources.prometheus.known import Column, Known
from gpumon.sources.prometheus.nodes import Nodes
from gpumon.sources.prometheus.questions import Seen
from tests.unit.sources.prometheus.engine import labels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumon.model.records.block import Block
    from gpumon.sources.prometheus.known import Key
    from gpumon.sources.prometheus.nodes import NodeReading

HOSTS = 24
GPUS_A_NODE = 4
NAMES = (
    *("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_DEV_POWER_USAGE"),
    *("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"),
    *("DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_XID_ERRORS"),
    *("DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_DEV_SM_CLOCK"),
)
COUNTERS = ("DCGM_FI_DEV_THERMAL_VIOLATION", "DCGM_FI_DEV_PCIE_MAX_LINK_GEN")
ODD = (nan, inf, -inf, -1.0, 2147483632.0, 9223372036854775794.0, 2.0**47, 2.0**64, 1e300, 0.0)


class Fleet:
    """A fleet that changes from poll to poll."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.names = [*NAMES, *(COUNTERS if self.chance.random() < 0.3 else ())]
        self.known: dict[Key, Mapping[str, str]] = {}
        for number in range(HOSTS * GPUS_A_NODE):
            host, gpu = divmod(number, GPUS_A_NODE)
            self.add(f"GPU-{self.chance.randrange(10**6):06}", f"gpu{host:02}", gpu)
        self.sampled_at = dict.fromkeys(self.known, 0.0)
        self.values: dict[str, dict[Key, float]] = {}

    def add(self, uuid: str, host: str, gpu: int) -> None:
        pci = f"00000000:{gpu:02X}:00.0"
        own = {"gpu": f"{gpu}", "device": f"nvidia{gpu}", "pci_bus_id": pci}
        if self.chance.random() < 0.7:
            own["hpc_job"] = self.chance.choice((host, host, "0", "no job"))
        self.known[uuid, ""] = labels(uuid, host, **own)

    def value(self, name: str) -> float:
        chance = self.chance
        if chance.random() < 0.001:
            return chance.choice(ODD)
        if "XID" in name:
            return chance.choice((0.0,) * 30 + (31.0, 79.0))
        if "ENERGY" in name or "BYTES" in name or "VIOLATION" in name:
            return float(chance.randrange(10**12))
        if "PROF" in name or "REMAP" in name:
            return chance.choice((0.0, 1.0, 0.25))
        return float(chance.randrange(1, 90)) + chance.choice((0.0, 0.5))

    def change(self) -> None:
        chance = self.chance
        key = chance.choice([*self.known])
        match chance.randrange(8):
            case 0:
                self.known[key] = {**self.known[key], "hpc_job": f"{chance.randrange(1, 99)}"}
            case 1:
                del self.known[key]
            case 2:
                self.add(f"GPU-{chance.randrange(10**6):06}", f"gpu{chance.randrange(40):02}", 7)
            case 3:
                self.known[key[0], "3"] = {**self.known[key], "GPU_I_ID": "3"}
            case 4:
                self.names = chance.sample(self.names, len(self.names))
            case _:
                pass

    def poll(self, at: float) -> Seen:
        chance = self.chance
        keys = chance.sample([*self.known], len(self.known))
        for key in keys:
            # Some nodes have reported nothing new since the last poll, and some nothing for long.
            if chance.random() < 0.9 or key not in self.sampled_at:
                self.sampled_at[key] = at - (1.0 if chance.random() < 0.99 else 500.0)
                for name in self.names:
                    self.values.setdefault(name, {})[key] = self.value(name)
        all_rows = {key: row for row, key in enumerate(keys)}
        columns = {}
        for name in self.names:
            rows: Mapping[Key, int] = all_rows
            own = self.values[name]
            if chance.random() < 0.05:
                some = [key for key in keys if chance.random() < 0.98]
                rows = {key: row for row, key in enumerate(some)}
            columns[name] = Column(rows, array("d", [own.get(key, 1.0) for key in rows]))
        known = {key: Known(self.known[key], self.sampled_at[key]) for key in keys}
        return Seen(asked_at=at, known=known, values=columns, interval_s=30.0, remarks=())


def shown(block: Block) -> object:
    columns = {key: (some.typecode, some.tobytes()) for key, some in block.columns.items()}
    return block.keys, [*columns], columns, dict(block.labels), dict(block.missing)


def plain(readings: Sequence[NodeReading]) -> list[object]:
    return [
        (
            one.node,
            one.age_s,
            one.reading.host_name,
            one.reading.errors,
            {name: shown(block) for name, block in one.reading.blocks.items()},
        )
        for one in readings
    ]


@pytest.mark.parametrize("seed", range(8))
def test_nodes_that_are_read_together_are_what_each_is_by_itself(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet, together, alone = Fleet(seed), Nodes(), Nodes()
    for turn in range(12):
        if fleet.chance.random() < 0.7:
            fleet.change()
        at = 1_800_000_000.0 + 30.0 * turn
        seen = fleet.poll(at)
        found = []
        for nodes, many, forms in ((together, 1, 256), (alone, 10**9, 0)):
            monkeypatch.setattr(nodes_module, "MANY", many)
            monkeypatch.setattr(nodes_module, "MOST_FORMS", forms)
            readings, errors = nodes.read(seen, at, 60.0)
            found.append((plain(readings), errors))
        assert found[0] == found[1]


def test_of_many_nodes_none_is_read_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random.Random, "random", lambda _: 0.5)
    monkeypatch.setattr(nodes_module, "MANY", 2)
    monkeypatch.setattr(random.Random, "choice", lambda _, some: some[0])
    fleet, nodes = Fleet(1), Nodes()
    fleet.names = [*NAMES]
    monkeypatch.setattr(fleet, "value", lambda _: 1.0)
    asked: list[object] = []
    real = nodes_module.NodeMemory.reading
    monkeypatch.setattr(
        nodes_module.NodeMemory,
        "reading",
        lambda *given: (asked.append(given[-1]), real(*given))[1],
    )
    readings, errors = nodes.read(fleet.poll(1_800_000_000.0), 1_800_000_000.0, 600.0)
    assert not errors
    assert len(readings) == HOSTS == len(asked)
    assert None not in asked


def later(seen: Seen, by_s: float, *, is_new: bool = False) -> Seen:
    """The same GPUs in a later poll with other values; `is_new`: read anew."""
    known = {key: one._replace(sampled_at=one.sampled_at + by_s) for key, one in seen.known.items()}
    values = {
        name: Column(
            {**column.rows} if is_new else column.rows, array("d", [v + 1 for v in column.values])
        )
        for name, column in seen.values.items()
    }
    return seen._replace(asked_at=seen.asked_at + by_s, known=known, values=values)


def test_gpus_that_are_those_of_the_last_poll_are_not_looked_up_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(random.Random, "random", lambda _: 0.5)
    fleet, nodes, other = Fleet(3), Nodes(), Nodes()
    at = 1_800_000_000.0
    seen = fleet.poll(at)
    again, anew = later(seen, 30.0), later(seen, 30.0, is_new=True)
    heard: list[object] = []
    real = nodes_module._NodeReader.hear
    monkeypatch.setattr(
        nodes_module._NodeReader, "hear", lambda *given: (heard.append(given[0]), real(*given))[1]
    )
    for one in (nodes, other):
        one.read(seen, at, 60.0)
    heard.clear()
    found = nodes.read(again, at + 30.0, 60.0)
    assert not heard
    wanted = other.read(anew, at + 30.0, 60.0)
    assert len(heard) == HOSTS
    assert (plain(found[0]), found[1]) == (plain(wanted[0]), wanted[1])
    # What is old, shared or labelled otherwise is looked at one by one.
    key = next(iter(again.known))
    one = again.known[key]
    for changed in (
        one._replace(sampled_at=at - 900.0),
        one._replace(others=({**one.labels, "hpc_job": "9"},)),
        one._replace(labels={**one.labels, "hpc_job": "8"}),
    ):
        heard.clear()
        nodes.read(again, at + 30.0, 60.0)
        found = nodes.read(again._replace(known={**again.known, key: changed}), at + 30.0, 60.0)
        assert heard
        assert (plain(found[0]), found[1]) != (plain(wanted[0]), wanted[1])
