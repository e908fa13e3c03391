"""What a detector gets to know besides history: of GPUs, nodes, links, events and processes."""

from __future__ import annotations

import zlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.detect.facts.entity_facts import NO_ROWS, Rows, Value
from gpumon.model.catalogue.process import ONLY_DRAWS
from gpumon.model.gpu.xid import xid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumon.model.fault import SourceError
    from gpumon.model.gpu.xid import Xid
    from gpumon.model.records.cluster import JobView, SlurmNode

JUDGED_STATE: Final = "RUNNING"

Part = tuple[float, float]
"""A part of the ring of jobs: where it begins, and where it ends, which is no part of it. It goes
over the end of the ring where the second is the smaller."""

WHOLE: Final[Part] = (0.0, 1.0)
"""All of the ring."""

MARK_STEP: Final = 2.0**-32
"""Least distance of two places on the ring; sums of them are exact."""


class GpuFacts(NamedTuple):
    """What hardly changes about a GPU while it is watched."""

    uuid: str
    node: str
    nvml_index: int | None
    """NVML's index on the node: a label only."""
    name: str | None
    """Product name."""
    rows: Rows = NO_ROWS
    row: int = 0
    is_stale: bool = False
    """Whether nothing was heard of it for so long that its values are not the present."""
    is_lost: bool = False
    """Whether the driver lists it and reports that it fell off the bus."""

    def value(self, key: str) -> Value:
        """Newest value of an id, a mask, an error counter or a constant; None where missing.

        Levels and rates are in history: `View.latest`. A stale GPU keeps the facts last told.
        """
        return self.rows.value(key, self.row)

    def label(self, key: str) -> str | None:
        """Text fact such as `pci_bus_id`, None where it is missing."""
        return self.rows.label(key, self.row)

    @property
    def place(self) -> str:
        """How people find it: `NODE GPU INDEX`."""
        return f"{self.node} GPU {self.uuid if self.nvml_index is None else self.nvml_index}"

    @property
    def subject(self) -> str:
        """How a finding names this GPU."""
        return f"gpu:{self.uuid}"


class LinkFacts(NamedTuple):
    """One NVLink of a GPU."""

    uuid: str
    number: int
    key: str
    """`UUID/NUMBER`, by which history knows it."""
    rows: Rows
    row: int

    def value(self, key: str) -> Value:
        """State, version, speed or an error counter; None where missing."""
        return self.rows.value(key, self.row)

    def label(self, key: str) -> str | None:
        """`remote_type` or `remote`, None where missing."""
        return self.rows.label(key, self.row)


class EventFacts(NamedTuple):
    """What a driver reported about one of its GPUs."""

    uuid: str
    xid: Xid | None
    """None: an event of another type."""
    event_type: int
    """NVML's type: 0x8 Xid, 0x2 uncorrected ECC error, 0x8000 recovery action changed."""
    at: float | None
    """Unix time on the monitor's clock; None: not said."""
    key: str


class ProcessFacts(NamedTuple):
    """One process that holds a context on a GPU, to compute or to draw."""

    node: str
    pid: int
    name: str | None
    """Base name of the program."""
    uid: int | None
    job_id: str | None
    step: str | None
    start_time_s: float | None
    """Seconds since the node booted."""
    container: str | None
    gpu_uuids: tuple[str, ...]
    """GPUs on which it computes."""
    cpus_allowed: str | None = None
    """CPUs that it may run on, as the kernel lists them: `0-3,8`."""
    cpus_allowed_count: int | None = None
    cpu_numa_nodes: tuple[int, ...] = ()
    """NUMA nodes that these belong to; empty: not known."""
    user: str | None = None
    """What its node calls the user of `uid`; None: not known there, or not told."""
    graphics_uuids: tuple[str, ...] = ()
    """GPUs on which it draws; it may compute there as well."""

    @property
    def key(self) -> str:
        """By which history knows it."""
        return f"{self.node}/{self.pid}"


