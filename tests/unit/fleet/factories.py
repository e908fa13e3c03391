"""Frames, jobs and nodes as sources would report them, for tests of what joins them."""

from __future__ import annotations

import json

from gpumon.model.missing import Reason
from gpumon.model.records.block import Block, column_for
from gpumon.model.records.cluster import Allocation, Job, SlurmNode
from gpumon.model.records.frame import Frame, QueueRecords


def uuid(node: str, number: int) -> str:
    return f"GPU-{node}-{number}"


def gpu_block(node: str, minors: list[int], **values: list[float | None]) -> Block:
    """GPUs in NVML's order; `minors[i]` is the device file of NVML's index i, and of its UUID."""
    columns = {
        "index": column_for(True, list(range(len(minors)))),
        "minor_number": column_for(True, list(minors)),
    }
    columns |= {key: column_for(False, column) for key, column in values.items()}
    return Block(tuple(uuid(node, minor) for minor in minors), columns, {}, {})


def process_blocks(
    processes: list[tuple[int, list[str], str | None, str | None, dict[str, str] | None]],
) -> dict[str, Block]:
    """Blocks of (pid, UUIDs, job, step, rank variables or None for no permission)."""
    contexts = [f"{pid}/{on}" for pid, uuids, *_ in processes for on in uuids]
    memory = column_for(False, [1e9] * len(contexts))
    hidden = {
        ("rank_vars", row): Reason.NO_PERMISSION
        for row, process in enumerate(processes)
        if process[4] is None
    }
    labels = {
        "name": tuple("python3" for _ in processes),
        "job_id": tuple(process[2] for process in processes),
        "step": tuple(process[3] for process in processes),
        "rank_vars": tuple(
            None if process[4] is None else json.dumps(process[4]) for process in processes
        ),
    }
    keys = tuple(str(pid) for pid, *_ in processes)
    return {
        "context": Block(tuple(contexts), {"context_mem_used_bytes": memory}, {}, {}),
        "process": Block(keys, {"uid": column_for(True, [7001] * len(keys))}, labels, hidden),
    }


def frame(node: str, blocks: dict[str, Block], at: float = 100.0, origin: str = "slurm") -> Frame:
    return Frame(origin, node, at, 0.0, blocks)


def node(name: str, files: tuple[str, ...] = (), **changes: object) -> SlurmNode:
    made = SlurmNode(name, name, name, "mixed", len(files) or 8, files)
    return made._replace(**changes)


def job(job_id: str, allocations: dict[str, tuple[int, ...] | None], **changes: object) -> Job:
    """A running job that holds these IDX per node; None: Slurm does not say which eight."""
    held = tuple(
        Allocation(name, 8 if indices is None else len(indices), indices)
        for name, indices in allocations.items()
    )
    made = Job(
        job_id=job_id,
        label=job_id,
        name="train",
        user="alice",
        account="ml",
        partition="gpu",
        state="RUNNING",
        reason="",
        nodes=tuple(allocations),
        allocations=held,
        gpu_count=sum(a.gpu_count for a in held),
        submit_at=0.0,
        start_at=10.0,
        end_at=None,
        time_limit_s=3600.0,
    )
    return made._replace(**changes)


def queue(jobs: list[Job], nodes: list[SlurmNode]) -> QueueRecords:
    return QueueRecords(tuple(jobs), tuple(nodes), 100.0, 100.0)


DEVICES = tuple(f"/dev/nvidia{number}" for number in range(8))
