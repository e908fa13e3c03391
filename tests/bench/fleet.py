"""A large fleet whose pictures cost little to make: what detectors are measured on.

One job per node of its own; every second one leaves half of its GPUs unused. Nodes tell what
exporters and the queue tell of a sound fleet; in every picture a few jobs end and others begin.
"""

from __future__ import annotations

from array import array
from typing import Final

from gpumon.detect.scene import START_AT, UNUSED, WORKING, job_record
from gpumon.fleet.history.history import History
from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.records.block import Block, column_for
from gpumon.model.records.cluster import Allocation, Gpu, JobView, Node, SlurmNode
from gpumon.model.records.frame import QueueRecords
from gpumon.model.records.tick import Tick

PERIOD_S: Final = 10.0

_SOUND: Final = {
    "clock_event_reasons": 0.0,
    "ecc_uncorrected_volatile_count": 0.0,
    "pcie_gen": 5.0,
    "pcie_gen_max": 5.0,
    "pcie_replay_count": 0.0,
    "pcie_width": 16.0,
    "pcie_width_max": 16.0,
    "power_limit_w": 700.0,
    "remap_failure": 0.0,
    "sm_clock_mhz": 1700.0,
}
_OWN: Final = {"job_cpu_cores_used": 12.0, "job_mem_used_bytes": 64.0 * 2**30}


class BenchFleet:
    """Makes one picture after the other and remembers them as the sampler does."""

    def __init__(self, jobs: int, gpus_per_job: int, changed_jobs: int) -> None:
        self._history = History(3600.0)
        self._at, self._number, self._next_job = START_AT, 0, jobs
        self._changed = changed_jobs
        self._uuids: dict[str, tuple[str, ...]] = {}
        self._blocks: dict[str, Block] = {}
        self._jobs: dict[str, JobView] = {}
        self._slurm: list[SlurmNode] = []
        for number in range(jobs):
            name = f"n{number:05d}"
            uuids = tuple(f"GPU-{number:08d}-0000-4000-8000-{i:012d}" for i in range(gpus_per_job))
            used = gpus_per_job if number % 2 else gpus_per_job // 2
            self._uuids[name] = uuids
            self._blocks[name] = _gpu_block(uuids, used)
            self._slurm.append(SlurmNode(name, name, name, "mixed", gpus_per_job))
            self._start(name, number)

    def tick(self) -> Tick:
        """The next picture, with history up to it."""
        self._at += PERIOD_S
        self._number += 1
        for job_id in list(self._jobs)[: self._changed if self._number > 1 else 0]:
            (name,) = self._jobs.pop(job_id).job.nodes
            self._start(name, self._next_job)
            self._next_job += 1
        nodes: dict[str, Node] = {}
        gpus: dict[str, Gpu] = {}
        holders = {view.job.nodes[0]: job_id for job_id, view in self._jobs.items()}
        for name, uuids in self._uuids.items():
            nodes[name] = self._node(name, holders[name])
            block = nodes[name].blocks["gpu"]
            for row, uuid in enumerate(uuids):
                gpus[uuid] = Gpu(uuid, name, block, row, self._at, "bench", False, ())
        jobs = tuple(self._jobs.values())
        records = tuple(view.job for view in jobs)
        queue = QueueRecords(records, tuple(self._slurm), self._at, self._at)
        tick = Tick(
            self._number, self._at, START_AT, PERIOD_S, (), nodes, gpus, jobs, self._at, (), (), (),
            0.0, queue=queue,
        )  # fmt: skip
        self._history.append(tick)
        return tick._replace(history=self._history.reader())

    def _start(self, name: str, number: int) -> None:
        uuids = self._uuids[name]
        record = job_record(str(number), self._at, (name,), len(uuids))
        record = record._replace(
            allocations=(Allocation(name, len(uuids), None),), cpu_count=16 * len(uuids)
        )
        self._jobs[str(number)] = JobView(record, uuids, 0, (), ())

    def _node(self, name: str, job_id: str) -> Node:
        """A report of its own: what a source tells anew is another object, changed or not."""
        block = self._blocks[name]
        columns = {key: array(column.typecode, column) for key, column in block.columns.items()}
        blocks = {
            "gpu": block._replace(columns=columns),
            "cgroup": Block((job_id,), {k: array("d", [v]) for k, v in _OWN.items()}, {}, {}),
        }
        uuids = self._uuids[name]
        return Node(name, uuids, self._at, False, "mixed", (), 0.0, None, blocks)


def _gpu_block(uuids: tuple[str, ...], used: int) -> Block:
    columns: dict[str, array[float] | array[int]] = {"index": array("q", range(len(uuids)))}
    values = [{**_SOUND, **(WORKING if row < used else UNUSED)} for row in range(len(uuids))]
    for key in values[0]:
        told = [float(value[key]) for value in values]  # type: ignore[arg-type]
        columns[key] = column_for(CATALOGUE[key].kind.is_integer, [*told])
    return Block(uuids, columns, {"name": ("NVIDIA H100 80GB HBM3",) * len(uuids)}, {})