class NodeFacts(NamedTuple):
    """One node: how Slurm sees it, how telemetry fares, what its blocks hold."""

    name: str
    has_telemetry: bool
    """Whether it was ever heard of."""
    silent_since: float | None
    """Unix time of its newest telemetry if that is stale; else None."""
    errors: tuple[SourceError, ...] = ()
    """What its source could not do now."""
    slurm: SlurmNode | None = None
    """State, reason, boot time, features as Slurm lists them; None where no queue lists it."""
    gpu_uuids: tuple[str, ...] = ()
    """In NVML's order."""
    blocks: Mapping[str, Rows] = MappingProxyType({})
    """Facts by block: `link`, `event`, `process`, `nic`, `filesystem`, `cgroup`, `node`, `mig`."""
    event_at: Mapping[str, float] = MappingProxyType({})
    """Unix time of each event, by its key."""

    @property
    def is_stale(self) -> bool:
        """Whether it was heard of before and is silent now."""
        return self.silent_since is not None

    @property
    def subject(self) -> str:
        """How a finding names this node."""
        return f"node:{self.name}"

    def block(self, name: str) -> Rows:
        """Facts of one block, empty where the node reports none."""
        return self.blocks.get(name, NO_ROWS)

    def label(self, key: str) -> str | None:
        """`driver_version`, `boot_id`, …, None where missing."""
        rows = self.block("node")
        return rows.label(key, 0) if rows.keys else None

    def links(self, uuid: str) -> tuple[LinkFacts, ...]:
        """NVLinks of one GPU of the node, by number."""
        rows = self.block("link")
        found = []
        for row, key in enumerate(rows.keys):
            owner, _, number = key.rpartition("/")
            if owner == uuid and number.isdecimal():
                found.append(LinkFacts(uuid=owner, number=int(number), key=key, rows=rows, row=row))
        return tuple(sorted(found, key=lambda link: link.number))

    @property
    def events(self) -> tuple[EventFacts, ...]:
        """Events of the node's GPUs, the newest first."""
        rows = self.block("event")
        found = []
        for row, key in enumerate(rows.keys):
            number = rows.value("xid", row)
            meaning = None if number is None else xid(int(number))
            kind = int(rows.value("event_type", row) or 0)
            uuid = key.partition("/")[0]
            found.append(
                EventFacts(
                    uuid=uuid, xid=meaning, event_type=kind, at=self.event_at.get(key), key=key
                )
            )
        return tuple(sorted(found, key=lambda event: -(event.at or 0.0)))

    @property
    def processes(self) -> tuple[ProcessFacts, ...]:
        """Processes that compute on one of the node's GPUs.

        A desktop, or what renders, only draws: nobody is to be told that it lets a GPU rest, nor
        that a GPU is used by it. `graphics_processes` has those.
        """
        return tuple(process for process in self._all_processes if process.gpu_uuids)

    @property
    def graphics_processes(self) -> tuple[ProcessFacts, ...]:
        """Processes that draw on one of the node's GPUs and compute on none."""
        return tuple(process for process in self._all_processes if not process.gpu_uuids)

    @property
    def _all_processes(self) -> tuple[ProcessFacts, ...]:
        rows, contexts = self.block("process"), self.block("context")
        held: dict[str, list[str]] = {}
        drawn: dict[str, list[str]] = {}
        for row, context in enumerate(contexts.keys):
            pid, _, uuid = context.partition("/")
            kind = contexts.label("type", row) or ""
            mine = held.setdefault(pid, [])
            if kind != ONLY_DRAWS:
                mine.append(uuid)
            if ONLY_DRAWS in kind:
                drawn.setdefault(pid, []).append(uuid)
        # One process whose job is readable tells whose the others of its cgroup are.
        jobs = {
            rows.label("sluid", row): rows.label("job_id", row)
            for row in range(len(rows.keys))
            if rows.label("job_id", row) and rows.label("sluid", row)
        }
        return tuple(
            self._process(
                rows, row, jobs.get(rows.label("sluid", row)), held[pid], drawn.get(pid, ())
            )
            for row, pid in enumerate(rows.keys)
            if pid in held and pid.isdecimal()
        )

    def _process(
        self,
        rows: Rows,
        row: int,
        job_id: str | None,
        uuids: Sequence[str],
        drawn: Sequence[str],
    ) -> ProcessFacts:
        uid, start = rows.value("uid", row), rows.value("start_time_s", row)
        return ProcessFacts(
            node=self.name,
            pid=int(rows.keys[row]),
            name=rows.label("name", row),
            uid=None if uid is None else int(uid),
            job_id=rows.label("job_id", row) or job_id,
            step=rows.label("step", row),
            start_time_s=start,
            container=rows.label("container", row),
            gpu_uuids=tuple(uuids),
            cpus_allowed=rows.label("cpus_allowed", row),
            cpus_allowed_count=_count(rows.value("cpus_allowed_count", row)),
            cpu_numa_nodes=_numbers(rows.label("cpu_numa_nodes", row)),
            user=rows.label("user", row),
            graphics_uuids=tuple(drawn),
        )


def _count(value: Value) -> int | None:
    return None if value is None else int(value)


def _numbers(text: str | None) -> tuple[int, ...]:
    """Numbers of a list such as `0,1`; none where it is something else."""
    words = (text or "").split(",")
    return tuple(map(int, words)) if all(word.isdecimal() for word in words) else ()


def is_judged(view: JobView) -> bool:
    """Whether detectors see a job: it runs and holds GPUs, whether telemetry names them or not."""
    return view.job.state == JUDGED_STATE and bool(view.gpu_uuids or view.gpus_unknown)


def is_in_part(job_id: str, begin: float, end: float) -> bool:
    """Whether a job lies in this part of the ring; the same in monitor and worker."""
    mark = part_mark(job_id)
    return begin <= mark < end if begin < end else mark >= begin or mark < end


def part_mark(job_id: str) -> float:
    """Where a job is on the ring of the evaluations: ids that follow each other are scattered.

    From 0 up to, not including, 1.
    """
    return zlib.crc32(job_id.encode()) * MARK_STEP
