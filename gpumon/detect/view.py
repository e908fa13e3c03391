"""The read-only view of history, jobs, GPUs and nodes that a detector judges."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, overload

import numpy as np

from gpumon.detect.claims import honest_confidence, honest_severity
from gpumon.detect.facts.entity_facts import FACT_KEYS
from gpumon.detect.facts.facts import WHOLE
from gpumon.detect.facts.positions import JobLayout
from gpumon.detect.series import GAP_PERIODS, Past, Series, Spacings, Table, past_of, table_of
from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.finding import Confidence, Evidence, Finding, Severity, Window
from gpumon.model.job_states import has_ended

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from gpumon.detect.claims import Claimant, Windows
    from gpumon.detect.facts.facts import EventFacts, GpuFacts, LinkFacts, NodeFacts, ProcessFacts
    from gpumon.detect.facts.fleet_facts import FleetFacts
    from gpumon.fleet.history.reader import HistoryReader
    from gpumon.model.records.cluster import Job, JobView, Rank

__all__ = ["GAP_PERIODS", "JobLook", "Past", "Series", "Table", "View"]


class JobLook:
    """One running job: Slurm's record, its GPUs and nodes, and what history holds of them."""

    def __init__(self, view: View, record: JobView) -> None:
        self._view = view
        self._record = record
        self.job: Job = record.job
        """Slurm's record: times, limits, CPUs, memory, QOS, whether it is interactive, …"""
        self.ranks: tuple[Rank, ...] = record.ranks
        """Its ranks, as far as their processes may be read."""
        self.contradictions: tuple[str, ...] = record.contradictions
        """Where Slurm and a process disagree about its GPUs."""

    @cached_property
    def gpus(self) -> tuple[GpuFacts, ...]:
        """GPUs that it holds and that telemetry names."""
        known = self._view.gpus
        return tuple(known[uuid] for uuid in self._record.gpu_uuids if uuid in known)

    @property
    def uuids_astray(self) -> tuple[str, ...]:
        """GPUs that its processes are on although Slurm did not give them to it."""
        if not self.contradictions:
            return ()
        held = set(self._record.gpu_uuids)
        return tuple(uuid for uuid in self._record.gpu_uuids_used if uuid not in held)

    @cached_property
    def uuids(self) -> tuple[str, ...]:
        """UUIDs of `gpus`, in the same order."""
        return tuple(gpu.uuid for gpu in self.gpus)

    @property
    def gpus_unknown(self) -> int:
        """GPUs that it holds and nothing is known about: never to be counted as idle."""
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
    def alone_since(self) -> float:
        """Unix time since when no other job holds GPUs of its nodes; infinity while one does.

        Minus infinity where none was seen. What a whole node moved before may be another job's.
        """
        if not self.is_alone:
            return float("inf")
        left_at = self._view.left_at
        return max((left_at.get(name, float("-inf")) for name in self.job.nodes), default=0.0)

    @property
    def events(self) -> tuple[EventFacts, ...]:
        """Events of its GPUs' drivers since it holds them, the newest first."""
        mine = set(self.uuids)
        return tuple(
            event
            for node in self.nodes
            for event in node.events
            if event.uuid in mine and (event.at or 0.0) >= self.held_since(event.uuid)
        )

    @cached_property
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

    def past(self, keys: Sequence[str], seconds: float, peaks: int = 0) -> Past:
        """Fields of all `gpus` while the job held them all, as `View.past` gives them."""
        return self._view.past(self.uuids, keys, seconds, self.all_held_since, peaks)

    def cgroup_past(self, keys: Sequence[str], seconds: float, peaks: int = 0) -> Past:
        """As `cgroup`, across gaps."""
        entities = [f"{name}/{self.job.job_id}" for name in self.job.nodes]
        return self._view.past(entities, keys, seconds, self._began_at, peaks)

    def hosts_past(self, keys: Sequence[str], seconds: float) -> Past:
        """As `hosts`, across gaps."""
        return self._view.past(self.job.nodes, keys, seconds, self._began_at)

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


