"""Memory and time of history over hours, for fleets of any size, on an invented clock.

`python -m tests.bench.past GPUS TICKS [MIB]`: every kept field of every GPU and of what is around
it, one tick a second. It prints and asserts nothing.
"""

from __future__ import annotations

import sys
import time
from array import array
from pathlib import Path
from typing import Final

import numpy as np

from gpumon.fleet.history.fields import HISTORY_BLOCKS, stored_keys
from gpumon.fleet.history.history import History
from gpumon.fleet.history.retention import DEFAULT_MAX_BYTES
from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.records.block import Block
from gpumon.model.records.cluster import Gpu, Node
from gpumon.model.records.tick import Tick

GPUS_A_NODE: Final = 8
AROUND: Final = {
    "link": 144,
    "nic": 9,
    "filesystem": 3,
    "cgroup": 2,
    "node": 1,
    "process": GPUS_A_NODE,
    "context": GPUS_A_NODE,
}
"""Entities of a node besides its GPUs, as the demo's nodes have them."""

STAY: Final = 600
"""Ticks after which the processes of a node are others."""

_PICTURES: Final = 3
_HOUR: Final = 3600


def _block(name: str, keys: tuple[str, ...], chance: np.random.Generator) -> Block:
    columns: dict[str, array[float] | array[int]] = {}
    for key in stored_keys(name):
        if CATALOGUE[key].kind.is_integer:
            columns[key] = array("q", chance.integers(0, 1000, len(keys)).tolist())
        else:
            columns[key] = array("d", chance.random(len(keys)).tolist())
    return Block(keys, columns, {}, {})


def picture(gpu_count: int, seed: int) -> tuple[dict[str, Node], dict[str, Gpu]]:
    """Nodes and GPUs with values made up; all nodes show the same ones."""
    chance = np.random.default_rng(seed)
    samples = {
        name: _block(name, tuple(str(row) for row in range(count)), chance)
        for name, count in (("gpu", GPUS_A_NODE), *AROUND.items())
    }
    nodes: dict[str, Node] = {}
    gpus: dict[str, Gpu] = {}
    for number in range(-(-gpu_count // GPUS_A_NODE)):
        name = f"gpu{number:04d}"
        uuids = tuple(f"GPU-{number:08d}-0000-4000-8000-{i:012d}" for i in range(GPUS_A_NODE))
        block = samples["gpu"]._replace(keys=uuids)
        links = tuple(f"{uuids[i % GPUS_A_NODE]}/{i // GPUS_A_NODE}" for i in range(AROUND["link"]))
        blocks = {kind: samples[kind] for kind in AROUND} | {
            "link": samples["link"]._replace(keys=links)
        }
        nodes[name] = Node(name, uuids, 0.0, False, None, (), blocks=blocks)
        for row, uuid in enumerate(uuids):
            gpus[uuid] = Gpu(uuid, name, block, row, 0.0, "bench", False, ())
    return nodes, gpus


def _with_processes(nodes: dict[str, Node], number: int) -> dict[str, Node]:
    """The nodes with the processes of an instant: on each they change all at once, in turn."""
    found = {}
    for place, (name, node) in enumerate(nodes.items()):
        first = 1000 + GPUS_A_NODE * ((number + place) // STAY)
        pids = tuple(str(first + i) for i in range(GPUS_A_NODE))
        contexts = tuple(f"{pid}/{uuid}" for pid, uuid in zip(pids, node.gpu_uuids, strict=True))
        process, context = node.blocks["process"], node.blocks["context"]
        blocks = {
            **node.blocks,
            "process": process._replace(keys=pids),
            "context": context._replace(keys=contexts),
        }
        found[name] = node._replace(blocks=blocks)
    return found


def resident_mib() -> float:
    """Resident memory of this process, shared memory included."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def main() -> None:
    """Run and print."""
    gpu_count, ticks = int(sys.argv[1]), int(sys.argv[2])
    max_bytes = int(sys.argv[3]) * 2**20 if len(sys.argv) > 3 else DEFAULT_MAX_BYTES
    pictures = [picture(gpu_count, seed) for seed in range(_PICTURES)]
    history = History(max_bytes=max_bytes)
    before, costs = resident_mib(), np.zeros(ticks, np.float32)
    print(f"{gpu_count} GPUs, budget {max_bytes / 2**20:.0f} MiB; without history {before:.0f} MiB")
    for number in range(ticks):
        nodes, gpus = pictures[number % _PICTURES]
        nodes = _with_processes(nodes, number)
        at = 1.7e9 + number
        tick = Tick(number, at, 1.7e9, 1.0, (), nodes, gpus, (), None, (), (), (), 0.0)
        begin = time.perf_counter()
        history.append(tick)
        reader = history.reader()
        costs[number] = 1e3 * (time.perf_counter() - begin)
        if number % _HOUR == _HOUR - 1 or number == ticks - 1:
            used = history.used_bytes / 2**20
            hour = number / _HOUR
            print(f"  {hour:5.1f} h: history {used:.1f} MiB, process {resident_mib():.1f} MiB")
    p50, p95, p99, most = np.percentile(costs, [50, 95, 99, 100])
    print(f"  a tick: p50 {p50:.1f} ms, p95 {p95:.1f}, p99 {p99:.1f}, most {most:.1f}")
    for block in HISTORY_BLOCKS:
        spans = reader.spans(block)
        if spans:
            told = ", ".join(f"{s.end - s.start:.0f} s at {s.resolution_s:g} s" for s in spans)
            print(f"  {block}: {told}")


if __name__ == "__main__":
    main()
