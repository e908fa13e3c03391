"""Ticks made by hand for tests of screens and texts."""

from __future__ import annotations

from math import nan
from typing import Any

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.fault import SourceError
from gpumon.model.finding import Confidence, Coverage, Evidence, Finding, Severity, Window
from gpumon.model.missing import Reason
from gpumon.model.records.block import Block, column_for
from gpumon.model.records.cluster import Allocation, Gpu, Job, JobView, Node, Process, Rank
from gpumon.model.records.tick import Interval, TargetState, Tick

AT = 1_760_000_000.0
"""2025-10-09 08:53:20 UTC."""

GIB = 2**30

BUSY: dict[str, float | int | None] = {
    "index": 0,
    "minor_number": 0,
    "gpu_util_ratio": 0.98,
    "mem_activity_ratio": 0.5,
    "sm_active_ratio": 0.84,
    "sm_occupancy_ratio": 0.4,
    "tensor_active_ratio": 0.47,
    "dram_active_ratio": 0.36,
    "mem_used_bytes": 61.0 * GIB,
    "mem_total_bytes": 80.0 * GIB,
    "power_w": 612.0,
    "power_limit_w": 700.0,
    "energy_j": 123_456_789,
    "temp_c": 64.0,
    "sm_clock_mhz": 1755.0,
    "sm_clock_max_mhz": 1980.0,
    "clock_event_reasons": 0x4,
    "pcie_gen": 5.0,
    "pcie_gen_max": 5.0,
    "pcie_width": 16.0,
    "pcie_width_max": 16.0,
    "pcie_tx_bytes_per_s": 1.2e9,
    "pcie_rx_bytes_per_s": 2.4e9,
    "nvlink_tx_bytes_per_s": 151e9,
    "nvlink_rx_bytes_per_s": 149e9,
    "encoder_util_ratio": None,
    "decoder_util_ratio": None,
    "process_count": 1.0,
}

TRAINS: dict[str, float | int | None] = {
    **BUSY,
    "gpu_util_ratio": 1.0,
    "sm_active_ratio": 0.8,
    "tensor_active_ratio": 0.44,
    "fp32_active_ratio": 0.02,
    "fp64_active_ratio": 0.0,
    "dram_active_ratio": 0.35,
    "sm_clock_mhz": 1830.0,
    "nvlink_rx_bytes_per_s": 9e9,
    "nvlink_tx_bytes_per_s": 9e9,
}
"""An H100 that trains, at the clock of its data sheet's peaks."""

IDLE: dict[str, float | int | None] = {
    **BUSY,
    "gpu_util_ratio": 0.0,
    "mem_activity_ratio": 0.0,
    "sm_active_ratio": 0.0,
    "sm_occupancy_ratio": 0.0,
    "tensor_active_ratio": 0.0,
    "dram_active_ratio": 0.0,
    "mem_used_bytes": 0.5 * GIB,
    "power_w": 71.0,
    "temp_c": 33.0,
    "sm_clock_mhz": 345.0,
    "clock_event_reasons": 0x1,
    "nvlink_tx_bytes_per_s": 0.0,
    "nvlink_rx_bytes_per_s": 0.0,
    "process_count": 0.0,
}


def uuid_of(node: str, index: int) -> str:
    """A UUID that names node and index, unique in its first eight digits."""
    number = sum(ord(c) * 31**i for i, c in enumerate(node)) % 0xFFFFFF
    return f"GPU-{number:06x}{index:02x}-0000-4000-8000-000000000000"


def gpu(
    node: str,
    index: int,
    values: dict[str, float | int | None] = BUSY,
    processes: tuple[Process, ...] = (),
    stale_s: float | None = None,
    name: str = "NVIDIA H100 80GB HBM3",
) -> Gpu:
    """One GPU; a value of None is not offered by the hardware."""
    values = {**values, "index": index, "minor_number": index}
    block = Block(
        (uuid_of(node, index),),
        {k: column_for(CATALOGUE[k].kind.is_integer, [v]) for k, v in values.items()},
        {"name": (name,), "pci_bus_id": (f"00000000:{index + 1:02X}:00.0",)},
        {(k, 0): Reason.NOT_SUPPORTED for k, v in values.items() if v is None},
    )
    taken_at = AT - (stale_s or 0.3)
    return Gpu(
        uuid_of(node, index),
        node,
        block,
        0,
        taken_at,
        f"ssh://{node}",
        stale_s is not None,
        processes,
    )


def process(node: str, index: int, pid: int, job_id: str | None, rank: int | None) -> Process:
    """A process on one GPU."""
    return Process(
        node,
        pid,
        "python",
        1000,
        job_id,
        "0",
        {} if rank is None else {"RANK": str(rank)},
        None,
        (uuid_of(node, index),),
        {uuid_of(node, index): 60.0 * GIB},
    )


def job(job_id: str, **changes: Any) -> Job:
    """A running job."""
    fields: dict[str, Any] = {
        "job_id": job_id,
        "label": job_id,
        "name": "train-llama",
        "user": "ada",
        "account": "ml",
        "partition": "h100",
        "state": "RUNNING",
        "reason": "",
        "nodes": (),
        "allocations": (),
        "gpu_count": 0,
        "submit_at": AT - 9000,
        "start_at": AT - 8040,
        "end_at": AT + 78360,
        "time_limit_s": 86400.0,
    }
    return Job(**{**fields, **changes})