class _Jobs(Sequence[JobLook]):
    """The running jobs of a view, each made when it is first asked for.

    Of ten thousand an evaluation judges a thousand, and what is made must be cleared away again.
    """

    def __init__(self, view: View, records: Sequence[JobView]) -> None:
        self._view = view
        self._records = records
        self._made: dict[int, JobLook] = {}

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> JobLook: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[JobLook, ...]: ...

    def __getitem__(self, index: int | slice) -> JobLook | tuple[JobLook, ...]:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(*index.indices(len(self))))
        place = index + len(self) if index < 0 else index
        made = self._made.get(place)
        if made is None:
            made = self._made[place] = JobLook(self._view, self._records[place])
        return made


class View:
    """Everything that one evaluation may know."""

    def __init__(
        self,
        now: float,
        observed_since: float,
        history: HistoryReader,
        jobs: Sequence[JobView],
        facts: FleetFacts,
        records: Sequence[Job] = (),
        layout: JobLayout | None = None,
        left_at: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.now = now
        """Unix time of the tick: the only time there is."""
        self.observed_since = observed_since
        """Unix time of the first sample that gpumon took."""
        self.history = history
        self.gpus: Mapping[str, GpuFacts] = facts.gpus
        """Every GPU by UUID, also those that no job holds."""
        self.uuids: tuple[str, ...] = facts.layout.uuids
        """UUIDs of `gpus`, in the same order: positions are positions among these."""
        self.nodes: Mapping[str, NodeFacts] = facts.nodes
        """Every node by name, also those without GPUs or telemetry."""
        self._records = jobs
        self.running: Sequence[JobLook] = _Jobs(self, jobs)
        """All running jobs that hold GPUs: neighbours and peers are among these."""
        self.jobs: Sequence[JobLook] = self.running
        """Jobs to judge now: all, or in a large fleet those whose turn it is."""
        self.records: tuple[Job, ...] = tuple(records)
        """Jobs of the queue that compute on no GPU now: pending, completing, ended."""
        self.left_at = left_at
        """Unix time at which a job with GPUs was last seen to leave, by the name of its node."""
        self.layout = facts.layout
        """GPUs by position and in groups: to sort out the sound ones of a large fleet at once."""
        self.node_layout = facts.node_layout
        """`nodes` by position, with the positions of their GPUs."""
        self.job_layout = layout or JobLayout(facts.node_layout, jobs)
        """`running` by position, with the positions of their GPUs and nodes."""
        self.numbers: Sequence[int] = range(len(self.running))
        """Positions of `jobs` within `running`."""
        self.blindness: dict[tuple[str, str], NDArray[np.bool_]] = {}
        """What `coverage` found out in this evaluation, by kind of subject and field."""
        self.shared: dict[type, object] = {}
        """What is computed once an evaluation for all detectors, by its type."""
        self.owners = facts.owners
        """Whose values history and facts hold."""
        self._facts = facts
        self._columns: dict[str, NDArray[np.float64]] = {}
        self._spacings = Spacings()

    def part(self, begin: float, end: float) -> View:
        """The same view with one part of the ring of jobs to judge."""
        if (begin, end) == WHOLE:
            return self
        part = copy.copy(self)
        part.numbers = self.job_layout.part(begin, end)
        part.jobs = tuple(self.running[place] for place in part.numbers)
        return part

    @property
    def pending(self) -> tuple[Job, ...]:
        """Jobs that wait."""
        return tuple(job for job in self.records if job.state == "PENDING")

    @property
    def ended(self) -> tuple[Job, ...]:
        """Jobs that ended and that Slurm still lists."""
        return tuple(job for job in self.records if has_ended(job.state))

    def jobs_on(self, node: str) -> tuple[JobLook, ...]:
        """Running jobs with GPUs on a node."""
        return tuple(self.running[number] for number in self.job_layout.on_node.get(node, ()))

    def jobs_of(self, uuid: str) -> tuple[JobLook, ...]:
        """Running jobs that hold a GPU: none, one, or several where it is shared."""
        return tuple(self.running[number] for number in self.job_layout.on_gpu.get(uuid, ()))

    def links(self, uuid: str) -> tuple[LinkFacts, ...]:
        """NVLinks of a GPU by number; none where its node reports none."""
        gpu = self.gpus.get(uuid)
        node = self.nodes.get(gpu.node) if gpu else None
        return node.links(uuid) if node else ()

    def events(self, uuid: str) -> tuple[EventFacts, ...]:
        """Recent events of a GPU's driver, the newest first."""
        gpu = self.gpus.get(uuid)
        node = self.nodes.get(gpu.node) if gpu else None
        return tuple(event for event in node.events if event.uuid == uuid) if node else ()

    def latest(self, uuids: Sequence[str], keys: Sequence[str]) -> NDArray[np.float64]:
        """Newest values, field by GPU; NaN where there is none now.

        Levels, rates and masks come from history, ids, error counters and constants from facts.
        """
        places = self.places(uuids)
        values = [self.newest(key, places) for key in keys]
        return np.array(values, np.float64).reshape(len(keys), len(uuids))

    def missing(self, uuids: Sequence[str], keys: Sequence[str]) -> tuple[str, ...]:
        """Keys without a value now on at least one of the GPUs; all of them without GPUs."""
        newest = np.isfinite(self.latest(uuids, keys))
        return tuple(key for row, key in enumerate(keys) if not uuids or not newest[row].all())

    def series(self, entity: str, key: str, seconds: float) -> Series:
        """Times and values of one field of one entity over the last `seconds`, under any holder."""
        return self.series_since(entity, key, self.now - seconds)

    def series_since(self, entity: str, key: str, start: float) -> Series:
        """One field of one entity from a Unix time on."""
        slab = self.history.slab((entity,), (key,), start, self.now, CATALOGUE[key].block)
        return Series(slab.times, slab.values[:, 0, 0])

    def table(
        self,
        entities: Sequence[str],
        keys: Sequence[str],
        seconds: float,
        since: float = float("-inf"),
    ) -> Table:
        """Fields of entities over the last `seconds`, from no earlier than `since`.

        All keys are of one block, which says how entities are called: a UUID for `gpu`,
        `UUID/NUMBER` for `link`, the node's name for `node`, `NODE/KEY` for `nic`, `filesystem`
        and `cgroup`. It begins after the last gap in the sampling, so that its first and last time
        bound what was really observed. Without a row of the time of the evaluation it is empty.
        """
        start, block = max(self.now - seconds, since), CATALOGUE[keys[0]].block
        slab = self.history.slab(entities, keys, start, self.now, block)
        return table_of(slab, keys, self._spacings.first_of(block, start, slab, self.now))

    def past(
        self,
        entities: Sequence[str],
        keys: Sequence[str],
        seconds: float,
        since: float = float("-inf"),
        peaks: int = 0,
    ) -> Past:
        """As `table`, but across gaps in the sampling; the time of a gap counts for no row.

        Of the first `peaks` keys it tells the smallest and the largest value behind each row too.
        """
        start, block = max(self.now - seconds, since), CATALOGUE[keys[0]].block
        if not peaks:
            slab = self.history.slab(entities, keys, start, self.now, block)
            return past_of(slab, None, keys, self._spacings.of(block, start, slab, self.now))
        slab, *bounds = self.history.bounded(entities, keys, peaks, start, self.now, block)
        return past_of(slab, bounds, keys, self._spacings.of(block, start, slab, self.now))

    def places(self, uuids: Sequence[str]) -> NDArray[np.intp]:
        """Positions of GPUs within `gpus`, for `newest`; -1 for one that is not among them."""
        known = self.layout.place
        return np.fromiter((known.get(uuid, -1) for uuid in uuids), np.intp, len(uuids))

    def newest(self, key: str, places: NDArray[np.intp]) -> NDArray[np.float64]:
        """Newest values of one field at positions within `gpus`, NaN where there is none now.

        Every field is read once a look for the whole fleet, so that ten thousand jobs may ask.
        """
        return self.fleet(key)[places]

    def fleet(self, key: str) -> NDArray[np.float64]:
        """Newest values of one field of all GPUs by position, with one NaN at the end."""
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = self._column(key)
        return column

    def nodes_with(self, block: str) -> Mapping[str, NodeFacts]:
        """By name the nodes that report a block."""
        return self._facts.nodes_with(block)

    def per_node(self, tell: Callable[[NodeFacts], float | None]) -> NDArray[np.float64]:
        """Result of a function for each of `nodes`, NaN for None; again only where they changed."""
        return self._facts.node_columns.column_of(tell)[:-1]

    @property
    def is_stale(self) -> NDArray[np.bool_]:
        """Per GPU by position whether its values are not the present."""
        return self._facts.columns.is_stale

    @property
    def is_lost(self) -> NDArray[np.bool_]:
        """Per GPU by position whether it fell off the bus."""
        return self._facts.columns.is_lost

    def confidence(self, observed: Window, windows: Windows, finding_class: str = "") -> Confidence:
        """The surest claim that the window as observed allows a detector about a class."""
        return honest_confidence(observed, windows, finding_class)

    def finding(
        self,
        detector: Claimant,
        *,
        subject: str,
        severity: Severity,
        summary: str,
        window: Window,
        evidence: Sequence[Evidence],
        advice: Sequence[str] = (),
        machine_advice: Sequence[str] = (),
        gpu_seconds: float | None = None,
        finding_class: str | None = None,
        at_most: Confidence = Confidence.ESTABLISHED,
        onset: float | None = None,
        gpus: Sequence[str] = (),
        owners: Sequence[int] = (),
    ) -> Finding:
        """A finding of this evaluation, with the confidence that its window allows.

        `finding_class` is the detector's first one unless named; `at_most` lowers a claim with
        weak evidence. A hypothesis, and a claim about a job on other GPUs than its own, is a
        warning at most. `onset` is given if it is before the window. `advice` is for the owner
        of the job, `machine_advice` for the administrator. `gpus` are those whose time
        `gpu_seconds` counts, if not the subject's; `owners` the uids that hold it without a job.
        """
        if doubts := self._doubts.get(subject, ()):
            at_most = Confidence.HYPOTHESIS
        named = finding_class or detector.finding_classes[0]
        steps = (self.confidence(window, detector, named), at_most)
        confidence = min(steps, key=lambda step: step.rank)
        return Finding(
            detector=detector.name,
            finding_class=named,
            subject=subject,
            severity=honest_severity(severity, confidence),
            confidence=confidence,
            summary=summary,
            evidence=(*evidence, *doubts),
            window=window,
            first_seen=self.now,
            last_seen=self.now,
            advice=tuple(advice),
            machine_advice=tuple(machine_advice),
            gpu_seconds=gpu_seconds,
            onset=window.start if onset is None else min(onset, window.start),
            gpus=tuple(gpus),
            owners=tuple(owners),
        )

    @cached_property
    def _doubts(self) -> Mapping[str, tuple[Evidence, ...]]:
        """By subject why nothing is sure of a job: which GPUs are its own is not known for sure.

        Either it works elsewhere, or the list by which Slurm's numbers were read is another one.
        """
        found = {}
        for place, record in enumerate(self._records):
            if not record.contradictions:
                continue
            job = self.running[place]
            if astray := job.uuids_astray:
                more = f" and {len(astray) - 1} more" if len(astray) > 1 else ""
                text = f"its processes are on {astray[0]}{more}, which Slurm did not give it"
                found[job.subject] = (Evidence("job", job.subject, text, float(len(astray))),)
        return found

    def _column(self, key: str) -> NDArray[np.float64]:
        """Newest value of every GPU, with one NaN at the end for GPUs that are not known."""
        if key in FACT_KEYS["gpu"]:
            return self._facts.columns.column(key)
        column = np.full(len(self.uuids) + 1, np.nan)
        if self.history.newest_at == self.now:
            column[:-1] = self.history.newest(self.uuids, (key,))[0]
        return column
