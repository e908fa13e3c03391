"""Nodes and GPUs as the JSON document shows them, with all that the catalogue knows of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

from gpumon.model.catalogue.fields import clock_event_names
from gpumon.model.gpu.code_names import FABRIC_HEALTH, FABRIC_STATES, RECOVERY_ACTIONS, code_name
from gpumon.model.gpu.hardware import Basis, sheet_for
from gpumon.model.records.block import EMPTY_BLOCK
from gpumon.report.facts.entities import Entity, moment, number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gpumon.model.gpu.hardware import Figure, Sheet
    from gpumon.model.gpu.xid import Xid
    from gpumon.model.records.block import Block
    from gpumon.model.records.cluster import Gpu, Node, Process, Rank
    from gpumon.report.document import forms, measured

WRITTEN_APART: Final = ("index", "uid", "start_time_s", "context_mem_used_bytes")
"""Values that the document names in its own way since its first version."""


class Place(NamedTuple):
    """The row of an entity in a node's block."""

    key: str
    block: Block
    row: int


class Machine:
    """One node's blocks, with the entities of each GPU found once."""

    def __init__(
        self, node: Node, rank_of: Callable[[Process], Rank | None], user: str | None = None
    ) -> None:
        """Look through the blocks of a node.

        Args:
            node: The node.
            rank_of: Which rank a process is.
            user: Where no queue lists the node, whose processes are reported; None: everyone's.
        """
        self.node = node
        self._user = user if node.state is None else None
        self._rank_of = rank_of
        self._links = self._by_gpu("link")
        self._slices = self._by_gpu("mig")
        self._rows = {
            name: {key: row for row, key in enumerate(self._block(name).keys)}
            for name in ("process", "context")
        }

    def _block(self, name: str) -> Block:
        return self.node.blocks.get(name, EMPTY_BLOCK)

    def _by_gpu(self, name: str) -> dict[str, list[Place]]:
        """Entities by the UUID of their GPU: its label, else what the key begins with."""
        found: dict[str, list[Place]] = {}
        for place in self.places(name):
            uuid, _, rest = place.key.partition("/")
            uuid = place.block.label("parent", place.row) or uuid
            found.setdefault(uuid, []).append(place._replace(key=rest or place.key))
        return found

    def places(self, name: str) -> Iterator[Place]:
        """Every entity of one kind."""
        block = self._block(name)
        for row, key in enumerate(block.keys):
            yield Place(key, block, row)

    def entity(self, kind: str, place: Place) -> Entity:
        """One of this node's entities."""
        return Entity(kind, place.block, place.row, self.node.is_stale)

    def links(self, uuid: str) -> list[forms.Link]:
        """The NVLinks of a GPU, by number."""
        return [
            {
                "link": _whole(place.key),
                **cast("measured.Link", self.entity("link", place).whole()),
            }
            for place in sorted(self._links.get(uuid, ()), key=lambda p: (len(p.key), p.key))
        ]

    def slices(self, uuid: str) -> list[forms.Mig]:
        """The MIG instances of a GPU."""
        return [
            {"uuid": place.key, **cast("measured.Mig", self.entity("mig", place).whole())}
            for place in self._slices.get(uuid, ())
        ]

    def process(self, process: Process, uuid: str) -> forms.Process:
        """A process on one GPU."""
        owner = self._entity("process", str(process.pid))
        context = self._entity("context", f"{process.pid}/{uuid}")
        mine, there = owner.values(WRITTEN_APART), context.values(WRITTEN_APART)
        texts = {"user": owner.labels()["user"]}
        kind = {"type": context.labels()["type"]}
        rank = self._rank_of(process)
        return {
            "pid": process.pid,
            "name": process.name,
            "uid": process.uid,
            "user": texts["user"],
            "type": kind["type"],
            "job_id": process.job_id,
            "step": process.step,
            "world_id": None if rank is None else rank.world_id,
            "rank": None if rank is None else rank.rank,
            "local_rank": None if rank is None else rank.local_rank,
            "world_size": None if rank is None else rank.world_size,
            "mem_used_bytes": number(process.mem_used_bytes.get(uuid)),
            "start_time_s": number(process.start_time_s),
            **cast("measured.ProcessValues", {**mine, **there}),
            "missing": {**owner.missing({**mine, **texts}), **context.missing({**there, **kind})},
        }

    def _entity(self, name: str, key: str) -> Entity:
        return Entity(name, self._block(name), self._rows[name].get(key), self.node.is_stale)

    def gpu(self, gpu: Gpu) -> forms.Gpu:
        """One GPU with its links, slices and processes."""
        entity = Entity("gpu", gpu.block, gpu.row, gpu.is_stale)
        values = cast("measured.GpuValues", entity.values(WRITTEN_APART))
        mask = gpu.value("clock_event_reasons")
        sheet = _sheet_of(gpu)
        return {
            "uuid": gpu.uuid,
            "index": gpu.nvml_index,
            **cast("measured.GpuTexts", entity.labels()),
            "origin": gpu.origin,
            "field_origins": {} if gpu.is_stale else dict(gpu.borrowed),
            "stale": gpu.is_stale,
            **values,
            "clock_event_names": None if mask is None else list(clock_event_names(int(mask))),
            "recovery_action_name": code_name(values["recovery_action"], RECOVERY_ACTIONS),
            "fabric_state_name": code_name(values["fabric_state"], FABRIC_STATES),
            "fabric_health_name": code_name(values["fabric_health"], FABRIC_HEALTH),
            "missing": entity.missing(values),
            "data_sheet": None if sheet is None else _data_sheet(sheet),
            "links": self.links(gpu.uuid),
            "mig": self.slices(gpu.uuid),
            "processes": [
                self.process(process, gpu.uuid)
                for process in gpu.processes
                if self._user is None or process.is_of(self._user)
            ],
            "owner": self._owner(gpu),
        }

    def _owner(self, gpu: Gpu) -> list[int]:
        """Uids of those who compute on a GPU that no queue gives to jobs, and have memory there."""
        if self.node.state is not None:
            return []
        return sorted(
            {
                process.uid
                for process in gpu.compute_processes
                if process.uid is not None and process.mem_used_bytes.get(gpu.uuid, 1.0) > 0
            }
        )

    def host(self) -> measured.Node:
        """The node itself."""
        entity = Entity("node", self.node.block, 0, self.node.is_stale)
        return cast("measured.Node", entity.whole())

    def nics(self) -> list[forms.Nic]:
        """Its network ports."""
        return [
            {
                "device": place.key.partition("/")[0],
                "port": _whole(place.key.partition("/")[2]),
                **cast("measured.Nic", self.entity("nic", place).whole()),
            }
            for place in self.places("nic")
        ]

    def filesystems(self) -> list[forms.Filesystem]:
        """Its shared file systems."""
        return [
            {
                "mount": place.key,
                **cast("measured.Filesystem", self.entity("filesystem", place).whole()),
            }
            for place in self.places("filesystem")
        ]

    def local_filesystems(self) -> list[forms.LocalFilesystem]:
        """Its own file systems, memory among them."""
        kind = "local_filesystem"
        return [
            {
                "mount": place.key,
                **cast("measured.LocalFilesystem", self.entity(kind, place).whole()),
            }
            for place in self.places(kind)
        ]

    def events(self, now: float) -> list[forms.Event]:
        """What its drivers and kernel reported of late, oldest first, with meaning and action."""
        found: list[forms.Event] = []
        for place in self.places("event"):
            entity = Entity("event", place.block, place.row, is_stale=False)
            age_s = place.block.value("event_age_s", place.row)
            code = place.block.value("xid", place.row)
            entry = None if code is None else _xid(int(code))
            # The age came with the frame; an event of a silent node grows older with it.
            at = None if age_s is None else (self.node.taken_at or now) - age_s
            found.append(
                {
                    "gpu": place.key.partition("/")[0],
                    "at": moment(at),
                    **cast("measured.Event", entity.whole()),
                    "meaning": entry.meaning if entry and entry.is_known else None,
                    "action": None if entry is None else entry.action.value,
                    "is_application": entry.is_application if entry and entry.is_blamed else None,
                }
            )
        return sorted(found, key=lambda event: event["at"] or "")


