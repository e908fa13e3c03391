"""How many GPUs there are and in which state each is: parts that sum to the whole.

The whole is the union of the GPUs that telemetry names and those that the queue lists.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice, repeat
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.fleet.join.unowned_processes import is_mig
from gpumon.model.job_states import HOLDING_STATES
from gpumon.report.facts.slurm_nodes import is_away, is_open, state_words

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from gpumon.model.records.cluster import Job, JobView, SlurmNode
    from gpumon.model.records.frame import QueueRecords
    from gpumon.report.facts.tick_index import Digest

    _Entry = tuple[str, str, int | None, int | None]
    """Of a node: state, reservation, GPUs, and how many of them are allocated."""

HELD: Final = "held"
"""Allocated to jobs."""

UNCLEAR: Final = "free or another's"
"""Not held by the jobs in view; Slurm does not report whether by others."""

UNLISTED: Final = "unknown to the queue"
"""On nodes that no queue lists, beside others that one does."""

PARTS: Final = (
    HELD, "free", UNCLEAR, "reserved", "in maintenance", "drained", "powered down", "down",
    UNLISTED,
)  # fmt: skip
"""What a GPU can be, in the order of the headline; of a node out of service only what no job holds
is called so."""


_STEP: Final = 2_000
"""Nodes or jobs that are counted in one step: a millisecond or two."""


class FleetGpus(NamedTuple):
    """How many there are, on how many nodes, and in which state."""

    gpus: int
    nodes: int
    """Nodes that have them."""
    parts: tuple[tuple[str, int], ...]
    """GPUs by what they are, in the order of `PARTS`, none of them 0; empty without a queue."""

    @property
    def held(self) -> int:
        """GPUs that are allocated to jobs."""
        return dict(self.parts).get(HELD, 0)


class _Count(NamedTuple):
    """A count, and what it was made of: queue and jobs hardly ever change with a tick."""

    queue: QueueRecords | None = None
    names: Sequence[str] = ()
    """The nodes that the queue lists."""
    entries: Sequence[_Entry] = ()
    """What the queue reports of each."""
    jobs: Sequence[Job] = ()
    given: Mapping[str, int] | None = None
    """GPUs that these jobs hold, by node; None: Slurm reports how many of a node are allocated."""
    named: Sequence[int] = ()
    """GPUs of each node that telemetry names."""
    found: FleetGpus | None = None
    """What all this comes to; None: that also rests on what is not stored here."""


def fleet_gpus(digest: Digest) -> FleetGpus:
    """Counted once for a tick."""
    for _ in fleet_gpu_steps(digest):
        pass
    return _counted_of(digest)[0]


def fleet_gpu_steps(digest: Digest) -> Iterator[None]:
    """Count in steps of a few milliseconds; `fleet_gpus` then only looks it up."""
    if not _counted_of(digest):
        _counted_of(digest).append((yield from _counted(digest)))


def _counted_of(digest: Digest) -> list[FleetGpus]:
    """The count of a tick, once there is one."""
    return digest.remembered(("fleet gpus", ""), list)


def _counted(digest: Digest) -> Generator[None, None, FleetGpus]:
    known, queue = digest.tick.nodes, digest.tick.queue
    if queue is None:
        sizes = [len(node.gpu_uuids) for node in known.values() if node.gpu_uuids]
        return FleetGpus(sum(sizes), len(sizes), ())
    stored: list[_Count] = digest.lasting("fleet gpus", list)
    before = stored[0] if stored else _Count()
    if before.queue is not queue:
        names = [listed.name for listed in queue.nodes]
        entries = list(map(_entry_of, queue.nodes))
        yield
        is_silent = any(used is None for *_, used in entries)
        before = _Count(queue, names, entries, given={} if is_silent else None)
        yield
    named: list[int] = []
    listed = 0
    for start in range(0, len(before.names), _STEP):
        met = list(map(known.get, before.names[start : start + _STEP]))
        named += [0 if node is None else len(node.gpu_uuids) for node in met]
        listed += len(met) - met.count(None)
        yield
    if before.given is not None:
        jobs, are_same = yield from _jobs(digest.tick.jobs, before.jobs)
        if not are_same:
            given = yield from _given(jobs)
            before = before._replace(jobs=jobs, given=given, found=None)
    are_listed = listed == len(known)
    found = before.found if are_listed and named == before.named else None
    if found is None:
        before = before._replace(named=named)
        parts, nodes, is_odd = yield from _parts(digest, queue, before)
        if not are_listed:
            for name in known.keys() - set(before.names):
                parts[UNLISTED] += len(known[name].gpu_uuids)
                nodes += bool(known[name].gpu_uuids)
        counts = tuple((part, parts[part]) for part in PARTS if parts[part])
        found = FleetGpus(sum(parts.values()), nodes, counts)
        before = before._replace(found=found if are_listed and not is_odd else None)
    stored[:] = [before]
    return found


def _parts(
    digest: Digest, queue: QueueRecords, counted: _Count
) -> Generator[None, None, tuple[Counter[str], int, bool]]:
    """GPUs of the listed nodes by what they are, and how many nodes these are.

    Also whether some of it rests on what a later tick may report otherwise.
    """
    given = counted.given or {}
    held = map(given.get, counted.names, repeat(0)) if given else repeat(0)
    # Eighty thousand GPUs are on ten thousand nodes, which are alike but for a few words.
    alike: Counter[tuple[_Entry, int, int]] = Counter()
    rows = zip(counted.entries, counted.named, held, strict=False)
    for _ in range(0, len(counted.named), _STEP):
        alike.update(islice(rows, _STEP))
        yield
    counts: Counter[str] = Counter()
    odd: set[tuple[_Entry, int]] = set()
    nodes = 0
    for (entry, seen, of_jobs), times in alike.items():
        state, reservation, listed_gpus, used = entry
        if seen and seen != listed_gpus:
            odd.add((entry, seen))
            continue
        size = max(listed_gpus or 0, seen)
        part = _part(digest, size, used, of_jobs, (state, reservation))
        for what, count in part:
            counts[what] += times * count
        nodes += times * (size > 0)
    if odd:
        for listed, entry, seen in zip(queue.nodes, counted.entries, counted.named, strict=True):
            if (entry, seen) in odd:
                counts.update(dict(_of_odd(digest, listed, given.get(listed.name, 0))))
                nodes += 1
    return counts, nodes, bool(odd)


_entry_of = attrgetter("state", "reservation", "gpu_count", "gpus_used")


def _part(
    digest: Digest, size: int, used: int | None, of_jobs: int, status: tuple[str, str]
) -> tuple[tuple[str, int], ...]:
    """What the GPUs of a node are: those that are held, and the others.

    Args:
        digest: The tick.
        size: GPUs of the node.
        used: Those that Slurm reports as allocated; None: it does not report that.
        of_jobs: Those that the jobs in view hold.
        status: The node's state and reservation.
    """
    queue, free = digest.tick.queue, "free"
    if used is None:
        used = of_jobs
        free = UNCLEAR if queue is not None and queue.is_filtered else free
    held = min(size, used)
    return (HELD, held), (_rest(*status, free), size - held)


def _of_odd(digest: Digest, listed: SlurmNode, of_jobs: int) -> tuple[tuple[str, int], ...]:
    """What the GPUs of a node are, if telemetry and Slurm count them differently."""
    node = digest.tick.nodes.get(listed.name)
    seen = () if node is None else node.gpu_uuids
    size, used = max(listed.gpu_count or 0, len(seen)), listed.gpus_used
    if _has_mig(digest, seen):
        # Of a GPU in MIG mode Slurm counts instances.
        size, used = len(seen), sum(uuid in digest.job_by_gpu for uuid in seen)
    return _part(digest, size, used, of_jobs, (listed.state, listed.reservation))


def _jobs(
    views: Sequence[JobView], before: Sequence[Job]
) -> Generator[None, None, tuple[Sequence[Job], bool]]:
    """The jobs in view, and whether they are those of before."""
    jobs: list[Job] = []
    are_same = len(views) == len(before)
    for start in range(0, len(views), _STEP):
        some = [view.job for view in views[start : start + _STEP]]
        are_same = are_same and all(map(is_, some, before[start : start + _STEP]))
        jobs += some
        yield
    return jobs, are_same


def _given(jobs: Sequence[Job]) -> Generator[None, None, Counter[str]]:
    """GPUs that the jobs in view hold, by node."""
    found: Counter[str] = Counter()
    for start in range(0, len(jobs), _STEP):
        for job in jobs[start : start + _STEP]:
            if job.state in HOLDING_STATES:
                for part in job.allocations:
                    found[part.node] += part.gpu_count
        yield
    return found


def _has_mig(digest: Digest, uuids: tuple[str, ...]) -> bool:
    gpus = map(digest.tick.gpus.get, uuids)
    return any(gpu is not None and is_mig(gpu) for gpu in gpus)


def _rest(state: str, reservation: str, otherwise: str) -> str:
    """What a node's GPUs without a job are."""
    if is_open(state):
        return "reserved" if reservation else otherwise
    words = state_words(state)
    if any(word.startswith("power") for word in words):
        return "powered down"
    if is_away(state):
        return "down"
    return "in maintenance" if "maint" in words else "drained"
