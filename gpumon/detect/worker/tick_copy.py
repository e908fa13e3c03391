"""The worker's copy of the tick, kept up to date from messages and mapped memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpumon.detect.facts.fleet_facts import FleetFacts
from gpumon.detect.facts.positions import JobLayout
from gpumon.detect.view import View
from gpumon.fleet.history.chunk import Chunk, ChunkShape
from gpumon.fleet.history.reader import HistoryReader
from gpumon.model.records.cluster import Allocation, Job, JobView, Rank
from gpumon.model.records.tick import Interval

if TYPE_CHECKING:
    from collections.abc import Sequence

_KEYS: Final = ChunkShape._fields.index("keys")


class Replica:
    """The tick as the worker knows it; `wire.Sender` tells it what changed."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobView] = {}
        self._intervals: dict[str, tuple[Interval, ...]] = {}
        self._records: dict[str, Job] = {}
        self._facts = FleetFacts()
        self._layout: JobLayout | None = None
        self._running: tuple[JobView, ...] = ()
        self._chunks: dict[int, Chunk] = {}
        self._left_at: dict[str, float] = {}
        """Unix time at which a job last left each node."""

    def take(self, message: dict[str, Any], descriptors: Sequence[int]) -> bool:
        """Take in what changed; takes the descriptors over.

        Returns:
            Whether stretches of history were let go of, whose memory is free once nobody maps it.
        """
        known_before = len(self._chunks) + len(descriptors)
        for shape, descriptor in zip(message["chunks"], descriptors, strict=True):
            known = ChunkShape(*shape)._replace(keys=tuple(shape[_KEYS]))
            self._chunks[known.number] = Chunk.attach(known, descriptor)
        self._chunks = {number: self._chunks[number] for number, _ in message["rows"]}
        for number, other, count in message["copied"]:
            self._chunks[number].add(self._chunks[other].entities[:count])
        for number, entities in message["entities"]:
            self._chunks[number].add(entities)
        for view, intervals in message["jobs"]:
            record = _job_view(view)
            self._jobs[record.job.job_id] = record
            self._intervals[record.job.job_id] = tuple(Interval(*i) for i in intervals)
        for job_id in message["jobs_gone"]:
            gone = self._jobs.pop(job_id)
            self._left_at.update(dict.fromkeys(gone.job.nodes, message["at"]))
            del self._intervals[job_id]
        for value in message["records"]:
            job = _job(value)
            self._records[job.job_id] = job
        for job_id in message["records_gone"]:
            del self._records[job_id]
        before = self._facts.node_layout
        self._facts.take(message["facts"])
        is_same = self._facts.node_layout is before
        if self._layout is None or message["jobs"] or message["jobs_gone"] or not is_same:
            self._running = tuple(self._jobs.values())
            self._layout = JobLayout(self._facts.node_layout, self._running, self._layout)
        return len(self._chunks) < known_before

    def view(self, message: dict[str, Any]) -> View:
        """The view of the tick that the message asks to judge."""
        chunks = [(self._chunks[number], rows) for number, rows in message["rows"]]
        history = HistoryReader(chunks, self._intervals)
        return View(
            message["at"],
            message["observed_since"],
            history,
            self._running,
            self._facts,
            tuple(self._records.values()),
            self._layout,
            self._left_at,
        )


def _job_view(value: list[Any]) -> JobView:
    job, gpu_uuids, gpus_unknown, ranks, contradictions = value
    return JobView(
        job=_job(job),
        gpu_uuids=tuple(gpu_uuids),
        gpus_unknown=gpus_unknown,
        ranks=tuple(_rank(rank) for rank in ranks),
        contradictions=tuple(contradictions),
    )


def _job(value: list[Any]) -> Job:
    given = dict(zip(Job._fields, value, strict=True))
    for key in ("nodes", "expected_nodes", "gpu_types", "nodes_required", "nodes_excluded"):
        given[key] = tuple(given[key])
    given["allocations"] = tuple(_allocation(item) for item in given["allocations"])
    return Job(**given)


def _allocation(value: list[Any]) -> Allocation:
    given = Allocation(*value)
    indices = given.gpu_indices
    return given._replace(
        gpu_indices=None if indices is None else tuple(indices), gpu_types=tuple(given.gpu_types)
    )


def _rank(value: list[Any]) -> Rank:
    given = Rank(*value)
    return given._replace(gpu_uuids=tuple(given.gpu_uuids))
