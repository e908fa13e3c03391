"""What every GPU of a fleet shows of one field: made for whole fleets, node by node on demand."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from string import ascii_letters
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.finding import Severity
from gpumon.model.missing import Reason
from gpumon.model.records.block import MISSING_INTEGER
from gpumon.report.facts.losses import mark_of
from gpumon.report.facts.reference_values import LOW_RATIO
from gpumon.report.facts.slurm_nodes import has_unseen_holders, is_away, is_open, used_gpus
from gpumon.report.fleet_map import marks
from gpumon.report.fleet_map.marks import OWNERS, Mark

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumon.model.finding import Finding
    from gpumon.model.records.cluster import Gpu, JobView, Node
    from gpumon.model.records.tick import Tick
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.fleet_map.marks import MapField

FINDING_MARKS: Final = {
    Severity.INFO: marks.INFO,
    Severity.WARNING: marks.WARNING,
    Severity.CRITICAL: marks.CRITICAL,
}

_NODES_A_STEP: Final = 2_000
"""Nodes that become units in one step: some milliseconds."""

OWNER_RANK: Final = 5
"""Rank of every owner's mark: above free GPUs, below all other marks."""


def column(digest: Digest, node: Node, key: str) -> Sequence[float | int | None]:
    """One field of all GPUs of a node; None where it is missing or stale."""
    values = _raw_column(digest, node, key)
    return [None if v is None or v != v or v == MISSING_INTEGER else v for v in values]


def _raw_column(digest: Digest, node: Node, key: str) -> Sequence[float | int | None]:
    """One field of all GPUs of a node as it was sampled, with its signs of missing values."""
    known, uuids = digest.tick.gpus, node.gpu_uuids
    first = known.get(uuids[0]) if uuids else None
    if first is None or first.block.keys != uuids:
        return [None if gpu is None else gpu.value(key) for gpu in map(known.get, uuids)]
    values = first.block.columns.get(key)
    if values is None or first.is_stale:
        return (None,) * len(uuids)
    return values


def shares(digest: Digest, node: Node, field: MapField) -> Sequence[float | None]:
    """A field's values of all GPUs of a node: a share of 1, or degrees."""
    values = column(digest, node, field.keys[0])
    if len(field.keys) == 1:
        return values
    wholes = column(digest, node, field.keys[1])
    return [a / b if a is not None and b else None for a, b in zip(values, wholes, strict=True)]


def activities(digest: Digest, node: Node) -> Sequence[float | None]:
    """SM activity of all GPUs of a node; the duty cycle where a GPU has no such counter."""
    values = column(digest, node, "sm_active_ratio")
    if None not in values:
        return values
    duties = column(digest, node, "gpu_util_ratio")
    return [b if a is None else a for a, b in zip(values, duties, strict=True)]


class Unit(NamedTuple):
    """One node as the map draws it."""

    name: str
    size: int
    """GPUs it has, or should have by the queue; at least one."""


def units(digest: Digest) -> tuple[Unit, ...]:
    """Every node that has GPUs or whose GPUs are not known; nodes without any are left out."""
    for _ in unit_steps(digest):
        pass
    return digest.remembered(("map units", ""), lambda: tuple(_made(digest)))


def unit_steps(digest: Digest) -> Iterator[None]:
    """Take some thousand nodes in a step; `units` then has nothing left to do."""
    found, tick = _made(digest), digest.tick
    # Without the digest: while some steps are left, it and they would hold each other.
    for _ in digest.remembered(("steps to units", ""), lambda: _steps(tick, found)):
        yield


def _made(digest: Digest) -> list[Unit]:
    """The units that were made so far."""
    return digest.remembered(("units made", ""), list)


def _steps(tick: Tick, found: list[Unit]) -> Iterator[None]:
    queue = tick.queue
    promised = {node.name: node.gpu_count for node in queue.nodes} if queue else {}
    yield
    for number, (name, node) in enumerate(tick.nodes.items(), 1):
        listed = promised.get(name)
        if node.gpu_uuids or listed is None or listed > 0:
            found.append(Unit(name, max(len(node.gpu_uuids), listed or 0, 1)))
        if number % _NODES_A_STEP == 0:
            yield


def gravest_by_gpu(digest: Digest) -> dict[str, Finding]:
    """The finding with the gravest mark that concerns a GPU, by UUID; of alike ones the surest."""
    return digest.remembered(("map findings", ""), lambda: _gravest(digest))


def _gravest(digest: Digest) -> dict[str, Finding]:
    found: dict[str, Finding] = {}
    marked = [(mark_of(digest.tick, finding).rank, finding) for finding in digest.all_findings]
    for _, finding in sorted(marked, key=lambda one: one[0], reverse=True):
        for uuid in digest.charged_gpus(finding):
            found.setdefault(uuid, finding)
    return found


def owner_marks(digest: Digest, field: MapField) -> dict[str, Mark]:
    """A letter and a colour for every owner of GPUs, by name.

    The letter is one of the name as long as there is one, so that it seldom changes.
    """
    return digest.remembered(("map owners", field.key), lambda: _owner_marks(digest, field))


def _owner_marks(digest: Digest, field: MapField) -> dict[str, Mark]:
    assert field.name_of is not None
    names = {field.name_of(view) for view in digest.tick.jobs if view.gpu_uuids}
    return _marks_of_names(tuple(sorted(names)), field.key == "job")


