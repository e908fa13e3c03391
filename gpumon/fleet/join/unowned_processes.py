"""Processes on GPUs that no job holds: what Slurm and the nodes say together, and nothing less."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.model.missing import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpumon.model.records.cluster import Gpu, JobView, Process, SlurmNode


def strays_of(
    views: Sequence[JobView], nodes: Iterable[SlurmNode], on_node: Mapping[str, Sequence[Gpu]]
) -> tuple[Process, ...]:
    """Processes of no job on GPUs of no job.

    A GPU is of no job where the jobs in the picture hold, by UUID, exactly as many of its node's
    GPUs as Slurm has given away there: then nobody whom we don't see can hold it. A process is of
    no job where neither its control group nor its environment names one; what only draws, as a
    node's own desktop does, takes a GPU from nobody. Of a GPU in MIG mode
    Slurm counts the instances, which hold no UUID here, so that nothing is said of its node.
    """
    granted: dict[str, int] = {}
    for view in views:
        for allocation in view.job.allocations:
            granted[allocation.node] = granted.get(allocation.node, 0) + allocation.gpu_count
    held = {uuid for view in views for uuid in view.gpu_uuids}
    found: dict[tuple[str, int], Process] = {}
    for node in nodes:
        gpus = on_node.get(node.name, ())
        known = sum(gpu.uuid in held for gpu in gpus)
        if node.gpus_used is None or not node.gpus_used == granted.get(node.name, 0) == known:
            continue
        if any(is_mig(gpu) for gpu in gpus):
            continue
        for gpu in gpus:
            if gpu.uuid in held or gpu.is_stale:
                continue
            for process in gpu.compute_processes:
                if process.job_id is None and process.why is not Reason.NO_PROCESS:
                    found[process.node, process.pid] = process
    return tuple(found[key] for key in sorted(found))


def is_mig(gpu: Gpu) -> bool:
    """Whether the GPU is cut into instances, which Slurm counts in its place."""
    return gpu.block.value("mig_mode", gpu.row) == 1
