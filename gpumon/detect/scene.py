"""Pasts made up sample by sample, in invented time: for tests of detectors.

    scene = Scene(period_s=10.0)
    gpus = scene.node("n1", 8)
    scene.job("42", gpus, cpu_count=64)
    scene.cgroup("42", job_cpu_cores_used=40.0)
    scene.run(3600, working(gpus[:4]))
    scene.run(600, {gpus[0]: {**WORKING, "temp_c": lambda s: 60 + s / 60}})
    list(MyDetector().evaluate(scene.view()))

What is told of an entity holds until something else is told. An hour of 16 GPUs every 10 s takes a
few hundredths of a second.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from gpumon.detect.facts.facts import is_judged
from gpumon.detect.facts.fleet_facts import FleetFacts
from gpumon.detect.scene_machine import Machine
from gpumon.detect.view import View
from gpumon.detect.wire.tick_messages import FactSender
from gpumon.fleet.history.history import History
from gpumon.fleet.history.reader import HistoryReader
from gpumon.model.fault import SourceError
from gpumon.model.records.cluster import Allocation, Job, JobView
from gpumon.model.records.frame import QueueRecords
from gpumon.model.records.tick import Tick

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpumon.model.records.cluster import Gpu, Rank

START_AT: Final = 1_700_000_000.0
"""Unix time at which scenes begin."""

Values = dict[str, "float | Callable[[float], float | None] | None"]
"""Values of one GPU by field key; None is a value that is missing, a function is asked for the
value so many seconds after the beginning of the run."""

WORKING: Final[Values] = {
    "process_count": 1.0,
    "mem_used_bytes": 40.0 * 2**30,
    "mem_total_bytes": 80.0 * 2**30,
    "gpu_util_ratio": 0.9,
    "sm_active_ratio": 0.6,
    "power_w": 500.0,
    "temp_c": 60.0,
}
"""A GPU that computes."""

UNUSED: Final[Values] = {
    "process_count": 0.0,
    "mem_used_bytes": 0.0,
    "mem_total_bytes": 80.0 * 2**30,
    "gpu_util_ratio": 0.0,
    "sm_active_ratio": 0.0,
    "power_w": 70.0,
    "temp_c": 30.0,
}
"""A GPU that nobody uses."""


HELD: Final[Values] = {**WORKING, "gpu_util_ratio": 0.0, "sm_active_ratio": 0.0, "power_w": 110.0}
"""A GPU whose memory a process holds without computing."""


def working(uuids: Iterable[str], **other: float | None) -> dict[str, Values]:
    """Values of GPUs that compute, with some of them changed."""
    return {uuid: {**WORKING, **other} for uuid in uuids}


def held(uuids: Iterable[str], **other: float | None) -> dict[str, Values]:
    """Values of GPUs that are held without computing, with some of them changed."""
    return {uuid: {**HELD, **other} for uuid in uuids}


def job_record(job_id: str, start_at: float | None, nodes: Sequence[str], gpu_count: int) -> Job:
    """A running job as Slurm would list it."""
    return Job(
        job_id=job_id,
        label=job_id,
        name="train",
        user="alice",
        account="lab",
        partition="gpu",
        state="RUNNING",
        reason="",
        nodes=tuple(nodes),
        allocations=(),
        gpu_count=gpu_count,
        submit_at=start_at,
        start_at=start_at,
        end_at=None,
        time_limit_s=None,
        node_count=len(nodes),
    )


class Scene:
    """A fleet whose samples a test writes; GPUs are named `GPU-NODE-INDEX`."""

    def __init__(
        self, period_s: float = 10.0, start_at: float = START_AT, span_s: float = 3600.0
    ) -> None:
        self._period_s = period_s
        self._start_at = start_at
        self._at = start_at - period_s
        self._history = History(span_s)
        self._nodes: dict[str, Machine] = {}
        self._jobs: dict[str, JobView] = {}
        self._left_at: dict[str, float] = {}
        self._number = 0
        self._tick: Tick | None = None

    @property
    def next_at(self) -> float:
        """Unix time of the next sample: what the scene sets now holds from then on."""
        return self._at + self._period_s

    def node(
        self, name: str, gpu_count: int, product: str = "NVIDIA H100 80GB HBM3"
    ) -> tuple[str, ...]:
        """Add a node; returns the UUIDs of its GPUs."""
        self._nodes[name] = Machine(name, gpu_count, product, self.next_at)
        return tuple(self._nodes[name].uuids)

    def job(
        self,
        job_id: str,
        uuids: Sequence[str],
        *,
        gpus_unknown: int = 0,
        start_at: float | None = None,
        ranks: Sequence[Rank] = (),
        contradictions: Sequence[str] = (),
        **fields: object,
    ) -> None:
        """Start or change a job, from the next sample on; `fields` are those of `Job`."""
        begin = self.next_at if start_at is None else start_at
        nodes = list(dict.fromkeys(_node_of(uuid) for uuid in uuids))
        record = job_record(job_id, begin, sorted(nodes), len(uuids) + gpus_unknown)
        counts = {name: sum(_node_of(uuid) == name for uuid in uuids) for name in sorted(nodes)}
        held_on = tuple(Allocation(name, count, None) for name, count in counts.items())
        record = _changed(record, {"allocations": held_on, **fields})
        self._jobs[job_id] = JobView(
            job=record,
            gpu_uuids=tuple(uuids),
            gpus_unknown=gpus_unknown,
            ranks=tuple(ranks),
            contradictions=tuple(contradictions),
        )

    def record(self, job_id: str, **fields: object) -> None:
        """List a job that holds no GPU now: pending, ended; `fields` are those of `Job`."""
        made = _changed(job_record(job_id, None, (), 0), {"state": "PENDING", **fields})
        self._jobs[job_id] = JobView(
            job=made, gpu_uuids=(), gpus_unknown=0, ranks=(), contradictions=()
        )

    def end(self, job_id: str) -> None:
        """End a job before the next sample."""
        gone = self._jobs.pop(job_id)
        self._left_at.update(dict.fromkeys(gone.job.nodes, self._at))

    def gpu(self, uuid: str, **values: object) -> None:
        """Have a GPU report fields or labels besides what `run` says: ids, masks, counters."""
        self._set(_node_of(uuid), "gpu", uuid, values)

    def host(self, node: str, **values: object) -> None:
        """Have a node report fields or labels of its `node` block: CPU, memory, driver."""
        self._set(node, "node", node, values)

    def cgroup(self, job_id: str, node: str | None = None, **values: object) -> None:
        """Have a job's cgroup report fields, on one of its nodes or alike on all of them."""
        names = self._jobs[job_id].job.nodes if node is None else (node,)
        for name in names:
            self._set(name, "cgroup", job_id, values)

    def link(self, uuid: str, number: int, **values: object) -> None:
        """Have one NVLink of a GPU report fields or labels."""
        self._set(_node_of(uuid), "link", f"{uuid}/{number}", values)

    def links(self, uuid: str, count: int, **values: object) -> None:
        """Give a GPU so many NVLinks, all active and alike."""
        for number in range(count):
            self.link(uuid, number, **{"link_state": 1, **values})

    def nic(self, node: str, port: str, **values: object) -> None:
        """Have a network port report fields or labels."""
        self._set(node, "nic", port, values)

    def mount(self, node: str, path: str, **values: object) -> None:
        """Have a mounted file system report fields or labels."""
        self._set(node, "filesystem", path, values)

    def space(self, node: str, path: str, **values: object) -> None:
        """Have a file system of the node itself report fields or labels."""
        self._set(node, "local_filesystem", path, values)

    def process(self, pid: int, uuids: Sequence[str], **values: object) -> None:
        """Show a process on GPUs of a node; `values` are `job_id`, `name`, `uid` and the like."""
        node = _node_of(uuids[0])
        self._set(node, "process", str(pid), values)
        for uuid in uuids:
            self._set(node, "context", f"{pid}/{uuid}", {})

    def no_process(self, pid: int, node: str) -> None:
        """End a process that was shown."""
        sheets = self._nodes[node].sheets
        sheets["process"].drop(str(pid))
        for uuid in self._nodes[node].uuids:
            sheets["context"].drop(f"{pid}/{uuid}")

    def xid(self, uuid: str, number: int | None, event_type: int = 0x8) -> None:
        """Have the driver report an event on a GPU at the time of the next sample."""
        fields = {"xid": number, "event_type": event_type, "event_age_s": lambda s: s}
        self._set(_node_of(uuid), "event", f"{uuid}/{number}/{self._number}", fields)

    def slurm(self, node: str, **fields: object) -> None:
        """Have Slurm list a node otherwise; `fields` are those of `SlurmNode`."""
        machine = self._nodes[node]
        machine.slurm = machine.slurm._replace(**fields)  # type: ignore[arg-type]

    def page(self, node: str) -> None:
        """Have an exporter's page report a node: no processes, and no events but those set.

        A probe tells also that there are none.
        """
        self._nodes[node].is_by_page = True

    def unlist(self, node: str) -> None:
        """Have no queue list a node."""
        self._nodes[node].is_listed = False

    def silence(self, node: str) -> None:
        """Have a node say nothing from the next sample on; it is stale after three periods."""
        self._nodes[node].silent_since = self._at

    def revive(self, node: str) -> None:
        """Have a silent node talk again."""
        self._nodes[node].silent_since = None

    def fail(self, node: str, *messages: str) -> None:
        """Have a node's source report errors; none: what was wrong is over."""
        self._nodes[node].errors = tuple(SourceError(node, message) for message in messages)

    def fall(self, uuid: str) -> None:
        """Have a GPU fall off the bus: the driver lists it, and it reports nothing more."""
        self._nodes[_node_of(uuid)].fallen.add(uuid)

    def lose(self, uuid: str) -> None:
        """Have a GPU vanish from what its node reports."""
        self._nodes[_node_of(uuid)].lose(uuid)

    def run(
        self,
        seconds: float,
        values: Mapping[str, Values],
        *,
        stale: Sequence[str] = (),
    ) -> Tick:
        """Sample for so long with these values by UUID, at least once; returns the last tick.

        A GPU that `values` lacks is unused.
        """
        for machine in self._nodes.values():
            for uuid in machine.uuids:
                given = values.get(uuid, UNUSED)
                machine.sheets["gpu"].set(uuid, self.next_at, given, instead=True)
        for _ in range(max(1, round(seconds / self._period_s))):
            self._at += self._period_s
            self._number += 1
            tick = self._sampled(frozenset(stale))
            self._history.append(tick)
        self._tick = tick._replace(history=self._history.reader())
        return self._tick

    def skip(self, seconds: float) -> None:
        """Let time pass without a sample."""
        self._at += seconds

    def view(self) -> View:
        """What a detector sees now.

        Raises:
            ValueError: Nothing was sampled yet: `run` comes first.
        """
        if self._tick is None:
            raise ValueError("nothing was sampled yet")
        return view_of(self._tick, self._left_at)

    def _set(self, node: str, block: str, key: str, values: Mapping[str, object]) -> None:
        self._nodes[node].sheets[block].set(key, self.next_at, values)

    def _sampled(self, stale: frozenset[str]) -> Tick:
        gpus: dict[str, Gpu] = {}
        nodes = {}
        for name, machine in self._nodes.items():
            nodes[name], mine = machine.records(self._at, self._period_s, stale)
            gpus.update(mine)
        jobs = tuple(self._jobs.values())
        listed = tuple(m.slurm for m in self._nodes.values() if m.is_listed)
        return Tick(
            number=self._number,
            at=self._at,
            observed_since=self._start_at,
            period_s=self._period_s,
            targets=(),
            nodes=nodes,
            gpus=gpus,
            jobs=jobs,
            queue_at=self._at,
            findings=(),
            coverage=(),
            errors=(),
            lateness_s=0.0,
            queue=QueueRecords(tuple(view.job for view in jobs), listed, self._at, self._at),
        )


def view_of(tick: Tick, left_at: Mapping[str, float] = MappingProxyType({})) -> View:
    """The view of a tick, in the same process.

    Args:
        tick: The tick.
        left_at: Unix time at which a job with GPUs last left, by the name of its node.

    Raises:
        TypeError: The tick carries no history.
    """
    if not isinstance(tick.history, HistoryReader):
        raise TypeError("the tick carries no history")
    facts = FleetFacts()
    facts.take(FactSender().changes(tick))
    jobs = [view for view in tick.jobs if is_judged(view)]
    records = [view.job for view in tick.jobs if not is_judged(view)]
    return View(tick.at, tick.observed_since, tick.history, jobs, facts, records, left_at=left_at)


def _changed(record: Job, fields: dict[str, Any]) -> Job:
    """The record with other values; a name that is none of `Job` raises ValueError."""
    return record._replace(**fields)


def _node_of(uuid: str) -> str:
    """Name of the node that a GPU of a scene is in."""
    return uuid.split("-", 1)[1].rsplit("-", 1)[0]