def cgroups(nodes: Mapping[str, Node]) -> dict[str, list[forms.Cgroup]]:
    """What each job uses on each of its nodes, by job id."""
    found: dict[str, list[forms.Cgroup]] = {}
    for node in nodes.values():
        block = node.blocks.get("cgroup", EMPTY_BLOCK)
        for row, job_id in enumerate(block.keys):
            entity = Entity("cgroup", block, row, node.is_stale)
            used = cast("measured.Cgroup", entity.whole())
            found.setdefault(job_id, []).append({"node": node.name, **used})
    return found


def _whole(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _xid(number: int) -> Xid:
    # Most answers have no event, and need none of what is known of them.
    from gpumon.model.gpu.xid import xid

    return xid(number)


def _sheet_of(gpu: Gpu) -> Sheet | None:
    # What a GPU is does not go stale: its last known total and limit will do.
    total, limit = (gpu.block.value(key, gpu.row) for key in ("mem_total_bytes", "power_limit_w"))
    return sheet_for(gpu.label("name"), total, limit)


_DATA_SHEETS: Final[dict[str, forms.DataSheet]] = {}
"""By product, those that were shown."""


def _data_sheet(sheet: Sheet) -> forms.DataSheet:
    if sheet.product not in _DATA_SHEETS:
        _DATA_SHEETS[sheet.product] = _made(sheet)
    return _DATA_SHEETS[sheet.product]


def _made(sheet: Sheet) -> forms.DataSheet:
    single = {
        "memory_bytes": sheet.memory_bytes,
        "memory_bytes_per_s": sheet.memory_bytes_per_s,
        "tdp_w": sheet.tdp_w,
        "nvlink_links": sheet.nvlink_links,
        "nvlink_bytes_per_s": sheet.nvlink_bytes_per_s,
        "pcie_gen": sheet.pcie_gen,
        "pcie_lanes": sheet.pcie_lanes,
    }
    tables = {
        "dense_tflops": sheet.dense_tflops,
        "achievable_tflops": sheet.achievable_tflops,
    }
    named: list[tuple[str, Figure | None]] = [
        *single.items(),
        *((f"{n}.{key}", figure) for n, table in tables.items() for key, figure in table.items()),
    ]
    figures = [(name, figure) for name, figure in named if figure is not None]
    unchecked = {name for name, figure in figures if figure.basis is Basis.GENERAL}
    for name, table in tables.items():
        inner = {f"{name}.{precision}" for precision in table}
        if inner and inner <= unchecked:
            unchecked = {name, *unchecked} - inner
    return {
        "product": sheet.product,
        "memory_bytes": number(sheet.memory_bytes.value),
        "memory_bytes_per_s": number(sheet.memory_bytes_per_s.value),
        "tdp_w": number(sheet.tdp_w.value),
        "nvlink_links": _count(sheet.nvlink_links),
        "nvlink_bytes_per_s": number(links.value) if (links := sheet.nvlink_bytes_per_s) else None,
        "pcie_gen": _count(sheet.pcie_gen),
        "pcie_lanes": _count(sheet.pcie_lanes),
        "dense_tflops": _by_precision(sheet.dense_tflops),
        "achievable_tflops": _by_precision(sheet.achievable_tflops),
        "unchecked": sorted(unchecked),
        "sources": list(dict.fromkeys(figure.source for _, figure in figures)),
    }


def _count(figure: Figure | None) -> int | None:
    return None if figure is None else int(figure.value)


def _by_precision(table: Mapping[str, Figure]) -> dict[str, float]:
    return {precision: number(figure.value) for precision, figure in table.items()}
