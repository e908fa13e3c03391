"""Ticks as the monitor tells them to its worker: only what changed since the last one."""

from __future__ import annotations

from itertools import compress, groupby, repeat
from math import isfinite
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any, Final

from gpumon.detect.facts.entity_facts import FACT_KEYS, Rows, print_of, rows_of
from gpumon.detect.facts.facts import is_judged
from gpumon.model.missing import Reason
from gpumon.model.records.block import EMPTY_BLOCK

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpumon.detect.facts.entity_facts import Print
    from gpumon.fleet.history.chunk import Chunk
    from gpumon.fleet.history.reader import HistoryReader
    from gpumon.model.records.block import Block
    from gpumon.model.records.cluster import Gpu, Job, JobView, Node, SlurmNode
    from gpumon.model.records.tick import Interval, Tick

_ALWAYS_REPORTED: Final = ("temp_c", "gpu_util_ratio", "power_w")
"""Every GPU has these, though a recorder may leave some out: why one is missing tells how the GPU
is."""

_UUID: Final = attrgetter("uuid")
_NODE: Final = attrgetter("node")
_ROW: Final = attrgetter("row")
_BLOCK: Final = attrgetter("block")
_IS_STALE: Final = attrgetter("is_stale")
"""Read of 80,000 GPUs an evaluation."""


class FactSender:
    """Remembers which facts one worker knows already."""

    def __init__(self) -> None:
        self._heads: dict[str, tuple[object, ...]] = {}
        self._known: dict[str, dict[str, tuple[Block | None, Print | Rows]]] = {}

    def changes(self, tick: Tick) -> dict[str, Any]:
        """What the worker does not know yet of a tick's nodes and GPUs."""
        gpus: dict[str, list[Gpu]] = {}
        # Mostly a node's GPUs stand together.
        for name, neighbours in groupby(tick.gpus.values(), _NODE):
            gpus.setdefault(name, []).extend(neighbours)
        listed = {node.name: node for node in tick.queue.nodes} if tick.queue else {}
        changed = []
        names = dict.fromkeys((*tick.nodes, *gpus))
        for name in names:
            node = tick.nodes.get(name)
            mine = _in_order(node, gpus.get(name, []))
            whole = _whole(mine)
            head = _head(node, listed.get(name), mine, whole)
            blocks, gone = self._blocks(name, node, mine, whole)
            if head != self._heads.get(name) or blocks or gone:
                changed.append((name, head, blocks, gone, _event_times(node, blocks)))
                self._heads[name] = head
        lost = [name for name in self._heads if name not in names]
        for name in lost:
            del self._heads[name]
            self._known.pop(name, None)
        return {"nodes": changed, "nodes_gone": lost}

    def _blocks(
        self, name: str, node: Node | None, gpus: Sequence[Gpu], whole: Block | None
    ) -> tuple[dict[str, Rows], list[str]]:
        """Facts of the blocks that changed, and the names of those that are gone."""
        known = self._known.setdefault(name, {})
        now: dict[str, Block] = dict(node.blocks) if node else {}
        now.pop("gpu", None)
        changed: dict[str, Rows] = {}
        if gpus:
            mark = _gathered(gpus) if whole is None else print_of(whole, "gpu")
            if "gpu" not in known or known["gpu"][1] != mark:
                changed["gpu"] = mark if isinstance(mark, Rows) else rows_of(gpus[0].block, "gpu")
            known["gpu"] = (None, mark)
        for kind, block in now.items():
            if kind not in FACT_KEYS or (kind in known and known[kind][0] is block):
                continue
            mark = print_of(block, kind)
            if kind not in known or known[kind][1] != mark:
                changed[kind] = rows_of(block, kind)
            known[kind] = (block, mark)
        gone = [kind for kind in known if kind not in now and not (kind == "gpu" and gpus)]
        for kind in gone:
            del known[kind]
        return changed, gone


def _in_order(node: Node | None, gpus: list[Gpu]) -> list[Gpu]:
    """GPUs in NVML's order where the node tells it."""
    if node is None or len(node.gpu_uuids) != len(gpus):
        return gpus
    if tuple(map(_UUID, gpus)) == node.gpu_uuids:
        return gpus
    places = {uuid: place for place, uuid in enumerate(node.gpu_uuids)}
    return sorted(gpus, key=lambda gpu: places.get(gpu.uuid, len(places)))


def _head(
    node: Node | None, slurm: SlurmNode | None, gpus: Sequence[Gpu], whole: Block | None
) -> tuple[object, ...]:
    may_be_lost = whole is None or whole.missing
    has_telemetry = bool(gpus) if node is None else node.taken_at is not None
    return (
        has_telemetry,
        node.taken_at if node is not None and node.is_stale else None,
        node.errors if node is not None else (),
        slurm,
        tuple(map(_UUID, gpus)),
        tuple(compress(map(_UUID, gpus), map(_IS_STALE, gpus))),
        tuple(g.uuid for g in gpus if g.block.missing and _is_lost(g)) if may_be_lost else (),
    )