def finding(subject: str, **changes: Any) -> Finding:
    """A supported warning."""
    fields: dict[str, Any] = {
        "detector": "partial_gpus_idle",
        "finding_class": "partial_gpus_idle",
        "subject": subject,
        "severity": Severity.WARNING,
        "confidence": Confidence.SUPPORTED,
        "summary": "3 of 8 GPUs ran nothing for 9 minutes while the others worked.",
        "evidence": (
            Evidence("sm_active_ratio", "gpu:x", "gpu01:5 to gpu01:7 had 0 % SM activity", 0.0),
        ),
        "window": Window(AT - 540, AT, 540),
        "first_seen": AT - 120,
        "last_seen": AT,
        "advice": ("Ask for 5 GPUs: sbatch --gpus=5", "Check CUDA_VISIBLE_DEVICES in the script."),
        "gpu_seconds": 1620.0,
    }
    return Finding(**{**fields, **changes})


class Past:
    """A past in which every field rose from 0 to its newest value."""

    def __init__(self, gpus: dict[str, Gpu]) -> None:
        self._gpus = gpus

    def window(
        self, uuid: str, key: str, start: float, end: float
    ) -> tuple[list[float], list[float]]:
        value = self._gpus[uuid].value(key) if uuid in self._gpus else None
        times = [end - 60 + i for i in range(61) if end - 60 + i >= start]
        return times, [nan if value is None else value * i / 60 for i in range(len(times))]

    def intervals(self, _job_id: str) -> tuple[Interval, ...]:
        return ()


def job_with_gpus(
    job_id: str,
    nodes: dict[str, int],
    idle: int = 0,
    stale_s: float | None = None,
    **changes: Any,
) -> tuple[JobView, list[Gpu]]:
    """A job that holds the first GPUs of these nodes, one rank each; the last `idle` do nothing."""
    gpus: list[Gpu] = []
    ranks: list[Rank] = []
    total = sum(nodes.values())
    for name, count in nodes.items():
        for index in range(count):
            number = len(gpus)
            if number >= total - idle:
                gpus.append(gpu(name, index, IDLE, stale_s=stale_s))
                continue
            pid = 4000 + number
            mine = process(name, index, pid, job_id, number)
            gpus.append(gpu(name, index, processes=(mine,), stale_s=stale_s))
            ranks.append(
                Rank(
                    "0",
                    f"{next(iter(nodes))}:29500",
                    number,
                    index,
                    total,
                    name,
                    pid,
                    (uuid_of(name, index),),
                    None,
                    "python",
                )
            )
    fields: dict[str, Any] = {
        "nodes": tuple(nodes),
        "gpu_count": total,
        "allocations": tuple(Allocation(n, c, tuple(range(c))) for n, c in nodes.items()),
        **changes,
    }
    view = JobView(job(job_id, **fields), tuple(g.uuid for g in gpus), 0, tuple(ranks), ())
    return view, gpus


def tick(
    jobs: tuple[JobView, ...] = (),
    gpus: list[Gpu] | tuple[Gpu, ...] = (),
    **changes: Any,
) -> Tick:
    """A tick of these jobs and GPUs."""
    by_uuid = {g.uuid: g for g in gpus}
    nodes: dict[str, Node] = {}
    for name in dict.fromkeys(g.node for g in gpus):
        mine = [g for g in gpus if g.node == name]
        nodes[name] = Node(
            name,
            tuple(g.uuid for g in mine),
            mine[0].taken_at,
            mine[0].is_stale,
            "mixed",
            (),
            0.01,
        )
    fields: dict[str, Any] = {
        "number": 1,
        "at": AT,
        "observed_since": AT - 600,
        "period_s": 1.0,
        "targets": (TargetState("slurm", True, None, 0.3),),
        "nodes": nodes,
        "gpus": by_uuid,
        "jobs": jobs,
        "queue_at": AT - 12,
        "findings": (),
        "coverage": (Coverage("partial_gpus_idle", 1, 0, (), "ok"),),
        "errors": (),
        "lateness_s": 0.02,
        "history": Past(by_uuid),
    }
    return Tick(**{**fields, **changes})


def fleet(**changes: Any) -> Tick:
    """A small cluster: a job that wastes GPUs, healthy ones, a stale one, a waiting one."""
    wasting, a = job_with_gpus("4711", {"gpu01": 8}, idle=3, name="finetune", user="grace")
    healthy, b = job_with_gpus("4690", {"gpu02": 8, "gpu03": 8}, name="pretrain-7b")
    stale, c = job_with_gpus("4702", {"gpu04": 4}, stale_s=42.0, name="embed", user="edsger")
    blind = JobView(
        job(
            "4720_3",
            label="4720_3",
            name="sweep",
            user="barbara",
            nodes=("gpu05",),
            gpu_count=4,
            allocations=(Allocation("gpu05", 4, None),),
        ),
        (),
        4,
        (),
        (),
    )
    waiting = JobView(
        job(
            "4730",
            state="PENDING",
            reason="Resources",
            name="big-eval",
            gpu_count=64,
            start_at=None,
        ),
        (),
        0,
        (),
        (),
    )
    fields: dict[str, Any] = {"findings": (finding("job:4711"),), **changes}
    return tick(
        (waiting, healthy, stale, wasting, blind),
        [*a, *b, *c],
        **fields,
    )


def failed(message: str = "squeue: command not found", hint: str = "load the slurm module") -> Tick:
    """A tick in which the only target failed."""
    error = SourceError("slurm", message, hint)
    return tick(
        targets=(TargetState("slurm", False, error, None),),
        errors=(error,),
        queue_at=None,
        coverage=(),
        history=None,
    )
