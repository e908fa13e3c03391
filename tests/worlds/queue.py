"""A queue made by hand: partitions, reservations, nodes and jobs that wait for every reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpumon.model.records.cluster import Job, JobView, SlurmNode
from gpumon.model.records.frame import QueueRecords
from gpumon.model.records.queue import Partition, Reservation
from tests.worlds.tick import AT, finding, job, job_with_gpus, tick

if TYPE_CHECKING:
    from gpumon.model.records.tick import Tick

HOUR = 3600.0


def slurm_node(name: str, state: str = "mixed", gpus: int | None = 8, **changes: Any) -> SlurmNode:
    """A node of partition h100."""
    return SlurmNode(name, name, name, state, gpus, partitions=("h100",))._replace(**changes)


def waits(job_id: str, reason: str = "Priority", **changes: Any) -> Job:
    """A job that waits for eight GPUs on one node."""
    fields: dict[str, Any] = {
        "state": "PENDING",
        "reason": reason,
        "gpu_count": 8,
        "node_count": 1,
        "start_at": None,
        "end_at": None,
        "priority": 1000,
        **changes,
    }
    if fields["gpu_count"] and fields["node_count"]:
        fields.setdefault("gpus_per_node", -(-fields["gpu_count"] // fields["node_count"]))
    return job(job_id, **fields)


def alone(record: Job) -> JobView:
    """A job that holds no GPU."""
    return JobView(record, (), 0, (), ())


def cluster(*jobs: Job, **changes: Any) -> Tick:
    """Four nodes: one full, two half full, one drained; a maintenance in 5.5 hours."""
    wasting, a = job_with_gpus("4711", {"gpu01": 8}, idle=3, name="finetune", user="grace")
    half, b = job_with_gpus("4690", {"gpu02": 4, "gpu03": 4}, name="pretrain-7b", account="nlp")
    nodes = (
        slurm_node("gpu01", "allocated", gpus_used=8),
        slurm_node("gpu02", gpus_used=4),
        slurm_node("gpu03"),
        slurm_node("gpu04", "idle+drain", gpus_used=0, reason="bad link", reason_user="root"),
    )
    names = tuple(node.name for node in nodes)
    maintenance = Reservation(
        "maint-oct", "INACTIVE", AT + 5.5 * HOUR, AT + 9 * HOUR, names, ("MAINT",), ("root",)
    )
    queue = {
        "partitions": (
            Partition("h100", "UP", names, 32, True, 48 * HOUR),
            Partition("a100", "DOWN", (), None),
        ),
        "reservations": (maintenance,),
        "nodes": nodes,
        **changes,
    }
    records = QueueRecords(
        (wasting.job, half.job, *jobs), jobs_at=AT - 12, nodes_at=AT - 12, **queue
    )
    return tick(
        (wasting, half, *(alone(record) for record in jobs)),
        [*a, *b],
        findings=(finding("job:4711"),),
        queue=records,
    )