def _is_lost(gpu: Gpu) -> bool:
    return any(gpu.reason(key) is Reason.LOST for key in _ALWAYS_REPORTED)


def _whole(gpus: Sequence[Gpu]) -> Block | None:
    """The one block that holds exactly these GPUs in this order, None where there is none."""
    block = gpus[0].block if gpus else None
    if block is None or len(block.keys) != len(gpus):
        return None
    if list(map(_ROW, gpus)) != list(range(len(gpus))):
        return None
    return block if all(map(is_, map(_BLOCK, gpus), repeat(block))) else None


def _gathered(gpus: Sequence[Gpu]) -> Rows:
    """Facts of GPUs that come from several blocks."""
    keys = [key for key in FACT_KEYS["gpu"] if any(key in gpu.block.columns for gpu in gpus)]
    labels = dict.fromkeys(key for gpu in gpus for key in gpu.block.labels)
    return Rows(
        tuple(gpu.uuid for gpu in gpus),
        {key: tuple(gpu.block.value(key, gpu.row) for gpu in gpus) for key in keys},
        {key: tuple(gpu.label(key) for gpu in gpus) for key in labels},
    )


def _event_times(node: Node | None, blocks: dict[str, Rows]) -> dict[str, float]:
    """Unix time of the node's events, by key, where they are told again."""
    if node is None or "event" not in blocks or node.taken_at is None:
        return {}
    block = node.blocks.get("event", EMPTY_BLOCK)
    times = {}
    for row, key in enumerate(block.keys):
        age_s = block.value("event_age_s", row)
        if age_s is not None and isfinite(age_s):
            times[key] = node.taken_at - age_s
    return times


class Sender:
    """Remembers what one worker knows already."""

    def __init__(self) -> None:
        self._jobs: dict[str, tuple[JobView, tuple[Interval, ...]]] = {}
        self._records: dict[str, Job] = {}
        self._facts = FactSender()
        self._entities: dict[int, int] = {}
        """How many entities of each chunk it knows."""

    def message(
        self, tick: Tick, history: HistoryReader, muted: Iterable[str]
    ) -> tuple[dict[str, object], list[int]]:
        """The request to judge a tick, and the descriptors of the chunks that are new to it."""
        jobs: dict[str, tuple[JobView, tuple[Interval, ...]]] = {}
        records: dict[str, Job] = {}
        for view in tick.jobs:
            job_id = view.job.job_id
            if is_judged(view):
                jobs[job_id] = view, history.intervals(job_id)
            else:
                # A waiting job's priority grows with its age, and no detector needs it.
                records[job_id] = view.job._replace(priority=None)
        chunks = {chunk.shape.number: chunk for chunk, _ in history.chunks}
        known = {number: self._entities.get(number, 0) for number in chunks}
        copied = self._copied(chunks)
        known.update({number: count for number, _, count in copied})
        entities = {
            number: tuple(chunk.entities[known[number] :]) for number, chunk in chunks.items()
        }
        new_chunks = [chunk for number, chunk in chunks.items() if number not in self._entities]
        message: dict[str, object] = {
            "kind": "look",
            "at": tick.at,
            "observed_since": tick.observed_since,
            "muted": sorted(muted),
            "chunks": [chunk.shape for chunk in new_chunks],
            "rows": [(chunk.shape.number, rows) for chunk, rows in history.chunks],
            "copied": copied,
            "entities": [(number, names) for number, names in entities.items() if names],
            "jobs": [entry for job_id, entry in jobs.items() if self._jobs.get(job_id) != entry],
            "jobs_gone": [job_id for job_id in self._jobs if job_id not in jobs],
            "records": [job for key, job in records.items() if self._records.get(key) != job],
            "records_gone": [job_id for job_id in self._records if job_id not in records],
            "facts": self._facts.changes(tick),
        }
        self._jobs, self._records = jobs, records
        self._entities = {number: known[number] + len(names) for number, names in entities.items()}
        return message, [chunk.fd for chunk in new_chunks]

    def _copied(self, chunks: Mapping[int, Chunk]) -> list[tuple[int, int, int]]:
        """Chunks that are new to the worker, each with one it knows and how many entities of that.

        A new stretch of history mostly goes on with the entities of the one before.
        """
        copied = []
        for number, chunk in chunks.items():
            if number in self._entities:
                continue
            for other, count in reversed(self._entities.items()):
                is_alike = other in chunks and chunks[other].shape.block == chunk.shape.block
                if is_alike and chunk.entities[:count] == chunks[other].entities[:count]:
                    copied.append((number, other, count))
                    break
        return copied
