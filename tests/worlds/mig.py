"""A machine with a GPU in MIG mode between two that are whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpumon.model.records.cluster import Node
from tests.worlds.node import block
from tests.worlds.tick import AT, BUSY, GIB, gpu, process, tick, uuid_of

if TYPE_CHECKING:
    from gpumon.model.records.block import Block
    from gpumon.model.records.cluster import JobView, Process
    from gpumon.model.records.tick import Tick

CUT = uuid_of("n1", 1)


def mig_uuid(number: int) -> str:
    """UUID of an instance."""
    return f"MIG-{number:08x}-0000-4000-8000-000000000000"


def instances(parent: str = CUT) -> Block:
    """Three, listed in an order that is not theirs: 5/1, 1/0, 5/0."""
    rows: dict[str, dict[str, float | int | None]] = {}
    numbers, activity = ((5, 1), (1, 0), (5, 0)), (0.61, 0.05, None)
    for number, ((gi, ci), sm) in enumerate(zip(numbers, activity, strict=True)):
        rows[mig_uuid(0xA0 + number)] = {
            "mig_gpu_instance": gi,
            "mig_compute_instance": ci,
            "mig_sm_active_ratio": sm,
            "mig_tensor_active_ratio": 0.3,
            "mig_dram_active_ratio": 0.2,
            "mig_mem_used_bytes": 9.0 * GIB,
            "mig_mem_total_bytes": 20.0 * GIB,
        }
    profiles = ("1c.2g.20gb", "3g.40gb", "1c.2g.20gb")
    return block("mig", rows, {"parent": (parent,) * 3, "profile": profiles})


def contexts(pids: dict[int, tuple[int, int]]) -> Block:
    """By process: the numbers of the instance that it runs in."""
    rows: dict[str, dict[str, float | int | None]] = {
        f"{pid}/{CUT}": {"context_gpu_instance": gi, "context_compute_instance": ci}
        for pid, (gi, ci) in pids.items()
    }
    return block("context", rows)


def picture(
    more: dict[str, Block] | None = None,
    processes: tuple[Process, ...] = (),
    jobs: tuple[JobView, ...] = (),
    is_stale: bool = False,
    **changes: Any,
) -> Tick:
    """Three GPUs, of which the second is cut."""
    quiet = {**BUSY, "sm_active_ratio": None, "gpu_util_ratio": None, "mig_mode": 1}
    old = 42.0 if is_stale else None
    gpus = [gpu("n1", 0), gpu("n1", 1, quiet, processes, old), gpu("n1", 2)]
    made = tick(jobs, gpus, **changes)
    blocks = {"mig": instances(), **(more or {})}
    uuids = tuple(one.uuid for one in gpus)
    node = Node("n1", uuids, AT - 0.3, False, None, (), 0.01, None, blocks)
    return made._replace(nodes={"n1": node})


def on_cut(pid: int, user: str, job_id: str | None = None) -> Process:
    """A process on the GPU that is cut."""
    return process("n1", 1, pid, job_id, None)._replace(user=user, name=f"train{pid}")
