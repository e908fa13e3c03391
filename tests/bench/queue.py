"""`python -m tests.bench.queue`: reading and joining 10,000 jobs on 1,000 nodes.

Prints CPU seconds and asserts nothing. The records are those of a real Slurm 24.11, each with an id
and nodes of its own.
"""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpumon.fleet.join.join import join
from gpumon.model.records.frame import QueueRecords
from gpumon.sources.slurm.json.jobs import read_jobs
from gpumon.sources.slurm.json.nodes import read_nodes
from gpumon.sources.slurm.text.jobs import parse_jobs
from gpumon.sources.slurm.text.nodes import parse_nodes
from tests.unit.fleet.factories import frame, gpu_block

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.sources.slurm.text.jobs import JobList

DATA = Path(__file__).parents[1] / "unit" / "sources" / "slurm" / "data"
JOBS = 10_000
NODES = 1_000


def _many_text(name: str, key: str, count: int) -> str:
    """Records of a real answer over and over, numbered anew."""
    text = (DATA / name).read_text(encoding="utf-8").partition("\n")[2].strip("\n")
    records = text.split(f"\n\n{key}=")
    records[0] = records[0].removeprefix(f"{key}=")
    found = []
    for place in range(count):
        # The nodes of the recording are gpu01 to gpu03; each copy has three of its own.
        record = records[place % len(records)].partition(" ")[2]
        group = place // len(records) % (NODES // 3)
        record = record.replace("gpu0", f"g{group}n0").replace("gpu[0", f"g{group}n[0")
        name_of = f"g{place // 3}n0{place % 3 + 1}" if key == "NodeName" else str(place + 1)
        found.append(f"{key}={name_of} {record}")
    return "\n\n".join(found) + "\n"


def _many_json(name: str, what: str, count: int) -> list[Any]:
    answer = json.loads((DATA / name).read_bytes())[what]
    key = "job_id" if what == "jobs" else "name"
    return [
        {**answer[place % len(answer)], key: place + 1 if what == "jobs" else f"n{place}"}
        for place in range(count)
    ]


def _timed(name: str, size: int, call: Callable[[], Any]) -> Any:
    started = time.process_time()
    found = call()
    print(f"{name:32} {size / 1e6:8.1f} MB {time.process_time() - started:8.2f} s", flush=True)
    return found


def _read_jobs(body: str) -> JobList:
    return read_jobs(json.loads(body)["jobs"])


def main() -> None:
    """Read jobs and nodes from text and JSON, and join them."""
    text = _many_text("jobs-24.11-beside-json.txt", "JobId", JOBS)
    jobs = _timed("10,000 jobs, text", len(text), lambda: parse_jobs(text))
    listed = _many_text("nodes-24.11-beside-json.txt", "NodeName", NODES)
    nodes = _timed("1,000 nodes, text", len(listed), lambda: parse_nodes(listed))
    for version in (40, 41):
        body = json.dumps({"jobs": _many_json(f"jobs-v0.0.{version}.json", "jobs", JOBS)})
        name = f"10,000 jobs, JSON v0.0.{version}"
        _timed(name, len(body), partial(_read_jobs, body))
    body = json.dumps({"nodes": _many_json("nodes-v0.0.41.json", "nodes", NODES)})
    _timed("1,000 nodes, JSON", len(body), lambda: read_nodes(json.loads(body)["nodes"]))
    records = QueueRecords(jobs.jobs, nodes.nodes, 0.0, 0.0)
    frames = [
        frame(node.name, {"gpu": gpu_block(node.name, list(range(8)))}) for node in nodes.nodes
    ]
    _timed("join with 8,000 GPUs", 0, lambda: join(frames, records, {}, 100.0, 5.0))
    print(f"read: {len(jobs.jobs)} jobs, {len(nodes.nodes)} nodes; unreadable: {jobs.unreadable}")


if __name__ == "__main__":
    main()
