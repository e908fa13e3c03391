"""One running job as a detector sees it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from gpumon.detect.facts import EventFacts, GpuFacts, NodeFacts, ProcessFacts
    from gpumon.detect.series import Series, Table
    from gpumon.detect.view import View
    from gpumon.model.cluster import Job, JobView, Rank


class JobLook:
    """One running job: Slurm's record, its GPUs and nodes, and what history holds of them."""

    def __init__(self, view: View, record: JobView) -> None:
        self._view = view
        self._record = record
        self.job: Job = record.job
        """Slurm's record: times, limits, CPUs, memory, QOS, whether it is interactive, …"""
        self.ranks: tuple[Rank, ...] = record.ranks
        self.contradictions: tuple[str, ...] = record.contradictions

    @cached_property
    def gpus(self) -> tuple[GpuFacts, ...]:
        """GPUs that it holds and that telemetry names."""
        known = self._view.gpus
        return tuple(known[uuid] for uuid in self._record.gpu_uuids if uuid in known)

    @cached_property
    def uuids(self) -> tuple[str, ...]:
        """UUIDs of `gpus`, in the same order."""
        return tuple(gpu.uuid for gpu in self.gpus)

    @property
    def gpus_unknown(self) -> int:
        """GPUs that it holds and of which nothing is known: never to be counted as idle."""
        return self._record.gpus_unknown + len(self._record.gpu_uuids) - len(self.gpus)

    @property
    def gpu_count(self) -> int:
        """GPUs that it holds, known or not."""
        return len(self._record.gpu_uuids) + self._record.gpus_unknown

    @property
    def subject(self) -> str:
        """How a finding names this job."""
        return f"job:{self.job.job_id}"

    @property
    def age_s(self) -> float | None:
        """Seconds since it started, None where Slurm does not say."""
        return None if self.job.start_at is None else max(0.0, self._view.now - self.job.start_at)

    @cached_property
    def nodes(self) -> tuple[NodeFacts, ...]:
        """Its nodes, as far as anything is known of them."""
        known = self._view.nodes
        return tuple(known[name] for name in self.job.nodes if name in known)

    @property
    def is_alone(self) -> bool:
        """Whether no other running job holds GPUs on any of its nodes."""
        others = (self._view.jobs_on(name) for name in self.job.nodes)
        return all(other is self for jobs in others for other in jobs)

    @property
    def events(self) -> tuple[EventFacts, ...]:
        """What the drivers told of its GPUs since it holds them, the newest first."""
        mine = set(self.uuids)
        return tuple(
            event
            for node in self.nodes
            for event in node.events
            if event.uuid in mine and (event.at or 0.0) >= self.held_since(event.uuid)
        )

    @property
    def processes(self) -> tuple[ProcessFacts, ...]:
        """Processes that are known to be its own and hold a context on a GPU."""
        job_id = self.job.job_id
        return tuple(p for node in self.nodes for p in node.processes if p.job_id == job_id)

    def held_since(self, uuid: str) -> float:
        """Unix time since when the job holds the GPU; infinity where it does not."""
        starts = [
            interval.start
            for interval in self._view.history.intervals(self.job.job_id)
            if interval.uuid == uuid and interval.end is None
        ]
        return max(starts, default=float("inf"))

    @cached_property
    def all_held_since(self) -> float:
        """Unix time since when it holds all of `gpus`; infinity without any."""
        intervals = self._view.history.intervals(self.job.job_id)
        open_now = {i.uuid: i.start for i in intervals if i.end is None}
        return max((open_now.get(uuid, float("inf")) for uuid in self.uuids), default=float("inf"))

    def latest(self, key: str) -> NDArray[np.float64]:
        """Newest value of a field for each of `gpus`, NaN where there is none now."""
        return self._view.newest(key, self._places)

    def missing(self, keys: Sequence[str]) -> tuple[str, ...]:
        """Keys without a value now on at least one of the job's GPUs."""
        return self._view.missing(self.uuids, keys)

    def window(self, uuid: str, key: str, seconds: float) -> Series:
        """One field of one GPU over the last `seconds`, from no earlier than the job held it."""
        start = max(self._view.now - seconds, self.held_since(uuid))
        return self._view.series_since(uuid, key, start)

    def table(self, keys: Sequence[str], seconds: float) -> Table:
        """Fields of all `gpus` over the last `seconds`, while the job held them all."""
        return self._view.table(self.uuids, keys, seconds, self.all_held_since)

    def cgroup(self, keys: Sequence[str], seconds: float) -> Table:
        """Fields of the job's own cgroup, one column per node of `job.nodes`, since it started.

        CPU cores used, memory, I/O and pressure of exactly this job, whoever else is on the node.
        """
        entities = [f"{name}/{self.job.job_id}" for name in self.job.nodes]
        return self._view.table(entities, keys, seconds, self._began_at)

    def hosts(self, keys: Sequence[str], seconds: float) -> Table:
        """Fields of the `node` block, one column per node of `job.nodes`, since it started."""
        return self._view.table(self.job.nodes, keys, seconds, self._began_at)

    @property
    def cores(self) -> int | None:
        """CPUs that Slurm gave it on all nodes, None where it does not say."""
        return self.job.cpu_count

    @property
    def _began_at(self) -> float:
        start_at = self.job.start_at
        return float("-inf") if start_at is None else start_at

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        return self._view.places(self.uuids)
