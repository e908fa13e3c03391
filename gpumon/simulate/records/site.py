"""What the simulated site sets: nodes, partitions and reservations as Slurm lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.model.records.cluster import SlurmNode
from gpumon.model.records.queue import Partition, Reservation
from gpumon.model.units import HOUR_S
from gpumon.simulate.cluster.layout import down_node, leaf_switch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.simulate.cluster.layout import SimNode
    from gpumon.simulate.cluster.schedule import SimJob
    from gpumon.simulate.cluster.sim_cluster import Fleet

_LIMIT_S: Final = 48 * HOUR_S
"""Time limit of each partition. Our choice: two days, as many clusters have."""

_MAINTENANCE_START_S: Final = 31 * HOUR_S
"""Behind the fleet's origin."""
MAINTENANCE_END_S: Final = 39 * HOUR_S
"""Likewise, eight hours after its start. A choice: a day's work."""

# How long before the fleet's origin a node fell silent, or was drained. Our choice: this morning.
_LOST_S: Final = 5.3 * HOUR_S
_DRAINED_S: Final = 2.6 * HOUR_S


def node_records(
    fleet: Fleet, running: Sequence[SimJob], reserved: Reservation | None, now: float
) -> tuple[SlurmNode, ...]:
    """Nodes, one of which is down.

    Args:
        fleet: The fleet.
        running: Jobs that hold GPUs.
        reserved: The reservation that holds nodes now.
        now: Unix time.
    """
    held: dict[int, int] = {}
    left: set[int] = set()
    for job in running:
        over_at = fleet.over_at(job)
        if over_at is not None and over_at <= now:
            left.update(spot.node for spot in job.spots)
        for spot in job.spots:
            held[spot.node] = held.get(spot.node, 0) + len(spot.gpus)
    memory = fleet.ailments.memory
    broken = None if memory is None else memory.node
    nodes = []
    for node in fleet.nodes:
        record = _node(fleet, node, held.get(node.number, 0))
        if node.number in left:
            record = record._replace(state=f"{record.state}+completing")
        if node.is_drained:
            is_broken = node.number == broken
            record = record._replace(
                state="idle+drain",
                reason="GPU memory row remap pending" if is_broken else "kernel update",
                reason_at=fleet.origin - _DRAINED_S,
                reason_user="root",
            )
        if reserved is not None and node.name in reserved.nodes:
            record = record._replace(reservation=reserved.name)
        nodes.append(record)
    lost = down_node(len(fleet.nodes))
    nodes.append(
        SlurmNode(
            name=lost,
            host_name=lost,
            address=lost,
            state="down+not_responding",
            gpu_count=fleet.gpus_per_node,
            reason="Not responding",
            reason_at=fleet.origin - _LOST_S,
            reason_user="slurm",
            partitions=(fleet.nodes[0].partition,),
            features=_features(fleet.nodes[0]),
            cpu_count=fleet.nodes[0].cpu_count,
            cpus_used=0,
            mem_bytes=float(fleet.nodes[0].host_mem_bytes),
            gpus_used=0,
            leaf_switch=leaf_switch(len(fleet.nodes) - 1),
        )
    )
    return tuple(nodes)


def _node(fleet: Fleet, node: SimNode, held: int) -> SlurmNode:
    total = len(node.gpus)
    return SlurmNode(
        name=node.name,
        host_name=node.name,
        address=node.name,
        state="idle" if not held else "allocated" if held == total else "mixed",
        gpu_count=total,
        gpu_files=tuple(f"/dev/nvidia{number}" for number in range(total)),
        partitions=(node.partition,),
        features=_features(node),
        cpu_count=node.cpu_count,
        cpus_used=held * node.cpus_per_gpu,
        mem_bytes=float(node.host_mem_bytes),
        gpus_used=held,
        mem_used_bytes=float(held * (node.host_mem_bytes // (fleet.gpus_per_node + 1))),
        boot_at=fleet.origin - node.up_s,
        leaf_switch=leaf_switch(node.number),
    )


def _features(node: SimNode) -> tuple[str, ...]:
    return (node.partition, "nvlink") if node.board.links else (node.partition,)


def partition_records(fleet: Fleet) -> tuple[Partition, ...]:
    """Partitions: one of each kind of GPU; the first is the default."""
    # The newest nodes come first.
    names = list(dict.fromkeys(node.partition for node in fleet.nodes))
    lost = down_node(len(fleet.nodes))
    found = []
    for place, name in enumerate(names):
        nodes = tuple(node.name for node in fleet.nodes if node.partition == name)
        if not nodes:
            continue
        nodes += (lost,) if not place else ()
        gpus = len(nodes) * fleet.gpus_per_node
        found.append(
            Partition(
                name=name,
                state="UP",
                nodes=nodes,
                gpu_count=gpus,
                is_default=not place,
                time_limit_s=_LIMIT_S,
                priority=10 - place,
            )
        )
    return tuple(found)


def sprint(fleet: Fleet, running: Sequence[SimJob]) -> tuple[Reservation, int] | None:
    """Nodes set aside for the first large job, and that job's number; None where there is none."""
    job = next((job for job in running if len(job.spots) > 1), None)
    if job is None or job.start_at is None:
        return None
    request = job.request
    nodes = tuple(fleet.nodes[spot.node].name for spot in job.spots)
    reservation = Reservation(
        name=f"{request.account}-sprint",
        state="ACTIVE",
        start_at=job.start_at - 0.5 * HOUR_S,
        end_at=job.start_at + request.limit_s + 2.0 * HOUR_S,
        nodes=nodes,
        flags=("SPEC_NODES",),
        users=(),
        accounts=(request.account,),
        partition=request.partition,
        gpu_count=len(nodes) * fleet.gpus_per_node,
    )
    return reservation, job.job_id


def maintenance(fleet: Fleet, now: float) -> Reservation | None:
    """The site's next maintenance; None once it is over."""
    start, end = fleet.origin + _MAINTENANCE_START_S, fleet.origin + MAINTENANCE_END_S
    if now >= end:
        return None
    nodes = (*(node.name for node in fleet.nodes), down_node(len(fleet.nodes)))
    return Reservation(
        name="maintenance",
        state="ACTIVE" if now >= start else "INACTIVE",
        start_at=start,
        end_at=end,
        nodes=nodes,
        flags=("MAINT", "IGNORE_JOBS", "SPEC_NODES", "ALL_NODES"),
        users=("root",),
        accounts=(),
        partition="",
        gpu_count=len(nodes) * fleet.gpus_per_node,
    )