@lru_cache(4)
def _marks_of_names(names: tuple[str, ...], is_of_jobs: bool) -> dict[str, Mark]:
    """Remembered from tick to tick: ten thousand jobs take a while, and are mostly the same."""
    free = dict.fromkeys("0123456789" if is_of_jobs else "")
    taken = {mark.sign for mark in marks.STATES}
    free.update(dict.fromkeys(char for char in ascii_letters if char not in taken))
    found = {}
    for number, name in enumerate(names):
        wanted = reversed(name) if is_of_jobs else name
        # Of ten thousand jobs most find no sign left.
        sign = next((char for char in chain(wanted, free) if char in free), "+") if free else "+"
        free.pop(sign, None)
        found[name] = Mark(sign, OWNERS[number % len(OWNERS)], OWNER_RANK, name, is_filled=True)
    return found


class MapMarks:
    """The marks of one tick for one field; those of a node are found when it is first drawn."""

    def __init__(self, digest: Digest, field: MapField) -> None:
        self.digest = digest
        self.field = field
        self._findings = gravest_by_gpu(digest) if field.key == "verdict" else {}
        self._owners = owner_marks(digest, field) if field.name_of else {}
        self._has_queue = digest.tick.queue_at is not None
        self._made: dict[str, tuple[Mark, ...]] = {}
        self._seen: tuple[int, frozenset[Mark]] = (0, frozenset())
        """Of how many nodes the marks are known, and which those are."""

    def marks(self, unit: Unit) -> tuple[Mark, ...]:
        """One mark per GPU of a node, in NVML's order."""
        made = self._made.get(unit.name)
        if made is None:
            made = self._made[unit.name] = self.marks_gpu_by_gpu(unit)
        return made

    def seen(self) -> frozenset[Mark]:
        """Every mark that was drawn so far."""
        if self._seen[0] != len(self._made):
            # By identity first: a mark's hash goes through all that it is made of.
            marks_made = {id(m): m for m in chain.from_iterable(self._made.values())}
            self._seen = (len(self._made), frozenset(marks_made.values()))
        return self._seen[1]

    def holder(self, uuid: str) -> JobView | None:
        """The job that holds a GPU."""
        return self.digest.job_by_gpu.get(uuid)

    def used(self, unit: Unit) -> int:
        """GPUs of a node that jobs of any user hold."""
        return used_gpus(self.digest, self.digest.tick.nodes[unit.name])

    def has_unseen_holders(self, unit: Unit) -> bool:
        """Whether Slurm has given away more GPUs of a node than the jobs in view hold there."""
        return has_unseen_holders(self.digest, self.digest.tick.nodes[unit.name])

    def is_held(self, gpu: Gpu) -> bool:
        """Whether a job has the GPU; without a queue, whether a process does."""
        return self.holder(gpu.uuid) is not None or (
            not self._has_queue and bool(gpu.compute_processes)
        )

    def node_mark(self, unit: Unit, is_mean: bool) -> Mark:
        """The mark of a whole node: of its worst GPU, or the mean of those that jobs hold."""
        made = self.marks(unit)
        if not is_mean:
            return marks.worst(made)
        if not self.field.keys:
            return marks.commonest(made)
        node = self.digest.tick.nodes[unit.name]
        known = [
            value
            for value, mark in zip(shares(self.digest, node, self.field), made, strict=False)
            if value is not None and mark not in (marks.FREE, marks.OTHERS)
        ]
        return self.field.level(sum(known) / len(known)) if known else marks.worst(made)

    def marks_gpu_by_gpu(self, unit: Unit) -> tuple[Mark, ...]:
        """The marks of a node, found for one GPU after the other."""
        digest, field = self.digest, self.field
        node = digest.tick.nodes[unit.name]
        closed = closed_mark(node.state)
        nothing = marks.STALE if node.is_silent else closed or marks.MISSING
        absent = (nothing,) * (unit.size - len(node.gpu_uuids))
        if node.is_stale and closed is marks.DOWN:
            return (marks.DOWN,) * unit.size
        values: Sequence[float | None]
        values = shares(digest, node, field) if field.keys else activities(digest, node)
        free = marks.OTHERS if self.has_unseen_holders(unit) else closed or marks.FREE
        made = []
        for uuid, value in zip(node.gpu_uuids, values, strict=True):
            gpu = digest.tick.gpus.get(uuid)
            if gpu is None:
                made.append(nothing)
            elif gpu.is_stale:
                made.append(marks.STALE if node.left_at is None else nothing)
            elif value is None and gpu.reason("power_w") is Reason.LOST:
                made.append(marks.LOST)
            elif field.keys:
                made.append(self._value_mark(gpu, value, free))
            else:
                made.append(self._state_mark(gpu, value, free))
        return (*made, *absent)

    def _value_mark(self, gpu: Gpu, value: float | None, free: Mark) -> Mark:
        """The step of the scale; the lowest is no news where no job holds the GPU."""
        if value is None:
            return marks.MISSING
        mark = self.field.level(value)
        return free if mark is self.field.levels[0] and not self.is_held(gpu) else mark

    def _state_mark(self, gpu: Gpu, activity: float | None, free: Mark) -> Mark:
        """Whose the GPU is, or how it fares."""
        if self.field.name_of is not None:
            view = self.holder(gpu.uuid)
            return free if view is None else self._owners[self.field.name_of(view)]
        finding = self._findings.get(gpu.uuid)
        if finding is not None:
            return FINDING_MARKS[mark_of(self.digest.tick, finding)]
        if not self.is_held(gpu) and not (free is marks.OTHERS and (activity or 0.0) >= LOW_RATIO):
            return free
        if activity is None:
            return marks.MISSING
        return marks.WORKING if activity >= LOW_RATIO else marks.IDLE


@lru_cache(256)
def closed_mark(state: str | None) -> Mark | None:
    """Down or drained by the queue; None where the node takes jobs or no queue lists it."""
    if state is None or is_open(state):
        return None
    return marks.DOWN if is_away(state) else marks.DRAINED
