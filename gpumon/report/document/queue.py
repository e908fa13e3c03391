"""What the queue says beside the jobs themselves, as the JSON document shows it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gpumon.report.facts.entities import moment, number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumon.model.records.cluster import Job, JobView, SlurmNode
    from gpumon.report.document import forms
    from gpumon.report.facts.groups import PartitionRow
    from gpumon.report.facts.reservations import ReservationRow
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Line


def queue_age_s(digest: Digest) -> float | None:
    """Age of the newest answer of the queue; None where no target is a queue."""
    at = digest.tick.queue_at
    return None if at is None else round(max(0.0, digest.tick.at - at), 3)


def job_request(job: Job) -> forms.JobRequest:
    """What a job asks for and how it fares in the queue."""
    return {
        "qos": job.qos or None,
        "reservation": job.reservation or None,
        "features": job.features or None,
        "dependency": job.dependency or None,
        "priority": job.priority,
        "eligible_at": moment(job.eligible_at),
        "expected_start_at": moment(job.start_at if job.state == "PENDING" else None),
        "expected_nodes": list(job.expected_nodes),
        "restart_count": job.restart_count,
        "exit_code": job.exit_code or None,
        "node_count": job.node_count,
        "cpu_count": job.cpu_count,
        "mem_bytes": number(job.mem_bytes),
        "work_dir": job.work_dir,
        "stdout_path": job.stdout_path,
        "stderr_path": job.stderr_path,
        "sluid": job.sluid or None,
        "gpu_types": list(job.gpu_types),
        "gpus_per_node": job.gpus_per_node,
        "nodes_required": list(job.nodes_required),
        "nodes_excluded": list(job.nodes_excluded),
        "exclusive": job.is_exclusive,
    }


def waiting(digest: Digest, view: JobView) -> forms.Waiting | None:
    """Why a job waits and what would let it start sooner; None where it does not wait."""
    if view.job.state != "PENDING":
        return None
    from gpumon.report.wording.pending import hints, place_of
    from gpumon.report.wording.queue_reasons import meaning_of

    meaning, place = meaning_of(view.job.reason), place_of(digest, view)
    return {
        "meaning": meaning.words,
        "stuck": meaning.is_stuck,
        "position": place.position if place else None,
        "position_of": place.of if place else None,
        "gpus_before": place.gpus_before if place else None,
        "hints": [hint.text for hint in hints(digest, view)],
    }


def slurm_node(digest: Digest, name: str) -> forms.SlurmNode | None:
    """What Slurm says of a node; None where no queue lists it."""
    queue = digest.tick.queue
    listed: dict[str, SlurmNode] = digest.remembered(
        ("slurm nodes", ""), lambda: {node.name: node for node in queue.nodes} if queue else {}
    )
    node = listed.get(name)
    if node is None:
        return None
    return {
        "cluster": digest.tick.cluster_of(node.name),
        "state": node.state,
        "reason": node.reason or None,
        "reason_at": moment(node.reason_at),
        "reason_user": node.reason_user or None,
        "partitions": list(node.partitions),
        "features": list(node.features),
        "reservation": node.reservation or None,
        "gpu_count": node.gpu_count,
        "gpus_used": node.gpus_used,
        "cpu_count": node.cpu_count,
        "cpus_used": node.cpus_used,
        "mem_bytes": number(node.mem_bytes),
        "mem_used_bytes": number(node.mem_used_bytes),
        "gpu_types": _types((node,)),
        "boot_at": moment(node.boot_at),
        "leaf_switch": node.leaf_switch or None,
        "block": node.block or None,
    }


def _types(nodes: Iterable[SlurmNode]) -> list[forms.GpuType]:
    """GPUs of nodes by Slurm's type; those without a type are left out."""
    there = Counter(kind for node in nodes for kind in node.gpu_types)
    return [{"type": kind, "gpu_count": count} for kind, count in there.items() if kind]


def partitions(digest: Digest) -> list[forms.Partition]:
    """Every partition with its nodes and GPUs."""
    # One answer about one machine, which has no queue, need not wait for what tables are made of.
    if digest.tick.queue is None:
        return []
    from gpumon.report.facts.groups import partition_rows

    return [_partition(digest, row) for row in partition_rows(digest) if row.partition is not None]


def _partition(digest: Digest, row: PartitionRow) -> forms.Partition:
    from gpumon.report.facts.slurm_nodes import partition_nodes

    part, group = row.partition, row.group
    assert part is not None
    rooms = partition_nodes(digest, (part.name,))
    return {
        "name": part.name,
        "cluster": digest.tick.cluster_of(part.name),
        "state": part.state,
        "default": part.is_default,
        "time_limit_s": part.time_limit_s,
        "priority": part.priority,
        "qos": part.qos or None,
        "accounts": list(part.accounts),
        "nodes": list(part.nodes),
        "nodes_out": row.nodes_out,
        "gpu_count": part.gpu_count if part.gpu_count is not None else row.gpus,
        "gpus_used": row.gpus_used,
        "gpus_free": row.gpus_free,
        "gpus_out": row.gpus_out,
        "jobs_running": group.jobs_running,
        "jobs_pending": group.jobs_pending,
        "gpus_pending": group.gpus_pending,
        "gpu_types": _types(room.node for room in rooms),
    }


def reservations(digest: Digest) -> list[forms.Reservation]:
    """Every reservation that is not over, with the jobs that cross its start."""
    if digest.tick.queue is None:
        return []
    from gpumon.report.facts.reservations import reservation_rows

    return [_reservation(digest, row) for row in reservation_rows(digest)]


def _reservation(digest: Digest, row: ReservationRow) -> forms.Reservation:
    what = row.reservation
    return {
        "name": what.name,
        "cluster": digest.tick.cluster_of(what.name),
        "state": what.state,
        "maintenance": what.is_maintenance,
        "starts_at": moment(what.start_at),
        "ends_at": moment(what.end_at),
        "flags": list(what.flags),
        "users": list(what.users),
        "accounts": list(what.accounts),
        "partition": what.partition or None,
        "nodes": list(what.nodes),
        "gpu_count": what.gpu_count,
        "crossing_jobs": [view.job.job_id for view in row.crossing],
    }


def stray_lines(digest: Digest, width: int) -> list[Line]:
    """How many processes are on GPUs that no job holds, and which; nothing where there are none."""
    found = digest.tick.strays
    if not found:
        return []
    from gpumon.report.text.cells import Tone, paragraph, some_names

    names = tuple(f"{p.node} {p.name or 'pid'} {p.pid}" for p in found)
    count = "1 process is" if len(found) == 1 else f"{len(found)} processes are"
    text = f"{count} on GPUs that no job holds: {some_names(names, 3)}"
    return paragraph(text, width, Tone.WARN, "! ", "  ")


def stray_processes(digest: Digest) -> list[forms.Stray]:
    """The processes on GPUs that no job holds."""
    return [
        {
            "node": process.node,
            "pid": process.pid,
            "name": process.name,
            "uid": process.uid,
            "job_id": process.job_id,
            "gpu_uuids": list(process.gpu_uuids),
        }
        for process in digest.tick.strays
    ]
